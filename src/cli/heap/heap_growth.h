/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grew from picture to picture of one process. Holders and types are matched by what they are called:
 * variables by name and module, stacks by thread and function, mappings without a name by their address. What
 * several hold together is matched by who they are.
 *
 *	moment	0      1      2		a picture each
 *	series	12 MiB 14 MiB 19 MiB	of g_sessions
 *		-      24 B   48 B	of a type
 */
#ifndef MAYFLY_HEAP_GROWTH_H
#define MAYFLY_HEAP_GROWTH_H

#include "base/interner.h"
#include "picture/picture.h"

/* Then every other one is forgotten, and of those to come, but for the last one. So they are evenly spaced. */
#define HEAP_MOMENTS_MOST 512u

struct heap_moment {
	int64_t at_ns; /* since the first one */
	int64_t stopped_ns;
	uint64_t bytes, blocks;
};

enum heap_series_kind {
	HEAP_SERIES_HOLDER, /* what it retains */
	HEAP_SERIES_SHARED,
	HEAP_SERIES_LOST,
	HEAP_SERIES_TYPE, /* its own bytes */
};

struct heap_series {
	enum heap_series_kind kind;
	struct holder holder; /* of HEAP_SERIES_HOLDER; its texts last as long as the growth */
	const char *name;     /* readable; where: "a variable of orderd" */
	const char *where;
	const char *type;     /* of HEAP_SERIES_TYPE; "": of a size */
	uint64_t block_bytes; /* then: of a block */
	uint32_t *sharer;     /* of HEAP_SERIES_SHARED: series */
	size_t sharers;
	bool others;		  /* hold it, too */
	struct heap_total *total; /* of each moment; heap_series_at() */
	size_t room;
};

struct heap_growth {
	struct heap_moment *moment;
	size_t moments, moment_room;
	uint64_t taken, stride_log2; /* pictures in all; kept are those of each 2^stride_log2 */
	struct heap_series *series;
	size_t count, series_room;
	struct interner numbers; /* of kinds with identities */
	struct demangle *texts;
	char program[64];
};

/* All zero: no pictures. False: out of memory. */
bool heap_growth_add(struct heap_growth *g, const struct picture *p, int64_t at_ns);
void heap_growth_free(struct heap_growth *g);

struct heap_total heap_series_at(const struct heap_series *s, size_t moment);
/* Bytes, from the first picture to the last. */
double heap_series_grown(const struct heap_growth *g, const struct heap_series *s);
/* Its bytes rose in both of the last quarters of the pictures. */
bool heap_series_growing(const struct heap_growth *g, const struct heap_series *s);
/* Bytes a second, over the second half. */
double heap_series_rate(const struct heap_growth *g, const struct heap_series *s);

#endif
