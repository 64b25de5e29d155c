/* SPDX-License-Identifier: Apache-2.0 */
/*
 * massif's files: what was live at some moments. Only some of these snapshots have stacks: the peak
 * and, by default, every tenth.
 *
 *	desc: (none)
 *	cmd: ./a
 *	time_unit: i				instructions; or ms, or B: bytes allocated and freed
 *	snapshot=3				(between lines of #---)
 *	time=137588
 *	mem_heap_B=10045
 *	heap_tree=detailed			or peak, or empty
 *	n2: 10045 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 *	 n1: 9045 0x109179: leaf (l.c:4)	a caller is below what it calls
 *	  n0: 9045 0x1091EA: main (l.c:7)
 *	 n0: 1000 in 3 places, all below massif's threshold (1.00%)
 *
 * The trace's moments are the snapshots with stacks, and the last one. A stack is a path through the
 * tree; in all trees, equal paths are one. What the nodes below a node do not account for is its own.
 *
 *	path 2: parent 1, frame main		1: parent 0, frame leaf		0: the root
 *	points: (path, moment, bytes)		sorted, they are the rows
 */
#include "convert/import/imports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/heap_profile.h"
#include "convert/import/packed.h"
#include "convert/import/valgrind_place.h"

/* A node of the tree on the way from the root to the current one. */
struct massif_node {
	uint32_t path;
	uint64_t left; /* bytes that no node below it has had so far */
};

struct massif_point {
	uint32_t path, moment;
	uint64_t bytes;
};

struct massif_input {
	struct import *in;
	struct heap_profile profile;
	uint64_t unit_ns;
	const char *unit; /* what the times count; NULL: they are times */

	uint64_t snapshots, trees, time, heap, highest, highest_tree;
	bool in_tree;
	struct massif_node open[TRACE_MAX_DEPTH + 1];
	size_t depth; /* of open nodes; 0: there is no tree */

	int64_t *moment;
	size_t moments, moment_room;
	struct interner paths; /* (parent, frame); path number + 1 */
	struct massif_point *point;
	size_t points, point_room;
};

/* ---- paths ---- */

static uint32_t massif_path(struct massif_input *c, uint32_t parent, uint32_t frame)
{
	bool is_new;
	uint32_t number = interner_add(&c->paths, (struct key){{parent, frame}}, &is_new);

	import_spend(c->in, sizeof(struct key) * 2);
	if (number == INTERNER_NONE)
		import_fail(c->in, MAYFLY_E_MEMORY);
	return number == INTERNER_NONE ? 0 : number + 1;
}

static uint32_t path_of_name(struct massif_input *c, uint32_t parent, const char *name)
{
	const struct recording_location place = {.function = recording_name(c->in->tables, name)};

	return massif_path(c, parent, heap_profile_named(&c->profile, RECORDING_NONE, &place));
}

/* Leaves the nodes at this depth and below. */
static void leave_nodes(struct massif_input *c, size_t depth)
{
	while (c->depth > depth) {
		struct massif_node n = c->open[--c->depth];
		uint32_t path = n.path;

		if (n.left && !path)
			path = path_of_name(c, 0, "(not in massif's tree)");
		if (n.left)
			IMPORT_APPEND(
			    c->in, c->point, c->points, c->point_room,
			    (struct massif_point){path, (uint32_t)c->moments - 1, n.left});
	}
}

/* ---- lines: functions that take one return false when it is impossible ---- */

static bool massif_number(const char **at, uint64_t *value)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	*value = strtoull(*at, &end, 10);
	*at = end;
	return *value < TRACE_COUNTS_MAX;
}

