/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of several traces as one: what says the same becomes the same.
 *
 *	modules		path and build-id
 *	threads		name, and the how-manyth of that name it is in its trace; without a name,
 *tid frames		with names: module's path, functions, files, lines; without: module and
 *address nodes		the frames from the root on
 *
 * A thread with spans stays one of its own: spans of two traces overlap in time, and an end belongs
 * to the latest begin of its thread.
 *
 * So stacks of two builds of a program are one where their names are.
 */
#ifndef MAYFLY_MERGE_TABLES_H
#define MAYFLY_MERGE_TABLES_H

#include "format/numbering.h"
#include "trace/write/recording.h"

struct merge_tables {
	struct recording *r;
	uint32_t traces; /* added so far */
	/* Keys -> numbers. The items of the recording stand beside them. */
	struct numbering modules, threads, names, places, frames;
	uint32_t *frame; /* of each number of `frames`: the recording's */
	size_t frame_room;
};

/* From numbers of one trace to those of the recording; by index. */
struct merge_map {
	uint32_t *node, *thread;
	/* While it is made. */
	uint32_t *module, *frame;
	struct numbering texts;
	uint32_t *string; /* of each number of `texts` */
	size_t string_room;
};

bool merge_tables_begin(struct merge_tables *t);
void merge_tables_end(struct merge_tables *t);

/* Adds the tables of a trace. 0, MAYFLY_E_MEMORY, or what its track events cannot be read for. */
int merge_tables_add(struct merge_tables *t, const struct mayfly_trace *trace,
		     struct merge_map *map);
void merge_map_free(struct merge_map *map);

#endif
