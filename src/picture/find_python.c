/* SPDX-License-Identifier: Apache-2.0 */
/* Which Python interpreter is in a process: see find_python.h. */
#include "picture/find_python.h"

#include <string.h>

/* _PyRuntime begins with this in 3.13 (_Py_DebugOffsets in Include/internal/pycore_runtime.h); a version, and whether
 * it is free-threaded, follow. */
#define COOKIE		   0x7970677562656478u /* "xdebugpy" */
#define FREE_THREADED	   16u
#define WITH_OFFSETS_SINCE 313u

/* 0: no such variable. */
static uint64_t address_of(const struct loaded_module *m, const char *name)
{
	for (size_t i = 0; i < m->symbols.thread_local_from; i++)
		if (!strcmp(m->symbols.symbol[i].name, name))
			return m->bias + m->symbols.symbol[i].start;
	return 0;
}

/* 3.11.2 is 0x030b02f0. */
static unsigned int version_of(const struct loaded_modules *all, const struct loaded_module *m,
			       struct memory_source *s)
{
	uint64_t at = address_of(m, "Py_Version");
	uint32_t version = 0;

	if (!at || !loaded_modules_read(all, s, at, &version, sizeof(version)))
		return 0;
	return (version >> 24) * 100 + (version >> 16 & 0xff);
}

static bool is_free_threaded(const struct loaded_module *m, struct memory_source *s)
{
	uint64_t at = address_of(m, "_PyRuntime");

	return at && memory_source_word(s, at) == COOKIE &&
	       memory_source_word(s, at + FREE_THREADED);
}

static void note_addresses(struct python_interpreter *p, const struct loaded_module *m)
{
	p->type_type = address_of(m, "PyType_Type");
	p->module_type = address_of(m, "PyModule_Type");
	p->weakref_type = address_of(m, "_PyWeakref_RefType");
	p->set_type = address_of(m, "PySet_Type");
	p->frozenset_type = address_of(m, "PyFrozenSet_Type");
	p->code_type = address_of(m, "PyCode_Type");
	p->runtime = address_of(m, "_PyRuntime");
}

enum python_state find_python(struct python_interpreter *p, const struct loaded_modules *m,
			      struct memory_source *s)
{
	*p = (struct python_interpreter){0};
	for (size_t i = 0; i < m->count; i++) {
		const struct loaded_module *module = &m->module[i];

		if (!address_of(module, "PyType_Type"))
			continue;
		p->version = version_of(m, module, s);
		if (p->version < PYTHON_OLDEST || p->version > PYTHON_NEWEST)
			return PYTHON_UNKNOWN;
		if (p->version >= WITH_OFFSETS_SINCE && is_free_threaded(module, s))
			return PYTHON_UNKNOWN;
		note_addresses(p, module);
		return PYTHON_KNOWN;
	}
	return PYTHON_NONE;
}
