/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer of text and bytes before a sink, with the quoting that text formats need. Bytes that are
 * not UTF-8 become U+FFFD. Functions return nothing: after an error they do nothing, and out_end()
 * returns it.
 */
#ifndef MAYFLY_OUT_H
#define MAYFLY_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"
#include "trace/write/writer.h"

struct out {
	trace_sink *sink;
	void *context;
	int error; /* the first one, from the sink or out_fail() */
	size_t used;
	char buffer[16384];
};

void out_begin(struct out *o, trace_sink *sink, void *context);
/* What is to be written cannot be made; 0: it can. */
void out_fail(struct out *o, int error);
/* Passes the rest to the sink. 0 or the first error. */
int out_end(struct out *o);

void out_bytes(struct out *o, const void *bytes, size_t size);
void out_text(struct out *o, const char *text);
void out_char(struct out *o, char c);
void out_unsigned(struct out *o, uint64_t value);
void out_format(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

void out_json(struct out *o, const char *text); /* with its quotes */
void out_xml(struct out *o, const char *text);	/* of an element or attribute */
/* RFC 4180: with quotes if needed. Before what a spreadsheet would take for a formula stands a "'". */
void out_csv(struct out *o, const char *text);
/* A frame of a folded stack, where ';' separates frames and line ends separate stacks. */
void out_folded(struct out *o, const char *text);

#endif
