/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From traces of mayfly to SQLite databases; sqlite_schema.c has the tables.
 *
 * A block's row is inserted when the block is freed, or at the end, so that each row is written
 * once and never updated. peak_find() comes first, so that it is known whether a block counts as
 * live at the peak. Track events have a separate pass (sqlite_tracks.c). Everything is one
 * transaction into a file without readers, so there is no journal, and SQLite's cache bounds the
 * memory.
 */
#include "convert/export/exports.h"

#include "convert/export/curve.h"
#include "answer/trace_names.h"
#include "answer/shown_stacks.h"
#include "convert/export/sqlite_rows.h"
#include "trace/read/cursor.h"
#include "query/estimate.h"
#include "trace/read/reader.h"
#include "trace/read/sums.h"

#include <stdlib.h>
#include <string.h>

#define STEPS 1000

/* ---- tables that samples refer to ---- */

static void put_modules(struct database *d)
{
	for (size_t i = 0; i < d->info->modules && !d->error; i++) {
		const struct mayfly_module *m = mayfly_trace_module(d->trace, i);
		char hex[BUILD_ID_TEXT];

		DATABASE_ROW(d, MODULES, UNSIGNED(i), TEXT(m->path), TEXT(export_build_id(hex, m)),
			     UNSIGNED(m->start), UNSIGNED(m->end), UNSIGNED(m->bias),
			     INTEGER(m->from_ns),
			     m->to_ns == INT64_MAX ? NOTHING : INTEGER(m->to_ns));
	}
}

static void sqlite_put_threads(struct database *d)
{
	for (size_t i = 0; i < d->info->threads && !d->error; i++) {
		const struct mayfly_thread *t = mayfly_trace_thread(d->trace, i);

		DATABASE_ROW(d, THREADS, UNSIGNED(i), UNSIGNED(t->tid), TEXT(t->name));
	}
}

static bool text_of_frame_matches(const struct mayfly_match *match, const char *function,
				  const char *file, const char *module)
{
	return match->matches && ((*function && match->matches(match->context, function)) ||
				  (*file && match->matches(match->context, file)) ||
				  (*module && match->matches(match->context, module)));
}

static bool sqlite_is_hidden(const struct database *d, const char *function, const char *file,
			     const char *module)
{
	const struct mayfly_match *hide = &d->query->hide, *show = &d->query->show;
	const struct mayfly_fold *fold = &d->query->fold;

	if (show->matches)
		return text_of_frame_matches(hide, function, file, module) ||
		       !text_of_frame_matches(show, function, file, module);
	return text_of_frame_matches(hide, function, file, module) ||
	       (fold->folds && fold->folds(fold->context, d->trace, function, file, module));
}

static void put_symbol(struct database *d, int64_t number, const struct mayfly_frame *f,
		       const struct mayfly_location *l, bool hidden)
{
	const struct mayfly_module *m = mayfly_trace_module(d->trace, f->module);
	char buffer[4096];
	const char *name = frame_shown_name(buffer, sizeof(buffer), f->kind, l ? l->function : "",
					    m ? m->path : "", f->address);

	DATABASE_ROW(d, SYMBOLS, INTEGER(number), TEXT(name), l ? TEXT(l->file) : NOTHING,
		     l && l->line ? UNSIGNED(l->line) : NOTHING, INTEGER(l && l->inlined),
		     INTEGER(hidden));
}

static void put_symbols(struct database *d)
{
	int64_t number = 0;

	for (size_t i = 0; i < d->info->frames && !d->error; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(d->trace, i);
		const struct mayfly_module *m = mayfly_trace_module(d->trace, f->module);
		size_t count = f->locations ? f->locations : 1;

		d->symbol[i] = -1;
		for (size_t k = 0; k < count; k++, number++) {
			const struct mayfly_location *l = f->locations ? &f->location[k] : NULL;
			bool hidden = sqlite_is_hidden(d, l ? l->function : "", l ? l->file : "",
						       m ? m->path : "");

			put_symbol(d, number, f, l, hidden);
			if (d->symbol[i] < 0 && !hidden && f->kind == MAYFLY_FRAME_CODE)
				d->symbol[i] = number;
		}
	}
}

static void put_frames(struct database *d)
{
	int64_t number = 0;

	for (size_t i = 0; i < d->info->frames && !d->error; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(d->trace, i);
		int64_t count = f->locations ? f->locations : 1;

		DATABASE_ROW(d, FRAMES, UNSIGNED(i),
			     f->module < d->info->modules ? UNSIGNED(f->module) : NOTHING,
			     UNSIGNED(f->address), INTEGER(number), INTEGER(count));
		number += count;
	}
}

