/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How track events and labels are said: what a trace has of them, their names and values. Text
 * functions write into the caller's buffer and return it.
 */
#ifndef MAYFLY_TRACK_TEXT_H
#define MAYFLY_TRACK_TEXT_H

#include "cli/output.h"

#include <jansson.h>

/* A span counts once. */
struct track_counts {
	uint64_t spans, instants, values; /* values: of counters */
	size_t span_types, label_sets;	  /* types: that began; sets: without the empty one */
};

/* Of the whole trace. 0 or a negative enum mayfly_error. */
int count_tracks(const struct mayfly_trace *trace, struct track_counts *counts);

/* "1234 spans of 4 types, 20 instants, 1 counter value"; "" when there is none of them. */
char *track_counts_text(char *buffer, size_t size, const struct track_counts *counts);

#define MOST_LABEL_KEYS 8 /* that are named */

/* "Events" and "Labels", a field each; nothing when the trace has none. hints: for an overview,
 * with the options that show them, and nothing of events that every trace has. */
void print_track_fields(const struct output *o, const struct mayfly_trace *trace, bool hints);

/* Whether blocks are what a trace is not about: it was made of a file that has events alone. */
bool trace_has_no_blocks(const struct mayfly_info *info);

/* A counter's value in its unit. */
char *track_number(char *buffer, size_t size, const char *unit, double value);
/* "parse", with the unit when track_number() does not say it: "queue (requests)". */
char *track_type_name(char *buffer, size_t size, const struct mayfly_track_type *type);

/* NULL: out of memory. */
json_t *json_labels(const struct mayfly_trace *trace, uint32_t set);
json_t *json_track_value(const struct mayfly_track_type *type,
			 const struct mayfly_track_event *event, size_t field);

#endif