/* "  n1: 9045 0x1091EA: main (l.c:7)", whose depth is the number of spaces */
static bool take_node(struct massif_input *c, const char *line, size_t length)
{
	size_t depth = strspn(line, " ");
	const char *at = line + depth + 1;
	uint64_t children, bytes;
	uint32_t path = 0, parent;

	if (line[depth] != 'n' || !massif_number(&at, &children) || strncmp(at, ": ", 2) != 0)
		return false;
	at += 2;
	if (!massif_number(&at, &bytes) || *at++ != ' ' || depth > c->depth ||
	    depth > TRACE_MAX_DEPTH || (depth == 0) != (c->depth == 0))
		return false;
	leave_nodes(c, depth);
	if (depth) {
		if (bytes > c->open[depth - 1].left)
			return false;
		c->open[depth - 1].left -= bytes;
		parent = c->open[depth - 1].path;
		path = strncmp(at, "in ", 3) == 0
			   ? path_of_name(c, parent, "(below massif's threshold)")
			   : massif_path(
				 c, parent,
				 valgrind_place(&c->profile, at, length - (size_t)(at - line)));
	}
	c->open[c->depth++] = (struct massif_node){path, bytes};
	return true;
}

/* The snapshot that has been read becomes a moment. */
static void add_moment(struct massif_input *c)
{
	const uint64_t most = (uint64_t)HEAP_PROFILE_LATEST_NS / c->unit_ns;
	int64_t ns = (int64_t)((c->time < most ? c->time : most) * c->unit_ns);
	int64_t least = c->moments ? c->moment[c->moments - 1] + 1 : 1;

	IMPORT_APPEND(c->in, c->moment, c->moments, c->moment_room, ns > least ? ns : least);
}

static bool take_tree(struct massif_input *c, const char *kind)
{
	if (c->heap > c->highest)
		c->highest = c->heap;
	if (strcmp(kind, "empty") == 0)
		return true;
	if (c->heap > c->highest_tree)
		c->highest_tree = c->heap;
	c->in_tree = true;
	c->trees++;
	add_moment(c);
	return strcmp(kind, "detailed") == 0 || strcmp(kind, "peak") == 0;
}

static bool take_unit(struct massif_input *c, const char *unit)
{
	c->unit_ns = strcmp(unit, "ms") == 0 ? 1000000 : 1;
	c->unit = strcmp(unit, "i") == 0   ? "instructions"
		  : strcmp(unit, "B") == 0 ? "bytes allocated and freed"
					   : NULL;
	return c->unit || c->unit_ns > 1;
}

/* The snapshots of --xtree-memory are different figures of one moment. */
static bool take_description(struct massif_input *c, const char *text)
{
	if (strncmp(text, "xtree", 5) == 0) {
		import_problem(c->in, "but of --xtree-memory, whose trees are not moments; run "
				      "valgrind --tool=massif or --tool=dhat");
		import_fail(c->in, MAYFLY_E_ABSENT);
	}
	return true;
}

static bool take_snapshot(struct massif_input *c)
{
	if (!c->unit_ns)
		return false;
	leave_nodes(c, 0);
	c->in_tree = false;
	c->snapshots++;
	return true;
}

/* What follows the word that the line begins with, or NULL. */
static char *after(char *line, const char *word)
{
	size_t length = strlen(word);

	return strncmp(line, word, length) == 0 ? line + length : NULL;
}

static bool massif_line(void *context, char *line, size_t length)
{
	struct massif_input *c = context;
	const char *at;
	char *rest;

	if ((at = after(line, "desc: ")))
		return take_description(c, at);
	if (*line == '#' || !length)
		return true;
	if ((at = after(line, "mem_heap_B=")))
		return massif_number(&at, &c->heap);
	if (after(line, "mem_"))
		return true;
	if ((rest = after(line, "cmd: ")))
		return import_command(c->in, rest), true;
	if ((at = after(line, "time_unit: ")))
		return take_unit(c, at);
	if (after(line, "snapshot="))
		return take_snapshot(c);
	if ((at = after(line, "time=")))
		return massif_number(&at, &c->time);
	if ((at = after(line, "heap_tree=")))
		return c->snapshots && take_tree(c, at);
	return c->in_tree && take_node(c, line, length);
}

