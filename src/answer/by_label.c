/* SPDX-License-Identifier: Apache-2.0 */
/* What each value of a label has: see by_label.h. */
#include "answer/by_label.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "answer/estimate_add.h"
#include "answer/text_format.h"

size_t label_keys(const struct mayfly_trace *trace, const char **key, size_t most)
{
	size_t sets = mayfly_trace_info(trace)->label_sets, keys = 0, count;

	for (size_t set = 1; set < sets && keys < most; set++) {
		const struct mayfly_label *label = mayfly_trace_labels(trace, set, &count);

		for (size_t i = 0; i < count && keys < most; i++) {
			size_t k = 0;

			while (k < keys && strcmp(key[k], label[i].key) != 0)
				k++;
			if (k == keys)
				key[keys++] = label[i].key;
		}
	}
	return keys;
}

bool trace_has_label(const struct mayfly_trace *trace, const char *key)
{
	size_t sets = mayfly_trace_info(trace)->label_sets, count;

	for (size_t set = 1; set < sets; set++) {
		const struct mayfly_label *label = mayfly_trace_labels(trace, set, &count);

		for (size_t i = 0; i < count; i++)
			if (!key || strcmp(label[i].key, key) == 0)
				return true;
	}
	return false;
}

/* What a value is called; one that is called as our own words is told apart from them. */
static const char *name_of(const char *value)
{
	if (*value == 0)
		return "(none)";
	if (strcmp(value, "(none)") == 0)
		return "\"(none)\"";
	return strcmp(value, "(others)") == 0 ? "\"(others)\"" : value;
}

/* ---- the values ---- */

static size_t shown_rows(const struct mayfly_result *r)
{
	return r->rows < BY_LABEL_VALUES ? r->rows : BY_LABEL_VALUES;
}

/* After the shown ones; created when it is first needed. */
static struct label_value *others(struct by_label *b)
{
	size_t shown = shown_rows(b->allocated);

	if (b->values == shown)
		b->value[b->values++].name = "(others)";
	return &b->value[shown];
}

static void take_allocated(struct by_label *b)
{
	const struct mayfly_result *r = b->allocated;

	b->values = shown_rows(r);
	for (size_t i = 0; i < r->rows; i++) {
		struct label_value *v = i < BY_LABEL_VALUES ? &b->value[i] : others(b);

		if (i < BY_LABEL_VALUES)
			v->name = name_of(r->row[i].function);
		estimate_add(&v->allocated, &r->row[i].self);
	}
}

static struct label_value *find_value(struct by_label *b, const char *text)
{
	for (size_t i = 0; i < shown_rows(b->allocated); i++)
		if (strcmp(b->allocated->row[i].function, text) == 0)
			return &b->value[i];
	return others(b);
}

/* Also of values that allocated nothing in the window. */
static void take_live(struct by_label *b, const struct mayfly_result *live)
{
	for (size_t i = 0; i < live->rows; i++)
		estimate_add(&find_value(b, live->row[i].function)->live, &live->row[i].self);
	for (size_t i = 0; i < b->values; i++) {
		if (b->value[i].allocated.samples == 0)
			b->value[i].allocated = b->allocated->nothing;
		if (b->value[i].live.samples == 0)
			b->value[i].live = live->nothing;
	}
}

/* The label of pools is only on blocks that queries leave out by default. */
static bool is_without_label(const struct mayfly_result *r)
{
	return r->rows == 0 || (r->rows == 1 && *r->row[0].function == 0);
}

static int ask(struct by_label *b, const struct mayfly_trace *trace,
	       const struct mayfly_query *query, size_t points)
{
	struct mayfly_query asked = *query;
	struct mayfly_result *live;
	int error;

	asked.by = MAYFLY_BY_LABEL;
	asked.label_key = b->key;
	asked.sort = MAYFLY_SORT_SELF;
	asked.metric = MAYFLY_ALLOCATED;
	error = mayfly_query_run(trace, &asked, &b->allocated);
	if (!error)
		error = mayfly_series_run(trace, &asked, points, BY_LABEL_VALUES, &b->series);
	if (error)
		return error;
	asked.metric = MAYFLY_LIVE;
	asked.at_ns =
	    query->to_ns < mayfly_trace_info(trace)->duration_ns ? query->to_ns : MAYFLY_AT_END;
	asked.from_ns = 0;
	asked.to_ns = INT64_MAX;
	error = mayfly_query_run(trace, &asked, &live);
	if (error)
		return error;
	if (!is_without_label(b->allocated) || !is_without_label(live)) {
		take_allocated(b);
		take_live(b, live);
	}
	mayfly_result_free(live);
	return 0;
}

int by_label_begin(struct by_label *b, const struct mayfly_trace *trace,
		   const struct mayfly_query *query, const char *key, size_t points)
{
	int error;

	*b = (struct by_label){.key = key};
	error = ask(b, trace, query, points);
	return error == MAYFLY_E_ABSENT ? 0 : error;
}

void by_label_end(struct by_label *b)
{
	mayfly_series_free(b->series);
	mayfly_result_free(b->allocated);
	*b = (struct by_label){0};
}

void by_label_title(char *buffer, size_t size, const char *of, const struct by_label *b)
{
	bool taken = strcmp(b->key, "function") == 0;

	text_format(buffer, size, "%s by %s%s", of, taken ? "label " : "", b->key);
}

static uint64_t rounded(double value)
{
	if (!(value > 0))
		return 0;
	return value < 0x1p63 ? (uint64_t)llround(value) : INT64_MAX;
}

void label_figures(const struct label_value *v, struct label_figure figure[LABEL_FIGURES])
{
	const struct mayfly_figure *bytes = &v->allocated.bytes, *live = &v->live.bytes;
	const struct label_figure all[LABEL_FIGURES] = {
	    {"bytes", rounded(bytes->estimate)},
	    {"low", rounded(bytes->low)},
	    {"high", rounded(bytes->high)},
	    {"standard error", rounded(bytes->stderror)},
	    {"blocks", rounded(v->allocated.blocks.estimate)},
	    {"samples", v->allocated.samples},
	    {"live bytes", rounded(live->estimate)},
	    {"live low", rounded(live->low)},
	    {"live high", rounded(live->high)},
	};

	memcpy(figure, all, sizeof(all));
}
