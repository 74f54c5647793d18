/* client/python/native.h: what the files of the module korch._native share. */
#ifndef KORCH_NATIVE_H
#define KORCH_NATIVE_H

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "korch.h"

#include <stdbool.h>

/* An input or output as calls need it: prepared when the plan is opened. */
struct port {
	struct korch_tensor t;
	PyObject *name;
	PyObject *empty_args; /* of numpy.empty: (shape, type) */
};
struct plan_object {
	PyObject ob_base;
	korch_plan *plan;
	unsigned life; /* of the process: a child that was forked has none of the threads */
	bool is_on_gpu;
	size_t n_in, n_out;
	struct port *ports; /* inputs, then outputs */
	PyObject *empty, *fit, *settle, *make_error;
};
/* What is held while a plan runs: at most one view and one object a port. */
struct held {
	Py_buffer *view; /* n_view of them are filled */
	size_t n_view;
	PyObject **kept; /* arrays made by fit, capsules, copies */
	size_t n_kept;
};

/* Raises the exception of the class that stands for e->status; the text is libkorch's sentence. */
void raise_error(const struct plan_object *p, const struct korch_error *e);
/* Raises InvalidArgument with `text`, which is taken over; NULL: an exception is there. */
void raise_usage(const struct plan_object *p, PyObject *text);

/* ---- arrays.c ---- */
/* numpy's name of an element type; NULL: none is known. */
const char *numpy_name(korch_type type);
/* The array's memory as its port wants it, held until release(); NULL: the exception names the port. */
void *memory_of(
    const struct plan_object *p, const struct port *port, PyObject *array, bool is_out, struct held *h);
void release(struct held *h);

#endif
