/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that a query is about: see block_filter.h. */
#include "convert/export/block_filter.h"

#include <stdio.h>

#include "convert/export/event_walk.h"
#include "convert/export/exports.h"
#include "query/query.h"

/* A set passes if one of its labels matches as "key=value". */
static bool choose_labels(struct block_filter *f)
{
	const struct mayfly_match *match = &f->query->label;
	char text[1024];

	if (!rank_set_begin(&f->labels, f->info->label_sets + 1))
		return false;
	for (size_t set = 0; match->matches && set < f->info->label_sets; set++) {
		size_t count;
		const struct mayfly_label *label = mayfly_trace_labels(f->trace, set, &count);

		for (size_t i = 0; i < count; i++) {
			snprintf(text, sizeof(text), "%s=%s", label[i].key, label[i].value);
			if (label_counts(label, i, count) && match->matches(match->context, text))
				rank_set_add(&f->labels, set);
		}
	}
	return true;
}

static int choose_nodes(struct block_filter *f)
{
	struct query_state s = {0};
	struct mayfly_query q;

	mayfly_query_defaults(&q);
	q.focus = f->query->focus;
	q.ignore = f->query->ignore;
	q.show_from = f->query->show_from;
	q.metric = f->query->metric;
	if (query_choose(&s, f->trace, &q))
		for (size_t i = 0; i < f->info->nodes; i++) {
			if (!s.node_kept || s.node_kept[i])
				rank_set_add(&f->nodes, i);
			if (s.interpreted && s.interpreted[i])
				rank_set_add(&f->kept, i);
		}
	query_end(&s);
	return s.error;
}

int block_filter_begin(struct block_filter *f, const struct mayfly_trace *trace,
		       const struct mayfly_query *query)
{
	*f =
	    (struct block_filter){.trace = trace, .info = mayfly_trace_info(trace), .query = query};
	if (!rank_set_begin(&f->nodes, f->info->nodes + 1) ||
	    !rank_set_begin(&f->kept, f->info->nodes + 1) ||
	    !rank_set_begin(&f->freed, f->info->samples + 1) ||
	    !rank_set_begin(&f->threads, f->info->threads + 1) || !choose_labels(f))
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < f->info->threads; i++)
		if (export_thread_fits(&query->thread, mayfly_trace_thread(trace, i)))
			rank_set_add(&f->threads, i);
	return choose_nodes(f);
}

void block_filter_end(struct block_filter *f)
{
	rank_set_free(&f->nodes);
	rank_set_free(&f->kept);
	rank_set_free(&f->freed);
	rank_set_free(&f->threads);
	rank_set_free(&f->labels);
}

bool block_filter_keeps(const struct block_filter *f, const struct mayfly_event *e)
{
	const struct mayfly_query *q = f->query;

	return e->size >= q->min_size && e->size <= q->max_size && e->alloc_time_ns >= q->from_ns &&
	       (e->alloc_time_ns < q->to_ns || q->to_ns == INT64_MAX) &&
	       (q->heaps ? q->heaps >> e->heap & 1 : mayfly_event_counts(f->trace, e)) &&
	       (!q->label.matches ||
		(e->labels < f->info->label_sets && rank_set_has(&f->labels, e->labels))) &&
	       e->node < f->info->nodes && rank_set_has(&f->nodes, e->node) &&
	       (!q->thread.matches ||
		(e->alloc_thread < f->info->threads && rank_set_has(&f->threads, e->alloc_thread)));
}

bool block_filter_keeps_lifetime(const struct block_filter *f, int64_t lifetime_ns)
{
	return lifetime_ns >= f->query->min_lifetime_ns && lifetime_ns <= f->query->max_lifetime_ns;
}

/* As query_was_kept(). */
static bool was_kept(const struct block_filter *f, const struct mayfly_event *e)
{
	return e->flags & MAYFLY_FLAG_ENDING && e->node < f->info->nodes &&
	       rank_set_has(&f->kept, e->node) && e->alloc_time_ns < f->info->python_end_ns;
}

struct filter_walk {
	struct block_filter *f;
	block_filter_take *take;
	void *context;
	bool second;
};

static int block_filter_take_event(void *context, const struct mayfly_event *e)
{
	const struct filter_walk *w = context;

	if (e->sample >= w->f->info->samples)
		return 0;
	if (e->kind == MAYFLY_FREE && !w->second && !was_kept(w->f, e)) {
		rank_set_add(&w->f->freed, e->sample);
		return w->take(w->context, e, true);
	}
	if (e->kind == MAYFLY_ALLOC && w->second && !rank_set_has(&w->f->freed, e->sample))
		return w->take(w->context, e, false);
	return 0;
}

int block_filter_walk(struct block_filter *f, block_filter_take *take, void *context)
{
	struct filter_walk w = {f, take, context, false};
	int error = export_each_event(f->trace, false, block_filter_take_event, &w);

	w.second = true;
	return error ? error : export_each_event(f->trace, false, block_filter_take_event, &w);
}
