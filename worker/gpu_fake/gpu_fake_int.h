/* worker/gpu_fake/gpu_fake_int.h: what the parts of the fake GPU say to each other.  For this folder alone.
 */
#ifndef KORCH_GPU_FAKE_INT_H
#define KORCH_GPU_FAKE_INT_H

#include "../../kernels/device/gpu_fake.h"

/* driver.c: all tables, by settings; one fake a process.  false: a word is no setting, and which. */
bool gpu_fake_make(struct str args, struct gpu *out, struct err *e) MUST_CHECK;
int64_t gpu_fake_setting(const char *name);

/* cubin.c: what it compiles to: an ELF file that kernels/sass reads like a real one. */
struct fake_code { /* behind the ELF's head; the driver's part looks here */
	char magic[8];
	uint32_t sm, is_ref, flops, tensor,
	    bytes;        /* the last three: of an element of a reference; 0: not said */
	uint64_t text;    /* hash of the kernel's text */
	uint64_t recode;  /* of the compiler: another one writes other machine code */
	uint64_t n_bytes; /* of the shared object behind this */
};
struct fake_figures {
	uint32_t registers, shared_bytes, stored_bytes; /* of each pass */
};
/* asm.c: a pass's machine code, by a hash of the kernel's text and by the compiler. */
enum { FAKE_MOST_WORDS = 96 };
struct fake_word {
	uint64_t lo, hi;
};
uint32_t gpu_fake_assemble(
    const struct fake_code *head, uint32_t pass, struct fake_word out[FAKE_MOST_WORDS]);
/* order.c: that machine code as it stands in a loaded image. */
struct fake_order {
	double ratio;             /* its cycles over those of what was compiled, by the static model */
	bool is_edited, is_early; /* some instruction comes before its operands */
	uint64_t hash;            /* of an edited one */
};
/* A status: 700, -2 for a wrong result, 0; rates are per million edited ones. */
int gpu_fake_order_fault(const struct fake_order *o, uint64_t seed, uint64_t faults, uint64_t wrong);
void *gpu_fake_image_copy(const void *image);
struct fake_order gpu_fake_order(const void *image, const struct fake_code *head, uint32_t pass);

void gpu_fake_cubin(struct arena *a, const struct fake_code *head, struct bytes object, struct str text,
    const struct fake_figures *f, struct bytes *out);
/* NULL: no image of the fake compiler's. */
const struct fake_code *gpu_fake_code(const void *image);

/* system.c: is there what the driver needs to begin?  A status. */
int gpu_fake_system(void);

/* rtc.c: the compiler half. */
struct fake_rtc_conf {
	uint64_t seed;
	uint32_t compile, spill, unfit; /* kernels per million: do not compile, spill, do not fit */
	int major, minor;
	bool no_builtins;
	uint64_t recode; /* it is another compiler */
};
void gpu_fake_rtc(const struct fake_rtc_conf *c, struct gpu_rtc *out);
/* In which million-th of the faults this text falls. */
uint32_t gpu_fake_draw(uint64_t seed, uint64_t text);

/* graph.c: captured launches. */
typedef int fake_run(void *fn, const unsigned *grid, const unsigned *block, unsigned long shared,
    void *const *buf, char *kernel_scratch, char *block_scratch, long lo,
    long hi); /* the host prelude's kk_run; 0: all is well */
struct fake_module {
	void *so;
	int fd;
	struct fake_code head;
	void *image;         /* own copy */
	struct fake_fn *fns; /* go with it */
};
struct fake_fn {
	struct fake_fn *next;
	struct fake_module *module;
	void *pass;
	fake_run *run;
	struct fake_order order;
	unsigned
	    dynamic_most; /* bytes of shared memory that a launch may ask for: 48 KiB until more was set */
};
/* A library's call, with its own copy of arg.  Its scratch is filled first and looked at last, as by an
 * algorithm of two launches: whoever writes there in between leaves it with `spoilt`. */
