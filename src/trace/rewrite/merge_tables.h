/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of several traces as one: rows that say the same become one row.
 *
 *	modules		path and build-id
 *	threads		name, plus its ordinal among threads of that name in its trace; tid when it
 *			has no name
 *	frames		with names: module's path, functions, files, lines
 *			without: module and address
 *	nodes		the frames from the root on
 *
 * A thread with spans is never joined with one of another trace: their spans overlap in time, and
 * an end belongs to the latest begin of its thread.
 *
 * So the stacks of two builds of a program become one where their names are equal.
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
	uint32_t *frame; /* of each number of `frames`: the frame of the recording */
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

/* Adds the tables of a trace. 0, MAYFLY_E_MEMORY, or the error in reading its track events. */
int merge_tables_add(struct merge_tables *t, const struct mayfly_trace *trace,
		     struct merge_map *map);
void merge_map_free(struct merge_map *map);

#endif
