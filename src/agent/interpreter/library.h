/* SPDX-License-Identifier: Apache-2.0 */
/* Where in the process an interpreter is. */
#ifndef MAYFLY_INTERPRETER_LIBRARY_H
#define MAYFLY_INTERPRETER_LIBRARY_H

#include "agent/image.h"

/* The executable or library that has the interpreter. */
struct interpreter_library {
	struct image image;
	const void
	    *thread_block; /* its variables of the calling thread; NULL: there are none yet */
	char path[1024];   /* "": the executable */
	bool late;	   /* it may be a library that the program has opened */
};

/* Looks for the first one that is wanted, and fills in all but `late`. Without dlsym: where that finds
 * nothing, it leaves a message for the program's dlerror(), in a block of the program's malloc. */
bool library_find(struct interpreter_library *in, bool (*is_wanted)(const struct image *image));

/* Another thread may be just loading the library, and the program may close it. This waits for the
 * loader's lock, and the library stays for good. */
bool library_keep(const struct interpreter_library *in);

/* A function or variable of the library, stored in *to. False: it has none of this name. */
bool library_look_up(const struct interpreter_library *in, const char *name, void *to);

#endif
