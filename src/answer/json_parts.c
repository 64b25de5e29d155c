/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of JSON documents: see json_parts.h. */
#include "answer/json_parts.h"

#include <inttypes.h>
#include <math.h>

#include "answer/trace_names.h"
#include "answer/query_words.h"
#include "answer/text_format.h"

#define PLACE_BYTES 4096 /* for a name that is made of a module's */

void json_rounded(struct json *j, const char *key, double value)
{
	if (!(value > 0))
		value = 0;
	json_integer(j, key, value >= 0x1p63 ? INT64_MAX : (int64_t)llround(value));
}

void json_rounded_all(struct json *j, const char *key, const double *value, size_t count)
{
	JSON_LIST(j, key, i, i < count, json_rounded(j, NULL, value[i]));
}

void json_bound(struct json *j, const char *key, int64_t value)
{
	if (value == INT64_MAX)
		json_null(j, key);
	else
		json_integer(j, key, value);
}

static void put_figure(struct json *j, const char *key, const struct mayfly_figure *f)
{
	json_object(j, key);
	json_rounded(j, "estimate", f->estimate);
	json_rounded(j, "stderr", f->stderror);
	json_rounded(j, "low", f->low);
	json_rounded(j, "high", f->high);
	json_end(j);
}

void json_estimate(struct json *j, const char *key, const struct mayfly_estimate *e)
{
	if (!e) {
		json_null(j, key);
		return;
	}
	json_object(j, key);
	put_figure(j, "bytes", &e->bytes);
	put_figure(j, "blocks", &e->blocks);
	json_unsigned(j, "samples", e->samples);
	json_end(j);
}

void json_summary(struct json *j, const struct mayfly_summary *s)
{
	json_estimate(j, "allocated", &s->allocated);
	json_estimate(j, "peak", &s->peak);
	json_integer(j, "peak_time_ns", s->peak_time_ns);
	json_estimate(j, "live_at_end", &s->live_at_end);
	json_estimate(j, "temporary", &s->temporary);
}

static void put_place(struct json *j, const struct mayfly_place *place)
{
	char buffer[PLACE_BYTES];
	bool characters = place->last_char;

	json_text(j, "function",
		  frame_shown_name(buffer, sizeof(buffer), place->kind, place->function,
				   place->module, place->address));
	json_text_or_null(j, "file", place->file);
	json_unsigned_or_null(j, "line", place->line, place->line);
	json_unsigned_or_null(j, "first_char", characters, place->first_char);
	json_unsigned_or_null(j, "last_char", characters, place->last_char);
	json_text_or_null(j, "module", place->module);
	json_bool(j, "inlined", place->inlined);
	json_bool(j, "recursive", place->recursive);
}

void json_places(struct json *j, const char *key, const struct mayfly_place *place, size_t length)
{
	JSON_ROWS(j, key, i, i < length)
		put_place(j, &place[i]);
}

/* ---- labels and events ---- */

void json_labels(struct json *j, const char *key, const struct mayfly_trace *trace, uint32_t set)
{
	size_t count;
	const struct mayfly_label *label = mayfly_trace_labels(trace, set, &count);

	JSON_ROWS(j, key, i, i < count) {
		json_text(j, "key", label[i].key);
		json_text(j, "value", label[i].value);
	}
}

/* Many readers take whole numbers only up to INT64_MAX; larger ones are texts of digits. */
static void put_exact(struct json *j, const char *key, uint64_t value)
{
	char digits[24];

	if (value <= INT64_MAX)
		json_unsigned(j, key, value);
	else
		json_text(j, key, text_format(digits, sizeof(digits), "%" PRIu64, value));
}

void json_track_value(struct json *j, const struct mayfly_track_type *type,
		      const struct mayfly_track_event *event, size_t field)
{
	const union mayfly_value *v = &event->value[field];
	const char *key = type->field[field].name;

	switch ((enum mayfly_field_type)type->field[field].type) {
	case MAYFLY_FIELD_INT:
		json_integer(j, key, v->i);
		break;
	case MAYFLY_FIELD_UINT:
	case MAYFLY_FIELD_FLOW:
		put_exact(j, key, v->u);
		break;
	case MAYFLY_FIELD_FLOAT:
		json_real(j, key, v->f);
		break;
	case MAYFLY_FIELD_TEXT:
		json_text(j, key, v->text);
		break;
	}
}

/* ---- rows ---- */

