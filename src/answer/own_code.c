/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own functions: see own_code.h. */
#include "answer/own_code.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "answer/allocator_frames.h"
#include "answer/plain_name.h"
#include "answer/trace_names.h"

/* How names of files begin. */
static const char *const library_modules[] = {
    "ld-linux",	  "ld-2.",	"ld-musl",     "libc.so",     "libc-2.",     "libpthread",
    "libdl.so",	  "librt.so",	"libm.so",     "libresolv.",  "libstdc++.",  "libc++.so",
    "libc++abi.", "libgcc_s.",	"libunwind.",  "libstd-",     "libasan.",    "libtsan.",
    "liblsan.",	  "libubsan.",	"libjemalloc", "libtcmalloc", "libmimalloc", "libmayfly.",
    "libasmrun",  "libcamlrun", NULL};

/* Those among them that only allocate, or load. */
static const char *const runtime_modules[] = {
    "ld-linux",	    "ld-2.",	 "ld-musl",    "libjemalloc.so", "libtcmalloc",
    "libmimalloc.", "libasmrun", "libcamlrun", "libmayfly.",	 NULL};

static const char *const cxx_namespaces[] = {"std::", "__gnu_cxx::", "__cxxabiv1::", NULL};

static const char *const rust_crates[] = {"std::", "core::", "alloc::", "hashbrown::", NULL};

/* The compiler's path of the standard library; its sources when they are installed. */
static const char *const rust_paths[] = {"/rustc/", "/usr/src/rustc", NULL};

/* OCaml's own modules, as names of its functions begin. */
static const char *const ocaml_modules[] = {
    "Stdlib.", "Stdlib__", "CamlinternalFormat.", "CamlinternalLazy.", "CamlinternalOO.", NULL};

/* Functions of OCaml's runtime that allocate and have no prefix; they have no source file. */
static const char *const ocaml_runtime[] = {"alloc_custom_gen",
					    "alloc_generic_table",
					    "realloc_generic_table",
					    "expand_heap",
					    "init_gc",
					    "init_static",
					    "intern_alloc",
					    "intern_alloc_storage",
					    "extern_alloc",
					    "unlink_channel",
					    "alloc_shr",
					    "caml",
					    NULL};

/* What Python's objects are allocated by. */
static const char *const python_allocators[] = {"_PyMem_RawMalloc",
						"_PyMem_RawCalloc",
						"_PyMem_RawRealloc",
						"_PyMem_DebugRawAlloc",
						"_PyMem_DebugMalloc",
						"_PyMem_DebugRealloc",
						"_PyMem_DebugRawMalloc",
						"_PyMem_Strdup",
						"_PyMem_RawStrdup",
						"_PyMem_RawWcsdup",
						"_PyMem_DebugRawCalloc",
						"_PyMem_DebugCalloc",
						"PyMem_Malloc",
						"PyMem_Calloc",
						"PyMem_Realloc",
						"PyMem_RawMalloc",
						"PyMem_RawCalloc",
						"PyMem_RawRealloc",
						"PyObject_Malloc",
						"PyObject_Calloc",
						"PyObject_Realloc",
						"_PyObject_Malloc",
						"_PyObject_Calloc",
						"_PyObject_Realloc",
						"pymalloc_alloc",
						"pymalloc_realloc",
						"new_arena",
						"allocate_from_new_pool",
						"_PyObject_ArenaMmap",
						"_PyObject_ArenaMalloc",
						"arena_map_get",
						"arena_map_mark_used",
						"_PyObject_New",
						"_PyObject_NewVar",
						"_PyObject_GC_New",
						"_PyObject_GC_NewVar",
						"_PyObject_GC_Malloc",
						"_PyObject_GC_Alloc",
						"_PyObject_GC_Resize",
						"PyObject_GC_Malloc",
						"gc_alloc",
						"PyType_GenericAlloc",
						"_PyType_AllocNoTrack",
						"_PyObject_MallocWithType",
						NULL};

