/* SPDX-License-Identifier: Apache-2.0 */
/* How track events and labels are said. */
#include "cli/track_text.h"

#include "cli/json.h"
#include "cli/open_trace.h"

#include "answer/by_label.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 1024

/* ---- how many ---- */

/* Spans that began, and of how many types. */
static int count_spans(const struct mayfly_trace *trace, struct track_counts *counts)
{
	size_t types = mayfly_trace_info(trace)->track_types;
	bool *seen = calloc(types + 1, sizeof(*seen));
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event e;
	int more = seen ? mayfly_track_cursor_open(trace, &cursor) : MAYFLY_E_MEMORY;

	if (more) {
		free(seen);
		return more;
	}
	while ((more = mayfly_track_cursor_next(cursor, &e)) == 1) {
		if (e.kind != MAYFLY_TRACK_BEGIN || e.type >= types)
			continue;
		counts->spans++;
		counts->span_types += !seen[e.type];
		seen[e.type] = true;
	}
	mayfly_track_cursor_close(cursor);
	free(seen);
	return more;
}

static int count_others(const struct mayfly_trace *trace, struct track_counts *counts)
{
	struct mayfly_track_sums *sums;
	struct mayfly_query all;
	int error;

	mayfly_query_defaults(&all);
	error = mayfly_track_sums_run(trace, &all, &sums);
	if (error)
		return error;
	for (size_t i = 0; i < sums->rows; i++) {
		if (mayfly_trace_track_type(trace, sums->row[i].type)->kind == MAYFLY_TYPE_COUNTER)
			counts->values += sums->row[i].count;
		else
			counts->instants += sums->row[i].count;
	}
	mayfly_track_sums_free(sums);
	return 0;
}

int count_tracks(const struct mayfly_trace *trace, struct track_counts *counts)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	int error;

	*counts = (struct track_counts){.label_sets = info->label_sets ? info->label_sets - 1 : 0};
	if (!info->track_events)
		return 0;
	error = count_spans(trace, counts);
	return error ? error : count_others(trace, counts);
}

/* Appends "3 THINGs" to a list; the second separator comes before all but the first. */
static void add_count(char *buffer, size_t size, uint64_t count, const char *thing)
{
	size_t used = strlen(buffer);

	if (count)
		snprintf(buffer + used, size - used, "%s%" PRIu64 " %s%s", used ? ", " : "", count,
			 thing, count == 1 ? "" : "s");
}

char *track_counts_text(char *buffer, size_t size, const struct track_counts *counts)
{
	size_t used;

	*buffer = 0;
	add_count(buffer, size, counts->spans, "span");
	used = strlen(buffer);
	if (counts->span_types > 1)
		snprintf(buffer + used, size - used, " of %zu types", counts->span_types);
	add_count(buffer, size, counts->instants, "instant");
	add_count(buffer, size, counts->values, "counter value");
	return buffer;
}

bool trace_has_no_blocks(const struct mayfly_info *info)
{
	return info->absent & MAYFLY_ABSENT_ALLOCATIONS;
}

/* ---- fields ---- */

static void print_labels(const struct output *o, const struct mayfly_trace *trace, bool hints)
{
	const char *key[MOST_LABEL_KEYS + 1];
	size_t keys = label_keys(trace, key, MOST_LABEL_KEYS + 1), used = 0;
	char text[TEXT_BYTES * 2] = "", clean[TEXT_BYTES];

	for (size_t i = 0; i < keys && i < MOST_LABEL_KEYS; i++) {
		text_clean(clean, sizeof(clean) / MOST_LABEL_KEYS, key[i]);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? ", " : "",
					 clean);
	}
	if (keys)
		print_field(o, "Labels", "%zu set%s; %s %s%s%s",
			    mayfly_trace_info(trace)->label_sets - 1,
			    mayfly_trace_info(trace)->label_sets == 2 ? "" : "s",
			    keys == 1 ? "key" : "keys", text, keys > MOST_LABEL_KEYS ? ", ..." : "",
			    hints ? " (--by label, --by label:KEY, --label RE)" : "");
}

