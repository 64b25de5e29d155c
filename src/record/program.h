/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kind of program is about to be started: can the loader put the agent into it, and if not,
 * why not.
 */
#ifndef MAYFLY_PROGRAM_H
#define MAYFLY_PROGRAM_H

#include <stdbool.h>

struct program {
	char *path;	   /* the file that execvp() will find, or NULL */
	bool ordinary;	   /* the agent can be loaded */
	const char *agent; /* the library that is to be preloaded: each C library has its own */
	/* A script's interpreter, "" when the program is a binary itself. */
	char interpreter[256];
	/* Why the agent cannot be loaded, to follow the program's name and a colon; "" when it can.
	 */
	char why[256];
	bool breaks;	   /* it would not even start with the agent in LD_PRELOAD */
	bool ocaml_events; /* it is of OCaml 5.3 or later, whose runtime can write events */
	bool brings_new; /* it is linked with an allocator library that has its own operator new */
};

/* Looks at what execvp(command) would start. A file that cannot be read is assumed to be ordinary. */
void program_inspect(struct program *p, const char *command);
void program_free(struct program *p);

/* True when a library of this path or soname is an allocator that brings its own operator new. */
bool program_library_brings_new(const char *library);

#endif
