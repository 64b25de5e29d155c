/* SPDX-License-Identifier: Apache-2.0 */
/* Writing Memtrace's files, and converting traces to them. */
#ifndef MAYFLY_MEMTRACE_WRITE_H
#define MAYFLY_MEMTRACE_WRITE_H

#include "convert/memtrace.h"
#include "trace/write/writer.h"

struct memtrace_writer;

/* Returns the meaning of a code, like memtrace_locate(). It is called for a new code, and again for
 * a code that Memtrace's bounded cache has dropped; at the latest by memtrace_writer_finish(). */
typedef const struct memtrace_location *memtrace_locator(void *context, int64_t code,
							 size_t *count);

/* info->version 0 stands for 2, which all tools read. The sink gets whole packets. */
int memtrace_writer_new(const struct memtrace_info *info, memtrace_locator *locate,
			void *locate_context, trace_sink *sink, void *sink_context,
			struct memtrace_writer **writer);

/* The domain of the events to come, at first info->domain. Up to version 2 there is one, and this
 * does nothing. As in Memtrace's tools, a packet ends where the domain changes. */
int memtrace_writer_domain(struct memtrace_writer *w, unsigned number);

/* time_us is since the start; a time before that of the previous event is replaced by that. *id:
 * the block's id; up to version 2 they are counted from 0. Codes must not be 0. As in Memtrace, stacks that take more than
 * 4 KiB lose their innermost frames. */
int memtrace_writer_alloc(struct memtrace_writer *w, int64_t time_us, int64_t length,
			  int64_t samples, enum memtrace_source source, const int64_t *stack,
			  size_t depth, int64_t *id);
int memtrace_writer_promote(struct memtrace_writer *w, int64_t time_us, int64_t id);
int memtrace_writer_collect(struct memtrace_writer *w, int64_t time_us, int64_t id);
/* Writes everything pending. The file is valid up to here. */
int memtrace_writer_flush(struct memtrace_writer *w);
int memtrace_writer_finish(struct memtrace_writer *w);
void memtrace_writer_free(struct memtrace_writer *w); /* NULL is allowed */

/*
 * Writes the blocks of these heaps (a bit 1 << enum mayfly_heap each; 0: OCaml's, or malloc's if
 * the trace has no OCaml blocks). Blocks of OCaml's heaps keep the trace's rate and samples. Blocks
 * of malloc get lengths in words, rounded up, and the source "external"; except for rounding,
 * Memtrace's estimates from the samples equal the trace's weights. `purpose` is the file's context
 * string, "" for none.
 */
int memtrace_from_trace(const struct mayfly_trace *trace, const char *purpose, uint32_t heaps,
			trace_sink *sink, void *context);

#endif