/* When threads begin and end, and their CPU time: every recording has that. */
static bool only_of_threads(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (size_t i = 0; i < info->track_types; i++)
		if (strcmp(mayfly_trace_track_type(trace, i)->category, "thread") != 0)
			return false;
	return !info->dropped_events;
}

void print_track_fields(const struct output *o, const struct mayfly_trace *trace, bool hints)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct track_counts counts;
	char text[256], dropped[64] = "";

	if (info->dropped_events)
		snprintf(dropped, sizeof(dropped), "; %" PRIu64 " more could not be recorded",
			 info->dropped_events);
	if ((info->track_events || info->dropped_events) && !(hints && only_of_threads(trace))) {
		if (count_tracks(trace, &counts) != 0)
			return;
		track_counts_text(text, sizeof(text), &counts);
		print_field(o, "Events", "%s%s%s", *text ? text : "none", dropped,
			    !hints || !*text ? ""
			    : counts.spans   ? " (--events, --spans)"
					     : " (--events)");
	}
	/* Counters of stacks have no labels that an option could choose. */
	if (info->label_sets > 1 && !(hints && info->snapshot_ns))
		print_labels(o, trace, hints);
}

/* ---- names and values ---- */

static bool has_own_text(const char *unit)
{
	return strcmp(unit, "bytes") == 0 || strcmp(unit, "ns") == 0;
}

char *track_number(char *buffer, size_t size, const char *unit, double value)
{
	char text[FIGURE_TEXT];
	double positive = fabs(value);

	if (strcmp(unit, "bytes") == 0)
		text_bytes(text, sizeof(text), positive);
	else if (strcmp(unit, "ns") == 0)
		text_duration(text, sizeof(text), positive);
	else if (!(positive >= 999.5 && positive < 1e15)) /* also not a number */
		snprintf(text, sizeof(text), "%.3g", positive);
	else
		text_count(text, sizeof(text), positive);
	snprintf(buffer, size, "%s%s", value < 0 ? "-" : "", text);
	return buffer;
}

char *track_type_name(char *buffer, size_t size, const struct mayfly_track_type *type)
{
	if (type->kind == MAYFLY_TYPE_COUNTER && *type->unit && !has_own_text(type->unit))
		snprintf(buffer, size, "%s (%s)", type->name, type->unit);
	else
		snprintf(buffer, size, "%s", *type->name ? type->name : "[no name]");
	return buffer;
}

/* ---- JSON ---- */

json_t *json_labels(const struct mayfly_trace *trace, uint32_t set)
{
	size_t count;
	const struct mayfly_label *label = mayfly_trace_labels(trace, set, &count);
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++) {
		if (json_array_append_new(list,
					  json_pack("{s:o, s:o}", "key", json_text(label[i].key),
						    "value", json_text(label[i].value))) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* jansson's whole numbers end at INT64_MAX; what is larger is a text of digits, and exact. */
static json_t *json_exact(uint64_t value)
{
	char digits[24];

	if (value <= INT64_MAX)
		return json_integer((json_int_t)value);
	snprintf(digits, sizeof(digits), "%" PRIu64, value);
	return json_string(digits);
}

json_t *json_track_value(const struct mayfly_track_type *type,
			 const struct mayfly_track_event *event, size_t field)
{
	const union mayfly_value *v = &event->value[field];

	switch (type->field[field].type) {
	case MAYFLY_FIELD_INT:
		return json_integer(v->i);
	case MAYFLY_FIELD_UINT:
	case MAYFLY_FIELD_FLOW:
		return json_exact(v->u);
	case MAYFLY_FIELD_FLOAT:
		return isfinite(v->f) ? json_real(v->f) : json_null();
	}
	return json_text(v->text);
}
