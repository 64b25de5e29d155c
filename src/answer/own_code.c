/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own functions: see own_code.h. */
#include "answer/own_code.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "answer/allocator_frames.h"
#include "answer/known_names.h"
#include "answer/plain_name.h"
#include "answer/trace_names.h"
#include "format/format.h"

/* All names of a large program are compared with these lists: most differ in their first byte. */
static bool begins_with(const char *text, const char *const *word)
{
	for (; *word; word++)
		if (**word == *text && strncmp(text, *word, strlen(*word)) == 0)
			return true;
	return false;
}

static bool is_one_of(const char *text, const char *const *word)
{
	for (; *word; word++)
		if (**word == *text && strcmp(text, *word) == 0)
			return true;
	return false;
}

/*
 * The name of a function of C++, which stands before its parameters and, in templates, after the
 * type of its result:
 *
 *	void std::vector<>::f()		decltype () demo::g<>()		main::{lambda()#1}& std::h<>()
 */
static const char *cxx_name(const char *plain)
{
	const char *name = plain;
	int braces = 0;

	for (const char *s = plain; *s; s++) {
		if (*s == '{' || *s == '}')
			braces += *s == '{' ? 1 : -1;
		else if (braces > 0)
			continue;
		else if (*s == ' ')
			name = s + 1;
		else if (*s == 'o' && strncmp(s, "operator", strlen("operator")) == 0)
			break;
		else if (*s == '(' && s > name && strncmp(name, "decltype", 8) != 0)
			break;
	}
	return name;
}

/*
 * The type decides whose a method of a trait is. A type without a path may be of any program; then
 * the trait decides:
 *
 *	<alloc::vec::Vec<> as core::clone::Clone>::clone	<T as alloc::string::ToString>::f
 */
static bool is_rust_library(const char *plain)
{
	const char *trait;

	if (*plain != '<')
		return begins_with(plain, rust_crates);
	plain += 1 + strspn(plain + 1, "&*[(");
	if (strncmp(plain, "mut ", 4) == 0)
		plain += 4;
	trait = strstr(plain, " as ");
	if (trait && !memmem(plain, (size_t)(trait - plain), "::", 2))
		plain = trait + strlen(" as ");
	return begins_with(plain, rust_crates);
}

/* Compilers make parts and copies of functions: "new_arena.part.0", "gc_alloc.constprop.1". */
static bool is_part_of(const char *function, const char *const *name)
{
	size_t length = strcspn(function, ".");

	for (; *name; name++)
		if (**name == *function && strlen(*name) == length &&
		    strncmp(function, *name, length) == 0)
			return true;
	return false;
}

static bool has_suffix(const char *text, const char *suffix)
{
	size_t length = strlen(text), tail = strlen(suffix);

	return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

/* Names of C, OCaml and Python, which have neither "::" nor parameters. */
static enum code_kind plain_kind(const char *function, const char *file)
{
	if (strncmp(function, "caml_", 5) == 0 || strncmp(function, "Builtins_", 9) == 0 ||
	    is_part_of(function, python_allocators) || is_part_of(function, malloc_wrappers) ||
	    (!*file && is_part_of(function, ocaml_runtime)))
		return CODE_RUNTIME;
	if (is_one_of(function, libc_functions) || begins_with(function, libc_prefixes))
		return CODE_LIBRARY;
	return CODE_OWN;
}

/* A class may have an allocator of its own: "llvm::User::operator new(unsigned long)". */
static enum code_kind cxx_kind(const char *name)
{
	if (begins_with(name, cxx_namespaces))
		return CODE_LIBRARY;
	return strstr(name, "::operator new") ? CODE_RUNTIME : CODE_OWN;
}

/* The program's own global allocator, and what the compiler makes of its #[global_allocator]. */
static bool is_rust_allocator(const char *function)
{
	const char *symbol = strstr(function, "::__rg_");

	return strstr(function, " as core::alloc::global::GlobalAlloc>::") ||
	       (symbol && strncmp(symbol, "::__rg_oom", 10) != 0);
}

/* ---- Python ---- */

/* "<frozen importlib._bootstrap>", "<string>": what has no file of its own. */
static bool is_python(const char *file)
{
	return has_suffix(file, ".py") || (*file == '<' && has_suffix(file, ">"));
}

/* ".../lib/python3.11/", ".../lib/python311.zip/" */
static bool is_in_python_library(const char *path)
{
	const char *found = strstr(path, "/lib/python3");

	if (!found)
		return false;
	found += strlen("/lib/python3");
	found += strspn(found, ".0123456789");
	return *found == '/' || strncmp(found, "zip/", 4) == 0;
}

/* True: below a folder of the interpreter's, or of installed packages. */
static bool is_installed(const char *path)
{
	return strstr(path, "/site-packages/") || strstr(path, "/dist-packages/") ||
	       is_in_python_library(path);
}

static enum code_kind python_kind(const char *file)
{
	return is_installed(file) || strncmp(file, "<frozen ", 8) == 0 ? CODE_LIBRARY : CODE_OWN;
}

/* The C code of a program whose Python frames are known: the interpreter's own, or an extension. */
static bool is_python_runtime(const char *module)
{
	const char *name = path_base(module);

	return strncmp(name, "libpython3", 10) == 0 ||
	       (strncmp(name, "python3", 7) == 0 && !strstr(name, ".so"));
}

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

static bool has_python_frame(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (size_t i = 0; i < info->frames; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, i);

		for (size_t k = 0; k < frame->locations; k++)
			if (is_python(frame->location[k].file))
				return true;
	}
	return false;
}

