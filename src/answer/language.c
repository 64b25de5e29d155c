/* SPDX-License-Identifier: Apache-2.0 */
/* Languages: see language.h. Each has a part of this file, and its lists in known_names.c. */
#include "answer/language.h"

#include <ctype.h>
#include <string.h>

#include "answer/allocator_frames.h"
#include "answer/known_names.h"
#include "answer/trace_names.h"
#include "format/format.h"

/* All names of a large program are compared with these lists: most differ in their first byte. */
bool begins_with(const char *text, const char *const *word)
{
	for (; *word; word++)
		if (**word == *text && strncmp(text, *word, strlen(*word)) == 0)
			return true;
	return false;
}

bool is_one_of(const char *text, const char *const *word)
{
	for (; *word; word++)
		if (**word == *text && strcmp(text, *word) == 0)
			return true;
	return false;
}

bool is_part_of(const char *function, const char *const *name)
{
	size_t length = strcspn(function, ".");

	for (; *name; name++)
		if (**name == *function && strlen(*name) == length &&
		    strncmp(function, *name, length) == 0)
			return true;
	return false;
}

bool has_suffix(const char *text, const char *suffix)
{
	size_t length = strlen(text), tail = strlen(suffix);

	return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

/* ---- Python ---- */

/* "<frozen importlib._bootstrap>", "<string>": what has no file of its own. */
static bool is_python(const char *file)
{
	return has_suffix(file, ".py") || (*file == '<' && has_suffix(file, ">"));
}

static bool is_in_packages(const char *path)
{
	return strstr(path, "/site-packages/") || strstr(path, "/dist-packages/");
}

/* True: below a folder of the interpreter's, or of installed packages. */
static bool is_python_package(const char *path)
{
	return is_in_packages(path) || python_library_part(path);
}

static bool is_python_standard(const char *path)
{
	return !is_in_packages(path) && python_library_part(path);
}

/* What namedtuple makes is a lambda in "<string>", as may be one of "python -c". */
static enum code_kind python_no_file(const struct run_packages *run, const char *function,
				     const char *file)
{
	if (*file != '<')
		return CODE_OWN;
	if (begins_with(file, python_made) || begins_with(function, python_made_functions))
		return CODE_LIBRARY;
	if (run->has_text || begins_with(file, python_typed))
		return CODE_OWN;
	return strcmp(function, "<lambda>") == 0 ? CODE_LIBRARY : CODE_OTHER;
}

static bool is_python_entry(const char *function, const char *file)
{
	(void)file;
	return is_one_of(function, python_entries) || strcmp(function, "<module>") == 0;
}

/* ---- Ruby ---- */

static bool is_ruby(const char *file)
{
	const char *suffix = strrchr(path_base(file), '.');

	return (suffix && is_one_of(suffix, ruby_suffixes)) || begins_with(file, ruby_without_file);
}

/* ".../lib/ruby/3.1.0/", ".../gems/rack-2.2.6/" */
static bool is_ruby_package(const char *path)
{
	for (const char *const *folder = ruby_folders; *folder; folder++)
		if (strstr(path, *folder))
			return true;
	return false;
}

static bool is_ruby_standard(const char *path)
{
	return strstr(path, "/lib/ruby/") && !strstr(path, "/gems/");
}

static bool is_ruby_entry(const char *function, const char *file)
{
	(void)file;
	return is_one_of(function, ruby_entries);
}

/* ---- OCaml ---- */

static enum code_kind ocaml_kind(const struct code_name *n)
{
	if ((strncmp(n->function, "caml_", 5) == 0 && !strchr(n->plain, '(')) ||
	    (!*n->file && is_part_of(n->function, ocaml_runtime)))
		return CODE_RUNTIME;
	return strcmp(n->function, "Stdlib") == 0 || begins_with(n->function, ocaml_modules)
		   ? CODE_LIBRARY
		   : CODE_OTHER;
}

/* "Main", "Dune.exe.Main": a module's code outside its functions, which the runtime calls. */
static bool is_ocaml_entry(const char *function, const char *file)
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

/* ---- JavaScript ---- */

static enum code_kind javascript_kind(const struct code_name *n)
{
	return strncmp(n->function, "Builtins_", 9) == 0 ? CODE_RUNTIME : CODE_OTHER;
}

/* ---- C++ ---- */

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

/* A class may have an allocator of its own: "llvm::User::operator new(unsigned long)". */
static enum code_kind cxx_kind(const struct code_name *n)
{
	const char *name = cxx_name(n->plain);

	if (strstr(n->file, "/include/c++/"))
		return CODE_LIBRARY;
	if (*n->plain == '<' || !strchr(n->plain, '('))
		return CODE_OTHER;
	if (begins_with(name, cxx_namespaces))
		return CODE_LIBRARY;
	return strstr(name, "::operator new") ? CODE_RUNTIME : CODE_OWN;
}

/* ---- Rust ---- */

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

/* The program's own global allocator, and what the compiler makes of its #[global_allocator]. */
static bool is_rust_allocator(const char *function)
{
	const char *symbol = strstr(function, "::__rg_");

	return strstr(function, " as core::alloc::global::GlobalAlloc>::") ||
	       (symbol && strncmp(symbol, "::__rg_oom", 10) != 0);
}

/* Crates of a registry or a repository that cargo keeps, or in the program's own folder for them. */
static bool is_rust_dependency(const char *file)
{
	return strstr(file, "/registry/src/") || strstr(file, "/git/checkouts/") ||
	       strstr(file, "/cargo/registry/") || strstr(file, "/vendor/") ||
	       strncmp(file, "vendor/", 7) == 0;
}

static enum code_kind rust_kind(const struct code_name *n)
{
	bool library;

	if (begins_with(n->function, rust_start))
		return CODE_ENTRY;
	if (is_rust_allocator(n->function))
		return CODE_RUNTIME;
	if (begins_with(n->file, rust_paths))
		return CODE_LIBRARY;
	if (*n->plain != '<' && (strchr(n->plain, '(') || !strstr(n->plain, "::")))
		return CODE_OTHER;
	library = is_rust_library(n->plain) && (!*n->file || has_suffix(n->file, ".rs"));
	return library ? CODE_LIBRARY : CODE_OWN;
}

/* ---- C, and what all programs have ---- */

static enum code_kind start_kind(const struct code_name *n)
{
	if (is_part_of(n->function, start_functions))
		return CODE_ENTRY;
	return is_allocator_frame(n->function) ? CODE_RUNTIME : CODE_OTHER;
}

/* Names without "::" and parameters, among them those of Python's interpreter. */
static enum code_kind c_kind(const struct code_name *n)
{
	if (is_part_of(n->function, python_allocators) || is_part_of(n->function, malloc_wrappers))
		return CODE_RUNTIME;
	return is_one_of(n->function, libc_functions) || begins_with(n->function, libc_prefixes)
		   ? CODE_LIBRARY
		   : CODE_OWN;
}

static bool is_main(const char *function, const char *file)
{
	const char *colons = strrchr(function, ':');

	(void)file;
	return strcmp(colons ? colons + 1 : function, "main") == 0;
}

/* In the order in which they are asked. */
const struct language languages[] = {
    {
	.name = "Ruby",
	.is_entry = is_ruby_entry,
	.has = is_ruby,
	.is_package = is_ruby_package,
	.inside = ruby_inside,
	.is_standard = is_ruby_standard,
	.library = "libruby",
	.program = "ruby",
	.evaluators = ruby_evaluators,
    },
    {
	.name = "Python",
	.is_entry = is_python_entry,
	.has = is_python,
	.is_package = is_python_package,
	.inside = python_inside,
	.is_standard = is_python_standard,
	.find_run = python_find_run,
	.is_run = python_is_run,
	.no_file = python_no_file,
	.library = "libpython3",
	.program = "python3",
	.evaluators = python_evaluators,
	.inner_sources = python_inner_sources,
	.generated_runtime = python_generated,
    },
    {.name = "start", .kind = start_kind},
    {
	.name = "OCaml",
	.kind = ocaml_kind,
	.is_entry = is_ocaml_entry,
	.starts_main = ocaml_starts,
	.runtime_modules = ocaml_libraries,
    },
    {
	.name = "JavaScript",
	.kind = javascript_kind,
	.generated_runtime = v8_generated,
	.generated_library = node_generated,
    },
    {
	.name = "Java",
	.generated_runtime = java_generated_runtime,
	.generated_library = java_generated,
    },
    {.name = "C++", .kind = cxx_kind},
    {
	.name = "Rust",
	.kind = rust_kind,
	.starts_main = rust_start,
	.sources = ".rs",
	.is_dependency = is_rust_dependency,
    },
    {.name = "C", .kind = c_kind, .is_entry = is_main},
    {.name = NULL},
};
