/* client/python/arrays.c: the memory of arrays that are handed over: by the buffer protocol (numpy) or by
 * DLPack (torch), without a copy; what neither gives as it is wanted goes through `korch._arrays.fit`, which
 * copies or says what is wrong. */
#include "native.h"

#include "dlpack.h"

#include <string.h>

/* ---- element types ---- */
/* ONNX's number, numpy's name, the buffer protocol's letters, DLPack's code and bits.  bfloat16 has no name
 * in numpy: its bits come as uint16. */
static const struct element {
	korch_type type;
	const char *numpy, *letters;
	uint8_t code, bits;
} elements[] = {
    {KORCH_F32, "float32", "f", DL_FLOAT, 32},
    {KORCH_F64, "float64", "d", DL_FLOAT, 64},
    {KORCH_F16, "float16", "e", DL_FLOAT, 16},
    {KORCH_BF16, "uint16", "H", DL_BFLOAT, 16},
    {KORCH_U8, "uint8", "B", DL_UINT, 8},
    {KORCH_I8, "int8", "b", DL_INT, 8},
    {KORCH_U16, "uint16", "H", DL_UINT, 16},
    {KORCH_I16, "int16", "h", DL_INT, 16},
    {KORCH_I32, "int32", "il", DL_INT, 32},
    {KORCH_I64, "int64", "lq", DL_INT, 64},
    {KORCH_U32, "uint32", "IL", DL_UINT, 32},
    {KORCH_U64, "uint64", "LQ", DL_UINT, 64},
    {KORCH_BOOL, "bool", "?", DL_BOOL, 8},
};

static const struct element *
element_of(korch_type type)
{
	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++)
		if (elements[i].type == type)
			return &elements[i];
	return NULL;
}

const char *
numpy_name(korch_type type)
{
	const struct element *e = element_of(type);

	return e ? e->numpy : NULL;
}

/* "f", "<f", "=f", "@f"; the other byte order and structs are none of ours. */
static bool
is_format(const struct element *e, const char *format)
{
	if (!format)
		format = "B";
	if (*format == '@' || *format == '=' || *format == '<')
		format++;
	return format[0] && !format[1] && strchr(e->letters, format[0]) != NULL;
}

/* ---- one array ---- */
static bool
fits_view(const struct port *p, const Py_buffer *v)
{
	const struct element *e = element_of(p->t.type);

	if (v->ndim != p->t.rank || (size_t)v->len != p->t.n_bytes || !is_format(e, v->format) ||
	    v->itemsize * 8 != e->bits || (uintptr_t)v->buf % (uintptr_t)v->itemsize != 0)
		return false;
	for (int i = 0; i < p->t.rank; i++)
		if (v->shape[i] != p->t.dim[i])
			return false;
	return true;
}

/* Memory without a byte in it may have no address; NULL is an exception here. */
static void *
start_of(const Py_buffer *v)
{
	static char none;

	return v->buf ? v->buf : &none;
}

static bool
is_dense(const struct dl_tensor *t)
{
	int64_t step = 1;

	if (!t->strides)
		return true;
	for (int i = t->ndim - 1; i >= 0; i--) {
		if (t->shape[i] != 1 && t->strides[i] != step)
			return false;
		step *= t->shape[i];
	}
	return true;
}

static bool
is_reachable(const struct plan_object *p, const struct dl_tensor *t)
{
	return t->device.type == DL_CPU || t->device.type == DL_CUDA_HOST ||
	    (t->device.type == DL_CUDA && p->is_on_gpu);
}

static bool
fits_dlpack(const struct port *p, const struct dl_tensor *t)
{
	const struct element *e = element_of(p->t.type);

	if (t->ndim != p->t.rank || t->type.code != e->code || t->type.bits != e->bits || t->type.lanes != 1)
		return false;
	for (int i = 0; i < p->t.rank; i++)
		if (t->shape[i] != p->t.dim[i])
			return false;
	return is_dense(t);
}

/* What was queued to write a GPU's array must have finished: the plan runs on streams of its own. */
static bool
is_settled(const struct plan_object *p, const struct dl_tensor *t, PyObject *array)
{
	PyObject *none = t->device.type == DL_CUDA ? PyObject_CallFunctionObjArgs(p->settle, array, NULL)
						   : Py_NewRef(Py_None);

	Py_XDECREF(none);
	return none != NULL;
}

/* The array's memory by DLPack; NULL with or without an exception: not as it is wanted. */
static void *
dlpack_memory(const struct plan_object *p, const struct port *port, PyObject *array, struct held *h)
{
	PyObject *capsule = PyObject_CallMethod(array, "__dlpack__", NULL);
	struct dl_managed *m = capsule ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;

	if (!m || !is_reachable(p, &m->tensor) || !fits_dlpack(port, &m->tensor) ||
	    !is_settled(p, &m->tensor, array)) {
		Py_XDECREF(capsule); /* its destructor frees what nobody has taken */
		return NULL;
	}
	h->kept[h->n_kept++] = capsule;
	return (char *)m->tensor.data + m->tensor.byte_offset;
}

/* The array as its port wants it, or an exception that names the port. */
static void *
fitted_memory(
    const struct plan_object *p, const struct port *port, PyObject *array, bool is_out, struct held *h)
{
	PyObject *fit =
	    PyObject_CallFunction(p->fit, "OOOi", port->name, port->empty_args, array, (int)is_out);
	Py_buffer *v = &h->view[h->n_view];

	if (!fit)
		return NULL;
	h->kept[h->n_kept++] = fit;
	if (PyObject_GetBuffer(fit, v, PyBUF_ND | PyBUF_FORMAT | (is_out ? PyBUF_WRITABLE : 0)) != 0)
		return NULL;
	h->n_view++;
	if (fits_view(port, v))
		return start_of(v);
	raise_usage(
	    p, PyUnicode_FromFormat("'%U' cannot be read as an array of the plan's type", port->name));
	return NULL;
}

void *
memory_of(const struct plan_object *p, const struct port *port, PyObject *array, bool is_out, struct held *h)
{
	Py_buffer *v = &h->view[h->n_view];
	void *at;

	if (PyObject_CheckBuffer(array)) {
		if (PyObject_GetBuffer(array, v, PyBUF_ND | PyBUF_FORMAT | (is_out ? PyBUF_WRITABLE : 0)) ==
		    0) {
			h->n_view++;
			if (fits_view(port, v))
				return start_of(v);
		}
	} else if (PyObject_HasAttrString(array, "__dlpack__") &&
	    (at = dlpack_memory(p, port, array, h)) != NULL)
		return at;
	PyErr_Clear(); /* fit says it, with the port's name */
	return fitted_memory(p, port, array, is_out, h);
}

void
release(struct held *h)
{
	for (size_t i = 0; i < h->n_view; i++)
		PyBuffer_Release(&h->view[i]);
	for (size_t i = 0; i < h->n_kept; i++)
		Py_DECREF(h->kept[i]);
}
