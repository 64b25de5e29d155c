/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From traces of mayfly to SQLite databases; sqlite_schema.c has the tables.
 *
 * A block's row is inserted when the block is freed, or at the end, so that each row is written
 * once and never updated. A first pass over the events finds the peak, so that it is known whether
 * a block was live then. Track events have a separate pass (sqlite_tracks.c). Everything is one
 * transaction into a file without readers, so there is no journal, and SQLite's cache bounds the
 * memory.
 */
#include "convert/export/exports.h"

#include "convert/export/curve.h"
#include "answer/trace_names.h"
#include "answer/shown_stacks.h"
#include "convert/export/sqlite_rows.h"
#include "convert/export/sqlite_schema.h"
#include "convert/export/sqlite_tracks.h"
#include "trace/read/cursor.h"
#include "query/estimate.h"
#include "trace/read/reader.h"
#include "trace/read/sums.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 1000

static const char settings[] = "PRAGMA page_size = 16384; PRAGMA journal_mode = OFF;"
			       "PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
			       "PRAGMA cache_size = -32768; BEGIN;";

/* ---- tables that samples refer to ---- */

static void put_modules(struct database *d)
{
	database_begin_rows(d, "INSERT INTO modules VALUES(?,?,?,?,?,?,?,?)");
	for (size_t i = 0; i < d->info->modules && !d->error; i++) {
		const struct mayfly_module *m = mayfly_trace_module(d->trace, i);
		char hex[2 * 64 + 1] = "";

		for (size_t k = 0; k < m->build_id_length && k < 64; k++)
			snprintf(hex + 2 * k, 3, "%02x", m->build_id[k]);
		database_bind_unsigned(d, i);
		database_bind_text(d, m->path);
		database_bind_text(d, hex);
		database_bind_unsigned(d, m->start);
		database_bind_unsigned(d, m->end);
		database_bind_unsigned(d, m->bias);
		database_bind_integer(d, m->from_ns);
		database_bind_time(d, m->to_ns);
		database_end_row(d);
	}
	database_end_rows(d);
}

static void sqlite_put_threads(struct database *d)
{
	database_begin_rows(d, "INSERT INTO threads VALUES(?,?,?)");
	for (size_t i = 0; i < d->info->threads && !d->error; i++) {
		const struct mayfly_thread *t = mayfly_trace_thread(d->trace, i);

		database_bind_unsigned(d, i);
		database_bind_unsigned(d, t->tid);
		database_bind_text(d, t->name);
		database_end_row(d);
	}
	database_end_rows(d);
}

static bool sqlite_is_hidden(const struct database *d, const char *function, const char *file,
			     const char *module)
{
	const struct mayfly_match *hide = &d->query->hide;

	return hide->matches && ((*function && hide->matches(hide->context, function)) ||
				 (*file && hide->matches(hide->context, file)) ||
				 (*module && hide->matches(hide->context, module)));
}

static void put_symbol(struct database *d, int64_t number, const struct mayfly_frame *f,
		       const struct mayfly_location *l, bool hidden)
{
	const struct mayfly_module *m = mayfly_trace_module(d->trace, f->module);
	char name[4096];

	database_bind_integer(d, number);
	database_bind_text(d, frame_shown_name(name, sizeof(name), f->kind, l ? l->function : "",
					       m ? m->path : "", f->address));
	database_bind_text(d, l ? l->file : "");
	if (l && l->line)
		database_bind_unsigned(d, l->line);
	else
		database_bind_null(d);
	database_bind_integer(d, l && l->inlined);
	database_bind_integer(d, hidden);
	database_end_row(d);
}

static void put_symbols(struct database *d)
{
	int64_t number = 0;

	database_begin_rows(d, "INSERT INTO symbols VALUES(?,?,?,?,?,?)");
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
	database_end_rows(d);
}

static void put_frames(struct database *d)
{
	int64_t number = 0;

	database_begin_rows(d, "INSERT INTO frames VALUES(?,?,?,?,?)");
	for (size_t i = 0; i < d->info->frames && !d->error; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(d->trace, i);
		size_t count = f->locations ? f->locations : 1;

		database_bind_unsigned(d, i);
		if (f->module < d->info->modules)
			database_bind_unsigned(d, f->module);
		else
			database_bind_null(d);
		database_bind_unsigned(d, f->address);
		database_bind_integer(d, number);
		database_bind_unsigned(d, count);
		database_end_row(d);
		number += (int64_t)count;
	}
	database_end_rows(d);
}

