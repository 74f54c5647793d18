/* tests/harness/cross.c: see cross.h.
 *
 * The program that runs there is the kernels' text, and a second file made here: a table of their
 * passes and buffers, and a main that reads the operands, runs every pass, and writes the results. */
#include "cross.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char main_text[] =
    "static void\n"
    "get(void *p, size_t n)\n"
    "{\n"
    "	if (fread(p, 1, n, stdin) != n)\n"
    "		exit(3);\n"
    "}\n"
    "static void *\n"
    "place(size_t n)\n"
    "{\n"
    "	void *p = aligned_alloc(64, (n / 64 + 2) * 64);\n"
    "	if (!p)\n"
    "		exit(4);\n"
    "	return memset(p, 0xff, (n / 64 + 2) * 64);\n"
    "}\n"
    "int\n"
    "main(void)\n"
    "{\n"
    "	for (const struct kernel *k = kernels; k->n; k++) {\n"
    "		void *buf[64], *shared = place(k->shared), *local = place(k->local);\n"
    "		for (int i = 0; i < k->n; i++)\n"
    "			buf[i] = place(k->bytes[i]);\n"
    "		for (int i = 0; i < k->n_in; i++)\n"
    "			get(buf[i], k->bytes[i]);\n"
    "		for (int p = 0; k->pass[p]; p++)\n"
    "			for (int i = PARTS; i-- > 0;)\n"
    "				if (k->range[p] * i / PARTS < k->range[p] * (i + 1) / PARTS)\n"
    "					k->pass[p](buf, shared, local, k->range[p] * i / PARTS, k->range[p] "
    "* (i + 1) / PARTS);\n"
    "		for (int i = k->n_in; i < k->n; i++)\n"
    "			fwrite(buf[i], 1, k->bytes[i], stdout);\n"
    "	}\n"
    "	return fflush(stdout) ? 5 : 0;\n"
    "}\n";

static uint32_t
n_bufs(const struct test_kernel *k)
{
	return k->spec.g.n_inputs + k->spec.g.n_outputs;
}

static void
write_row(struct strbuf *sb, const struct test_kernel *k)
{
	sb_addf(sb, "	{%u, %u, %zu, %zu, {", n_bufs(k), k->spec.g.n_inputs, k->code.desc.shared_bytes,
	    k->code.desc.local_bytes);
	for (uint32_t i = 0; i < n_bufs(k); i++)
		sb_addf(sb, "%zu, ", kernel_buf_bytes(k, i));
	sb_addz(sb, "}, {");
	for (uint32_t p = 0; p < k->code.desc.n_passes; p++)
		sb_addf(sb, "%s_p%u, ", k->symbol, p);
	sb_addz(sb, "0}, {");
	for (uint32_t p = 0; p < k->code.desc.n_passes; p++)
		sb_addf(sb, "%lld, ", (long long)k->code.desc.range[p]);
	sb_addz(sb, "0}},\n");
}

static struct str
runner_text(struct arena *a, const struct test_kernel *k, uint32_t n, uint32_t parts)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_addf(&sb,
	    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#define PARTS %u\n"
	    "typedef void pass(void *const *, char *, char *, long long, long long);\n",
	    parts);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t p = 0; p < k[i].code.desc.n_passes; p++)
			sb_addf(&sb, "pass %s_p%u;\n", k[i].symbol, p);
	sb_addf(&sb,
	    "static const struct kernel {\n"
	    "	int n, n_in;\n	size_t shared, local, bytes[64];\n	pass *pass[%d];\n	long long "
	    "range[%d];\n"
	    "} kernels[] = {\n",
	    KERNEL_MAX_PASSES + 1, KERNEL_MAX_PASSES + 1);
	for (uint32_t i = 0; i < n; i++)
		write_row(&sb, &k[i]);
	sb_addz(&sb, "	{0}};\n");
	sb_addz(&sb, main_text);
	return sb_str(&sb);
}

