/* kernels/device/compile.c: C text -> the bytes of a shared object, by the compiler of this host.
 * It works in a private folder that is gone on return.  Several files are compiled side by side,
 * each by the same command whatever the number of cores, and linked in their order: equal texts give equal
 * bytes. */
#include "command.h"
#include "dev.h"

#include "../base/parallel.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 64 + COMPILE_MAX_FILES };
static const int64_t default_cpu_ns = 120 * (int64_t)1000000000, default_wall_ns = 900 * (int64_t)1000000000;

/* Names inside the private folder are fixed, so that equal text gives equal bytes. */
static const char object_name[] = "kernels.so";

/* What every shared object of kernels is made with, whatever the generator asks for. */
static const char *const object_flags[] = {"-fPIC", "-w", NULL};
static const char *const link_flags[] = {
    "-shared", "-s", "-nostartfiles", "-Wl,--build-id=none", "-Wl,-z,noexecstack", NULL};

static bool
in_path(const char *name, char out[OS_PATH_MAX])
{
	struct str rest = str_of(getenv("PATH"));

	if (name[0] == '/') {
		(void)snprintf(out, OS_PATH_MAX, "%s", name);
		return access(out, X_OK) == 0;
	}
	if (strchr(name, '/')) /* it runs in another folder than this */
		return realpath(name, out) != NULL && access(out, X_OK) == 0;
	if (!rest.n)
		rest = STR("/usr/local/bin:/usr/bin:/bin");
	while (rest.n) {
		struct str dir = str_cut(&rest, ':');
		int n = snprintf(out, OS_PATH_MAX, "%.*s/%s", STR_ARG(dir), name);

		if (n > 0 && n < OS_PATH_MAX && access(out, X_OK) == 0)
			return true;
	}
	return false;
}

static bool
find_compiler(char out[OS_PATH_MAX], struct err *e)
{
	static const char *const known[] = {"gcc", "cc"};
	const char *named = getenv("KORCH_CC");

	if (named && *named)
		return in_path(named, out) ||
		    err_set(e, ERR_HOST,
			"KORCH_CC=%s: there is no such program; name a C compiler or unset it", named);
	for (size_t i = 0; i < COUNT_OF(known); i++)
		if (in_path(known[i], out))
			return true;
	return err_set(e, ERR_HOST, "no C compiler found (gcc, cc); install gcc or set KORCH_CC");
}

/* A compiler that stands elsewhere than the system's brings its own parts: what lies beside its folder under
 * the names of a toolchain's, and not all that lies there, which may be somebody's home. */
static const char *const *
toolchain_of(struct arena *a, const char *cc)
{
	static const char *const part[] = {"bin", "lib", "lib64", "libexec", "include", "share"};
	char *real = realpath(cc, NULL), *slash;
	const char **list = NEW_ARRAY(a, const char *, COUNT_OF(part) + 1);
	size_t n = 0;

	for (int up = 0; real && up < 2; up++) {
		slash = strrchr(real, '/');
		*(slash ? slash : real) = '\0';
	}
	for (size_t i = 0; i < COUNT_OF(part) && real && *real; i++)
		list[n++] = arena_printf(a, "%s/%s", real, part[i]);
	free(real);
	return list;
}

/* The first line that says "error", else the first line. */
static struct str
first_complaint(const struct command_said *said)
{
	struct str rest = {said->p, said->n}, first = {"", 0};

	while (rest.n) {
		struct str line = str_cut(&rest, '\n');

		if (!first.n)
			first = line;
		if (line.n && memmem(line.p, line.n, "error", 5))
			return line;
	}
	return first;
}

static bool
verdict(const char *cc, int status, const struct command_said *said, struct err *e)
{
	struct str words = first_complaint(said);

	words.n = MIN_OF(words.n, (size_t)360);
	if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (status != -1 && WIFSIGNALED(status))
		return err_set(
		    e, ERR_COMPILE, "%s was ended by signal %d: %.*s", cc, WTERMSIG(status), STR_ARG(words));
	return err_set(e, ERR_COMPILE, "%s refused the generated text: %.*s", cc, STR_ARG(words));
}

