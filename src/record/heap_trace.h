/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture of a heap as a trace of its own, so that everything that reads traces shows it, recorded
 * or not: each block is an allocation without a stack and a time, as large as malloc_usable_size()
 * says, and in the picture with its holder and its type.
 */
#ifndef MAYFLY_HEAP_TRACE_H
#define MAYFLY_HEAP_TRACE_H

#include "picture/picture.h"
#include "trace/write/writer.h"

/* 0 or a negative enum mayfly_error; the caller frees to->bytes in both cases. */
int heap_trace_write(const struct picture *p, struct trace_buffer *to);

#endif
