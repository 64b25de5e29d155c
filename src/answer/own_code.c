/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own functions: see own_code.h. */
#include "answer/own_code.h"

#include <stddef.h>
#include <string.h>

#include "answer/allocator_frames.h"
#include "answer/plain_name.h"
#include "answer/trace_names.h"

/* How names of files begin. */
static const char *const library_modules[] = {
    "ld-linux",	      "ld-2.",	      "ld-musl",      "libc.so",    "libc-2.",	 "libpthread",
    "libm.so",	      "libstdc++.so", "libc++.so",    "libc++abi.", "libgcc_s.", "libstd-",
    "libjemalloc.so", "libtcmalloc",  "libmimalloc.", "libmayfly.", NULL};

/* Those among them that only allocate, or load. */
static const char *const runtime_modules[] = {"ld-linux",	"ld-2.",       "ld-musl",
					      "libjemalloc.so", "libtcmalloc", "libmimalloc.",
					      "libmayfly.",	NULL};

static const char *const cxx_namespaces[] = {"std::", "__gnu_cxx::", "__cxxabiv1::", NULL};

static const char *const rust_crates[] = {"std::", "core::", "alloc::", "hashbrown::", NULL};

/* In a static program these are in its own file. */
static const char *const start_functions[] = {"_start",
					      "__libc_start_main",
					      "__libc_start_call_main",
					      "start_thread",
					      "clone",
					      "clone3",
					      "__clone",
					      "__clone3",
					      NULL};

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

bool is_own_code(const char *function, const char *module)
{
	char plain[512];

	if (module && begins_with(path_base(module), library_modules))
		return false;
	/* Marks: "[stack cut]". */
	if (*function == '[' || is_one_of(function, start_functions) ||
	    is_allocator_frame(function))
		return false;
	name_plain(plain, sizeof(plain), function);
	return strchr(plain, '(') ? !begins_with(cxx_name(plain), cxx_namespaces)
				  : !is_rust_library(plain);
}

bool is_entry(const char *function)
{
	const char *colons = strrchr(function, ':');

	return strcmp(colons ? colons + 1 : function, "main") == 0;
}

enum code_kind code_kind(const char *function, const char *module)
{
	if (*function == '[')
		return CODE_NONE;
	if (is_entry(function) || is_one_of(function, start_functions))
		return CODE_ENTRY;
	if (is_own_code(function, module))
		return CODE_OWN;
	if (is_allocator_frame(function) ||
	    (module && begins_with(path_base(module), runtime_modules)))
		return CODE_RUNTIME;
	return CODE_LIBRARY;
}