static struct str
kernels_text(struct arena *a, const struct target *t, const struct test_kernel *k, uint32_t n)
{
	struct strbuf sb;

	sb_init(&sb, a);
	sb_add(&sb, prelude_c(a, t));
	for (uint32_t i = 0; i < n; i++)
		sb_add(&sb, k[i].code.text);
	return sb_str(&sb);
}

static bool
write_text(const char *path, struct str text, struct err *e)
{
	return os_write_file(os_real(), path, (struct bytes){(const uint8_t *)text.p, text.n}, e);
}

static bool
write_operands(const char *path, const struct test_kernel *k, uint32_t n, struct err *e)
{
	FILE *f = fopen(path, "we");
	bool ok = f != NULL;

	for (uint32_t i = 0; i < n && ok; i++)
		for (uint32_t b = 0; b < k[i].spec.g.n_inputs && ok; b++)
			ok = fwrite(k[i].buf[b], 1, kernel_buf_bytes(&k[i], b), f) ==
			    kernel_buf_bytes(&k[i], b);
	if (f)
		ok = fclose(f) == 0 && ok;
	return ok ? true : err_set(e, ERR_IO, "%s cannot be written", path);
}

static bool
read_results(const char *path, struct test_kernel *k, uint32_t n, struct err *e)
{
	FILE *f = fopen(path, "re");
	bool ok = f != NULL;

	for (uint32_t i = 0; i < n && ok; i++)
		for (uint32_t b = k[i].spec.g.n_inputs; b < n_bufs(&k[i]) && ok; b++)
			ok = fread(k[i].buf[b], 1, kernel_buf_bytes(&k[i], b), f) ==
			    kernel_buf_bytes(&k[i], b);
	if (f)
		(void)fclose(f);
	return ok ? true : err_set(e, ERR_LAUNCH, "%s: fewer results than there should be", path);
}

const char *
cross_missing(const struct machine *m)
{
	char command[256];

	(void)snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", m->compiler);
	if (system(command) != 0)
		return m->compiler;
	(void)snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", m->emulator);
	return system(command) != 0 ? m->emulator : NULL;
}

static bool
run_in(struct arena *a, const char *dir, const struct machine *m, const struct target *t,
    struct test_kernel *k, uint32_t n, uint32_t parts, struct err *e)
{
	struct strbuf cmd;

	if (!write_text(arena_printf(a, "%s/kernels.c", dir), kernels_text(a, t, k, n), e) ||
	    !write_text(arena_printf(a, "%s/main.c", dir), runner_text(a, k, n, parts), e) ||
	    !write_operands(arena_printf(a, "%s/in", dir), k, n, e))
		return false;
	sb_init(&cmd, a);
	sb_addf(&cmd, "cd %s && %s -std=gnu11 -w -static -o program", dir, m->compiler);
	for (const char *const *f = generate_c_flags(t); *f; f++)
		sb_addf(&cmd, " %s", *f);
	sb_addz(&cmd, " kernels.c main.c -lm");
	if (system(sb_str(&cmd).p) != 0)
		return err_set(e, ERR_COMPILE, "%s refused the kernels", m->compiler);
	if (system(arena_printf(a, "cd %s && %s ./program <in >out", dir, m->emulator)) != 0)
		return err_set(e, ERR_LAUNCH, "the kernels failed under %s", m->emulator);
	return read_results(arena_printf(a, "%s/out", dir), k, n, e);
}

bool
cross_run(struct arena *a, const struct machine *m, const struct target *t, struct test_kernel *k, uint32_t n,
    uint32_t parts, struct err *e)
{
	static const char *const files[] = {"kernels.c", "main.c", "in", "out", "program"};
	const char *tmp = getenv("TMPDIR");
	char *dir = arena_printf(a, "%s/korch-cross-XXXXXX", tmp ? tmp : "/tmp");
	bool ok;

	if (!mkdtemp(dir))
		return err_set(e, ERR_IO, "no folder under %s", tmp ? tmp : "/tmp");
	ok = run_in(a, dir, m, t, k, n, parts, e);
	for (size_t i = 0; i < COUNT_OF(files); i++)
		(void)unlink(arena_printf(a, "%s/%s", dir, files[i]));
	(void)rmdir(dir);
	return ok;
}
