/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells whose a frame is, one row for each language. A new language is a row of language.c; own_code.c
 * and what uses it know no language by name.
 */
#ifndef MAYFLY_LANGUAGE_H
#define MAYFLY_LANGUAGE_H

#include <stdbool.h>

#include "answer/own_code.h"

/* A frame's function as names and debug information have it; "" where that is unknown. */
struct code_name {
	const char *function, *file;
	const char *plain; /* name_plain() of function */
};

/* Lists end with NULL; those that compare beginnings say so. All but `name` may be NULL. */
struct language {
	const char *name;
	/* Whose the frame is; CODE_OTHER: it is none of this language. */
	enum code_kind (*kind)(const struct code_name *n);
	/* Where the program's own code begins. */
	bool (*is_entry)(const char *function, const char *file);
	/* Functions that call a main() which is the runtime's, in every program of the language; as
	 * beginnings of names. */
	const char *const *starts_main;
	/* How names of its sources end, and which of these are a library's that is compiled with the
	 * program. They are libraries where the trace has sources that are none. */
	const char *sources;
	bool (*is_dependency)(const char *file);
	/* Libraries with its runtime, as names of files begin. */
	const char *const *runtime_modules;
	/* Names or files, as they begin, of code that is compiled at run time: the runtime's pieces, its
	 * library. */
	const char *const *generated_runtime, *const *generated_library;

	/* For an interpreted one, which needs no `kind`: is the file one of its programs? Is the path in
	 * a folder of its packages? Files of the interpreter itself begin with one of `inside`. */
	bool (*has)(const char *file);
	bool (*is_package)(const char *path);
	const char *const *inside;
	/* Is it one of its own library, not of packages that were installed beside? */
	bool (*is_standard)(const char *path);
	/* Packages that the command line runs. */
	void (*find_run)(struct run_packages *run, const struct mayfly_info *info);
	bool (*is_run)(const struct run_packages *run, const char *path);
	/* Code without a file, "<string>": is it the interpreter's, or the user's, whoever calls it; or
	 * CODE_OTHER: that is up to its callers. NULL: no code is without one. */
	enum code_kind (*no_file)(const struct run_packages *run, const char *function,
				  const char *file);
	/* The names of the interpreter's library and program, as they begin: in a trace with frames of
	 * the language, code of C there is the interpreter's. So is that beside one of `evaluators`,
	 * which run its code, where its file is unknown or in one of the folders `inner_sources`. */
	const char *library, *program;
	const char *const *evaluators, *const *inner_sources;
};

extern const struct language languages[]; /* the last one has no name */

/* Does one of the words begin the text, or is it the text? The list ends with NULL. */
bool begins_with(const char *text, const char *const *word);
bool is_one_of(const char *text, const char *const *word);
/* Is the function one of the names, or a part or copy that compilers make: "gc_alloc.constprop.1"? */
bool is_part_of(const char *function, const char *const *name);
bool has_suffix(const char *text, const char *suffix);

#endif
