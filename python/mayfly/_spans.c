/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast half of _events.py: a region that is entered and left without ctypes. Without this module the
 * package does the same, ten times slower. Within CPython's limited API, so one build is for all
 * versions from 3.10 on.
 */
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include <mayfly/mayfly.h>

/* The agent's, once connect() has been told: an agent that was attached is seen by no linker. */
static const struct mayfly_agent_calls *agent;

struct span {
	PyObject_HEAD struct mayfly_event_type type;
	uint32_t number;
	PyObject *name; /* that type.name lies in */
};

static const struct mayfly_agent_calls *awake(void)
{
	const struct mayfly_agent_calls *calls = agent;

	if (!calls ||
	    !__atomic_load_n(__atomic_load_n(calls->awake, __ATOMIC_RELAXED), __ATOMIC_RELAXED))
		return NULL;
	return calls;
}

static PyObject *span_enter(PyObject *self, PyObject *unused)
{
	const struct mayfly_agent_calls *calls = awake();

	(void)unused;
	if (calls)
		calls->span_begin(&((struct span *)self)->type, 0, 0, 0, 0);
	Py_INCREF(self);
	return self;
}

static PyObject *span_exit(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
	const struct mayfly_agent_calls *calls = awake();

	(void)arguments;
	(void)count;
	if (calls)
		calls->span_end(&((struct span *)self)->type);
	Py_RETURN_NONE;
}

static PyObject *span_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *name;
	struct span *span;

	(void)keywords;
	if (!PyArg_ParseTuple(arguments, "U", &name))
		return NULL;
	span = (struct span *)allocate(type, 0);
	if (!span)
		return NULL;
	Py_INCREF(name);
	span->name = name;
	span->type.number = &span->number;
	span->type.unit = "";
	span->type.name = PyUnicode_AsUTF8AndSize(name, NULL);
	if (!span->type.name) {
		Py_DECREF(span);
		return NULL;
	}
	return (PyObject *)span;
}

static void span_free(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	Py_XDECREF(((struct span *)self)->name);
	release(self);
	Py_DECREF(type);
}

static PyMethodDef span_methods[] = {
    {"__enter__", span_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))span_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot span_slots[] = {
    {Py_tp_new, span_new},
    {Py_tp_dealloc, span_free},
    {Py_tp_methods, span_methods},
    {0, NULL},
};

static PyType_Spec span_spec = {
    .name = "mayfly._spans.Span",
    .basicsize = sizeof(struct span),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = span_slots,
};

/* connect(address): of the agent's table, which stays as long as the process. */
static PyObject *spans_connect(PyObject *module, PyObject *address)
{
	void *table = PyLong_AsVoidPtr(address);

	(void)module;
	if (PyErr_Occurred())
		return NULL;
	agent = table;
	Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"connect", spans_connect, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "mayfly._spans", .m_size = -1,
				    .m_methods = functions};

PyMODINIT_FUNC PyInit__spans(void)
{
	PyObject *made = PyModule_Create(&module);
	PyObject *type = PyType_FromSpec(&span_spec);

	if (!made || !type || PyModule_AddObjectRef(made, "Span", type)) {
		Py_XDECREF(made);
		made = NULL;
	}
	Py_XDECREF(type);
	return made;
}
