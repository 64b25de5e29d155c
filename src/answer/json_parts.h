/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of JSON documents that several answers have. `key` as in json_writer.h. */
#ifndef MAYFLY_JSON_PARTS_H
#define MAYFLY_JSON_PARTS_H

#include <mayfly/trace.h>

#include "answer/json_writer.h"

/* A whole number; what is below 0 or not a number is 0. */
void json_rounded(struct json *j, const char *key, double value);
/* An array of them. */
void json_rounded_all(struct json *j, const char *key, const double *value, size_t count);
/* Null: INT64_MAX, which stands for "no end". */
void json_bound(struct json *j, const char *key, int64_t value);
/* Nanoseconds since 1970 as RFC 3339 in UTC, with milliseconds; null before that. */
void json_real_time(struct json *j, const char *key, int64_t ns);
/* e: may be NULL, which is null. */
void json_estimate(struct json *j, const char *key, const struct mayfly_estimate *e);
/* Members of the summary, in an object that is open. */
void json_summary(struct json *j, const struct mayfly_summary *s);
void json_places(struct json *j, const char *key, const struct mayfly_place *place, size_t length);
void json_labels(struct json *j, const char *key, const struct mayfly_trace *trace, uint32_t set);
/* A field of a track event, with its name. */
void json_track_value(struct json *j, const struct mayfly_track_type *type,
		      const struct mayfly_track_event *event, size_t field);

/* All that the trace says of itself: members of an object that is open. */
void json_info(struct json *j, const struct mayfly_trace *trace, const struct mayfly_summary *s,
	       uint64_t file_bytes);

/* ---- rows ---- */

/* What a row is, and what it has: members of an object that is open. */
void json_row_key(struct json *j, const struct mayfly_trace *trace, enum mayfly_by by,
		  const struct mayfly_row *row);
void json_row(struct json *j, const struct mayfly_trace *trace, enum mayfly_by by,
	      const struct mayfly_row *row);
/* "by" and "sort"; "metric" before them. */
void json_question(struct json *j, const struct mayfly_query *query, bool metric);
/* The first `count` rows of an answer. */
void json_result_rows(struct json *j, const char *key, const struct mayfly_trace *trace,
		      enum mayfly_by by, const struct mayfly_result *result, size_t count);

#endif
