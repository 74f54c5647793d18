/* worker/gpu_fake/stream.c: the fake driver's streams and events, and what is captured on them.
 *
 * Without a capture all work is done at once, which is an order that streams allow.  In one, every stream
 * knows which nodes its next one runs behind; an event hands that on, and nothing else does. */
#include "gpu_fake_int.h"

#include <stdlib.h>

enum {
	OUT_OF_MEMORY = 2,
	DEVICE_LOST = 46,
	UNSUPPORTED = 900,
	UNMATCHED = 903,
	UNJOINED = 904,
	ISOLATION = 905,
	CAPTURED_EVENT = 907
};

struct fake_stream {
	struct fake_stream *next;
	uint64_t capture; /* number of the one it is in; 0: none */
	struct fake_set at;
	uint32_t number;
};
struct fake_event {
	int64_t ns;
	uint64_t capture; /* it was last recorded in; 0: in none */
	struct fake_set at;
};
/* As the driver: one a process. */
static struct state {
	struct fake_stream_conf c;
	struct fake_stream *streams, *origin;
	struct fake_graph *graph; /* NULL: nothing is captured */
	uint64_t n_captures, n_waits, n_replays, n_graphs;
	uint32_t n_streams, n_events;
} state;

/* ---- streams, events ----------------------------------------------------------------------------- */
static int
fake_stream_new(void **stream, unsigned flags)
{
	struct fake_stream *s;

	(void)flags;
	if (state.c.streams && state.n_streams >= state.c.streams)
		return OUT_OF_MEMORY;
	s = heap_alloc(sizeof(*s));
	s->number = state.n_streams++;
	s->next = state.streams;
	state.streams = s;
	*stream = s;
	return gpu_fake_status();
}

static int
fake_stream_free(void *stream)
{
	struct fake_stream *s = stream, **at = &state.streams;

	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
	gpu_fake_set_free(&s->at);
	free(s);
	return gpu_fake_status();
}

static int
fake_stream_sync(void *stream)
{
	return gpu_fake_is_captured(stream) ? UNSUPPORTED : gpu_fake_settle();
}

static int
fake_event_new(void **event, unsigned flags)
{
	(void)flags;
	if (state.c.events && state.n_events >= state.c.events)
		return OUT_OF_MEMORY;
	state.n_events++;
	*event = heap_alloc(sizeof(struct fake_event));
	return gpu_fake_status();
}

static int
fake_event_free(void *event)
{
	gpu_fake_set_free(&((struct fake_event *)event)->at);
	free(event);
	return 0;
}

static int
fake_event_record(void *event, void *stream)
{
	struct fake_stream *s = stream;
	struct fake_event *e = event;

	e->ns = gpu_fake_now();
	e->capture = gpu_fake_is_captured(s) ? s->capture : 0;
	e->at.n = 0;
	if (e->capture)
		gpu_fake_set_join(&e->at, &s->at);
	return gpu_fake_status();
}

static int
fake_event_sync(void *event)
{
	return ((struct fake_event *)event)->capture ? CAPTURED_EVENT : gpu_fake_settle();
}

static int
fake_event_ms(float *ms, void *from, void *to)
{
	const struct fake_event *a = from, *b = to;

	if (a->capture || b->capture)
		return CAPTURED_EVENT;
	*ms = (float)((double)(b->ns - a->ns) * 1e-6);
	return gpu_fake_status();
}

/* A stream that waits for what is captured is captured from then on. */
static int
fake_stream_wait(void *stream, void *event, unsigned flags)
{
	struct fake_stream *s = stream;
	const struct fake_event *e = event;

	(void)flags;
	if (!state.graph || e->capture != state.n_captures)
		return gpu_fake_is_captured(s) ? ISOLATION : gpu_fake_status();
	if (++state.n_waits == state.c.drop_wait)
		return gpu_fake_status();
	if (s->capture != state.n_captures)
		s->at.n = 0;
	s->capture = state.n_captures;
	gpu_fake_set_join(&s->at, &e->at);
	return gpu_fake_status();
}

/* ---- capture ----------------------------------------------------------------------------------------- */
bool
gpu_fake_is_captured(void *stream)
{
	return state.graph && ((struct fake_stream *)stream)->capture == state.n_captures;
}

bool
gpu_fake_is_stream(const void *stream)
{
	const struct fake_stream *s = state.streams;

	while (s && s != stream)
		s = s->next;
	return s != NULL;
}

void
gpu_fake_record(void *stream, const struct fake_call *c, int64_t ns)
{
	struct fake_stream *s = stream;
	struct fake_node node = {.call = *c, .stream = s->number};

	gpu_fake_set_join(&node.behind, &s->at);
	s->at.n = 0;
	gpu_fake_set_add(&s->at, gpu_fake_graph_add(state.graph, &node, ns, (int64_t)state.c.cross_ns));
}

static int
fake_capture(void *stream, int mode)
{
	struct fake_stream *s = stream;

	(void)mode;
	if (gpu_fake_status() || state.graph)
		return gpu_fake_status() ? gpu_fake_status() : 1;
	state.graph = heap_alloc(sizeof(*state.graph));
	state.origin = s;
	s->capture = ++state.n_captures;
	s->at.n = 0;
	return 0;
}

/* Everything that was forked has to have come back. */
static bool
is_joined(void)
{
	for (const struct fake_stream *s = state.streams; s; s = s->next)
		if (s->capture == state.n_captures &&
		    !gpu_fake_graph_covers(state.graph, &state.origin->at, &s->at))
			return false;
	return true;
}

static int
fake_captured(void *stream, void **graph)
{
	int status = gpu_fake_status();

	*graph = NULL;
	if (!state.graph || stream != state.origin)
		return UNMATCHED;
	if (!status && !is_joined())
		status = UNJOINED;
	if (status)
		gpu_fake_graph_free(state.graph);
	else
		*graph = state.graph;
	state.graph = NULL;
	return status;
}

static int
fake_graph_make(void **exec, void *graph, unsigned long long flags)
{
	(void)flags;
	*exec = gpu_fake_executable(graph);
	return gpu_fake_status();
}

static int
fake_graph_launch(void *exec, void *stream)
{
	struct fake_graph *g = exec;

	(void)stream;
	gpu_fake_pass(g->ns);
	if (++state.n_graphs == state.c.lost_at)
		gpu_fake_late(DEVICE_LOST);
	if (state.c.replays && gpu_fake_is_well())
		gpu_fake_late(gpu_fake_replay(g, state.c.seed, state.n_replays++));
	return gpu_fake_status();
}

static int
fake_graph_free(void *p)
{
	gpu_fake_graph_free(p);
	return 0;
}

void
gpu_fake_streams(const struct fake_stream_conf *c, struct gpu_cu *out)
{
	state = (struct state){.c = *c};
	out->stream_new = fake_stream_new;
	out->stream_free = fake_stream_free;
	out->stream_sync = fake_stream_sync;
	out->stream_wait = fake_stream_wait;
	out->capture = fake_capture;
	out->captured = fake_captured;
	out->graph_make = fake_graph_make;
	out->graph_launch = fake_graph_launch;
	out->graph_exec_free = fake_graph_free;
	out->graph_free = fake_graph_free;
	out->event_new = fake_event_new;
	out->event_free = fake_event_free;
	out->event_record = fake_event_record;
	out->event_sync = fake_event_sync;
	out->event_ms = fake_event_ms;
}
