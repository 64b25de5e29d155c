/* SPDX-License-Identifier: Apache-2.0 */
/* json_events.c: spans, instants and counters as JSON: see event_rows.h. */
#include "answer/event_rows.h"

#include <math.h>

#include "answer/json_parts.h"
#include "query/span_bytes.h"

static size_t first_rows(size_t rows, size_t top)
{
	return top && top < rows ? top : rows;
}

static void put_name(struct json *j, const struct event_rows *e, uint32_t index)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(e->trace, index);

	json_text(j, "name", type->name);
	json_text_or_null(j, "category", type->category);
}

/* ---- spans ---- */

static void put_durations(struct json *j, const struct mayfly_span_row *row)
{
	JSON_ROWS_WHERE(j, "durations", i, i < MAYFLY_SPAN_CLASSES, row->in_class[i]) {
		json_integer(j, "low_ns", mayfly_span_class_ns(i));
		json_bound(j, "high_ns", mayfly_span_class_ns(i + 1));
		json_unsigned(j, "count", row->in_class[i]);
	}
}

static void put_worst(struct json *j, const struct event_rows *e, const struct span_bytes *b)
{
	JSON_ROWS(j, "worst", i, i < b->worst_count) {
		const struct worst_span *span = &b->worst[i];
		const struct mayfly_thread *thread = mayfly_trace_thread(e->trace, span->thread);

		json_text(j, "thread", thread->name);
		json_integer(j, "tid", thread->tid);
		json_integer(j, "begin_ns", span->begin_ns);
		json_integer(j, "end_ns", span->end_ns);
		json_integer(j, "first_ns", span->first_ns);
		json_integer(j, "last_ns", span->last_ns);
		json_integer(j, "bytes", llround(span->bytes));
		json_unsigned(j, "samples", span->blocks);
	}
}

/* What one span allocated; spans that have not ended do not count. */
static void put_each(struct json *j, const struct event_rows *e, const struct span_bytes *b)
{
	json_object(j, "each");
	json_real(j, "mean", b->mean);
	json_integer(j, "p50", b->p50);
	json_integer(j, "p99", b->p99);
	json_integer(j, "max", b->most);
	JSON_ROWS_WHERE(j, "classes", i, i < SPAN_BYTES_CLASSES, b->in_class[i]) {
		json_integer(j, "low", span_bytes_class(i));
		json_bound(j, "high", span_bytes_class(i + 1));
		json_unsigned(j, "count", b->in_class[i]);
	}
	put_worst(j, e, b);
	json_end(j);
}

static void put_span(struct json *j, const struct event_rows *e, const struct mayfly_span_row *row)
{
	double mean = row->count ? (double)row->total_ns / (double)row->count : 0;

	put_name(j, e, row->type);
	json_unsigned(j, "count", row->count);
	json_unsigned(j, "open", row->open);
	json_integer(j, "total_ns", row->total_ns);
	json_integer(j, "self_ns", row->self_ns);
	json_integer(j, "mean_ns", llround(mean));
	json_integer(j, "min_ns", row->min_ns);
	json_integer(j, "p50_ns", row->p50_ns);
	json_integer(j, "p90_ns", row->p90_ns);
	json_integer(j, "p99_ns", row->p99_ns);
	json_integer(j, "max_ns", row->max_ns);
	put_durations(j, row);
	if (e->blocks) {
		json_estimate(j, "allocated", &row->allocated);
		json_estimate(j, "self_allocated", &row->self_allocated);
		json_estimate(j, "live", &row->live);
		put_each(j, e, span_bytes_of(e->spans, row->type));
	}
}

/* ---- instants, counters, threads ---- */

static void put_sum(struct json *j, const struct event_rows *e, const struct mayfly_track_sum *sum)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(e->trace, sum->type);

	json_object(j, NULL);
	put_name(j, e, sum->type);
	json_unsigned(j, "count", sum->count);
	json_integer(j, "first_ns", sum->first_ns);
	json_integer(j, "last_ns", sum->last_ns);
	if (type->kind == MAYFLY_TYPE_COUNTER) {
		json_text_or_null(j, "unit", type->unit);
		json_real(j, "min", sum->min);
		json_real(j, "mean", sum->mean);
		json_real(j, "max", sum->max);
		json_real(j, "last", sum->last);
		json_real(j, "total", sum->total);
	}
	json_end(j);
}

static void put_sums(struct json *j, const char *key, const struct event_rows *e, bool counters,
		     size_t top)
{
	size_t rows = 0;

	json_array(j, key);
	for (size_t i = 0; i < e->sums->rows && (!top || rows < top); i++) {
		const struct mayfly_track_sum *sum = &e->sums->row[i];
		const struct mayfly_track_type *type = mayfly_trace_track_type(e->trace, sum->type);

		if ((event_section(type) != SECTION_INSTANTS) != counters)
			continue;
		put_sum(j, e, sum);
		rows++;
	}
	json_end(j);
}

static void put_cpu(struct json *j, const struct event_rows *e, size_t top)
{
	JSON_ROWS(j, "cpu_by_thread", i, i < first_rows(e->sums->threads, top)) {
		const struct mayfly_thread_cpu *cpu = &e->sums->thread[i];
		const struct mayfly_thread *thread = mayfly_trace_thread(e->trace, cpu->thread);

		json_text(j, "thread", thread->name);
		json_integer(j, "tid", thread->tid);
		json_integer(j, "cpu_ns", cpu->cpu_ns);
	}
}

static void put_pauses(struct json *j, const struct event_rows *e, size_t top)
{
	const struct thread_pauses *p = &e->pauses;

	JSON_ROWS(j, "pauses_by_thread", i, i < first_rows(p->rows, top)) {
		const struct mayfly_thread *thread =
		    mayfly_trace_thread(e->trace, p->row[i].thread);

		json_text(j, "thread", thread->name);
		json_integer(j, "tid", thread->tid);
		JSON_ROWS(j, "pauses", k, k < p->types) {
			put_name(j, e, p->type[k]);
			json_unsigned(j, "count", p->row[i].of[k].count);
			json_integer(j, "total_ns", p->row[i].of[k].total_ns);
			json_integer(j, "max_ns", p->row[i].of[k].max_ns);
		}
	}
}

void json_events(struct json *j, const struct event_rows *e, const struct mayfly_query *query,
		 size_t top)
{
	const struct mayfly_info *info = mayfly_trace_info(e->trace);
	int64_t end = info->duration_ns;

	json_integer(j, "from_ns", query->from_ns);
	json_integer(j, "to_ns", query->to_ns < end ? query->to_ns : end);
	json_text(j, "sort", span_sort_names[e->sort]);
	JSON_ROWS(j, "spans", i, i < first_rows(e->spans->rows, top))
		put_span(j, e, e->row[i]);
	json_unsigned(j, "unmatched_ends", e->spans->unmatched);
	json_unsigned(j, "ignored_spans", e->spans->ignored);
	if (e->sums) {
		put_sums(j, "instants", e, false, top);
		put_sums(j, "counters", e, true, top);
		put_cpu(j, e, top);
		put_pauses(j, e, top);
	}
	json_unsigned(j, "dropped_events", info->dropped_events);
	json_unsigned(j, "losses", e->losses);
}
