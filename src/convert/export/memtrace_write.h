/* SPDX-License-Identifier: Apache-2.0 */
/* Writing Memtrace's files, version 2 with one domain, and converting traces to them. */
#ifndef MAYFLY_MEMTRACE_WRITE_H
#define MAYFLY_MEMTRACE_WRITE_H

#include "convert/memtrace.h"
#include "trace/write/writer.h"

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