/* Parents come before their children, so a parent's symbols are known. */
static void put_stacks(struct database *d)
{
	database_begin_rows(d, "INSERT INTO stacks VALUES(?,?,?,?)");
	d->leaf[0] = -1;
	for (size_t i = 1; i < d->info->nodes && !d->error; i++) {
		struct mayfly_node n = mayfly_trace_node(d->trace, i);
		int64_t own = n.frame < d->info->frames ? d->symbol[n.frame] : -1;

		d->leaf[i] = own >= 0 ? own : n.parent < i ? d->leaf[n.parent] : -1;
		database_bind_unsigned(d, i);
		database_bind_unsigned(d, n.parent);
		database_bind_unsigned(d, n.frame);
		if (d->leaf[i] < 0)
			database_bind_null(d);
		else
			database_bind_integer(d, d->leaf[i]);
		database_end_row(d);
	}
	database_end_rows(d);
}

/* ---- samples ---- */

/* Sums up like mayfly_trace_summary(), to find the same peak. */
static void sqlite_find_peak(struct database *d)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	double live = 0, most = 0;
	uint64_t events = 0, allocs = 0;
	int more = mayfly_cursor_open(d->trace, &cursor);

	if (more) {
		d->error = more;
		return;
	}
	while ((more = mayfly_cursor_next(cursor, &e)) == 1) {
		events++;
		allocs += e.kind == MAYFLY_ALLOC;
		if (!mayfly_event_counts(d->trace, &e))
			continue;
		live += e.kind == MAYFLY_ALLOC ? e.weight_bytes : -e.weight_bytes;
		if (live > most) {
			most = live;
			d->events_at_peak = events;
			d->allocs_at_peak = allocs;
		}
	}
	mayfly_cursor_close(cursor);
	if (more < 0)
		d->error = more;
}

struct release { /* of a block; a NULL pointer means that it is never freed */
	int64_t time_ns;
	uint32_t thread;
	uint8_t flags;
};

static void bind_weight(struct database *d, const struct cursor_block *b)
{
	struct tally t = {0};

	tally_add(&t, estimate_sampler(d->info->sampler, b->flags),
		  trace_interval(d->trace, b->flags, b->interval_log2), b->size, b->hits);
	database_bind_real(d, t.exact_bytes + t.sampled_bytes);
	database_bind_real(d, t.exact_blocks + t.sampled_blocks);
	database_bind_real(d, t.variance_bytes);
	database_bind_real(d, t.variance_blocks);
}

static void put_sample(struct database *d, uint64_t number, const struct cursor_block *b,
		       const struct release *r)
{
	static const char *const heaps[MAYFLY_HEAPS] = {"malloc",   "ocaml-minor", "ocaml-major",
							"external", "pool",	   "pool-mapped"};

	database_bind_unsigned(d, number);
	database_bind_integer(d, b->time_ns);
	database_bind_unsigned(d, b->thread);
	database_bind_unsigned(d, b->node);
	if (!d->error)
		database_fail(d, sqlite3_bind_text(d->insert, ++d->column,
						   heaps[MAYFLY_FLAG_HEAP(b->flags)], -1,
						   SQLITE_STATIC));
	database_bind_unsigned(d, b->size);
	bind_weight(d, b);
	database_bind_integer(d,
			      number < d->allocs_at_peak && (!r || d->events > d->events_at_peak));
	database_bind_integer(d, (b->flags & MAYFLY_FLAG_REALLOC) != 0);
	database_bind_integer(d, (b->flags & MAYFLY_FLAG_INHERITED) != 0);
	if (r) {
		database_bind_integer(d, r->time_ns);
		database_bind_unsigned(d, r->thread);
		database_bind_integer(d, (r->flags & MAYFLY_FLAG_REALLOC) != 0);
		database_bind_integer(d, (r->flags & MAYFLY_FLAG_TEMPORARY) != 0);
	} else {
		database_bind_null(d);
		database_bind_null(d);
		database_bind_null(d);
		database_bind_integer(d, 0);
	}
	database_bind_integer(d, trace_counts(d->trace, MAYFLY_FLAG_HEAP(b->flags), b->node));
	database_bind_unsigned(d, b->labels);
	database_end_row(d);
}