/* Parents come before their children, so a parent's symbols are known. */
static void put_stacks(struct database *d)
{
	d->leaf[0] = -1;
	for (size_t i = 1; i < d->info->nodes && !d->error; i++) {
		struct mayfly_node n = mayfly_trace_node(d->trace, i);
		int64_t own = n.frame < d->info->frames ? d->symbol[n.frame] : -1;

		d->leaf[i] = own >= 0 ? own : n.parent < i ? d->leaf[n.parent] : -1;
		DATABASE_ROW(d, STACKS, UNSIGNED(i), UNSIGNED(n.parent), UNSIGNED(n.frame),
			     d->leaf[i] < 0 ? NOTHING : INTEGER(d->leaf[i]));
	}
}

/* ---- samples ---- */

struct release { /* of a block; a NULL pointer means that it is never freed */
	int64_t time_ns;
	uint32_t thread;
	uint8_t flags;
};

/* Whether a block counts as live at the peak, when it is freed or at the end. */
static bool is_at_peak(const struct database *d, uint64_t number, const struct weight *w,
		       bool freed)
{
	unsigned moment = peak_moment(number, weight_certain(w));

	return number < d->samples_at[moment] &&
	       (!freed || d->events > peak_at(&d->peak, moment).events);
}

/* An imported file may not say it. */
static struct cell is_temporary(const struct database *d, const struct cursor_block *b,
				const struct release *r)
{
	if (d->info->absent & MAYFLY_ABSENT_TEMPORARY)
		return NOTHING;
	return INTEGER(r && r->flags & MAYFLY_FLAG_TEMPORARY &&
		       !(b->flags & MAYFLY_FLAG_INHERITED));
}

static void put_sample(struct database *d, uint64_t number, const struct cursor_block *b,
		       const struct release *r)
{
	uint32_t heap = MAYFLY_FLAG_HEAP(b->flags);
	struct weight w =
	    weigh_sample(estimate_sampler(d->info->sampler, b->flags),
			 trace_interval(d->trace, b->flags, b->interval_log2), b->size, b->hits);

	DATABASE_ROW(
	    d, SAMPLES, UNSIGNED(number), INTEGER(b->time_ns), UNSIGNED(b->thread),
	    UNSIGNED(b->node), TEXT(export_heap_name(heap)), UNSIGNED(b->size), REAL(w.bytes),
	    REAL(w.blocks), REAL(w.variance_bytes), REAL(w.variance_blocks),
	    INTEGER(is_at_peak(d, number, &w, r)), INTEGER((b->flags & MAYFLY_FLAG_REALLOC) != 0),
	    INTEGER((b->flags & MAYFLY_FLAG_INHERITED) != 0), r ? INTEGER(r->time_ns) : NOTHING,
	    r ? UNSIGNED(r->thread) : NOTHING,
	    r ? INTEGER((r->flags & MAYFLY_FLAG_REALLOC) != 0) : NOTHING, is_temporary(d, b, r),
	    INTEGER(trace_counts(d->trace, heap, b->node)), UNSIGNED(b->labels));
}

/* The event that the pass has come to is an allocation. */
static void count_sample(struct database *d)
{
	for (unsigned moment = 0; moment <= PEAK_BEST; moment++)
		d->samples_at[moment] += d->events <= peak_at(&d->peak, moment).events;
}

static void put_batch(struct database *d, const struct cursor_batch *b)
{
	size_t freed = 0;

	for (size_t i = 0; i < b->e.events && !d->error; i++) {
		struct release r = {.time_ns = b->e.time_ns[i]};

		d->events++;
		if (!b->e.is_free[i]) {
			count_sample(d);
			continue;
		}
		r.thread = b->e.free_thread[freed];
		r.flags = b->e.free_flags[freed];
		put_sample(d, b->e.freed[freed], &b->freed[freed], &r);
		freed++;
	}
}

static void put_live(void *context, uint64_t number, const struct cursor_block *block)
{
	put_sample(context, number, block, NULL);
}

static void put_samples(struct database *d)
{
	struct mayfly_cursor *cursor;
	struct cursor_batch batch;
	int more = mayfly_cursor_open(d->trace, &cursor);

	if (more) {
		database_error(d, more);
		return;
	}
	while (!d->error && (more = cursor_next_batch(cursor, &batch)) == 1)
		put_batch(d, &batch);
	if (!d->error && more == 0)
		cursor_live(cursor, put_live, d);
	mayfly_cursor_close(cursor);
	if (more < 0)
		database_error(d, more);
}

