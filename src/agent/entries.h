/* SPDX-License-Identifier: Apache-2.0 */
/* The allocators' own functions, beside malloc and its relatives: see entries.c. */
#ifndef MAYFLY_ENTRIES_H
#define MAYFLY_ENTRIES_H

#include <stdbool.h>

struct entry {
	const char *name;
	void *function;	  /* ours */
	void *underneath; /* the allocator's; NULL: it has none of this name */
};

/* Looks up the functions of the program's allocator. False: it has none. */
bool entries_find_all(void);

/* NULL: the program's allocator has no such function. */
const struct entry *entries_find(const char *name);

#endif
