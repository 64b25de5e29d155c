/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions are the program's own, and which are of the libraries that each program has. */
#ifndef MAYFLY_OWN_CODE_H
#define MAYFLY_OWN_CODE_H

#include <stdbool.h>

/* Not the library of C, C++ or Rust, the allocator, or what starts programs and threads. module: ""
 * or NULL when it is unknown. */
bool is_own_code(const char *function, const char *module);

enum code_kind {
	CODE_OWN,
	CODE_LIBRARY, /* of the language */
	CODE_RUNTIME, /* the allocator, the loader */
	CODE_ENTRY,   /* main(), and what starts programs and threads */
	CODE_NONE,    /* a mark: "[stack cut]" */
};

/* function: as it is shown, never empty. */
enum code_kind code_kind(const char *function, const char *module);

/* The function that the language's library calls: main() of C, C++ and Rust. */
bool is_entry(const char *function);

#endif