static int put_promotion(void *context, const struct mayfly_event *e)
{
	struct database *d = context;

	if (e->kind == MAYFLY_PROMOTE)
		DATABASE_ROW(d, PROMOTIONS, UNSIGNED(e->sample), INTEGER(e->time_ns));
	return d->error;
}

static void put_blocks(struct database *d)
{
	database_error(d, peak_find(d->trace, false, &d->peak));
	if (!d->error)
		put_samples(d);
	if (!d->error && d->info->ocaml_interval_bytes)
		database_error(d, export_each_event(d->trace, true, put_promotion, d));
}

/* ---- snapshots ---- */

static void sqlite_put_part(struct database *d, const struct sums_part *part)
{
	for (size_t i = 0; i < part->nodes && !d->error; i++)
		DATABASE_ROW(d, INTERVALS, INTEGER(part->from_ns), INTEGER(part->to_ns),
			     UNSIGNED(part->node[i]), INTEGER(part->to_ns <= d->peak_ns),
			     UNSIGNED(part->allocs[i] - part->inherited[i]),
			     UNSIGNED(part->alloc_bytes[i] - part->inherited_bytes[i]),
			     UNSIGNED(part->inherited[i]), UNSIGNED(part->inherited_bytes[i]),
			     UNSIGNED(part->frees[i]), UNSIGNED(part->free_bytes[i]),
			     UNSIGNED(part->temps[i]), UNSIGNED(part->temp_bytes[i]));
}

static void put_intervals(struct database *d)
{
	struct sums_cursor *cursor;
	struct sums_part part;
	int more = sums_cursor_open(d->trace, &cursor);

	if (more) {
		database_error(d, more);
		return;
	}
	while (!d->error && (more = sums_cursor_next(cursor, &part)) == 1)
		sqlite_put_part(d, &part);
	sums_cursor_close(cursor);
	if (more < 0)
		database_error(d, more);
}

/* ---- info and counters ---- */

static void sqlite_put_counter(struct database *d, int64_t time_ns, const char *name, double value)
{
	DATABASE_ROW(d, COUNTERS, INTEGER(time_ns), TEXT(name), REAL(value));
}

/* Measurements of the process, and the recording's other counters. */
static void put_measured(struct database *d)
{
	for (size_t i = 0; i < d->info->counters && !d->error; i++) {
		const struct mayfly_counter *m = mayfly_trace_counter(d->trace, i);

		for (size_t k = 0; k < m->points && !d->error; k++)
			sqlite_put_counter(d, m->time_ns[k], m->name, m->value[k]);
	}
}

static void put_counters(struct database *d)
{
	struct curve curve;

	if (d->error)
		return;
	d->error = curve_make(d->trace, d->query, STEPS, 0, &curve);
	if (d->error)
		return;
	d->peak_ns = curve.peak_ns;
	d->peak_bytes = curve.peak.bytes.estimate;
	for (size_t i = 0; i < curve.steps && !d->error; i++) {
		const struct curve_step *s = &curve.step[i];

		sqlite_put_counter(d, s->to_ns, "largest_live_bytes", s->largest);
		sqlite_put_counter(d, s->to_ns, "live_bytes", s->live_bytes);
		sqlite_put_counter(d, s->to_ns, "live_blocks", s->live_blocks);
		sqlite_put_counter(d, s->to_ns, "allocated_bytes", s->allocated_bytes);
		sqlite_put_counter(d, s->to_ns, "allocated_blocks", s->allocated_blocks);
	}
	put_measured(d);
	curve_free(&curve);
}

#define ESTIMATE(e)                                                                                \
	REAL((e).bytes.estimate), REAL((e).bytes.stderror), REAL((e).blocks.estimate),             \
	    REAL((e).blocks.stderror), UNSIGNED((e).samples)

static void put_rows(struct database *d, const char *metric, struct mayfly_result *result)
{
	char buffer[4096];

	for (size_t i = 0; i < result->rows && !d->error; i++) {
		const struct mayfly_row *row = &result->row[i];
		const char *function = curve_function_name(row, buffer, sizeof(buffer));

		DATABASE_ROW(d, FUNCTIONS, TEXT(metric), TEXT(function), TEXT(row->file),
			     TEXT(row->module), ESTIMATE(row->self), ESTIMATE(row->total));
	}
	mayfly_result_free(result);
}

