/* client/python/native.c: the module korch._native, a plan as a Python object over korch.h.
 *
 * Written for the limited API of CPython 3.11, so that one binary serves 3.11 and later.  The interpreter's
 * lock is released while a plan runs. */
#include "native.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_uint lives;

static void
in_child(void)
{
	atomic_fetch_add(&lives, 1);
}

/* ---- errors ---- */
void
raise_error(const struct plan_object *p, const struct korch_error *e)
{
	PyObject *x = PyObject_CallFunction(p->make_error, "is", (int)e->status, e->text);

	if (x) {
		PyErr_SetObject((PyObject *)Py_TYPE(x), x);
		Py_DECREF(x);
	}
}

void
raise_usage(const struct plan_object *p, PyObject *text)
{
	PyObject *x = text ? PyObject_CallFunction(p->make_error, "iO", (int)KORCH_USAGE, text) : NULL;

	Py_XDECREF(text);
	if (x) {
		PyErr_SetObject((PyObject *)Py_TYPE(x), x);
		Py_DECREF(x);
	}
}

/* ---- a run ---- */
static bool
is_usable(const struct plan_object *p)
{
	if (p->plan && p->life == atomic_load_explicit(&lives, memory_order_relaxed))
		return true;
	raise_usage(p,
	    PyUnicode_FromString(p->plan ? "this plan was opened before the process was forked, and its "
					   "threads stayed behind; open it again in the child"
					 : "this plan is closed"));
	return false;
}

/* Raises for the first name in `given` that none of the n ports has. */
static void
say_unknown(
    const struct plan_object *p, const struct port *ports, size_t n, const char *what, PyObject *given)
{
	Py_ssize_t at = 0;
	PyObject *name, *array;

	while (PyDict_Next(given, &at, &name, &array)) {
		size_t i = 0;

		while (i < n && PyObject_RichCompareBool(ports[i].name, name, Py_EQ) != 1)
			i++;
		if (i == n) {
			raise_usage(p,
			    PyUnicode_FromFormat(
				"no %s is called %R; get_%ss() tells their names", what, name, what));
			return;
		}
	}
}

static bool
take_inputs(const struct plan_object *p, PyObject *feed, struct korch_input *in, struct held *h)
{
	for (size_t i = 0; i < p->n_in; i++) {
		const struct port *port = &p->ports[i];
		PyObject *array = PyDict_GetItemWithError(feed, port->name);

		if (!array) {
			if (!PyErr_Occurred())
				raise_usage(p, PyUnicode_FromFormat("input '%U' is missing", port->name));
			return false;
		}
		in[i] = (struct korch_input){memory_of(p, port, array, false, h), port->t.n_bytes};
		if (!in[i].data)
			return false;
	}
	if ((size_t)PyDict_Size(feed) == p->n_in)
		return true;
	say_unknown(p, p->ports, p->n_in, "input", feed);
	return false;
}

/* The caller's array of an output, or a new one. */
static PyObject *
output_array(const struct plan_object *p, const struct port *port, PyObject *out, bool *is_given)
{
	PyObject *array = out ? PyDict_GetItemWithError(out, port->name) : NULL;

	*is_given = array != NULL;
	if (array)
		return Py_NewRef(array);
	return PyErr_Occurred() ? NULL : PyObject_CallObject(p->empty, port->empty_args);
}

static bool
take_outputs(
    const struct plan_object *p, PyObject *out, PyObject *arrays, struct korch_output *to, struct held *h)
{
	const struct port *ports = p->ports + p->n_in;
	size_t n_given = 0;

	for (size_t i = 0; i < p->n_out; i++) {
		bool is_given;
		PyObject *array = output_array(p, &ports[i], out, &is_given);

		if (!array || PyList_SetItem(arrays, (Py_ssize_t)i, array) != 0) /* the list's now */
			return false;
		to[i] = (struct korch_output){memory_of(p, &ports[i], array, true, h), ports[i].t.n_bytes};
		if (!to[i].data)
			return false;
		n_given += is_given;
	}
	if (!out || (size_t)PyDict_Size(out) == n_given)
		return true;
	say_unknown(p, ports, p->n_out, "output", out);
	return false;
}

static bool
run_plan(const struct plan_object *p, PyObject *feed, PyObject *out, PyObject *arrays, struct korch_input *in,
    struct korch_output *to, struct held *h)
{
	struct korch_error e;
	korch_status status;

	if (!take_inputs(p, feed, in, h) || !take_outputs(p, out, arrays, to, h))
		return false;
	Py_BEGIN_ALLOW_THREADS
	status = korch_plan_run(p->plan, in, p->n_in, to, p->n_out, &e);
	Py_END_ALLOW_THREADS
	if (status != KORCH_OK)
		raise_error(p, &e);
	return status == KORCH_OK;
}

enum { FEW = 16 };

