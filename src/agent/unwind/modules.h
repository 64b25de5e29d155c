/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loaded objects whose code was seen on a stack, found without the loader's lock.
 *
 * The thread that first meets an address of an object enters it; readers take no lock.
 */
#ifndef MAYFLY_MODULES_H
#define MAYFLY_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dl_find_object;

struct module {
	uint64_t start, end; /* mapped range of the object, or of its code if there are holes */
	uint64_t bias;	     /* address = bias + the ELF file's virtual address */
	const char *path; /* a copy that lives as long as the object; main program: its real path */
	const uint8_t *build_id;
	size_t build_id_length;
};

/* Reads the program's path. Called by walk_init(). */
void modules_init(void);

/* In the child of a fork: the thread that was changing the table may not exist here. */
void modules_forked(void);

/* Notes the object that `found` describes. true: it takes the place of another one that has been
 * unloaded, so all that is known about addresses in its range is invalid. A thread that finds the
 * table busy waits for some 50 ms at most; then the object is noted by a later call. */
bool modules_note(const struct dl_find_object *found);

/* The readable segment of the object that holds an address. The range in `found` is only one
 * segment, that of the code, when the object's segments have holes between them. */
bool modules_segment(const struct dl_find_object *found, uint64_t address, uint64_t *start,
		     uint64_t *end);

/* After a dlclose: drops the objects that are no longer mapped. */
void modules_check(void);

/* Calls seen() for each object known now (a forked child writes them to its own spool). False: the
 * table is being changed, by this thread or another one. */
bool modules_each(void (*seen)(const struct module *));

/* The functions that are called for each change from now on. */
void modules_watch(void (*seen)(const struct module *), void (*gone)(uint64_t start));

#endif
