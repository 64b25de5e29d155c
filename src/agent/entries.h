/* SPDX-License-Identifier: Apache-2.0 */
/* The allocators' own functions, beside malloc and its relatives: see entries.c. */
#ifndef MAYFLY_ENTRIES_H
#define MAYFLY_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>

struct entry {
	const char *name;
	void *function;	  /* ours */
	void *underneath; /* the allocator's; NULL: it has none of this name */
};

/* Looks up the functions of the program's allocator. False: it has none. */
bool entries_find_all(void);

/* NULL: the program's allocator has no such function. */
const struct entry *entries_find(const char *name);

/* Their names, in the order in which a function with several of them is to be taken; NULL: there are no more. */
const char *entries_name(size_t i);
void *entries_function(size_t i);

/* The executable has such a function, which leads to ours (own_entries.c). */
void entries_redirected(size_t i, void *underneath);

#endif
