/* libkorch_calls PLAN CORES KEY: several plans at once, one plan from several threads, and every wrong call's
 * answer.  Stands on the installed korch.h; built by libkorch.sh. */
#include <dirent.h>
#include <korch.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PLANS = 3, N_THREADS = 6, N_RUNS = 20 };

static int n_bad;

static void
want(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "libkorch_calls: %s\n", what);
	n_bad++;
}

/* One input, one output, of any size: what the plans of this test have. */
struct job {
	korch_plan *plan;
	const float *in;
	size_t n_in, n_out;
	const void *expect;
	int n_differ;
};

static void *
run_often(void *arg)
{
	struct job *j = arg;
	char *out = malloc(j->n_out);

	for (int i = 0; i < N_RUNS; i++) {
		memset(out, 0x55, j->n_out);
		if (korch_plan_run(j->plan, &(struct korch_input){j->in, j->n_in}, 1,
			&(struct korch_output){out, j->n_out}, 1, NULL) != KORCH_OK ||
		    memcmp(out, j->expect, j->n_out) != 0)
			j->n_differ++;
	}
	free(out);
	return NULL;
}

/* Threads 0, 3 share a plan, 1 and 4, 2 and 5. */
static void
run_together(korch_plan **plan, const float *in, size_t n_in, const void *expect, size_t n_out)
{
	pthread_t thread[N_THREADS];
	struct job job[N_THREADS];

	for (int i = 0; i < N_THREADS; i++) {
		job[i] = (struct job){plan[i % N_PLANS], in, n_in, n_out, expect, 0};
		if (pthread_create(&thread[i], NULL, run_often, &job[i]) != 0)
			abort();
	}
	for (int i = 0; i < N_THREADS; i++) {
		pthread_join(thread[i], NULL);
		want(job[i].n_differ == 0, "runs side by side differ from a run alone");
	}
}

static void
wrong_calls(korch_plan *plan, float *in, size_t n_in, void *out, size_t n_out)
{
	const struct {
		struct korch_input in;
		size_t count;
		struct korch_output out;
		const char *say;
	} rows[] = {
	    {{in, n_in}, 2, {out, n_out}, "2 and 1 were given"},
	    {{in, n_in - 1}, 1, {out, n_out}, "bytes"},
	    {{NULL, n_in}, 1, {out, n_out}, "no memory"},
	    {{(char *)in + 1, n_in}, 1, {out, n_out}, "not aligned"},
	    {{in, n_in}, 1, {out, n_out + 4}, "bytes"},
	    {{in, n_in}, 1, {in, n_out}, "overlaps input 0"},
	};
	struct korch_tensor t;
	struct korch_error e;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct korch_input two[2] = {rows[i].in, rows[i].in};

		memset(&e, 0, sizeof(e));
		want(korch_plan_run(plan, two, rows[i].count, &rows[i].out, 1, &e) == KORCH_USAGE &&
			e.status == KORCH_USAGE && strstr(e.text, rows[i].say),
		    rows[i].say);
		want(korch_plan_run(plan, two, rows[i].count, &rows[i].out, 1, NULL) == KORCH_USAGE,
		    "no error wanted");
	}
	want(!korch_plan_on_gpu(plan), "a plan of the CPU's is on a GPU");
	want(korch_plan_input(plan, 1, &t, &e) == KORCH_USAGE, "an input beyond the last");
	want(korch_plan_output(plan, 1, &t, &e) == KORCH_USAGE, "an output beyond the last");
}

static void
wrong_files(const char *self)
{
	korch_plan *plan = NULL;
	struct korch_error e;

	want(korch_plan_open("/nowhere/at/all", NULL, &plan, &e) == KORCH_IO &&
		strstr(e.text, "/nowhere/at/all"),
	    "a file that is not there");
	want(korch_plan_open(self, NULL, &plan, &e) == KORCH_FORMAT, "a file that is no plan");
	want(korch_plan_open(NULL, NULL, &plan, NULL) == KORCH_USAGE, "no path");
	want(plan == NULL, "a failed open leaves the plan alone");
	korch_plan_close(NULL);
}

/* Opens and closes; the status, and in e what was said. */
static korch_status
try_open(size_t options_size, const char *path, const void *o, struct korch_error *e)
{
	korch_plan *plan = NULL;
	korch_status status = korch_plan_open_sized(options_size, path, o, &plan, e);

	korch_plan_close(plan);
	return status;
}