/* Of libc, in static programs, where they are in the program's own file. */
static const char *const libc_functions[] = {"strdup",
					     "__strdup",
					     "strndup",
					     "__strndup",
					     "wcsdup",
					     "asprintf",
					     "__asprintf",
					     "vasprintf",
					     "__vasprintf_internal",
					     "fopen",
					     "fopen64",
					     "__fopen_internal",
					     "fdopen",
					     "open_memstream",
					     "getline",
					     "getdelim",
					     "__getdelim",
					     "opendir",
					     "__opendir",
					     "fdopendir",
					     "__alloc_dir",
					     "realpath",
					     "__realpath",
					     "getcwd",
					     "__getcwd",
					     "setlocale",
					     "qsort",
					     "qsort_r",
					     "__qsort_r",
					     "bsearch",
					     "scandir",
					     "__scandir",
					     "popen",
					     "getaddrinfo",
					     "setenv",
					     "putenv",
					     "__add_to_environ",
					     "atexit",
					     "__cxa_atexit",
					     "__new_exitfn",
					     "pthread_create",
					     "__pthread_create_2_1",
					     "allocate_stack",
					     "allocate_dtv",
					     NULL};

static const char *const libc_prefixes[] = {"_IO_", "_dl_", "__libc_", "_nl_", "__gconv_", NULL};

/* In a static program these are in its own file. */
static const char *const start_functions[] = {"_start",
					      "__libc_start_main",
					      "__libc_start_main_impl",
					      "__libc_start_call_main",
					      "__libc_csu_init",
					      "call_init",
					      "_dl_init",
					      "_dl_start",
					      "_dl_start_user",
					      "_dl_start_final",
					      "_dl_sysdep_start",
					      "dl_main",
					      "start_thread",
					      "clone",
					      "clone3",
					      "__clone",
					      "__clone3",
					      "thread_start",
					      "caml_main",
					      "caml_startup",
					      "caml_startup_exn",
					      "caml_startup_common",
					      "caml_start_program",
					      "caml_program",
					      NULL};

static const char *const rust_start[] = {"std::rt::lang_start",
					 "std::sys_common::backtrace::__rust_begin_short_backtrace",
					 "std::sys::backtrace::__rust_begin_short_backtrace", NULL};

/* Entries of languages: what has them is started by a main() that is not the program's. */
static const char *const starts_main[] = {"caml_main", "caml_startup_common", NULL};

static bool begins_with(const char *text, const char *const *word)
{
	for (; *word; word++)
		if (strncmp(text, *word, strlen(*word)) == 0)
			return true;
	return false;
}

static bool is_one_of(const char *text, const char *const *word)
{
	for (; *word; word++)
		if (strcmp(text, *word) == 0)
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
		else if (strncmp(s, "operator", strlen("operator")) == 0)
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
		if (strlen(*name) == length && strncmp(function, *name, length) == 0)
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
	if (strncmp(function, "caml_", 5) == 0 || is_part_of(function, python_allocators) ||
	    (!*file && is_part_of(function, ocaml_runtime)))
		return CODE_RUNTIME;
	if (is_one_of(function, libc_functions) || begins_with(function, libc_prefixes))
		return CODE_LIBRARY;
	return CODE_OWN;
}

/*
 * By the name, which tells the language: functions of C++ have parameters, those of Rust do not. A
 * namespace core of the program is not Rust's crate.
 */
static enum code_kind named_kind(const char *function, const char *file)
{
	char plain[512];

	if (is_part_of(function, start_functions) || begins_with(function, rust_start))
		return CODE_ENTRY;
	if (is_allocator_frame(function))
		return CODE_RUNTIME;
	if (strcmp(function, "Stdlib") == 0 || begins_with(function, ocaml_modules) ||
	    begins_with(file, rust_paths) || strstr(file, "/include/c++/"))
		return CODE_LIBRARY;
	name_plain(plain, sizeof(plain), function);
	if (*plain != '<' && strchr(plain, '('))
		return begins_with(cxx_name(plain), cxx_namespaces) ? CODE_LIBRARY : CODE_OWN;
	if (*plain == '<' || strstr(plain, "::"))
		return is_rust_library(plain) && (!*file || has_suffix(file, ".rs")) ? CODE_LIBRARY
										     : CODE_OWN;
	return plain_kind(function, file);
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
	if (trace != own->trace) {
		own->trace = trace;
		own->starts_main = trace && is_started(trace);
	}
	if (own->starts_main && !*file && strcmp(function, "main") == 0)
		return CODE_ENTRY;
	kind = named_kind(function, file);
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
	       is_one_of(function, python_entries) || is_ocaml_module(function, file);
}
