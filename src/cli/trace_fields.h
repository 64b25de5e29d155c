/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several commands print about a trace: a field each (print_field()), and nothing when there
 * is nothing to say. Text functions write into the caller's buffer and return it.
 */
#ifndef MAYFLY_TRACE_FIELDS_H
#define MAYFLY_TRACE_FIELDS_H

#include "terminal/output.h"

char *start_text(char *buffer, size_t size, const struct mayfly_info *info);
char *ending_text(char *buffer, size_t size, const struct mayfly_info *info);

/* For traces with memory that is there twice: what is summed. twice: all blocks of both. */
void print_overlap(const struct output *o, const struct mayfly_trace *trace, bool twice);

/* "Events" and "Labels". hints: for an overview, with the options that show them, and without the
 * events that every trace has. */
void print_track_fields(const struct output *o, const struct mayfly_trace *trace, bool hints);

/* What the trace lacks because the file that it was converted from lacks it. */
void print_absent(const struct output *o, const struct mayfly_info *info);
/* Frees that were not seen, and the remark of whoever wrote the trace. */
void print_bypass(const struct output *o, const struct mayfly_trace *trace);
/* When blocks of Python count as never freed; nothing where its interpreter has not ended. */
void print_python_end(const struct output *o, const struct mayfly_info *info);
/* These, and everything else that lowers the quality of the trace. */
void print_notes(const struct output *o, const struct mayfly_trace *trace);
/* What the trace cannot show, and what to do. */
void print_hints(const struct output *o, const struct mayfly_trace *trace);

/* How much was resident. */
void print_resident(const struct output *o, const struct mayfly_trace *trace);

#endif