/* Programs of before and after this header. */
static void
other_headers(const char *path)
{
	const struct {
		unsigned n_threads;
		int pin;
	} first = {1, 0};
	struct {
		struct korch_options now;
		long later;
	} next = {{.n_threads = 1}, 0};
	struct korch_options far = {.n_threads = 1, .n_streams = 99};
	korch_plan *plan = NULL;
	struct korch_error e;

	want(try_open(sizeof(first), path, &first, &e) == KORCH_OK, "the first options");
	want(try_open(sizeof(next), path, &next, &e) == KORCH_OK, "later options that are 0");
	next.later = 1;
	want(try_open(sizeof(next), path, &next, &e) == KORCH_USAGE && strstr(e.text, "does not know"),
	    "a later option");
	want(try_open(3, path, &first, &e) == KORCH_USAGE, "less than options");
	want(try_open(3, path, NULL, &e) == KORCH_OK, "no options have no size");
	want(korch_plan_open(path, &far, &plan, &e) == KORCH_USAGE && strstr(e.text, "99 streams"),
	    "too many streams");
	far = (struct korch_options){.n_threads = 1, .gpu = 5000};
	want(korch_plan_open(path, &far, &plan, &e) == KORCH_USAGE && strstr(e.text, "GPU 4999"),
	    "no such GPU anywhere");
	/* the function itself knows no streams: that memory is none of its caller's options */
	want((korch_plan_open)(path, &far, &plan, &e) == KORCH_OK, "a program compiled before");
	korch_plan_close(plan);
	want(korch_plan_open(path, &(struct korch_options){.n_threads = 1, .n_streams = 8}, &plan, &e) ==
		KORCH_OK,
	    "streams for a plan of the CPU");
	korch_plan_close(plan);
}

/* In a home without keys nobody is trusted but who is named. */
static void
whose_plans(const char *path, const char *key)
{
	const struct {
		const char *trust, *say;
		korch_status status;
	} rows[] = {
	    {NULL, "a key that you do not trust", KORCH_UNTRUSTED}, {"any", "", KORCH_OK},
	    {key, "", KORCH_OK}, {"/nowhere", "/nowhere: cannot open", KORCH_IO},
	    {path, "", KORCH_LIMIT}, /* a file, but of no key */
	};

	setenv("XDG_DATA_HOME", "/nowhere", 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct korch_error e = {0};

		want(try_open(sizeof(struct korch_options), path,
			 &(struct korch_options){.trust = rows[i].trust}, &e) == rows[i].status &&
			strstr(e.text, rows[i].say),
		    rows[i].trust ? rows[i].trust : "no key");
	}
}

static int
count_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2; /* "." and ".." */
}

/* A plan of one thread, opened by a caller who names no number. */
static void
default_threads(const char *path, int n_cores)
{
	korch_plan *plan = NULL;
	struct korch_error e;
	int before = count_threads();

	want(korch_plan_open(path, NULL, &plan, &e) == KORCH_OK, "a plan by default");
	want(count_threads() - before == n_cores - 1, "a thread for each core");
	korch_plan_close(plan);
}

int
main(int argc, char **argv)
{
	korch_plan *plan[N_PLANS];
	struct korch_tensor t;
	struct korch_error e;
	size_t n_in;

	if (argc != 4)
		return 2;
	default_threads(argv[1], atoi(argv[2]));
	for (int i = 0; i < N_PLANS; i++)
		if (korch_plan_open(argv[1], &(struct korch_options){.n_threads = 1u + (unsigned)i % 2},
			&plan[i], &e) != KORCH_OK) {
			fprintf(stderr, "%s\n", e.text);
			return 1;
		}
	want(korch_plan_input(plan[0], 0, &t, &e) == KORCH_OK && t.type == KORCH_F32, "the input is f32");
	n_in = t.n_bytes;
	want(korch_plan_output(plan[0], 0, &t, &e) == KORCH_OK && strcmp(korch_type_name(t.type), "f32") == 0,
	    "the output is f32");
	float *in = malloc(n_in + t.n_bytes), *out = malloc(t.n_bytes);

	for (size_t i = 0; i < n_in / sizeof(*in); i++)
		in[i] = (float)(i % 13) / 13;
	want(korch_plan_run(plan[0], &(struct korch_input){in, n_in}, 1,
		 &(struct korch_output){out, t.n_bytes}, 1, &e) == KORCH_OK,
	    "a run");
	run_together(plan, in, n_in, out, t.n_bytes);
	wrong_calls(plan[0], in, n_in, out, t.n_bytes);
	wrong_files(argv[0]);
	other_headers(argv[1]);
	whose_plans(argv[1], argv[3]);
	want(korch_version()[0] != 0 && !korch_type_name((korch_type)99), "words");
	for (int i = 0; i < N_PLANS; i++)
		korch_plan_close(plan[i]);
	free(in);
	free(out);
	printf("%d wrong\n", n_bad);
	return n_bad != 0;
}
