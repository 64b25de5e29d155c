/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading Memtrace's files, versions 1 to 3; printing them like Memtrace's dump tool; converting
 * them to traces.
 */
#ifndef MAYFLY_MEMTRACE_READ_H
#define MAYFLY_MEMTRACE_READ_H

#include "convert/import/imports.h"
#include "convert/memtrace.h"

enum memtrace_event_kind { MEMTRACE_ALLOC, MEMTRACE_PROMOTE, MEMTRACE_COLLECT };

struct memtrace_event {
	enum memtrace_event_kind kind;
	int64_t time_us; /* since info.start_us; never before the domain's previous event */
	int64_t id;	 /* of the block, unchecked: there may be no such block */
	/* The domain's ordinal by first appearance, from 0; and its number in the file. */
	unsigned domain_index, domain;
	/* ALLOC only. Numbers are unchecked: they may be negative in a damaged file. */
	int64_t length; /* words, without the header */
	int64_t samples;
	enum memtrace_source source;
	const int64_t *stack; /* codes, main first; valid until the next call */
	size_t depth;
	/* The number of first frames that it shares with the domain's previous allocation. */
	size_t shared;
	/* The same number in the file. It is larger than `shared` if Memtrace had to cut the
	 * previous stack; then this stack is unknown, and the previous one stands for it. */
	int64_t common_prefix;
};

/* What was skipped or repaired: it can be the result of a fork, a crash or a full disk. */
struct memtrace_skipped {
	uint64_t wrong_pid; /* packets of another process */
	uint64_t misplaced; /* packets with unexpected times or block ids */
	uint64_t truncated; /* 1: the file ends inside a packet */
	/* How far the clock was set back, in all; times after that are moved on by as much. */
	int64_t set_back_us;
};

struct memtrace_reader;

/* Opens a file of `size` bytes at `data`, which must stay unchanged until close. */
int memtrace_open(const void *data, size_t size, struct memtrace_reader **reader);
const struct memtrace_info *memtrace_info(const struct memtrace_reader *r);

/* 1: *event is the next one; 0: no more; negative: the error, now and for all later calls. */
int memtrace_next(struct memtrace_reader *r, struct memtrace_event *event);

/* The `*count` places that a code stands for, innermost last: several if functions were inlined,
 * none if the code is unknown so far. Valid until the next call of memtrace_next(). */
const struct memtrace_location *memtrace_locate(const struct memtrace_reader *r, int64_t code,
						size_t *count);
uint64_t memtrace_size(const struct memtrace_reader *r); /* of the file */
struct memtrace_skipped memtrace_skipped(const struct memtrace_reader *r);
/* What is wrong with a file that gave an error, as text for users; "" otherwise. Static. */
const char *memtrace_problem(const struct memtrace_reader *r);
void memtrace_close(struct memtrace_reader *r); /* NULL is allowed */

/* Prints one event as a line of Memtrace's dump tool. 0, MAYFLY_E_MEMORY or the sink's error. */
int memtrace_print(const struct memtrace_reader *r, const struct memtrace_event *e,
		   trace_sink *sink, void *context);

struct memtrace_converted {
	uint64_t blocks, frees;
	uint64_t promotions;
	uint64_t unmatched; /* promotions and collections of blocks missing in the file */
};

/* Reads to the end and makes the trace, as memtrace_import() does. */
void memtrace_convert(struct memtrace_reader *r, struct import *in,
		      struct memtrace_converted *converted);

#endif