static void put_batch(struct database *d, const struct cursor_batch *b)
{
	size_t freed = 0;

	for (size_t i = 0; i < b->e.events && !d->error; i++) {
		struct release r = {.time_ns = b->e.time_ns[i]};

		d->events++;
		if (!b->e.is_free[i])
			continue;
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
	int more = d->error ? d->error : mayfly_cursor_open(d->trace, &cursor);

	if (more) {
		d->error = more;
		return;
	}
	database_begin_rows(d, "INSERT INTO samples VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
	while (!d->error && (more = cursor_next_batch(cursor, &batch)) == 1)
		put_batch(d, &batch);
	if (!d->error && more == 0)
		cursor_live(cursor, put_live, d);
	database_end_rows(d);
	mayfly_cursor_close(cursor);
	if (more < 0 && !d->error)
		d->error = more;
}

static void put_promotions(struct database *d)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more;

	if (d->error || !d->info->ocaml_interval_bytes)
		return;
	more = mayfly_cursor_open(d->trace, &cursor);
	if (more) {
		d->error = more;
		return;
	}
	mayfly_cursor_promotions(cursor);
	database_begin_rows(d, "INSERT INTO promotions VALUES(?,?)");
	while (!d->error && (more = mayfly_cursor_next(cursor, &e)) == 1) {
		if (e.kind != MAYFLY_PROMOTE)
			continue;
		database_bind_unsigned(d, e.sample);
		database_bind_integer(d, e.time_ns);
		database_end_row(d);
	}
	database_end_rows(d);
	mayfly_cursor_close(cursor);
	if (more < 0 && !d->error)
		d->error = more;
}

/* ---- snapshots ---- */

static void sqlite_put_part(struct database *d, const struct sums_part *part)
{
	for (size_t i = 0; i < part->nodes && !d->error; i++) {
		database_bind_integer(d, part->from_ns);
		database_bind_integer(d, part->to_ns);
		database_bind_unsigned(d, part->node[i]);
		database_bind_integer(d, part->to_ns <= d->peak_ns);
		database_bind_unsigned(d, part->allocs[i]);
		database_bind_unsigned(d, part->alloc_bytes[i]);
		database_bind_unsigned(d, part->frees[i]);
		database_bind_unsigned(d, part->free_bytes[i]);
		database_bind_unsigned(d, part->temps[i]);
		database_bind_unsigned(d, part->temp_bytes[i]);
		database_end_row(d);
	}
}

static void put_intervals(struct database *d)
{
	struct sums_cursor *cursor;
	struct sums_part part;
	int more = d->error ? d->error : sums_cursor_open(d->trace, &cursor);

	if (more) {
		d->error = more;
		return;
	}
	database_begin_rows(d, "INSERT INTO intervals VALUES(?,?,?,?,?,?,?,?,?,?)");
	while (!d->error && (more = sums_cursor_next(cursor, &part)) == 1)
		sqlite_put_part(d, &part);
	database_end_rows(d);
	sums_cursor_close(cursor);
	if (more < 0 && !d->error)
		d->error = more;
}

/* ---- info and counters ---- */

static void sqlite_put_counter(struct database *d, int64_t time_ns, const char *name, double value)
{
	database_bind_integer(d, time_ns);
	database_bind_text(d, name);
	database_bind_real(d, value);
	database_end_row(d);
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
	database_begin_rows(d, "INSERT INTO counters VALUES(?,?,?)");
	for (size_t i = 0; i < curve.steps && !d->error; i++) {
		const struct curve_step *s = &curve.step[i];

		sqlite_put_counter(d, s->to_ns, "largest_live_bytes", s->largest);
		sqlite_put_counter(d, s->to_ns, "live_bytes", s->live_bytes);
		sqlite_put_counter(d, s->to_ns, "live_blocks", s->live_blocks);
		sqlite_put_counter(d, s->to_ns, "allocated_bytes", s->allocated_bytes);
		sqlite_put_counter(d, s->to_ns, "allocated_blocks", s->allocated_blocks);
	}
	put_measured(d);
	database_end_rows(d);
	curve_free(&curve);
}

static void bind_estimate(struct database *d, const struct mayfly_estimate *e)
{
	database_bind_real(d, e->bytes.estimate);
	database_bind_real(d, e->bytes.stderror);
	database_bind_real(d, e->blocks.estimate);
	database_bind_real(d, e->blocks.stderror);
	database_bind_unsigned(d, e->samples);
}

static void put_metric(struct database *d, enum mayfly_metric metric, const char *name)
{
	struct mayfly_query query = *d->query;
	struct mayfly_result *result;
	char buffer[4096];

	if (d->error)
		return;
	query.metric = metric;
	query.by = MAYFLY_BY_FUNCTION;
	d->error = mayfly_query_run(d->trace, &query, &result);
	if (d->error)
		return;
	for (size_t i = 0; i < result->rows && !d->error; i++) {
		const struct mayfly_row *row = &result->row[i];

		database_bind_text(d, name);
		database_bind_text(d, curve_function_name(row, buffer, sizeof(buffer)));
		database_bind_text(d, row->file);
		database_bind_text(d, row->module);
		bind_estimate(d, &row->self);
		bind_estimate(d, &row->total);
		database_end_row(d);
	}
	mayfly_result_free(result);
}

/* Totals including callees, which would be slow to compute in SQL. */
static void put_functions(struct database *d)
{
	if (d->info->absent & MAYFLY_ABSENT_ALLOCATIONS)
		return;
	database_begin_rows(d, "INSERT INTO functions VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
	put_metric(d, MAYFLY_PEAK, "peak");
	put_metric(d, MAYFLY_LIVE, "live");
	put_metric(d, MAYFLY_ALLOCATED, "allocated");
	put_metric(d, MAYFLY_TEMPORARY, "temporary");
	database_end_rows(d);
}

static void put_fact(struct database *d, const char *name, const char *text)
{
	database_bind_text(d, name);
	database_bind_text(d, text);
	database_end_row(d);
}

static void sqlite_put_number(struct database *d, const char *name, int64_t value)
{
	database_bind_text(d, name);
	database_bind_integer(d, value);
	database_end_row(d);
}

static void put_info(struct database *d, const char *purpose)
{
	const struct mayfly_info *info = d->info;

	database_begin_rows(d, "INSERT INTO info VALUES(?,?)");
	put_fact(d, "made_by", "mayfly " MAYFLY_VERSION);
	put_fact(d, "recorded_by", info->version);
	put_fact(d, "program", info->program);
	put_fact(d, "command", purpose);
	put_fact(d, "mode", info->mode == MAYFLY_EXACT ? "exact" : "sampled");
	put_fact(d, "sampler", info->sampler == MAYFLY_POISSON ? "poisson" : "stratified");
	put_fact(d, "note", info->note);
	sqlite_put_number(d, "pid", info->pid);
	sqlite_put_number(d, "interval_bytes", (int64_t)info->interval_bytes);
	sqlite_put_number(d, "ocaml_interval_bytes", (int64_t)info->ocaml_interval_bytes);
	sqlite_put_number(d, "snapshot_ns", info->snapshot_ns);
	sqlite_put_number(d, "start_real_ns", info->start_real_ns);
	sqlite_put_number(d, "duration_ns", info->duration_ns);
	sqlite_put_number(d, "samples", (int64_t)info->samples);
	sqlite_put_number(d, "frees", (int64_t)info->frees);
	sqlite_put_number(d, "dropped_samples", (int64_t)info->dropped_samples);
	sqlite_put_number(d, "dropped_frees", (int64_t)info->dropped_frees);
	sqlite_put_number(d, "track_events", (int64_t)info->track_events);
	sqlite_put_number(d, "dropped_events", (int64_t)info->dropped_events);
	sqlite_put_number(d, "truncated_stacks", (int64_t)info->truncated_stacks);
	sqlite_put_number(d, "complete", info->complete);
	sqlite_put_number(d, "thinned", info->thinned);
	sqlite_put_number(d, "peak_ns", d->peak_ns);
	database_bind_text(d, "peak_bytes");
	database_bind_real(d, d->peak_bytes);
	database_end_row(d);
	database_end_rows(d);
}

/* ---- the whole file ---- */

static void sqlite_fill(struct database *d, const char *purpose)
{
	database_run(d, settings);
	database_run(d, sqlite_tables);
	put_modules(d);
	sqlite_put_threads(d);
	put_symbols(d);
	put_frames(d);
	put_stacks(d);
	put_counters(d);
	put_functions(d);
	if (d->info->snapshot_ns) {
		put_intervals(d);
	} else if (!d->error) {
		sqlite_find_peak(d);
		put_samples(d);
		put_promotions(d);
	}
	sqlite_put_labels(d);
	sqlite_put_tracks(d);
	put_info(d, purpose);
	database_run(d, sqlite_views);
	database_run(d, "COMMIT");
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
	else
		database_fail(&d, sqlite3_open_v2(path, &d.db, SQLITE_OPEN_READWRITE, NULL));
	if (!d.error)
		sqlite_fill(&d, options->purpose);
	database_fail(&d, sqlite3_close(d.db));
	free(d.symbol);
	free(d.leaf);
	return d.error;
}