/* run(feed, out=None): all outputs, in the plan's order. */
static PyObject *
plan_run(PyObject *self, PyObject *args)
{
	const struct plan_object *p = (const struct plan_object *)self;
	size_t n = p->n_in + p->n_out;
	struct {
		struct korch_input in[FEW];
		struct korch_output to[FEW];
		Py_buffer view[2 * FEW];
		PyObject *kept[2 * FEW];
	} few;
	struct held h = {few.view, 0, few.kept, 0};
	struct korch_input *in = few.in;
	struct korch_output *to = few.to;
	PyObject *feed, *out = Py_None, *arrays;
	bool ok = false, is_few = p->n_in <= FEW && p->n_out <= FEW;

	if (!PyArg_ParseTuple(args, "O!|O", &PyDict_Type, &feed, &out) || !is_usable(p))
		return NULL;
	if (out != Py_None && !PyDict_Check(out)) {
		raise_usage(p, PyUnicode_FromString("out: a dict {name: array} of outputs is wanted"));
		return NULL;
	}
	arrays = PyList_New((Py_ssize_t)p->n_out);
	if (!arrays)
		return NULL;
	if (!is_few) {
		in = calloc(p->n_in + 1, sizeof(*in));
		to = calloc(p->n_out + 1, sizeof(*to));
		h.view = calloc(n, sizeof(*h.view));
		h.kept = calloc(n, sizeof(*h.kept));
	}
	if (in && to && h.view && h.kept)
		ok = run_plan(p, feed, out == Py_None ? NULL : out, arrays, in, to, &h);
	else
		(void)PyErr_NoMemory();
	release(&h);
	if (!is_few) {
		free(in);
		free(to);
		free(h.view);
		free(h.kept);
	}
	if (!ok)
		Py_CLEAR(arrays);
	return arrays;
}

/* ---- opening and closing ---- */
static PyObject *
shape_of(const struct korch_tensor *t)
{
	PyObject *shape = PyTuple_New(t->rank);

	for (int i = 0; shape && i < t->rank; i++)
		if (PyTuple_SetItem(shape, i, PyLong_FromLongLong(t->dim[i])) != 0)
			Py_CLEAR(shape);
	return shape;
}

static bool
prepare_port(const struct plan_object *p, struct port *port, PyObject *numpy, bool is_out, size_t i)
{
	struct korch_error e;
	const char *numpy_type;
	PyObject *shape, *type;

	if ((is_out ? korch_plan_output : korch_plan_input)(p->plan, i, &port->t, &e) != KORCH_OK) {
		raise_error(p, &e);
		return false;
	}
	numpy_type = numpy_name(port->t.type);
	if (!numpy_type) {
		PyErr_Format(PyExc_RuntimeError, "'%s' has element type %d, which this module does not know",
		    port->t.name, (int)port->t.type);
		return false;
	}
	port->name = PyUnicode_InternFromString(port->t.name);
	shape = shape_of(&port->t);
	type = PyObject_CallMethod(numpy, "dtype", "s", numpy_type);
	if (port->name && shape && type)
		port->empty_args = PyTuple_Pack(2, shape, type);
	Py_XDECREF(shape);
	Py_XDECREF(type);
	return port->empty_args != NULL;
}

static PyObject *
attribute_of(const char *module, const char *name)
{
	PyObject *m = PyImport_ImportModule(module), *x = m ? PyObject_GetAttrString(m, name) : NULL;

	Py_XDECREF(m);
	return x;
}

static bool
prepare(struct plan_object *p)
{
	PyObject *numpy = PyImport_ImportModule("numpy");
	bool ok = false;

	p->is_on_gpu = korch_plan_on_gpu(p->plan);
	p->n_in = korch_plan_n_inputs(p->plan);
	p->n_out = korch_plan_n_outputs(p->plan);
	p->ports = calloc(p->n_in + p->n_out + 1, sizeof(*p->ports));
	if (!p->ports)
		(void)PyErr_NoMemory();
	else if (numpy && (p->empty = PyObject_GetAttrString(numpy, "empty")) != NULL) {
		ok = true;
		for (size_t i = 0; i < p->n_in + p->n_out && ok; i++) {
			bool is_out = i >= p->n_in;

			ok = prepare_port(p, &p->ports[i], numpy, is_out, is_out ? i - p->n_in : i);
		}
	}
	Py_XDECREF(numpy);
	return ok;
}

/* PyUnicode_FSConverter, with None for no path. */
static int
path_or_none(PyObject *from, void *to)
{
	return from == Py_None ? 1 : PyUnicode_FSConverter(from, to);
}

