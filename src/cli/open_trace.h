/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the file that a command was given: a trace, a spool that an agent left behind (finalised
 * in memory), or standard input ("-").
 */
#ifndef MAYFLY_OPEN_TRACE_H
#define MAYFLY_OPEN_TRACE_H

#include <mayfly/trace.h>

struct opened_trace {
	struct mayfly_trace *trace;
	const struct mayfly_info *info;
	/* private */
	void *data;
	size_t size;
	bool mapped;
};

/* Is exactly one file left behind the options, at optind? False after saying what is wrong. */
bool one_trace_named(int argc, char **argv);

/* False after saying in one line on stderr what is wrong. */
bool open_trace(const char *path, struct opened_trace *opened);
void close_trace(struct opened_trace *opened);

#endif
