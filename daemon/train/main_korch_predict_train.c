/* daemon/train/main_korch_predict_train.c: korch-predict-train: exports of the cache in, a trained predictor
 * out. */
#include "../../kernels/base/opt.h"
#include "../../kernels/base/out.h"
#include "train.h"

#include <stdio.h>

enum { MOST_EXPORT = 1 << 28 };

static bool
read_rows(struct arena *a, const struct opts *o, struct train_set *set, struct err *e)
{
	if (o->n_args == 0)
		return err_set(
		    e, ERR_USAGE, "which rows? name exports of the cache, as korch-cache export writes them");
	for (uint32_t i = 0; i < o->n_args; i++) {
		struct bytes file;

		if (!os_read_file(os_real(), a, o->args[i], MOST_EXPORT, &file, e) ||
		    !train_rows_add(a, set, o->args[i], file, e))
			return false;
	}
	train_rows_end(set);
	return true;
}

static bool
write_out(const char *path, struct bytes file, struct err *e)
{
	struct out out;
	bool ok = out_begin(&out, path, e);

	if (!ok)
		return false;
	ok = out_write(out.fd, file) || err_set(e, ERR_FULL, "%s: it cannot be written", path);
	ok = ok && out_end(&out, e);
	out_drop(&out);
	return ok;
}

static void
say(const struct opts *o, const struct train_set *set, const struct predictor *p, struct bytes file)
{
	if (opt_flag(o, OPT_json))
		(void)printf("{\"method\":\"%s\",\"rows\":%u,\"specs\":%u,\"models\":%u,\"failed\":%u,"
			     "\"other_epoch\":%u,"
			     "\"unread\":%u,\"trees\":%u,\"bytes\":%zu}\n",
		    fit_method(), p->n_rows, p->n_specs, p->n_models, set->n_failed, set->n_other_epoch,
		    set->n_unread, p->head[HEAD_KERNEL].f.n_trees, file.n);
	else if (!opt_flag(o, OPT_quiet))
		(void)fprintf(stderr,
		    "%s%s of %u rows (%u kernels of %u models; passed over: %u failed, %u of another "
		    "generator, %u "
		    "unread): %zu bytes\n",
		    fit_method(), p->network ? " and a network" : "", p->n_rows, p->n_specs, p->n_models,
		    set->n_failed, set->n_other_epoch, set->n_unread, file.n);
}

static bool
run(struct arena *a, const struct opts *o, struct err *e)
{
	const char *path = opt_text(o, OPT_train_output);
	struct train_set set = {0};
	struct fit how = fit_usual;
	struct predictor p;
	struct bytes file;

	how.with_network = opt_flag(o, OPT_train_network);
	if (!path[0])
		return err_set(e, ERR_USAGE, "where does the predictor go? -o FILE");
	if (!out_check(path, e) || !read_rows(a, o, &set, e) || !train_predictor(a, &set, &how, &p, e))
		return false;
	predictor_write(a, &p, &file);
	if (file.n > PREDICT_FILE_MAX)
		return err_set(
		    e, ERR_LIMIT, "the predictor has %zu bytes; it may have %d", file.n, PREDICT_FILE_MAX);
	if (!write_out(path, file, e))
		return false;
	say(o, &set, &p, file);
	return true;
}

int
main(int argc, char **argv)
{
	struct arena a = {0};
	struct opts o;
	struct err e = {0};
	int status = opts_main(&a, PROG_TRAIN, argc, argv, &o);

	if (status < 0)
		status = run(&a, &o, &e) ? 0 : opts_fail(&o, &e);
	arena_fini(&a);
	return status;
}
