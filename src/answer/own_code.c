/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own functions: see own_code.h. */
#include "answer/own_code.h"

#include <stdlib.h>
#include <string.h>

#include "answer/known_names.h"
#include "answer/language.h"
#include "answer/plain_name.h"
#include "answer/trace_names.h"
#include "base/hash.h"
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

/* The place of a function in own_code.from_own. */
static uint64_t *called_bit(struct own_code *own, const char *function, const char *file,
			    uint64_t *bit)
{
	uint64_t hash = hash_string(function) * 31 + hash_string(file);

	*bit = 1ull << (hash & 63);
	return &own->from_own[(hash >> 6) % OWN_CALLED_WORDS];
}

static bool is_called_by_own(struct own_code *own, const char *function, const char *file)
{
	uint64_t bit, *word = called_bit(own, function, file, &bit);

	return *word & bit;
}

static enum code_kind interpreted_kind(struct own_code *own, const struct language *l,
				       const char *function, const char *file)
{
	enum code_kind kind;

	if (!l->has(file))
		return CODE_OTHER;
	if (begins_with(file, l->inside))
		return CODE_LIBRARY;
	if (l->is_package(file))
		return l->is_run && l->is_run(&own->run, file) ? CODE_OWN : CODE_LIBRARY;
	kind = l->no_file ? l->no_file(&own->run, function, file) : CODE_OWN;
	if (kind != CODE_OTHER)
		return kind;
	return is_called_by_own(own, function, file) ? CODE_OWN : CODE_LIBRARY;
}

/* By the name and the file, which tell the language. */
static enum code_kind named_kind(struct own_code *own, const char *function, const char *file)
{
	char plain[512];
	const struct code_name n = {function, file, name_plain(plain, sizeof(plain), function)};
	enum code_kind kind = CODE_OTHER;

	for (const struct language *l = languages; l->name && kind == CODE_OTHER; l++)
		if (l->kind || l->has)
			kind = l->kind ? l->kind(&n) : interpreted_kind(own, l, function, file);
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
		    !l->is_dependency(at->file) &&
		    named_kind(own, at->function, at->file) == CODE_OWN)
			own->separate = l;
	}
}

static void note_interpreter(struct own_code *own, const struct mayfly_trace *trace,
			     const struct mayfly_frame *frame)
{
	const struct mayfly_module *module = mayfly_trace_module(trace, frame->module);

	for (size_t k = 0; module && !*own->interpreter && k < frame->locations; k++)
		for (const struct language *l = languages; l->name; l++)
			if (l->evaluators && is_part_of(frame->location[k].function, l->evaluators))
				own->interpreter = module->path;
}

/* Whose the interpreted frame is that calls one, or CODE_NONE: nothing interpreted does. */
enum { FRAME_OF_OTHERS = CODE_OTHER, FRAME_OF_CALLERS };

static uint8_t interpreted_frame(struct own_code *own, const struct language *l,
				 const struct mayfly_trace *trace, const struct mayfly_frame *f)
{
	const struct mayfly_location *at = f->location;

	if (!f->locations || !l->has(at->file))
		return FRAME_OF_OTHERS;
	if (!l->is_package(at->file) && !begins_with(at->file, l->inside) &&
	    l->no_file(&own->run, at->function, at->file) == CODE_OTHER)
		return FRAME_OF_CALLERS;
	return (uint8_t)code_kind(own, trace, at->function, at->file, "");
}

/* Code without a file is own where own code calls it, or nothing that is interpreted. Parents come before
 * their children. */
static void find_called(struct own_code *own, const struct mayfly_trace *trace,
			const uint8_t *frame, uint8_t *caller)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	caller[0] = CODE_OWN;
	for (size_t i = 1; i < info->nodes; i++) {
		struct mayfly_node n = mayfly_trace_node(trace, i);
		uint8_t kind = n.frame < info->frames ? frame[n.frame] : FRAME_OF_OTHERS;

		caller[i] = n.parent < i ? caller[n.parent] : CODE_OWN;
		if (kind == FRAME_OF_CALLERS && caller[i] == CODE_OWN) {
			const struct mayfly_location *at =
			    mayfly_trace_frame(trace, n.frame)->location;
			uint64_t bit, *word = called_bit(own, at->function, at->file, &bit);

			*word |= bit;
		} else if (kind < FRAME_OF_OTHERS) {
			caller[i] = kind;
		}
	}
}

static void note_called(struct own_code *own, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	uint8_t *frame = calloc(info->frames + 1, 1);
	uint8_t *caller = calloc(info->nodes + 1, 1);
	bool any = false;

	for (size_t i = 0; frame && i < info->frames; i++) {
		frame[i] =
		    interpreted_frame(own, own->interpreted, trace, mayfly_trace_frame(trace, i));
		any |= frame[i] == FRAME_OF_CALLERS;
	}
	if (!frame || !caller)
		memset(own->from_own, 0xff, sizeof(own->from_own));
	else if (any)
		find_called(own, trace, frame, caller);
	free(frame);
	free(caller);
}