/* Null: no thread freed it. */
static void put_thread(struct json *j, const char *name, const char *tid,
		       const struct mayfly_trace *trace, uint32_t index)
{
	const struct mayfly_thread *thread = mayfly_trace_thread(trace, index);

	if (index == UINT32_MAX) {
		json_null(j, name);
		json_null(j, tid);
		return;
	}
	json_text(j, name, thread ? thread->name : "");
	json_unsigned(j, tid, thread ? thread->tid : 0);
}

static void put_class(struct json *j, const char *key, const char *low, const char *high,
		      const struct mayfly_row *row)
{
	json_object(j, key);
	json_bound(j, low, row->low);
	json_bound(j, high, row->high);
	json_end(j);
}

static void put_function(struct json *j, const struct mayfly_row *row)
{
	char buffer[PLACE_BYTES];

	json_text(j, "function",
		  *row->function ? row->function : row_name(buffer, sizeof(buffer), row));
	json_text_or_null(j, "file", row->file);
	json_unsigned_or_null(j, "line", row->line, row->line);
	json_text_or_null(j, "module", row->module);
}

/* Null: the heap had no such block. */
static void put_holder(struct json *j, const struct mayfly_picture *p, size_t index)
{
	const struct mayfly_holder *h = p && index < p->holders ? &p->holder[index] : NULL;

	json_text_or_null(j, "holder", h ? h->name : "");
	json_text_or_null(j, "kind", h ? holder_kind_word(h->kind) : "");
	json_text_or_null(j, "place", h ? h->place : "");
	json_unsigned_or_null(j, "tid", h && h->tid, h ? h->tid : 0);
	json_unsigned_or_null(j, "retained_bytes", h != NULL, h ? h->bytes : 0);
	json_unsigned_or_null(j, "retained_blocks", h != NULL, h ? h->blocks : 0);
}

void json_row_key(struct json *j, const struct mayfly_trace *trace, enum mayfly_by by,
		  const struct mayfly_row *row)
{
	switch (by) {
	case MAYFLY_BY_FUNCTION:
	case MAYFLY_BY_LINE:
		put_function(j, row);
		break;
	case MAYFLY_BY_LABEL:
		json_text_or_null(j, "label", row->function);
		break;
	case MAYFLY_BY_STACK:
		json_places(j, "stack", row->stack, row->stack_length);
		break;
	case MAYFLY_BY_MODULE:
		json_text_or_null(j, "module", row->module);
		break;
	case MAYFLY_BY_THREAD:
		put_thread(j, "thread", "tid", trace, row->thread);
		break;
	case MAYFLY_BY_FREEING_THREAD:
		put_thread(j, "freeing_thread", "freeing_tid", trace, row->free_thread);
		break;
	case MAYFLY_BY_THREADS:
		put_thread(j, "thread", "tid", trace, row->thread);
		put_thread(j, "freeing_thread", "freeing_tid", trace, row->free_thread);
		break;
	case MAYFLY_BY_SIZE:
		put_class(j, "size", "low", "high", row);
		break;
	case MAYFLY_BY_LIFETIME:
		put_class(j, "lifetime", "low_ns", "high_ns", row);
		break;
	case MAYFLY_BY_HEAP:
		json_text(j, "heap", heap_name((uint32_t)row->low));
		break;
	case MAYFLY_BY_HOLDER:
		put_holder(j, mayfly_trace_picture(trace), (size_t)row->low);
		break;
	case MAYFLY_BY_TYPE:
		json_text_or_null(j, "type", row->function);
		if (!*row->function)
			put_class(j, "size", "low", "high", row);
		break;
	}
}

void json_row(struct json *j, const struct mayfly_trace *trace, enum mayfly_by by,
	      const struct mayfly_row *row)
{
	json_row_key(j, trace, by, row);
	json_estimate(j, "self", &row->self);
	json_estimate(j, "total", &row->total);
}

void json_question(struct json *j, const struct mayfly_query *query, bool metric)
{
	if (metric)
		json_text(j, "metric", metric_names[query->metric]);
	json_text(j, "by", by_names[query->by]);
	json_text(j, "sort", sort_names[query->sort]);
}

void json_result_rows(struct json *j, const char *key, const struct mayfly_trace *trace,
		      enum mayfly_by by, const struct mayfly_result *result, size_t count)
{
	JSON_ROWS(j, key, i, i < result->rows && i < count)
		json_row(j, trace, by, &result->row[i]);
}
