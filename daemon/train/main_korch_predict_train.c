/* daemon/train/main_korch_predict_train.c: korch-predict-train: exports of the cache in, a trained predictor
 * out. */
#include "../../kernels/base/opt.h"
#include "../../kernels/base/out.h"
#include "own.h"

#include <stdio.h>

enum { MOST_EXPORT = 1 << 28 };

static bool
read_rows(struct arena *a, const struct opts *o, struct train_set *set, struct err *e)
{
	const char *own = opt_text(o, OPT_train_own);
	struct bytes file;

	if (o->n_args == 0 && !own[0] && !opt_n(o, OPT_train_teach) && !opt_flag(o, OPT_train_shipped))
		return err_set(
		    e, ERR_USAGE, "which rows? name exports of the cache, as korch-cache export writes them");
	if (opt_flag(o, OPT_train_shipped) && !train_rows_add_shipped(a, set, e))
		return false;
	for (uint32_t i = 0; i < o->n_args; i++)
		if (!os_read_file(os_real(), a, o->args[i], MOST_EXPORT, &file, e) ||
		    !train_rows_add(a, set, o->args[i], file, e))
			return false;
	for (uint32_t i = 0; i < opt_n(o, OPT_train_teach); i++)
		if (!os_read_file(os_real(), a, o->value[OPT_train_teach].v[i], MOST_EXPORT, &file, e) ||
		    !train_rows_teach(a, set, o->value[OPT_train_teach].v[i], file, e))
			return false;
	if (own[0] &&
	    (!os_read_file(os_real(), a, own, MOST_EXPORT, &file, e) ||
		!train_rows_add_own(a, set, own, file, e)))
		return false;
	train_rows_end(set);
	return true;
}

/* How far off the training is on the class's own kernels, beside what is in use. */
static bool
check_own(struct arena *a, const struct opts *o, const struct train_set *set, const struct fit *how,
    struct own_check *out, struct err *e)
{
	const char *beside = opt_text(o, OPT_train_beside);
	struct predictor p;
	struct bytes file = predictor_shipped();

	*out = (struct own_check){0};
	if (!opt_text(o, OPT_train_own)[0])
		return true;
	if (beside[0] && !os_read_file(os_real(), a, beside, PREDICT_FILE_MAX, &file, e))
		return false;
	if (!predictor_read(a, file, &p, e))
		return err_in(e, "%s", beside[0] ? beside : "what came with Korch");
	return own_check(set, how, &p, opt_int(o, OPT_train_since), out, e);
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

struct made {
	struct train_set set;
	struct predictor p;
	struct own_check own;
	uint32_t n_own;
	struct bytes file;
};

static void
say_json(const struct made *m)
{
	const struct predictor *p = &m->p;

	(void)printf("{\"method\":\"%s\",\"rows\":%u,\"specs\":%u,\"models\":%u,\"failed\":%u,"
		     "\"other_epoch\":%u,\"unread\":%u,\"trees\":%u,\"bytes\":%zu,\"own\":%u,"
		     "\"compared\":%u,\"error\":%.6f,\"beside\":%.6f}\n",
	    fit_method(), p->n_rows, p->n_specs, p->n_models, m->set.n_failed, m->set.n_other_epoch,
	    m->set.n_unread, p->head[HEAD_KERNEL].f.n_trees, m->file.n, m->n_own, m->own.compared,
	    m->own.error, m->own.beside);
}

static void
say_words(const struct opts *o, const struct made *m)
{
	const struct predictor *p = &m->p;

	(void)fprintf(stderr,
	    "%s%s of %u rows (%u kernels of %u models; failed %u, of another generator %u, unread %u): %zu "
	    "bytes\n",
	    fit_method(), p->network ? " and a network" : "", p->n_rows, p->n_specs, p->n_models,
	    m->set.n_failed, m->set.n_other_epoch, m->set.n_unread, m->file.n);
	if (m->own.error > 0)
		(void)fprintf(stderr,
		    "on %u kernels of the class, each model left out: off by %.1f %% (median); what is in "
		    "use "
		    "by %.1f %%\n",
		    m->own.compared, 100 * m->own.error, 100 * m->own.beside);
	else if (opt_text(o, OPT_train_own)[0])
		(void)fprintf(
		    stderr, "%u new kernels of the class: too few to say which is better\n", m->own.compared);
}

/* What cannot be read again is not written. */
static bool
pack(struct arena *a, struct made *m, struct err *e)
{
	struct predictor again;

	predictor_write(a, &m->p, &m->file);
	return predictor_read(a, m->file, &again, e) || err_in(e, "what was trained");
}

static bool
run(struct arena *a, const struct opts *o, struct err *e)
{
	const char *path = opt_text(o, OPT_train_output);
	struct fit how = fit_usual;
	struct made m = {0};

	how.with_network = opt_flag(o, OPT_train_network);
	if (!path[0])
		return err_set(e, ERR_USAGE, "where does the predictor go? -o FILE");
	if (!out_check(path, e) || !read_rows(a, o, &m.set, e) || !check_own(a, o, &m.set, &how, &m.own, e) ||
	    !train_predictor(a, &m.set, &how, &m.p, e) || !pack(a, &m, e) || !write_out(path, m.file, e))
		return false;
	for (uint32_t i = 0; i < m.set.n_rows; i++)
		m.n_own += m.set.rows[i].is_own;
	if (opt_flag(o, OPT_json))
		say_json(&m);
	else if (!opt_flag(o, OPT_quiet))
		say_words(o, &m);
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
