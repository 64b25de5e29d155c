/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of several traces as one: rows that say the same become one row.
 *
 *	modules		path and build-id
 *	frames		with names: module's path, functions, files, lines
 *			without: module and address
 *	nodes		the frames from the root on
 *
 * So the stacks of two builds of a program become one where their names are equal.
 *
 * Threads are never joined: the order of a thread's events means something (samples of one line, the
 * halves of a realloc, spans), and events of two processes have no such order. Answers by thread
 * join those of one row: those with the same name and the same ordinal among the threads of that
 * name in their trace, or with the same tid when they have no name.
 */
#ifndef MAYFLY_MERGE_TABLES_H
#define MAYFLY_MERGE_TABLES_H

#include "base/interner.h"
#include "trace/write/recording.h"

struct merge_tables {
	struct recording *r;
	/* Keys -> numbers. The items of the recording stand beside them. */
	struct interner modules, rows, places, frames;
	uint32_t *frame; /* of each number of `frames`: the frame of the recording */
	uint32_t *row;	 /* of each number of `rows`: its first thread */
	size_t frame_room, row_room;
};

/* From numbers of one trace to those of the recording; by index. */
struct merge_map {
	uint32_t *node, *thread;
	/* While it is made. */
	uint32_t *module, *frame;
	struct interner texts;
	uint32_t *string; /* of each number of `texts` */
	size_t string_room;
};

bool merge_tables_begin(struct merge_tables *t);
void merge_tables_end(struct merge_tables *t);

/* Adds the tables of a trace. 0 or MAYFLY_E_MEMORY. */
int merge_tables_add(struct merge_tables *t, const struct mayfly_trace *trace,
		     struct merge_map *map);
void merge_map_free(struct merge_map *map);

#endif
