/* run_plan PLAN FOLDER: runs a plan on inputs that it makes up, and writes what went in and what came
 * out as raw bytes: FOLDER/in0, FOLDER/out0, ...  Stands on korch.h alone. */
#include <korch.h>

#include <stdio.h>
#include <stdlib.h>

static int
fail(const char *text)
{
	fprintf(stderr, "run_plan: %s\n", text);
	return 1;
}

static void
say_tensor(const char *what, size_t i, const struct korch_tensor *t)
{
	printf("%s %zu %s %s", what, i, t->name, korch_type_name(t->type));
	for (int d = 0; d < t->rank; d++)
		printf("%c%lld", d ? ',' : ' ', (long long)t->dim[d]);
	printf("\n");
}

/* Small floats, or small whole numbers. */
static void
make_up(const struct korch_tensor *t, void *data)
{
	unsigned char *bytes = data;
	float *real = data;

	if (t->type == KORCH_F32)
		for (size_t i = 0; i < t->n_bytes / sizeof(*real); i++)
			real[i] = (float)(i * 37 % 101) / 101 - 0.5f;
	else
		for (size_t i = 0; i < t->n_bytes; i++)
			bytes[i] = 0;
}

static int
save(const char *folder, const char *what, size_t i, const void *data, size_t n)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s%zu", folder, what, i);
	f = fopen(path, "wb");
	if (!f)
		return fail("cannot write to the folder");
	if (fwrite(data, 1, n, f) != n || fclose(f) != 0)
		return fail("cannot write to the folder");
	return 0;
}

static int
run(korch_plan *plan, const char *folder)
{
	size_t n_in = korch_plan_n_inputs(plan), n_out = korch_plan_n_outputs(plan);
	struct korch_input *in = calloc(n_in + 1, sizeof(*in));
	struct korch_output *out = calloc(n_out + 1, sizeof(*out));
	struct korch_tensor t;
	struct korch_error e = {KORCH_MEMORY, "out of memory"};
	int status = 0;

	if (!in || !out)
		return fail(e.text);
	for (size_t i = 0; i < n_in; i++) {
		void *data;

		if (korch_plan_input(plan, i, &t, &e) != KORCH_OK || !(data = malloc(t.n_bytes + 1)))
			return fail(e.text);
		say_tensor("input", i, &t);
		make_up(&t, data);
		in[i] = (struct korch_input){data, t.n_bytes};
		status |= save(folder, "in", i, data, t.n_bytes);
	}
	for (size_t i = 0; i < n_out; i++) {
		if (korch_plan_output(plan, i, &t, &e) != KORCH_OK || !(out[i].data = malloc(t.n_bytes + 1)))
			return fail(e.text);
		say_tensor("output", i, &t);
		out[i].n_bytes = t.n_bytes;
	}
	if (korch_plan_run(plan, in, n_in, out, n_out, &e) != KORCH_OK)
		return fail(e.text);
	for (size_t i = 0; i < n_out; i++) {
		status |= save(folder, "out", i, out[i].data, out[i].n_bytes);
		free(out[i].data);
	}
	for (size_t i = 0; i < n_in; i++)
		free((void *)in[i].data);
	free(in);
	free(out);
	return status;
}

int
main(int argc, char **argv)
{
	korch_plan *plan;
	struct korch_error e;
	int status;

	if (argc != 3)
		return fail("wanted PLAN and FOLDER");
	if (korch_plan_open(argv[1], NULL, &plan, &e) != KORCH_OK)
		return fail(e.text);
	status = run(plan, argv[2]);
	korch_plan_close(plan);
	return status;
}