static void put_metric(struct database *d, enum mayfly_metric metric, const char *name)
{
	struct mayfly_query query = *d->query;
	struct mayfly_result *result;

	if (d->error)
		return;
	query.metric = metric;
	query.by = MAYFLY_BY_FUNCTION;
	d->error = mayfly_query_run(d->trace, &query, &result);
	if (d->error == MAYFLY_E_ABSENT)
		d->error = 0; /* an imported file may lack one metric, and have the others */
	else if (!d->error)
		put_rows(d, name, result);
}

/* Totals including callees, which would be slow to compute in SQL. */
static void put_functions(struct database *d)
{
	if (d->info->absent & MAYFLY_ABSENT_ALLOCATIONS)
		return;
	put_metric(d, MAYFLY_PEAK, "peak");
	put_metric(d, MAYFLY_LIVE, "live");
	put_metric(d, MAYFLY_ALLOCATED, "allocated");
	put_metric(d, MAYFLY_TEMPORARY, "temporary");
}

static void put_info(struct database *d, const char *purpose)
{
	const struct mayfly_info *info = d->info;
	const struct {
		const char *name;
		struct cell value;
	} facts[] = {
	    {"made_by", TEXT("mayfly " MAYFLY_VERSION)},
	    {"recorded_by", TEXT(info->version)},
	    {"program", TEXT(info->program)},
	    {"command", TEXT(purpose)},
	    {"mode", TEXT(info->mode == MAYFLY_EXACT ? "exact" : "sampled")},
	    {"sampler", TEXT(info->sampler == MAYFLY_POISSON ? "poisson" : "stratified")},
	    {"note", TEXT(info->note)},
	    {"pid", UNSIGNED(info->pid)},
	    {"interval_bytes", INTEGER((int64_t)info->interval_bytes)},
	    {"ocaml_interval_bytes", INTEGER((int64_t)info->ocaml_interval_bytes)},
	    {"snapshot_ns", INTEGER(info->snapshot_ns)},
	    {"start_real_ns", INTEGER(info->start_real_ns)},
	    {"duration_ns", INTEGER(info->duration_ns)},
	    {"samples", INTEGER((int64_t)info->samples)},
	    {"inherited", INTEGER((int64_t)info->inherited)},
	    {"frees", INTEGER((int64_t)info->frees)},
	    {"dropped_samples", INTEGER((int64_t)info->dropped_samples)},
	    {"dropped_frees", INTEGER((int64_t)info->dropped_frees)},
	    {"missed_frees", INTEGER((int64_t)info->missed_frees)},
	    {"track_events", INTEGER((int64_t)info->track_events)},
	    {"dropped_events", INTEGER((int64_t)info->dropped_events)},
	    {"truncated_stacks", INTEGER((int64_t)info->truncated_stacks)},
	    {"complete", INTEGER(info->complete)},
	    {"thinned", INTEGER(info->thinned)},
	    {"peak_ns", INTEGER(d->peak_ns)},
	    {"peak_bytes", REAL(d->peak_bytes)},
	};

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		DATABASE_ROW(d, INFO, TEXT(facts[i].name), facts[i].value);
}

/* ---- the whole file ---- */

static void sqlite_fill(struct database *d, const char *purpose)
{
	put_modules(d);
	sqlite_put_threads(d);
	put_symbols(d);
	put_frames(d);
	put_stacks(d);
	put_counters(d);
	put_functions(d);
	if (!d->error && d->info->snapshot_ns)
		put_intervals(d);
	else if (!d->error)
		put_blocks(d);
	sqlite_put_labels(d);
	sqlite_put_tracks(d);
	put_info(d, purpose);
}

int export_sqlite(const struct mayfly_trace *trace, const struct export_options *options,
		  const char *path)
{
	struct database d = {
	    .trace = trace, .info = mayfly_trace_info(trace), .query = options->query};

	d.symbol = calloc(d.info->frames + 1, sizeof(*d.symbol));
	d.leaf = calloc(d.info->nodes + 1, sizeof(*d.leaf));
	if (!d.symbol || !d.leaf)
		d.error = MAYFLY_E_MEMORY;
	database_begin(&d, path);
	if (!d.error)
		sqlite_fill(&d, options->purpose);
	database_end(&d);
	free(d.symbol);
	free(d.leaf);
	return d.error;
}
