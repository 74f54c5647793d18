/* schema/export_read.c: the rows of an export, without a store to put them into. */
#include "export_read.h"

#include "db_int.h"

#include "../proto/hw.h"

#include <stdlib.h>
#include <string.h>

static bool
take_env(struct export_rows *x, struct arena *a, struct bytes b, struct err *e)
{
	struct m_env *env;

	GROW(a, x->envs, x->n_envs, x->cap_envs);
	env = &x->envs[x->n_envs++];
	if (!rec_unpack(a, "env", b, env, e))
		return false;
	if (!hw_check(&env->hw, e)) {
		e->code = ERR_FORMAT;
		return err_in(e, "the environment of class '%.*s'", STR_ARG(env->class));
	}
	env->hash = hash_bytes(env->key.p, env->key.n);
	return true;
}

static bool
take_spec(struct export_rows *x, struct arena *a, struct bytes b, struct err *e)
{
	struct export_spec *s;

	(void)e;
	GROW(a, x->specs, x->n_specs, x->cap_specs);
	s = &x->specs[x->n_specs++];
	*s = (struct export_spec){.hash = hash_bytes(b.p, b.n)};
	s->text = (struct str){str_dup(a, (struct str){(const char *)b.p, b.n}), b.n};
	return true;
}

static struct export_spec *
find_spec(const struct export_rows *x, const struct hash *h)
{
	uint32_t lo = 0, hi = x->n_specs;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		int c = hash_cmp(&x->specs[mid].hash, h);

		if (c == 0)
			return &x->specs[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static bool
take_row(struct export_rows *x, struct arena *a, struct bytes b, struct err *e)
{
	GROW(a, x->rows, x->n_rows, x->cap_rows);
	return rec_unpack(a, "measurement", b, &x->rows[x->n_rows++], e);
}

static bool
take_predictor(struct export_rows *x, struct arena *a, struct bytes b, struct err *e)
{
	GROW(a, x->predictors, x->n_predictors, x->cap_predictors);
	return rec_unpack(a, "predictor", b, &x->predictors[x->n_predictors++], e);
}

static bool
take_origin(struct export_rows *x, struct arena *a, struct bytes b, struct err *e)
{
	struct m_origin o;
	struct export_spec *s;

	if (!rec_unpack(a, "origin", b, &o, e))
		return false;
	s = find_spec(x, &o.spec);
	if (!s)
		return err_set(e, ERR_FORMAT, "the model of a spec that is not in the file");
	s->model = o.model;
	return true;
}

static bool
take_item(struct export_rows *x, struct arena *a, char letter, struct bytes b, struct err *e)
{
	static const struct {
		char letter;
		bool (*take)(struct export_rows *x, struct arena *a, struct bytes b, struct err *e);
	} row[] = {
	    {'E', take_env}, {'S', take_spec}, {'M', take_row}, {'O', take_origin}, {'T', take_predictor}};

	for (size_t i = 0; i < COUNT_OF(row); i++)
		if (row[i].letter == letter)
			return row[i].take(x, a, b, e);
	return true; /* repeats, and what a later version says */
}

static bool
are_sorted(const struct export_rows *x, struct err *e)
{
	for (uint32_t i = 1; i < x->n_specs; i++)
		if (hash_cmp(&x->specs[i - 1].hash, &x->specs[i].hash) >= 0)
			return err_set(e, ERR_FORMAT, "the specs are not in the order of their digests");
	return true;
}

static bool
bind_rows(struct export_rows *x, struct arena *a, struct err *e)
{
	x->env_of = NEW_ARRAY(a, uint32_t, MAX_OF(x->n_rows, 1u));
	x->spec_of = NEW_ARRAY(a, uint32_t, MAX_OF(x->n_rows, 1u));
	for (uint32_t i = 0; i < x->n_rows; i++) {
		const struct export_spec *s = find_spec(x, &x->rows[i].spec);
		uint32_t k = 0;

		while (k < x->n_envs && !hash_eq(&x->envs[k].hash, &x->rows[i].env_hash))
			k++;
		if (!s || k == x->n_envs)
			return err_set(e, ERR_FORMAT,
			    "a measurement of a spec or an environment that is not in the file");
		x->env_of[i] = k;
		x->spec_of[i] = (uint32_t)(s - x->specs);
	}
	return true;
}

/* Specs come before what names them (export.def). */
bool
export_read(struct arena *a, struct bytes in, struct export_rows *out, struct err *e)
{
	struct bytes plain, rest;
	bool ok, is_checked = false;

	*out = (struct export_rows){0};
	if (!export_unpack(in, &plain, e))
		return false;
	rest = (struct bytes){arena_dup(a, plain.p, plain.n), plain.n};
	free((void *)(uintptr_t)plain.p);
	for (ok = true; ok && rest.n;) {
		struct bytes item;
		char letter;

		ok = export_item(&rest, &letter, &item, e);
		if (ok && letter == 'O' && !is_checked)
			ok = is_checked = are_sorted(out, e);
		ok = ok && take_item(out, a, letter, item, e);
	}
	return ok && are_sorted(out, e) && bind_rows(out, a, e);
}