static bool
write_file(const char *dir, const char *name, struct str text, struct err *e)
{
	char path[OS_PATH_MAX + 32];
	FILE *f;
	bool ok;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f)
		return err_set(e, ERR_IO, "%s: cannot write: %s", path, strerror(errno));
	ok = fwrite(text.p, 1, text.n, f) == text.n;
	ok = fclose(f) == 0 && ok;
	return ok ||
	    err_set(e, errno == ENOSPC ? ERR_FULL : ERR_IO, "%s: cannot write: %s", path, strerror(errno));
}

struct args {
	const char *v[MAX_ARGS];
	size_t n; /* MAX_ARGS: too many */
};

static void
add_args(struct args *args, const char *const *more)
{
	for (; more && *more && args->n < MAX_ARGS; more++)
		args->v[args->n++] = *more;
}

/* The compiler over `n` inputs in `dir`; `stage`: what it is to do with them. */
static bool
call(struct arena *a, const char *cc, const char *dir, const struct compile_opts *o, const char *const *stage,
    const char *output, const char *const *inputs, struct err *e)
{
	struct args args = {.v = {cc}, .n = 1};
	struct command c = {.dir = dir,
	    .argv = (char *const *)args.v,
	    .reads = toolchain_of(a, cc),
	    .file_bytes = COMPILE_MAX_BYTES,
	    .cancel = o->cancel};
	struct command_said said = {0};
	int status = -1;

	add_args(&args, o->flags);
	add_args(&args, stage);
	add_args(&args, object_flags);
	add_args(&args, (const char *const[]){"-o", output, NULL});
	add_args(&args, inputs);
	if (args.n == MAX_ARGS)
		return err_set(e, ERR_LIMIT, "more than %d compiler flags and files", MAX_ARGS - 1);
	c.cpu_ns = o->cpu_ns > 0 ? o->cpu_ns : default_cpu_ns;
	c.wall_ns = o->wall_ns > 0 ? o->wall_ns : default_wall_ns;
	return command_run(a, &c, &said, &status, e) && verdict(cc, status, &said, e);
}

/* ---- several files ------------------------------------------------------------------- */
struct folder { /* one compile's */
	char cc[OS_PATH_MAX], dir[OS_PATH_MAX];
	const struct compile_opts *o;
};

static bool
folder_open(struct folder *f, uint32_t n_files, const struct compile_opts *o, struct err *e)
{
	f->o = o;
	if (n_files > COMPILE_MAX_FILES)
		return err_set(e, ERR_LIMIT, "more than %d files of kernels", COMPILE_MAX_FILES);
	return find_compiler(f->cc, e) && os_temp_dir("cc", f->dir, e);
}

static void
folder_close(struct folder *f)
{
	os_remove_tree(f->dir);
}

static bool
folder_take(const struct folder *f, struct arena *a, const char *name, struct bytes *out, struct err *e)
{
	struct arena tmp = {0};
	struct bytes made;
	bool ok = os_read_file(os_real(), &tmp, arena_printf(&tmp, "%s/%s", f->dir, name),
	    f->o->max_bytes ? f->o->max_bytes : COMPILE_MAX_BYTES, &made, e);

	if (ok)
		*out = (struct bytes){arena_dup(a, made.p, made.n), made.n};
	arena_fini(&tmp);
	return ok || err_in(e, "the compiled kernels");
}

struct hand {
	struct arena arena;
	struct err err;
	uint32_t failed; /* a file; n: none */
};
struct work {
	const struct folder *f;
	const char *const *stage;
	const struct str *texts;
	uint32_t n;
	const char *object[COMPILE_MAX_FILES + 2]; /* then the library, then NULL */
	struct hand hand[PARALLEL_MOST];
};
static const char *const only_compile[] = {"-c", NULL};
/* Of such an object the linker can take one function.  Each begins a line of the cache: what was timed in one
 * shared object lies in the next one as it did. */
static const char *const apart[] = {
    "-c", "-ffunction-sections", "-fdata-sections", "-falign-functions=64", NULL};
static const char libm[] = "-lm";

static bool
compile_one(const struct work *w, struct arena *a, uint32_t i, struct err *e)
{
	const char *source = arena_printf(a, "kernels%u.c", i);
	const struct folder *f = w->f;

	return write_file(f->dir, source, w->texts[i], e) &&
	    call(a, f->cc, f->dir, f->o, w->stage, w->object[i], (const char *const[]){source, NULL}, e);
}

