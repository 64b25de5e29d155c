/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memtrace's trace files: reading versions 1 to 3, writing version 2, printing what Memtrace's dump
 * tool prints, and converting from and to traces of mayfly.
 *
 * Such a file is a sequence of packets, of a header and events each:
 *
 *	packet: trace info | packet: locations | packet: events | packet: events | ...
 *
 * The events are allocations of sampled blocks, with their stacks, their promotions and their
 * collections. Stacks are codes, which stand for places in the program; what a code means was
 * written (as a location event) before the first allocation that needs it. Version 3 has several
 * domains, whose packets are independent of each other.
 *
 * Files are untrusted. Memory stays below some constant plus a small multiple of the file's size.
 * No input or output here: bytes come from memory and go to a sink.
 */
#ifndef MAYFLY_MEMTRACE_H
#define MAYFLY_MEMTRACE_H

#include <mayfly/trace.h>

#include "trace/write/writer.h"

#define MEMTRACE_NEWEST 3 /* version that can be read */

enum memtrace_source { MEMTRACE_MINOR = 0, MEMTRACE_MAJOR = 1, MEMTRACE_EXTERNAL = 2 };

struct memtrace_info {
	unsigned version;
	double sample_rate; /* chance of each word, a block's header included, to be a sample */
	unsigned word_size; /* bits */
	const char *executable, *host, *runtime_parameters;
	const char *context; /* "" when there is none */
	int64_t pid;
	int64_t start_us; /* since 1970 */
};

struct memtrace_location {
	const char *function, *file;
	uint32_t line, start_char, end_char;
};

enum memtrace_event_kind { MEMTRACE_ALLOC, MEMTRACE_PROMOTE, MEMTRACE_COLLECT };

struct memtrace_event {
	enum memtrace_event_kind kind;
	int64_t time_us; /* since info.start_us */
	int64_t id;	 /* of the block; the file's word for it, may be of no block at all */
	/* How many domains were seen before this one, and its number in the file. */
	unsigned domain_index, domain;
	/* ALLOC only. Numbers as the file has them: may be negative in a damaged one. */
	int64_t length; /* words, without the header */
	int64_t samples;
	enum memtrace_source source;
	const int64_t *stack; /* codes, main first; valid until the next call */
	size_t depth;
	/* Its first frames that are those of the domain's previous allocation. */
	size_t shared;
	/* The same as the file says it. More than `shared` when Memtrace had to cut the previous
	 * stack; then this stack is not known, and the previous one stands for it. */
	int64_t common_prefix;
};

/* What was left out, because it is what a fork, a crash or a full disk leaves behind. */
struct memtrace_skipped {
	uint64_t wrong_pid; /* packets of another process */
	uint64_t misplaced; /* of another time or with other block ids than expected */
	uint64_t truncated; /* 1: the file ends inside a packet */
};

/* ---- reading ---- */

struct memtrace_reader;

/* True when it begins like a file of Memtrace. */
bool memtrace_recognise(const void *data, size_t size);

/* Opens a file of `size` bytes at `data`, which stay there unchanged until close. */
int memtrace_open(const void *data, size_t size, struct memtrace_reader **reader);
const struct memtrace_info *memtrace_info(const struct memtrace_reader *r);

/* 1: *event is the next one; 0: no more; negative: the error, now and for all later calls. */
int memtrace_next(struct memtrace_reader *r, struct memtrace_event *event);

/* The places that a code stands for, `*count` of them, innermost last: several when functions were
 * inlined, none when nothing is known. Grows while events are read; valid until the next call of
 * memtrace_next(). */
const struct memtrace_location *memtrace_locate(const struct memtrace_reader *r, int64_t code,
						size_t *count);
uint64_t memtrace_size(const struct memtrace_reader *r); /* of the file */
struct memtrace_skipped memtrace_skipped(const struct memtrace_reader *r);
/* What is wrong with a file that gave an error, for people; "" otherwise. Static text. */
const char *memtrace_problem(const struct memtrace_reader *r);
void memtrace_close(struct memtrace_reader *r); /* NULL is allowed */

/* Prints one event as a line of Memtrace's dump tool. 0, MAYFLY_E_MEMORY or the sink's error. */
int memtrace_print(const struct memtrace_reader *r, const struct memtrace_event *e,
		   trace_sink *sink, void *context);

/* ---- writing: version 2, one domain ---- */

struct memtrace_writer;

/* Says what a code stands for, as memtrace_locate() does. Called for a code when it is new, and
 * again when Memtrace's bounded cache has lost it meanwhile, at latest by memtrace_writer_finish().
 */
typedef const struct memtrace_location *memtrace_locator(void *context, int64_t code,
							 size_t *count);

/* info->version is not used. The sink gets whole packets. */
int memtrace_writer_new(const struct memtrace_info *info, memtrace_locator *locate,
			void *locate_context, trace_sink *sink, void *sink_context,
			struct memtrace_writer **writer);

/* Each takes the time since the start; one before the last one's counts as that. *id: the block's,
 * counted from 0. Codes must not be 0. The innermost frames of stacks that take more than 4 KiB are
 * lost: that is so in Memtrace too. */
int memtrace_writer_alloc(struct memtrace_writer *w, int64_t time_us, int64_t length,
			  int64_t samples, enum memtrace_source source, const int64_t *stack,
			  size_t depth, int64_t *id);
int memtrace_writer_promote(struct memtrace_writer *w, int64_t time_us, int64_t id);
int memtrace_writer_collect(struct memtrace_writer *w, int64_t time_us, int64_t id);
/* Writes what is pending. The file so far is a valid one. */
int memtrace_writer_flush(struct memtrace_writer *w);
int memtrace_writer_finish(struct memtrace_writer *w);
void memtrace_writer_free(struct memtrace_writer *w); /* NULL is allowed */

/* ---- converting ---- */

struct memtrace_converted {
	uint64_t blocks, frees;
	uint64_t promotions;
	uint64_t unmatched; /* promotions and collections of blocks that are not in the file */
	const char
	    *problem; /* what is wrong with a file of which only a part was converted, or "" */
};

/* Reads to the end and writes a trace. What a damaged file holds before the damage is converted:
 * then the trace's note says so and the result is 0 all the same. */
int memtrace_to_trace(struct memtrace_reader *r, trace_sink *sink, void *context,
		      struct memtrace_converted *converted);

/*
 * Writes the blocks of these heaps (1 << enum mayfly_heap each; 0: OCaml's, or where the trace has
 * none, malloc's). Those of OCaml's heaps as the trace has them, with its rate. Of malloc's lengths
 * in words rounded up, source external; Memtrace's estimates from the samples are those of the
 * trace's weights, except for the roundings. `purpose` is the file's context string, "" for none.
 */
int memtrace_from_trace(const struct mayfly_trace *trace, const char *purpose, uint32_t heaps,
			trace_sink *sink, void *context);
/* The heaps that 0 stands for, or what was asked for. */
uint32_t memtrace_heaps(const struct mayfly_info *info, uint32_t asked);

#endif