/* ---- all languages ---- */

/*
 * By the name, which tells the language: functions of C++ have parameters, those of Rust do not. A
 * namespace core of the program is not Rust's crate.
 */
static enum code_kind named_kind(const char *function, const char *file)
{
	char plain[512];

	if (is_python(file))
		return python_kind(file);
	if (is_part_of(function, start_functions) || begins_with(function, rust_start))
		return CODE_ENTRY;
	if (is_allocator_frame(function) || is_rust_allocator(function))
		return CODE_RUNTIME;
	if (strcmp(function, "Stdlib") == 0 || begins_with(function, ocaml_modules) ||
	    begins_with(file, rust_paths) || strstr(file, "/include/c++/"))
		return CODE_LIBRARY;
	name_plain(plain, sizeof(plain), function);
	if (*plain != '<' && strchr(plain, '('))
		return cxx_kind(cxx_name(plain));
	if (*plain == '<' || strstr(plain, "::"))
		return is_rust_library(plain) && (!*file || has_suffix(file, ".rs")) ? CODE_LIBRARY
										     : CODE_OWN;
	return plain_kind(function, file);
}

/* Code compiled at run time is what the program's author wrote, whatever its name: a function of
 * JavaScript may be called malloc. But runtimes compile their own libraries, too. */
static enum code_kind jit_kind(const char *function, const char *file)
{
	if (begins_with(function, jit_runtime))
		return CODE_RUNTIME;
	return begins_with(*file ? file : function, jit_libraries) ? CODE_LIBRARY : CODE_OWN;
}

static bool is_started(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (size_t i = 0; i < info->frames; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, i);

		for (size_t k = 0; k < frame->locations; k++)
			if (is_one_of(frame->location[k].function, starts_main) ||
			    begins_with(frame->location[k].function, rust_start))
				return true;
	}
	return false;
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
		return jit_kind(function, file);
	if (trace != own->trace) {
		own->trace = trace;
		own->starts_main = trace && is_started(trace);
		own->has_python = trace && has_python_frame(trace);
	}
	if (own->starts_main && !*file && strcmp(function, "main") == 0)
		return CODE_ENTRY;
	kind = named_kind(function, file);
	if (kind == CODE_OWN && own->has_python && !is_python(file)) {
		if (is_python_runtime(module))
			return CODE_RUNTIME;
		if (is_installed(module) || is_installed(file) || is_system_library(module))
			return CODE_LIBRARY;
	}
	if (kind != CODE_OWN || !begins_with(path_base(module), library_modules))
		return kind;
	return begins_with(path_base(module), runtime_modules) ? CODE_RUNTIME : CODE_LIBRARY;
}

static unsigned folds(void *context, const struct mayfly_trace *trace, const char *function,
		      const char *file, const char *module)
{
	struct own_code *own = context;

	switch (code_kind(own, trace, function, file, module)) {
	case CODE_OWN:
	case CODE_NONE:
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

static const char *const python_entries[] = {"_PyEval_EvalFrameDefault",
					     "_PyEval_EvalFrame",
					     "_PyEval_Vector",
					     "PyEval_EvalCode",
					     "Py_BytesMain",
					     "Py_Main",
					     "pymain_main",
					     "Py_RunMain",
					     "pymain_run_python",
					     NULL};

/* A file of Python, outside its functions. */
static bool is_python_module(const char *function, const char *file)
{
	return strcmp(function, "<module>") == 0 && is_python(file);
}

/* "Main", "Dune.exe.Main": a module's code outside its functions, which the runtime calls. */
static bool is_ocaml_module(const char *function, const char *file)
{
	bool begins = true;

	if (!has_suffix(file, ".ml"))
		return false;
	for (const char *s = function; *s; s++) {
		if (begins && !isupper((unsigned char)*s) && strncmp(s, "exe.", 4) != 0)
			return false;
		begins = *s == '.';
	}
	return true;
}

bool is_entry(const char *function, const char *file)
{
	const char *colons = strrchr(function, ':');

	return strcmp(colons ? colons + 1 : function, "main") == 0 ||
	       is_one_of(function, python_entries) || is_ocaml_module(function, file) ||
	       is_python_module(function, file);
}