/* Who has failed does nothing more: it would be of files behind that one. */
static void
compile_next(void *self, uint32_t hand, uint32_t i)
{
	struct work *w = self;
	struct hand *h = &w->hand[hand];

	if (h->failed == w->n && !compile_one(w, &h->arena, i, &h->err))
		h->failed = i;
}

/* Fails with what is wrong in the file that comes first. */
static bool
compile_all(struct arena *a, struct work *w, struct err *e)
{
	/* one more than cores: a jail is waited for before its compiler begins and after it has ended */
	uint32_t n = parallel_hands(PARALLEL_MOST - 1) + 1, worst = w->n;

	for (uint32_t i = 0; i < w->n; i++)
		w->object[i] = arena_printf(a, "kernels%u.o", i);
	for (uint32_t i = 0; i < n; i++)
		w->hand[i].failed = w->n;
	parallel_for(w->n, n, compile_next, w);
	for (uint32_t i = 0; i < n; i++) {
		if (w->hand[i].failed < worst) {
			worst = w->hand[i].failed;
			*e = w->hand[i].err;
		}
		arena_fini(&w->hand[i].arena);
	}
	return worst == w->n;
}

static bool
compile_in(struct arena *a, const struct folder *f, const struct str *texts, uint32_t n, struct err *e)
{
	static const char name[] = "kernels.c";
	struct work w = {.f = f, .stage = only_compile, .texts = texts, .n = n};

	if (n == 1)
		return write_file(f->dir, name, texts[0], e) &&
		    call(a, f->cc, f->dir, f->o, link_flags, object_name,
			(const char *const[]){name, libm, NULL}, e);
	w.object[n] = libm;
	return compile_all(a, &w, e) && call(a, f->cc, f->dir, f->o, link_flags, object_name, w.object, e);
}

bool
compile_files(struct arena *a, const struct str *texts, uint32_t n, const struct compile_opts *o,
    struct bytes *out, struct err *e)
{
	struct arena tmp = {0};
	struct folder f;
	bool ok;

	if (!folder_open(&f, n, o, e))
		return false;
	ok = compile_in(&tmp, &f, texts, n, e) && folder_take(&f, a, object_name, out, e);
	folder_close(&f);
	arena_fini(&tmp);
	return ok;
}

/* ---- objects apart, and of them a shared one ----------------------------------------- */
bool
compile_objects(struct arena *a, const struct str *texts, uint32_t n, const struct compile_opts *o,
    struct bytes *out, struct err *e)
{
	struct arena tmp = {0};
	struct folder f;
	struct work w = {.f = &f, .stage = apart, .texts = texts, .n = n};
	bool ok;

	if (!folder_open(&f, n, o, e))
		return false;
	ok = compile_all(&tmp, &w, e);
	for (uint32_t i = 0; i < n && ok; i++)
		ok = folder_take(&f, a, w.object[i], &out[i], e);
	folder_close(&f);
	arena_fini(&tmp);
	return ok;
}

/* A name goes into a linker's script: nothing but a name may. */
static bool
is_name(const char *s)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

	return *s && !(*s >= '0' && *s <= '9') && s[strspn(s, letters)] == '\0';
}

/* What the linker reads: what each function is called, and that nothing else can be seen. */
static bool
write_names(struct arena *a, const struct folder *f, uint32_t n_objects, const struct link_name *names,
    uint32_t n, struct err *e)
{
	struct strbuf script, seen;

	sb_init(&script, a);
	sb_init(&seen, a);
	for (uint32_t i = 0; i < n_objects; i++)
		sb_addf(&script, "INPUT(kernels%u.o)\n", i);
	sb_addz(&seen, n ? "{\nglobal:\n" : "{\n");
	for (uint32_t i = 0; i < n; i++) {
		if (!is_name(names[i].name) || !is_name(names[i].of))
			return err_set(e, ERR_FORMAT, "'%s' is no name for a kernel", names[i].name);
		sb_addf(&script, "%s = %s;\n", names[i].name, names[i].of);
		sb_addf(&seen, "%s;\n", names[i].name);
	}
	sb_addz(&seen, "local: *;\n};\n");
	return write_file(f->dir, "names.ld", sb_str(&script), e) &&
	    write_file(f->dir, "names.map", sb_str(&seen), e);
}

