/* kernels/ir/prim.c: the table of primitives, and which operands and attributes each takes. */
#include "ir_int.h"

const struct prim_info prim_info[PRIM_COUNT] = {
#define PRIM(N, C, N_IN, SHAPE, TYPE, AT, FLOPS, TEXT)                                                       \
	[PRIM_##N] = {#N, CLASS_##C, N_IN, SHAPE_##SHAPE, TYPE_##TYPE, AT, FLOPS, TEXT},
#include "prim.def"
#undef PRIM
};

/* Element types that operand 0 may have; what is not named here takes all. */
enum domain { ANY, NUMBER, FLOAT, INTEGER, BITS, BOOLEAN };
static const unsigned char domain[PRIM_COUNT] = {
    [PRIM_neg] = NUMBER,
    [PRIM_abs] = NUMBER,
    [PRIM_exp] = FLOAT,
    [PRIM_log] = FLOAT,
    [PRIM_sqrt] = FLOAT,
    [PRIM_recip] = FLOAT,
    [PRIM_tanh] = FLOAT,
    [PRIM_erf] = FLOAT,
    [PRIM_floor] = FLOAT,
    [PRIM_ceil] = FLOAT,
    [PRIM_round] = FLOAT,
    [PRIM_sign] = NUMBER,
    [PRIM_sin] = FLOAT,
    [PRIM_cos] = FLOAT,
    [PRIM_tan] = FLOAT,
    [PRIM_asin] = FLOAT,
    [PRIM_acos] = FLOAT,
    [PRIM_atan] = FLOAT,
    [PRIM_sinh] = FLOAT,
    [PRIM_cosh] = FLOAT,
    [PRIM_asinh] = FLOAT,
    [PRIM_acosh] = FLOAT,
    [PRIM_atanh] = FLOAT,
    [PRIM_sigmoid] = FLOAT,
    [PRIM_softplus] = FLOAT,
    [PRIM_relu] = NUMBER,
    [PRIM_not] = BOOLEAN,
    [PRIM_bitnot] = INTEGER,
    [PRIM_isnan] = FLOAT,
    [PRIM_isinf] = FLOAT,
    [PRIM_add] = NUMBER,
    [PRIM_sub] = NUMBER,
    [PRIM_mul] = NUMBER,
    [PRIM_div] = NUMBER,
    [PRIM_pow] = NUMBER,
    [PRIM_mod] = NUMBER,
    [PRIM_fmod] = NUMBER,
    [PRIM_and] = BITS,
    [PRIM_or] = BITS,
    [PRIM_xor] = BITS,
    [PRIM_shl] = INTEGER,
    [PRIM_shr] = INTEGER,
    [PRIM_select] = BOOLEAN,
    [PRIM_sum] = NUMBER,
    [PRIM_prod] = NUMBER,
    [PRIM_wsum] = NUMBER,
    [PRIM_matmul] = NUMBER,
    [PRIM_conv] = NUMBER,
    [PRIM_cumsum] = NUMBER,
};
static const char *const domain_text[] = {
    [ANY] = "any type",
    [NUMBER] = "numbers",
    [FLOAT] = "floating-point numbers",
    [INTEGER] = "integers",
    [BITS] = "integers or bool",
    [BOOLEAN] = "bool",
};

bool
prim_of_name(struct str s, enum prim *out)
{
	for (int p = 0; p < PRIM_COUNT; p++) {
		if (str_is(s, prim_info[p].name)) {
			*out = (enum prim)p;
			return true;
		}
	}
	return false;
}

bool
prim_is_commutative(enum prim p)
{
	return p == PRIM_add || p == PRIM_mul || p == PRIM_min || p == PRIM_max || p == PRIM_and ||
	    p == PRIM_or || p == PRIM_xor || p == PRIM_eq;
}

uint32_t
prim_n_out(enum prim p)
{
	return prim_info[p].shape == SHAPE_TOPK ? 2 : 1;
}

static bool
in_domain(enum domain d, enum dtype t)
{
	switch (d) {
	case ANY:
		return true;
	case NUMBER:
		return t != DT_bool;
	case FLOAT:
		return dtype_is_float(t);
	case INTEGER:
		return t != DT_bool && !dtype_is_float(t);
	case BITS:
		return !dtype_is_float(t);
	case BOOLEAN:
		return t == DT_bool;
	}
	return false;
}

static bool
check_attrs(enum prim p, const struct attrs *at, struct err *e)
{
	uint32_t want = prim_info[p].attrs, have = 0;

	for (int i = 0; i < at->n; i++) {
		const struct attr *a = &at->a[i];

		if (!(want >> a->key & 1))
			return err_set(e, ERR_MODEL, "it has no attribute '%s'", attr_name(a->key));
		if (a->n < 0 || a->n > MAX_RANK || (attr_kind_of(a->key) == ATTR_INT && a->n != 1))
			return err_set(
			    e, ERR_MODEL, "attribute '%s' has %d numbers", attr_name(a->key), a->n);
		have |= 1u << a->key;
	}
	for (int k = 0; k < ATTR_COUNT; k++)
		if (want >> k & ~(have >> k) & 1)
			return err_set(
			    e, ERR_MODEL, "attribute '%s' is missing", attr_name((enum attr_key)k));
	return true;
}

static bool
same_type(const struct tensor *const *in, uint32_t from, uint32_t n_in, struct err *e)
{
	for (uint32_t i = from + 1; i < n_in; i++)
		if (in[i]->type != in[from]->type)
			return err_set(e, ERR_MODEL, "operand %u is %s and operand %u is %s; they must agree",
			    from, dtype_name(in[from]->type), i, dtype_name(in[i]->type));
	return true;
}

static bool
index_type(const struct tensor *t, struct err *e)
{
	if (t->type == DT_i64 || t->type == DT_i32)
		return true;
	return err_set(e, ERR_MODEL, "indices are %s; they must be i64 or i32", dtype_name(t->type));
}

/* Operand types that the type rule alone does not settle. */
static bool
check_types(enum prim p, const struct tensor *const *in, uint32_t n_in, struct err *e)
{
	if (n_in && !in_domain((enum domain)domain[p], in[0]->type))
		return err_set(e, ERR_MODEL, "operand 0 is %s; it takes %s", dtype_name(in[0]->type),
		    domain_text[domain[p]]);
	switch (prim_info[p].shape) {
	case SHAPE_GATHER:
	case SHAPE_GATHER_ELEM:
	case SHAPE_GATHER_ND:
		return index_type(in[1], e);
	case SHAPE_SAME_AS_FIRST:
		if (in[0]->type != in[2]->type)
			return err_set(e, ERR_MODEL, "operand 0 is %s and operand 2 is %s; they must agree",
			    dtype_name(in[0]->type), dtype_name(in[2]->type));
		return index_type(in[1], e);
	default:
		break;
	}
	if (p == PRIM_pow)
		return in[1]->type != DT_bool
		    ? true
		    : err_set(e, ERR_MODEL, "the exponent is bool; it takes numbers");
	return same_type(in, p == PRIM_select ? 1 : 0, n_in, e);
}

static bool
result_type(
    enum prim p, const struct tensor *const *in, const struct attrs *at, enum dtype *out, struct err *e)
{
	switch (prim_info[p].type) {
	case TYPE_SAME:
	case TYPE_FIRST:
		*out = in[0]->type;
		return true;
	case TYPE_BOOL:
		*out = DT_bool;
		return true;
	case TYPE_SECOND:
		*out = in[1]->type;
		return true;
	case TYPE_I64:
		*out = DT_i64;
		return true;
	case TYPE_TO:
		if (at_get(at, ATTR_to) < 0 || at_get(at, ATTR_to) >= DT_COUNT)
			return err_set(e, ERR_MODEL, "attribute 'to' is no element type");
		*out = (enum dtype)at_get(at, ATTR_to);
		return true;
	}
	bug("primitive %d has no type rule", (int)p);
}

static bool
prim_check(enum prim p, const struct tensor *const *in, uint32_t n_in, const struct attrs *at,
    struct tensor *out, struct err *e)
{
	int want = prim_info[p].n_in;
	size_t bytes;

	if (want >= 0 ? n_in != (uint32_t)want : n_in == 0)
		return err_set(e, ERR_MODEL, "%u operands; it takes %s%d", n_in, want < 0 ? "at least " : "",
		    want < 0 ? 1 : want);
	*out = (struct tensor){.role = ROLE_INNER};
	if (!check_attrs(p, at, e) || !check_types(p, in, n_in, e) ||
	    !result_type(p, in, at, &out->type, e) || !shape_infer(p, in, n_in, at, &out->shape, e))
		return false;
	if (!shape_bytes(&out->shape, out->type, &bytes))
		return err_set(e, ERR_MODEL, "the result's size does not fit in 63 bits");
	return true;
}

bool
prim_result(enum prim p, const struct tensor *const *in, uint32_t n_in, const struct attrs *at,
    struct tensor *out, struct err *e)
{
	static const struct attrs none;

	if (prim_check(p, in, n_in, at ? at : &none, out, e))
		return true;
	return err_in(e, "primitive %s", prim_info[p].name);
}
