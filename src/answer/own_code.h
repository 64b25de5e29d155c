/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a frame is: the program's own, or of the libraries and runtimes that each program of its
 * language has. All commands and the page agree on it: what is not the program's own is folded into
 * its caller, named last, and drawn in another colour.
 */
#ifndef MAYFLY_OWN_CODE_H
#define MAYFLY_OWN_CODE_H

#include <mayfly/trace.h>

#include "answer/own_rules.h"
#include "answer/python_run.h"

enum code_kind {
	CODE_OWN = 0,
	CODE_LIBRARY = 1, /* of the language: C, C++, Rust, OCaml's Stdlib */
	CODE_RUNTIME = 2, /* OCaml's runtime, Python's allocator, malloc, operator new */
	CODE_ENTRY = 3,	  /* what starts programs and threads, before the program's own code */
	CODE_NONE = 4,	  /* no code: "[stack cut]" */
	CODE_OTHER = 5,	  /* of another language (language.h); code_kind() has an answer instead */
};

struct language;

#define OWN_CALLED_WORDS 64 /* names that share a bit are own code, too */

struct own_code {
	struct own_rules rules;		    /* the user's; they come first */
	const struct mayfly_trace *trace;   /* the one that the next field is about; NULL: none */
	bool starts_main;		    /* main() is of the language's runtime */
	const struct language *separate;    /* has dependencies and own sources; NULL: none has */
	const struct language *interpreted; /* the trace has its frames; NULL: of none */
	const char *interpreter; /* path of the module that has the interpreter; "": not known */
	struct run_packages run; /* what the command line runs */
	uint64_t from_own[OWN_CALLED_WORDS]; /* bits: code without a file that own code calls */
	bool all_interpreted; /* own_code_fold() folds all but the interpreted language */
	bool folded;	      /* own_code_fold() folded a frame of a library or runtime */
};

/* file, module: "" when unknown. */
enum code_kind code_kind(struct own_code *own, const struct mayfly_trace *trace,
			 const char *function, const char *file, const char *module);

/* Folds all frames that are not the program's own, or not interpreted. `own` must outlive the queries. */
struct mayfly_fold own_code_fold(struct own_code *own);

/* The interpreted language whose frames the trace has, "Python"; NULL: it has none. */
const char *own_code_interpreted(struct own_code *own, const struct mayfly_trace *trace);

/* Where the program's own code begins: main() of C, C++ and Rust, the code of an OCaml module or a
 * file of Python or Ruby, and what Python does before it runs the script. */
bool is_entry(const char *function, const char *file);

#endif