static PyObject *
plan_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
	static char *words[] = {"path", "threads", "pin", "streams", "gpu", "trust", NULL};
	struct korch_options o = {0};
	struct korch_error e;
	struct plan_object *p;
	const char *path;
	PyObject *path_bytes, *trust_bytes = NULL;
	int gpu = -1, pin = 0;
	korch_status status;

	if (!PyArg_ParseTupleAndKeywords(args, names, "O&|IpIiO&", words, PyUnicode_FSConverter, &path_bytes,
		&o.n_threads, &pin, &o.n_streams, &gpu, path_or_none, &trust_bytes))
		return NULL;
	o.trust = trust_bytes ? PyBytes_AsString(trust_bytes) : NULL;
	o.pin = pin;
	o.gpu = gpu < 0 ? 0 : (unsigned)gpu + 1;
	p = (struct plan_object *)__extension__((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
	if (p) {
		p->fit = attribute_of("korch._arrays", "fit");
		p->settle = attribute_of("korch._arrays", "settle");
		p->make_error = attribute_of("korch._errors", "make");
	}
	if (!p || !p->fit || !p->settle || !p->make_error) {
		Py_XDECREF((PyObject *)p);
		Py_DECREF(path_bytes);
		Py_XDECREF(trust_bytes);
		return NULL;
	}
	path = PyBytes_AsString(path_bytes);
	p->life = atomic_load(&lives);
	Py_BEGIN_ALLOW_THREADS
	status = korch_plan_open(path, &o, &p->plan, &e);
	Py_END_ALLOW_THREADS
	Py_DECREF(path_bytes);
	Py_XDECREF(trust_bytes);
	if (status != KORCH_OK)
		raise_error(p, &e);
	if (status != KORCH_OK || !prepare(p)) {
		Py_DECREF(p);
		return NULL;
	}
	return (PyObject *)p;
}

/* In a forked child there is nobody to join: what it inherited is left alone. */
static void
close_plan(struct plan_object *p)
{
	korch_plan *plan = p->plan;

	p->plan = NULL;
	if (!plan || p->life != atomic_load(&lives))
		return;
	Py_BEGIN_ALLOW_THREADS
	korch_plan_close(plan);
	Py_END_ALLOW_THREADS
}

static void
plan_dealloc(PyObject *self)
{
	struct plan_object *p = (struct plan_object *)self;
	PyTypeObject *type = Py_TYPE(self);

	close_plan(p);
	for (size_t i = 0; p->ports && i < p->n_in + p->n_out; i++) {
		Py_XDECREF(p->ports[i].name);
		Py_XDECREF(p->ports[i].empty_args);
	}
	free(p->ports);
	Py_XDECREF(p->empty);
	Py_XDECREF(p->fit);
	Py_XDECREF(p->settle);
	Py_XDECREF(p->make_error);
	__extension__((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF(type);
}

/* ---- what it is ---- */
/* [(name, "f32", shape)] of inputs or outputs. */
static PyObject *
describe(const struct plan_object *p, size_t from, size_t n)
{
	PyObject *list = PyList_New((Py_ssize_t)n);

	for (size_t i = 0; list && i < n; i++) {
		const struct port *port = &p->ports[from + i];
		PyObject *x = Py_BuildValue(
		    "OsO", port->name, korch_type_name(port->t.type), PyTuple_GetItem(port->empty_args, 0));

		if (!x || PyList_SetItem(list, (Py_ssize_t)i, x) != 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *
plan_inputs(PyObject *self, void *unused)
{
	const struct plan_object *p = (const struct plan_object *)self;

	(void)unused;
	return describe(p, 0, p->n_in);
}

static PyObject *
plan_outputs(PyObject *self, void *unused)
{
	const struct plan_object *p = (const struct plan_object *)self;

	(void)unused;
	return describe(p, p->n_in, p->n_out);
}

static PyObject *
plan_on_gpu(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((const struct plan_object *)self)->is_on_gpu);
}

static PyMethodDef plan_methods[] = {
    {"run", plan_run, METH_VARARGS,
	"run(feed, out=None) -> list of all outputs.\n\nfeed: {name: array}; out: {name: array} of those "
	"that are written in place."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef plan_fields[] = {
    {"inputs", plan_inputs, NULL, "[(name, type, shape)]", NULL},
    {"outputs", plan_outputs, NULL, "[(name, type, shape)]", NULL},
    {"on_gpu", plan_on_gpu, NULL, "Does it run on a GPU?", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot plan_slots[] = {
    {Py_tp_doc, "An open plan: Plan(path, threads=0, pin=False, streams=0, gpu=-1, trust=...)."},
    {Py_tp_new, __extension__(void *) plan_new},
    {Py_tp_dealloc, __extension__(void *) plan_dealloc},
    {Py_tp_methods, plan_methods},
    {Py_tp_getset, plan_fields},
    {0, NULL},
};
static PyType_Spec plan_spec = {
    .name = "korch._native.Plan",
    .basicsize = sizeof(struct plan_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = plan_slots,
};
static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "korch._native",
    .m_doc = "Plans of Korch, over libkorch.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__native(void); /* Python's headers declare it nowhere */

PyMODINIT_FUNC
PyInit__native(void)
{
	PyObject *m = PyModule_Create(&module), *type = PyType_FromSpec(&plan_spec);

	if (!m || !type || PyModule_AddObjectRef(m, "Plan", type) != 0 ||
	    PyModule_AddStringConstant(m, "version", korch_version()) != 0 ||
	    pthread_atfork(NULL, NULL, in_child) != 0) {
		Py_XDECREF(type);
		Py_XDECREF(m);
		return NULL;
	}
	Py_DECREF(type);
	return m;
}