struct fake_library {
	int (*run)(void *arg, bool spoilt);
	void *arg;
	uint64_t *scratch, mark;
	size_t n_words;
	enum { FAKE_WHOLE, FAKE_FILL, FAKE_FINISH } part;
};
struct fake_call {
	struct fake_fn *fn;
	struct fake_library library; /* instead of fn */
	unsigned grid[3], block[3], shared;
	void *const *buf; /* the table's place: what stands in it counts when it runs */
	char *kernel_scratch, *block_scratch;
	int64_t lo, hi;
};
struct fake_set { /* of nodes */
	uint32_t *node, n, cap;
};
struct fake_node {
	struct fake_call call;
	struct fake_set behind; /* what it runs behind */
	uint32_t stream;
	int64_t end_ns;
};
struct fake_graph {
	int64_t ns; /* the longest way through it */
	struct fake_node *nodes;
	uint32_t n, cap;
};
/* Statuses: 0, or the launch failed. */
int gpu_fake_call(const struct fake_call *c);
void gpu_fake_set_add(struct fake_set *s, uint32_t node);
void gpu_fake_set_join(struct fake_set *to, const struct fake_set *from);
void gpu_fake_set_free(struct fake_set *s);
/* Takes the call and the set over; its number.  cross_ns: waiting for another stream takes so much. */
uint32_t gpu_fake_graph_add(struct fake_graph *g, const struct fake_node *node, int64_t ns, int64_t cross_ns);
/* Do these nodes, or some that run behind them, come before what runs behind `by`? */
bool gpu_fake_graph_covers(
    const struct fake_graph *g, const struct fake_set *by, const struct fake_set *these);
/* Takes the nodes over. */
struct fake_graph *gpu_fake_executable(struct fake_graph *g);
/* In an order that the edges allow, another one for each seed and turn. */
int gpu_fake_replay(const struct fake_graph *g, uint64_t seed, uint64_t turn);
void gpu_fake_graph_free(struct fake_graph *g);

/* stream.c: streams, events, captures. */
struct fake_stream_conf {
	uint64_t seed, streams, events; /* so many can be made; 0: any number */
	uint64_t drop_wait;             /* the n-th wait for an event in captures is forgotten; 0: none */
	uint64_t cross_ns;              /* what a wait between streams takes */
	uint64_t lost_at;               /* the device is lost in the n-th graph that runs; 0: in none */
	bool replays;                   /* a graph runs its kernels; otherwise it only takes its time */
};
void gpu_fake_streams(const struct fake_stream_conf *c, struct gpu_cu *out);
bool gpu_fake_is_captured(void *stream);
bool gpu_fake_is_stream(const void *stream); /* one that was made and not freed */
/* Takes the call's arg over. */
void gpu_fake_record(void *stream, const struct fake_call *c, int64_t ns);

/* memory.c: so many bytes of it, and the host's pinned ones. */
void gpu_fake_memory(uint64_t n_bytes, struct gpu_cu *out);

/* driver.c: the driver's state, for its other parts. */
int gpu_fake_status(void);      /* of every call: 0 while the context lives */
int gpu_fake_number(void);      /* of this thread's GPU */
int gpu_fake_settle(void);      /* what comes late has come */
bool gpu_fake_is_well(void);    /* nothing is to come */
void gpu_fake_late(int status); /* shows at the next wait */
int64_t gpu_fake_now(void);
void gpu_fake_pass(int64_t ns); /* of the GPU's time */

/* blaslt.c, dnn.c: cuBLASLt and cuDNN.  Each has six algorithms for what it supports; the
 * faults fall on algorithms, per million. */
struct fake_lib_conf {
	uint64_t seed, fail, wrong, none; /* none: everything is unsupported */
	uint64_t work_bytes, fast;        /* at least so much scratch; fast: a tenth of the time */
};
enum { FAKE_ALGOS = 6 };
void gpu_fake_lt(const struct fake_lib_conf *c, struct gpu_lt *out);
void gpu_fake_dnn(const struct fake_lib_conf *c, struct gpu_dnn *out);
/* Runs a library's call on a stream, or captures it as two nodes; 0, or the driver's status. */
int gpu_fake_library(void *stream, int (*run)(void *arg, bool spoilt), const void *arg, size_t n,
    void *scratch, size_t n_scratch, int64_t ns);

/* ml.c: NVML. */
struct fake_ml_conf {
	uint64_t seed, throttle, power, foreign; /* looks per million that see it */
	unsigned mhz, app_mhz, watts;
	bool no_list, has_mps; /* lists no processes; lists our context as an MPS client's */
};
void gpu_fake_ml(const struct fake_ml_conf *c, struct gpu_ml *out);
double gpu_fake_slowness(void); /* times as long as with all its clocks */
void gpu_fake_context(bool is_there);

#endif