static bool
link_in(struct arena *a, const struct folder *f, const struct bytes *objects, uint32_t n,
    const struct link_name *names, uint32_t n_names, struct err *e)
{
	static const char *const input[] = {
	    "-Wl,--gc-sections", "-Wl,-z,muldefs", "-Wl,--version-script=names.map", "names.ld", libm, NULL};
	bool ok = write_names(a, f, n, names, n_names, e);

	for (uint32_t i = 0; i < n && ok; i++)
		ok = write_file(f->dir, arena_printf(a, "kernels%u.o", i),
		    (struct str){(const char *)objects[i].p, objects[i].n}, e);
	return ok && call(a, f->cc, f->dir, f->o, link_flags, object_name, input, e);
}

bool
link_objects(struct arena *a, const struct bytes *objects, uint32_t n, const struct link_name *names,
    uint32_t n_names, const struct compile_opts *o, struct bytes *out, struct err *e)
{
	struct arena tmp = {0};
	struct folder f;
	bool ok;

	if (!folder_open(&f, 1, o, e))
		return false;
	ok = link_in(&tmp, &f, objects, n, names, n_names, e) && folder_take(&f, a, object_name, out, e);
	folder_close(&f);
	arena_fini(&tmp);
	return ok;
}

bool
compile_c(struct arena *a, struct str text, const struct compile_opts *o, struct bytes *out, struct err *e)
{
	return compile_files(a, &text, 1, o, out, e);
}

/* What was asked last, of a compiler that is still the same file: whoever measures asks several times. */
static struct {
	pthread_mutex_t mutex;
	char cc[OS_PATH_MAX], words[256];
	struct stat st;
} known_version = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool
same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	    a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	    a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static bool
version_known(struct arena *a, const char *cc, const struct stat *st, struct str *out)
{
	bool is_known;

	(void)pthread_mutex_lock(&known_version.mutex);
	is_known = strcmp(known_version.cc, cc) == 0 && same_file(&known_version.st, st);
	if (is_known)
		*out = str_of(str_dup(a, str_of(known_version.words)));
	(void)pthread_mutex_unlock(&known_version.mutex);
	return is_known;
}

static void
know_version(const char *cc, const struct stat *st, struct str words)
{
	if (words.n >= sizeof(known_version.words))
		return;
	(void)pthread_mutex_lock(&known_version.mutex);
	(void)snprintf(known_version.cc, sizeof(known_version.cc), "%s", cc);
	(void)snprintf(known_version.words, sizeof(known_version.words), "%.*s", STR_ARG(words));
	known_version.st = *st;
	(void)pthread_mutex_unlock(&known_version.mutex);
}

static bool
ask_version(struct arena *a, char *cc, struct str *out, struct err *e)
{
	struct arena tmp = {0};
	char *argv[] = {cc, str_dup(&tmp, STR("--version")), NULL};
	struct command c = {.argv = argv,
	    .cpu_ns = default_cpu_ns,
	    .wall_ns = default_wall_ns,
	    .file_bytes = COMPILE_MAX_BYTES,
	    .take_stdout = true};
	struct command_said said = {0};
	int status = -1;
	bool ok;

	c.reads = toolchain_of(&tmp, cc);
	ok = command_run(&tmp, &c, &said, &status, e) && verdict(cc, status, &said, e);
	if (ok) {
		struct str rest = {said.p, said.n};

		*out = str_of(str_dup(a, str_trim(str_cut(&rest, '\n'))));
	}
	arena_fini(&tmp);
	return ok;
}

bool
compiler_version(struct arena *a, struct str *out, struct err *e)
{
	char cc[OS_PATH_MAX];
	struct stat st;

	if (!find_compiler(cc, e))
		return false;
	if (stat(cc, &st) != 0)
		return err_set(e, ERR_HOST, "%s: %s", cc, strerror(errno));
	if (version_known(a, cc, &st, out))
		return true;
	if (!ask_version(a, cc, out, e))
		return false;
	know_version(cc, &st, *out);
	return true;
}
