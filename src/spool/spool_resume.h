/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going on with a stream whose reader was killed. What it knew and the trace does not say stands in
 * FILE.keys beside FILE.part, in steps:
 *
 *	part	group | group | group | (torn)
 *	keys	 step |  step |		each: how far into each writer's packets its events reach,
 *					the keys (addresses or ids) of blocks that have outlived it,
 *					what was live at forks
 *
 * A step names the bytes of the part that it belongs to and ends with their last ones' checksum, so
 * the latest step whose part is there can be found, whatever was written last. Packets are given
 * back only after the step that covers them is written.
 */
#ifndef MAYFLY_SPOOL_RESUME_H
#define MAYFLY_SPOOL_RESUME_H

#include "base/bytes.h"
#include "spool/spool_stream.h"

#define RESUME_MAGIC	  "MAYFLYKY" /* 8 bytes */
#define RESUME_VERSION	  1u
#define RESUME_TAIL_BYTES 64u /* of the part, whose checksum a step has */

/* One writer's records before this place are in the part. */
struct resume_place {
	uint32_t writer;
	uint32_t bytes; /* of the body of the packet */
	uint64_t sequence;
};

struct resume_key {
	uint64_t serial, key;
};

/* A block of the part, which is live at its end or was at a fork. */
struct resume_block {
	uint64_t serial;
	struct trace_block block;
	bool found;
};

struct resume_fork {
	uint64_t ticks;
	struct resume_key *key; /* by serial */
	size_t keys;
};

/* What a stream has counted (struct spool_stream), in the order of a step. */
#define SPOOL_COUNTS(COUNT)                                                                        \
	COUNT(allocations)                                                                         \
	COUNT(frees)                                                                               \
	COUNT(inherited)                                                                           \
	COUNT(truncated)                                                                           \
	COUNT(unknown_frees)                                                                       \
	COUNT(lost_samples)                                                                        \
	COUNT(lost_frees)                                                                          \
	COUNT(lost_events)                                                                         \
	COUNT(missed_frees)                                                                        \
	COUNT(unkept_events)                                                                       \
	COUNT(left_out)

struct spool_resume {
	uint64_t part_bytes;
	struct spool_counts {
#define FIELD(name) uint64_t name;
		SPOOL_COUNTS(FIELD)
#undef FIELD
	} counts;
	int64_t now_ns;
	struct resume_place *place; /* by writer */
	size_t places, place_room;
	struct resume_key *key; /* by serial; once the part has been read: of those still live */
	size_t keys, key_room;
	struct resume_fork *fork;
	size_t forks, fork_room;

	/* From the part, by spool_resume_blocks(). */
	struct resume_block *block; /* by serial: of all keys */
	size_t blocks;
	uint64_t *last_serial; /* [threads]: of the latest allocation, plus 1; 0: none */
	size_t threads;
	struct resume_span { /* that are open, in the order of their begins */
		uint32_t type, thread;
	} * span;
	size_t spans, span_room;
};

/* The state that keys[] has for the longest part that is there. 0; MAYFLY_E_EMPTY: for none of it;
 * MAYFLY_E_MEMORY. */
int spool_resume_read(struct spool_resume *r, const void *keys, size_t size, const void *part,
		      size_t part_size);
/* Reads the blocks and the open spans from the part, whose size is cut to part_bytes. 0 or a
 * negative enum mayfly_error. */
int spool_resume_blocks(struct spool_resume *r, const struct mayfly_trace *part);
/* NULL: there is none. */
const struct resume_block *spool_resume_block(const struct spool_resume *r, uint64_t serial);
/* The writer's place among the first ones. NULL: there is none. */
struct resume_place *spool_resume_place(const struct spool_resume *r, size_t places,
					uint32_t writer);
void spool_resume_free(struct spool_resume *r);

/* The beginning of a file of steps. */
void spool_resume_begin(struct bytes *to);
/* Adds what has changed since the step before, or all (`whole`). part_bytes, tail: as above.
 * renumber: as for spool_stream_renumber(), which will be called next; or NULL. The stream is between
 * two calls of spool_stream_advance(), or in its mark(). */
void spool_resume_step(struct spool_stream *s, bool whole, uint64_t part_bytes, uint32_t tail,
		       uint64_t (*renumber)(void *context, uint64_t serial), void *context,
		       struct bytes *to);

#endif
