/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own functions: see own_code.h. */
#include "answer/own_code.h"

#include <string.h>

#include "answer/known_names.h"
#include "answer/language.h"
#include "answer/plain_name.h"
#include "answer/trace_names.h"
#include "format/format.h"

/* "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0": one of the system's, that an extension calls. Not those in
 * a folder of their own, which may be a program that has Python in it. */
static bool is_system_library(const char *path)
{
	const char *base = path_base(path);

	if (strncmp(path, "/usr/", 5) == 0)
		path += 4;
	if (strncmp(path, "/lib/", 5) != 0 && strncmp(path, "/lib64/", 7) != 0)
		return false;
	path = strchr(path + 1, '/') + 1;
	return path == base || (strchr(path, '/') + 1 == base &&
				memmem(path, (size_t)(base - path), "-linux-", strlen("-linux-")));
}

static enum code_kind interpreted_kind(const struct language *l, const char *file)
{
	if (!l->has(file))
		return CODE_OTHER;
	return l->is_package(file) || begins_with(file, l->inside) ? CODE_LIBRARY : CODE_OWN;
}

/* By the name and the file, which tell the language. */
static enum code_kind named_kind(const char *function, const char *file)
{
	char plain[512];
	const struct code_name n = {function, file, name_plain(plain, sizeof(plain), function)};
	enum code_kind kind = CODE_OTHER;

	for (const struct language *l = languages; l->name && kind == CODE_OTHER; l++)
		if (l->kind || l->has)
			kind = l->kind ? l->kind(&n) : interpreted_kind(l, file);
	return kind == CODE_OTHER ? CODE_OWN : kind;
}

/* Code compiled at run time is what the program's author wrote, whatever its name: a function of
 * JavaScript may be called malloc. But runtimes compile their own libraries, too. */
static enum code_kind generated_kind(const char *function, const char *file)
{
	for (const struct language *l = languages; l->name; l++)
		if (l->generated_runtime && begins_with(function, l->generated_runtime))
			return CODE_RUNTIME;
	for (const struct language *l = languages; l->name; l++)
		if (l->generated_library &&
		    begins_with(*file ? file : function, l->generated_library))
			return CODE_LIBRARY;
	return CODE_OWN;
}

static void note_language(struct own_code *own, const struct mayfly_location *at)
{
	for (const struct language *l = languages; l->name; l++) {
		if (l->starts_main && begins_with(at->function, l->starts_main))
			own->starts_main = true;
		if (!own->interpreted && l->has && l->has(at->file))
			own->interpreted = l;
		if (!own->separate && l->is_dependency && has_suffix(at->file, l->sources) &&
		    !l->is_dependency(at->file) && named_kind(at->function, at->file) == CODE_OWN)
			own->separate = l;
	}
}

static void note_languages(struct own_code *own, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (size_t i = 0; i < info->frames; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, i);

		for (size_t k = 0; k < frame->locations; k++)
			note_language(own, &frame->location[k]);
	}
}

/* C code of a program whose interpreted frames are known: the interpreter's own, or an extension. */
static enum code_kind interpreter_kind(const struct language *l, const char *file,
				       const char *module)
{
	const char *name = path_base(module);

	if (l->has(file))
		return CODE_OWN;
	if (strncmp(name, l->library, strlen(l->library)) == 0 ||
	    (strncmp(name, l->program, strlen(l->program)) == 0 && !strstr(name, ".so")))
		return CODE_RUNTIME;
	return l->is_package(module) || l->is_package(file) || is_system_library(module)
		   ? CODE_LIBRARY
		   : CODE_OWN;
}

static enum code_kind module_kind(const char *module)
{
	const char *name = path_base(module);

	for (const struct language *l = languages; l->name; l++)
		if (l->runtime_modules && begins_with(name, l->runtime_modules))
			return CODE_RUNTIME;
	if (!begins_with(name, library_modules))
		return CODE_OWN;
	return begins_with(name, runtime_modules) ? CODE_RUNTIME : CODE_LIBRARY;
}

enum code_kind code_kind(struct own_code *own, const struct mayfly_trace *trace,
			 const char *function, const char *file, const char *module)
{
	const struct own_rule *rule = own_rules_find(&own->rules, function, file, module);
	enum code_kind kind;

	if (*function == '[')
		return CODE_NONE;
	if (rule)
		return rule->mine ? CODE_OWN : CODE_LIBRARY;
	if (strcmp(module, TRACE_JIT_MODULE) == 0)
		return generated_kind(function, file);
	if (trace != own->trace) {
		own->trace = trace;
		own->starts_main = false;
		own->interpreted = own->separate = NULL;
		if (trace)
			note_languages(own, trace);
	}
	if (own->starts_main && !*file && strcmp(function, "main") == 0)
		return CODE_ENTRY;
	kind = named_kind(function, file);
	if (kind == CODE_OWN && own->separate && own->separate->is_dependency(file))
		return CODE_LIBRARY;
	if (kind == CODE_OWN && own->interpreted)
		kind = interpreter_kind(own->interpreted, file, module);
	return kind == CODE_OWN ? module_kind(module) : kind;
}

static unsigned folds(void *context, const struct mayfly_trace *trace, const char *function,
		      const char *file, const char *module)
{
	struct own_code *own = context;

	switch (code_kind(own, trace, function, file, module)) {
	case CODE_OWN:
	case CODE_NONE:
	case CODE_OTHER:
		return 0;
	case CODE_ENTRY: /* says nothing about what allocates: kept only when there is no other */
		return 1;
	case CODE_LIBRARY:
	case CODE_RUNTIME:
		own->folded = true;
		break;
	}
	return 2;
}

struct mayfly_fold own_code_fold(struct own_code *own)
{
	return (struct mayfly_fold){folds, own};
}

bool is_entry(const char *function, const char *file)
{
	for (const struct language *l = languages; l->name; l++)
		if (l->is_entry && l->is_entry(function, file))
			return true;
	return false;
}