/* ---- rows ---- */

static int compare_point(const void *a, const void *b)
{
	const struct massif_point *x = a, *y = b;

	if (x->path != y->path)
		return x->path < y->path ? -1 : 1;
	return x->moment < y->moment ? -1 : x->moment > y->moment;
}

/* The way from the root is the stack, from its leaf on. */
static void add_path(struct massif_input *c, uint32_t path)
{
	uint32_t frame[TRACE_MAX_DEPTH + 1];
	size_t depth = 0;

	for (; path && depth <= TRACE_MAX_DEPTH; path = (uint32_t)c->paths.key[path - 1].word[0])
		frame[depth++] = (uint32_t)c->paths.key[path - 1].word[1];
	while (depth)
		heap_profile_frame(&c->profile, frame[--depth]);
}

static void massif_add_rows(struct massif_input *c)
{
	const struct heap_figures none = {0};

	if (c->points)
		qsort(c->point, c->points, sizeof(*c->point), compare_point);
	for (size_t i = 0; i < c->points && !import_failed(c->in);) {
		uint32_t path = c->point[i].path;

		add_path(c, path);
		while (i < c->points && c->point[i].path == path) {
			struct heap_point p = {.step = c->point[i].moment};

			for (; i < c->points && c->point[i].path == path &&
			       c->point[i].moment == p.step;
			     i++)
				p.live_bytes += c->point[i].bytes;
			heap_profile_point(&c->profile, &p);
		}
		heap_profile_row(&c->profile, &none);
	}
}

/* ---- the whole file ---- */

static void massif_describe(struct massif_input *c)
{
	char higher[96] = "", unit[96] = "";

	if (c->unit)
		snprintf(unit, sizeof(unit), "; times count %s, a nanosecond for each", c->unit);
	if (c->highest > c->highest_tree)
		snprintf(higher, sizeof(higher), " (the highest has %" PRIu64 " bytes)",
			 c->highest);
	import_describe(c->in,
			"converted from a massif file: %" PRIu64 " of its %" PRIu64
			" snapshots; the others have no stacks%s%s",
			c->trees, c->snapshots, higher, unit);
	c->in->tables->info.duration_ns = c->moment[c->moments - 1];
	c->profile.steps = (uint32_t)c->moments;
	c->profile.step_at = c->moment;
	c->profile.absent = MAYFLY_ABSENT_START | MAYFLY_ABSENT_MODULES | MAYFLY_ABSENT_BLOCKS |
			    MAYFLY_ABSENT_ALLOCATED;
}

/* The last snapshot is a moment even when its stacks are not known. */
static void add_last(struct massif_input *c)
{
	uint32_t path;

	leave_nodes(c, 0);
	if (!c->snapshots)
		import_fail(c->in, MAYFLY_E_EMPTY);
	if (import_failed(c->in) || c->in_tree)
		return;
	add_moment(c);
	if (!c->heap || import_failed(c->in))
		return;
	path = path_of_name(c, 0, "(massif kept no stacks of its last snapshot)");
	IMPORT_APPEND(c->in, c->point, c->points, c->point_room,
		      (struct massif_point){path, (uint32_t)c->moments - 1, c->heap});
}

void massif_import(struct import *in)
{
	struct massif_input c = {.in = in};

	heap_profile_begin(&c.profile, in);
	import_lines(in, massif_line, &c);
	add_last(&c);
	if (!import_failed(in)) {
		massif_add_rows(&c);
		massif_describe(&c);
		heap_profile_write(&c.profile);
	}
	heap_profile_end(&c.profile);
	interner_free(&c.paths);
	free(c.moment);
	free(c.point);
}

bool massif_recognise(const void *data, size_t size)
{
	char text[4096];

	text[packed_peek(data, size, text, sizeof(text) - 1)] = 0;
	return strncmp(text, "desc: ", 6) == 0 && strstr(text, "\ncmd: ") &&
	       strstr(text, "\ntime_unit: ");
}
