/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A finished trace with other names: a copy in which only NAME differs, the strings that no other
 * chunk refers to, and the places in the index.
 */
#ifndef MAYFLY_NAMES_REPLACE_H
#define MAYFLY_NAMES_REPLACE_H

#include "trace/read/reader.h"
#include "trace/write/writer.h"

struct new_names {
	const struct mayfly_location *location;
	const struct late_name *name; /* other frames keep what they have */
	size_t names;
	const bool *cured; /* of each module: forget why it had no symbols; NULL: of none */
};

/* 0; what the sink said; MAYFLY_E_EMPTY: the trace is not whole, so that it cannot be copied; or
 * another negative enum mayfly_error. */
int trace_replace_names(const struct mayfly_trace *t, const struct new_names *names,
			trace_sink *sink, void *context);

#endif
