/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a trace in the file: STRS, MODS, THRD, FRMS, TREE and NAME. The writing side; the
 * reading side is in reader.h.
 *
 * Rows come in groups, each before the events that need them, so the file has its own numbers:
 *
 *	modules, threads  as in the tables
 *	strings	   in the order in which columns first refer to them
 *	frames	   group after group, within one sorted by kind, module and address
 *	nodes	   in the order in which events first need them
 *
 * Nodes in this order are a list of chains: each event with a new stack adds one chain of new nodes
 * below an existing node. The event's node is then the end of the next chain, which need not be
 * written.
 *
 *	event 0: main > parse > read		chain 0: parent 0, nodes 1 2 3
 *	event 1: main > parse > copy		chain 1: parent 2, node	 4
 *	event 2: main > parse > read		(old: the end of chain 0)
 *	event 3: main > parse			(old, and no chain's end: node 2)
 *
 * Frames and nodes that no event needs are not written.
 */
#ifndef MAYFLY_TABLES_H
#define MAYFLY_TABLES_H

#include "format/columns.h"
#include "trace/write/recording.h"

struct successor;

struct table_writer {
	const struct recording *r;
	int error; /* the first one */

	size_t modules, threads; /* written so far */
	uint32_t *thread_name;	 /* strings, as written for each thread */
	size_t thread_room;

	uint32_t *string_number; /* of the tables' strings; 0: not used so far */
	size_t string_room;
	uint32_t next_string;
	struct bytes text; /* strings that are new in this group */

	uint32_t *frame_number; /* tables -> file; RECORDING_NONE: not needed so far */
	size_t frame_room;
	uint32_t *frame_order; /* file -> tables; from frames_written on in order of need */
	size_t frames, frames_written, frame_order_room;

	uint32_t *node_number; /* tables -> file, likewise */
	size_t node_number_room;
	uint32_t *node_frame; /* in the file's order; once written, with its numbers */
	uint16_t *depth;
	size_t nodes, nodes_written, node_room, depth_room; /* nodes: the root included */
	uint32_t *chain_end;
	uint32_t *chain_parent; /* of those that are not written */
	size_t chains, chains_written, chain_room, parent_room;

	/* Which frames followed the root (place 0) and each frame (place 1 + its number). */
	uint32_t *successors; /* entry + 1 of the first, 0 none */
	size_t successors_room;
	struct successor *entry;
	size_t entries, entry_room;
};

bool tables_begin(struct table_writer *w, const struct recording *r);
void tables_free(struct table_writer *w);

/* The file's number of a node of the tables, RECORDING_NONE when it cannot have one (w->error). */
uint32_t tables_new_node(struct table_writer *w, uint32_t node);

static inline uint32_t tables_node(struct table_writer *w, uint32_t node)
{
	/* Most have been seen before. */
	if (node < w->node_number_room && w->node_number[node] != RECORDING_NONE && !w->error)
		return w->node_number[node];
	return tables_new_node(w, node);
}

/* Appends a chunk of `count` texts, if there are any, and empties *text. */
void tables_write_texts(struct bytes *text, size_t count, uint32_t type,
			struct column_writer *columns, struct bytes *out);

/* Appends NAME to *name and, before it, STRS to *strings, with the texts that w->text holds already
 * (`texts` of them) and then those that are new. All rows of the tables have been written. */
void tables_write_names(struct table_writer *w, size_t texts, struct column_writer *columns,
			struct bytes *strings, struct bytes *name);

/* Appends the chunks of all new rows. names: NAME too, after the others. */
void tables_write(struct table_writer *w, struct column_writer *columns, struct bytes *out,
		  bool names);

#endif
