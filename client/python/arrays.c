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

/* ---- by the buffer protocol ---- */
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
start_of(void *data)
{
	static char none;

	return data ? data : &none;
}

/* ---- by DLPack ---- */
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
	return true;
}

static char *
address(const struct dl_tensor *t)
{
	return t->data ? (char *)t->data + t->byte_offset : NULL;
}

/* Row-major without gaps, and aligned. */
static bool
is_dense(const struct dl_tensor *t)
{
	int64_t step = 1;

	if ((uintptr_t)address(t) % (t->type.bits / 8u) != 0)
		return false;
	for (int i = t->ndim - 1; t->strides && i >= 0; i--) {
		if (t->shape[i] != 1 && t->strides[i] != step)
			return false;
		step *= t->shape[i];
	}
	return true;
}

/* Copies the elements from `axis` on, row-major; where the next one goes. */
static char *
copy_axis(char *to, const char *from, const struct dl_tensor *t, int axis)
{
	size_t size = t->type.bits / 8u;

	if (axis == t->ndim) {
		memcpy(to, from, size);
		return to + size;
	}
	for (int64_t i = 0; i < t->shape[axis]; i++)
		to = copy_axis(to, from + i * t->strides[axis] * (int64_t)size, t, axis + 1);
	return to;
}

static void *
dense_copy(const struct port *p, const struct dl_tensor *t, struct held *h)
{
	PyObject *copy = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)p->t.n_bytes);

	if (!copy)
		return NULL;
	h->kept[h->n_kept++] = copy;
	if (t->strides)
		(void)copy_axis(PyBytes_AsString(copy), address(t), t, 0);
	else if (p->t.n_bytes)
		memcpy(PyBytes_AsString(copy), address(t), p->t.n_bytes);
	return PyBytes_AsString(copy);
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

static void *
capsule_memory(const struct plan_object *p, const struct port *port, PyObject *array, PyObject *capsule,
    bool is_out, struct held *h)
{
	const struct dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");

	if (!m || !is_reachable(p, &m->tensor) || !fits_dlpack(port, &m->tensor))
		return NULL;
	if (!is_dense(&m->tensor))
		return is_out || m->tensor.device.type == DL_CUDA ? NULL : dense_copy(port, &m->tensor, h);
	if (!is_settled(p, &m->tensor, array))
		return NULL;
	h->kept[h->n_kept++] = Py_NewRef(capsule);
	return start_of(address(&m->tensor));
}

/* The array's memory, of an input in any layout as a dense copy; NULL with or without an exception: not as it
 * is wanted. */
static void *
dlpack_memory(
    const struct plan_object *p, const struct port *port, PyObject *array, bool is_out, struct held *h)
{
	PyObject *capsule = PyObject_CallMethod(array, "__dlpack__", NULL);
	void *at = capsule ? capsule_memory(p, port, array, capsule, is_out, h) : NULL;

	Py_XDECREF(capsule); /* its destructor frees what nobody has taken */
	return at;
}

/* ---- any array ---- */
static int
view_flags(bool is_out)
{
	return PyBUF_ND | PyBUF_FORMAT | (is_out ? PyBUF_WRITABLE : 0);
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
	if (PyObject_GetBuffer(fit, v, view_flags(is_out)) != 0)
		return NULL;
	h->n_view++;
	if (fits_view(port, v))
		return start_of(v->buf);
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
		if (PyObject_GetBuffer(array, v, view_flags(is_out)) == 0) {
			if (fits_view(port, v)) {
				h->n_view++;
				return start_of(v->buf);
			}
			PyBuffer_Release(v);
		}
	} else if (PyObject_HasAttrString(array, "__dlpack__") &&
	    (at = dlpack_memory(p, port, array, is_out, h)) != NULL)
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