static void note_languages(struct own_code *own, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (size_t i = 0; i < info->frames; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, i);

		for (size_t k = 0; k < frame->locations; k++)
			note_language(own, &frame->location[k]);
		note_interpreter(own, trace, frame);
	}
	if (own->interpreted && own->interpreted->find_run)
		own->interpreted->find_run(&own->run, info);
	if (own->interpreted && own->interpreted->no_file)
		note_called(own, trace);
}

/* In the module that has the interpreter, under whatever name: what is not the program's own, which may have
 * been linked with it. */
static bool is_interpreters(const struct own_code *own, const char *file, const char *module)
{
	const char *const *folder = own->interpreted->inner_sources;

	if (!*module || strcmp(module, own->interpreter) != 0)
		return false;
	if (!*file || !folder)
		return true;
	for (; *folder; folder++)
		if (strstr(file, *folder))
			return true;
	return false;
}

/* C code of a program whose interpreted frames are known: the interpreter's own, or an extension. */
static enum code_kind interpreter_kind(const struct own_code *own, const char *file,
				       const char *module)
{
	const struct language *l = own->interpreted;
	const char *name = path_base(module);

	if (l->has(file))
		return CODE_OWN;
	if (strncmp(name, l->library, strlen(l->library)) == 0 ||
	    (strncmp(name, l->program, strlen(l->program)) == 0 && !strstr(name, ".so")) ||
	    is_interpreters(own, file, module))
		return CODE_RUNTIME;
	if (l->is_run && l->is_run(&own->run, module))
		return CODE_OWN;
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

static void note_trace(struct own_code *own, const struct mayfly_trace *trace)
{
	if (trace == own->trace)
		return;
	own->trace = trace;
	own->starts_main = false;
	own->interpreted = own->separate = NULL;
	own->interpreter = "";
	own->run = (struct run_packages){.count = 0};
	memset(own->from_own, 0, sizeof(own->from_own));
	if (trace)
		note_languages(own, trace);
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
	note_trace(own, trace);
	if (own->starts_main && !*file && strcmp(function, "main") == 0)
		return CODE_ENTRY;
	kind = named_kind(own, function, file);
	if (kind == CODE_OWN && own->separate && own->separate->is_dependency(file))
		return CODE_LIBRARY;
	if (kind == CODE_OWN && own->interpreted)
		kind = interpreter_kind(own, file, module);
	return kind == CODE_OWN ? module_kind(module) : kind;
}

/* Which frame stands for a stack without own ones: the innermost of a package that is interpreted, else the
 * outermost. So what an interpreter does at its start is a few rows. What only starts programs says nothing
 * about what allocates, libc little. */
enum fold_rank {
	FOLD_ENTRY = 1,
	FOLD_RUNTIME,
	FOLD_LIBRARY,
	FOLD_DEPENDENCY,
	FOLD_STANDARD,
	FOLD_PACKAGE = MAYFLY_FOLD_INNERMOST,
	FOLD_NATIVE, /* own code that is not interpreted */
};

static bool is_of_libc(const char *function, const char *module)
{
	return begins_with(path_base(module), library_modules) ||
	       is_one_of(function, libc_functions) || begins_with(function, libc_prefixes);
}

static enum fold_rank library_rank(const struct own_code *own, const char *function,
				   const char *file, const char *module)
{
	const struct language *l = own->interpreted;

	if (l && l->has(file))
		return *file == '<' || l->is_standard(file) ? FOLD_STANDARD : FOLD_PACKAGE;
	if (own->separate && own->separate->is_dependency(file))
		return FOLD_DEPENDENCY;
	return is_of_libc(function, module) ? FOLD_RUNTIME : FOLD_LIBRARY;
}

static unsigned folds(void *context, const struct mayfly_trace *trace, const char *function,
		      const char *file, const char *module)
{
	struct own_code *own = context;
	enum code_kind kind = code_kind(own, trace, function, file, module);

	note_trace(own, trace);
	if (own->all_interpreted && own->interpreted) {
		if (kind == CODE_NONE || own->interpreted->has(file))
			return 0;
		own->folded = true;
		if (kind == CODE_OWN)
			return FOLD_NATIVE;
	}
	switch (kind) {
	case CODE_OWN:
	case CODE_NONE:
	case CODE_OTHER:
		return 0;
	case CODE_ENTRY:
		return FOLD_ENTRY;
	case CODE_LIBRARY:
	case CODE_RUNTIME:
		own->folded = true;
		break;
	}
	return kind == CODE_RUNTIME ? FOLD_RUNTIME : library_rank(own, function, file, module);
}

struct mayfly_fold own_code_fold(struct own_code *own)
{
	return (struct mayfly_fold){folds, own};
}

const char *own_code_interpreted(struct own_code *own, const struct mayfly_trace *trace)
{
	note_trace(own, trace);
	return own->interpreted ? own->interpreted->name : NULL;
}

bool is_entry(const char *function, const char *file)
{
	for (const struct language *l = languages; l->name; l++)
		if (l->is_entry && l->is_entry(function, file))
			return true;
	return false;
}
