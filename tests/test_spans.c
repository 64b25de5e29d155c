/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans against a reference that asks, for each block, which spans were open: it goes through all
 * track events from the start each time. On random traces with spans that nest, recur, overlap, do
 * not end or were never begun, and with random filters. Then what estimates of sampled programs are
 * worth, percentiles of many spans, the limits, sums of instants and counters, and damaged traces.
 */
#include "agent/sampler.h"
#include "random_trace.h"
#include "query/estimate.h"

#include <math.h>
#include <string.h>

enum { SPAN_TYPES = 5, INSTANT_TYPE = SPAN_TYPES, COUNTER_TYPE, TYPES };

static uint32_t add_type(struct recording *r, const char *name, uint32_t kind, const char *field)
{
	struct recording_track_type t = {.kind = kind, .name = intern(r, name)};

	if (field) {
		t.fields = 1;
		t.field[0].type = MAYFLY_FIELD_INT;
		t.field[0].name = intern(r, field);
	}
	return recording_track_type(r, &t);
}

static void add_types(struct recording *r)
{
	static const char *const names[] = {"request", "parse", "query", "render", "collect"};

	for (uint32_t i = 0; i < SPAN_TYPES; i++)
		CHECK(add_type(r, names[i], MAYFLY_TYPE_SPAN, NULL) == i);
	CHECK(add_type(r, "click", MAYFLY_TYPE_INSTANT, NULL) == INSTANT_TYPE);
	CHECK(add_type(r, "queue", MAYFLY_TYPE_COUNTER, "value") == COUNTER_TYPE);
}

static int put_track(struct trace_writer *w, int64_t time_ns, uint32_t kind, uint32_t type,
		     uint32_t thread, int64_t value)
{
	uint64_t bits = (uint64_t)value;
	struct trace_track event = {
	    .time_ns = time_ns, .kind = kind, .type = type, .thread = thread, .value = &bits};

	return trace_writer_track(w, &event);
}

/* ---- random traces ---- */

static uint32_t track_threads; /* that have track events */

static void put_random_tracks(struct trace_writer *w, int64_t time_ns)
{
	while (below(3)) {
		uint32_t dice = below(20), thread = below(track_threads);
		int error;

		if (dice < 9)
			error =
			    put_track(w, time_ns, MAYFLY_TRACK_BEGIN, below(SPAN_TYPES), thread, 0);
		else if (dice < 18)
			error =
			    put_track(w, time_ns, MAYFLY_TRACK_END, below(SPAN_TYPES), thread, 0);
		else if (dice == 18)
			error =
			    put_track(w, time_ns, MAYFLY_TRACK_INSTANT, INSTANT_TYPE, thread, 0);
		else
			error = put_track(w, time_ns, MAYFLY_TRACK_COUNT, COUNTER_TYPE, thread,
					  (int64_t)below(1000) - 500);
		CHECK(error == 0, "%s", mayfly_error_text(error));
	}
}

static struct opened open_tracked(struct source *s, int64_t snapshot_ns)
{
	track_threads = 1 + below(5);
	return open_source_with(s, snapshot_ns, 100, put_random_tracks);
}

/* ---- the reference ---- */

struct block {
	struct mayfly_event alloc;
	uint64_t position; /* events before it */
	int64_t lifetime;  /* INT64_MAX: live at the end */
};

struct whole {
	const struct mayfly_trace *trace;
	const struct mayfly_query *query;
	struct block *block;
	size_t blocks;
	struct mayfly_track_event *track;
	size_t tracks;
};

static void read_blocks(struct whole *w)
{
	const struct mayfly_info *info = mayfly_trace_info(w->trace);
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	uint64_t position = 0;

	w->block = calloc(info->samples + 1, sizeof(*w->block));
	if (info->snapshot_ns)
		return;
	CHECK(mayfly_cursor_open(w->trace, &cursor) == 0);
	for (; mayfly_cursor_next(cursor, &e) == 1; position++) {
		if (e.kind == MAYFLY_ALLOC)
			w->block[w->blocks++] = (struct block){e, position, INT64_MAX};
		else
			w->block[e.sample].lifetime = e.time_ns - e.alloc_time_ns;
	}
	mayfly_cursor_close(cursor);
}

static void read_tracks(struct whole *w)
{
	struct mayfly_track_cursor *cursor;
	uint64_t count = mayfly_trace_info(w->trace)->track_events;

	w->track = calloc(count + 1, sizeof(*w->track));
	CHECK(mayfly_track_cursor_open(w->trace, &cursor) == 0);
	while (w->tracks < count && mayfly_track_cursor_next(cursor, &w->track[w->tracks]) == 1)
		w->tracks++;
	CHECK(w->tracks == count, "%zu of %zu", w->tracks, (size_t)count);
	mayfly_track_cursor_close(cursor);
}

/* Numbers of the track events whose spans are open, in the order in which they began. */
struct stack {
	size_t begin[1000], depth;
};

/* What is open on a thread after the first `tracks` track events; *ended: which one the last of
 * these ended, if it did. */
static struct stack open_after(const struct whole *w, size_t tracks, uint32_t thread, size_t *ended)
{
	struct stack s = {.depth = 0};

	for (size_t i = 0; i < tracks; i++) {
		const struct mayfly_track_event *e = &w->track[i];
		size_t k;

		*ended = SIZE_MAX;
		if (e->thread != thread)
			continue;
		if (e->kind == MAYFLY_TRACK_BEGIN)
			s.begin[s.depth++] = i;
		if (e->kind != MAYFLY_TRACK_END)
			continue;
		for (k = s.depth; k > 0 && w->track[s.begin[k - 1]].type != e->type;)
			k--;
		if (k == 0)
			continue;
		*ended = s.begin[k - 1];
		memmove(&s.begin[k - 1], &s.begin[k], (s.depth - k) * sizeof(*s.begin));
		s.depth--;
	}
	return s;
}

static bool in_window(const struct whole *w, int64_t time_ns)
{
	return time_ns >= w->query->from_ns && time_ns < w->query->to_ns;
}

static bool thread_kept(const struct whole *w, uint32_t thread)
{
	const struct mayfly_match *m = &w->query->thread;
	const struct mayfly_thread *t = mayfly_trace_thread(w->trace, thread);
	char number[16];

	snprintf(number, sizeof(number), "%u", t->tid);
	return !m->matches || m->matches(m->context, t->name) || m->matches(m->context, number);
}

static bool focused(const struct whole *w, uint32_t node)
{
	const struct mayfly_match *m = &w->query->focus;

	while (m->matches && node) {
		struct mayfly_node n = mayfly_trace_node(w->trace, node);
		const struct mayfly_frame *f = mayfly_trace_frame(w->trace, n.frame);

		if (f->kind == MAYFLY_FRAME_CODE && f->module != UINT32_MAX &&
		    m->matches(m->context, mayfly_trace_module(w->trace, f->module)->path))
			return true;
		for (size_t i = 0; f->kind == MAYFLY_FRAME_CODE && i < f->locations; i++)
			if ((*f->location[i].function &&
			     m->matches(m->context, f->location[i].function)) ||
			    (*f->location[i].file && m->matches(m->context, f->location[i].file)))
				return true;
		node = n.parent;
	}
	return !m->matches;
}

/* The last counts of a key that is there twice. */
static bool labelled(const struct whole *w, uint32_t set)
{
	const struct mayfly_match *m = &w->query->label;
	size_t count;
	const struct mayfly_label *label = mayfly_trace_labels(w->trace, set, &count);
	bool found = !m->matches;
	char text[64];

	for (size_t i = 0; i < count && !found; i++) {
		bool last = true;

		for (size_t k = i + 1; k < count; k++)
			last &= strcmp(label[i].key, label[k].key) != 0;
		snprintf(text, sizeof(text), "%s=%s", label[i].key, label[i].value);
		found = last && m->matches(m->context, text);
	}
	return found;
}

static bool kept(const struct whole *w, const struct block *b)
{
	const struct mayfly_query *q = w->query;
	const struct mayfly_event *e = &b->alloc;

	return e->size >= q->min_size && e->size <= q->max_size && in_window(w, e->time_ns) &&
	       b->lifetime >= q->min_lifetime_ns && b->lifetime <= q->max_lifetime_ns &&
	       thread_kept(w, e->thread) && focused(w, e->node) && labelled(w, e->labels);
}

struct expected {
	struct tally allocated, self, live;
	uint64_t count, open;
	int64_t total_ns, self_ns, *time;
};

static void add(struct tally *t, const struct whole *w, const struct mayfly_event *e)
{
	tally_add(t, (enum mayfly_sampler)mayfly_trace_info(w->trace)->sampler, e->interval,
		  e->size, e->hits);
}

static void expect_block(const struct whole *w, const struct block *b, struct expected *x)
{
	bool seen[SPAN_TYPES] = {false};
	size_t tracks = 0, ended;
	struct stack s;

	if (!kept(w, b))
		return;
	while (tracks < w->tracks && w->track[tracks].events_before <= b->position)
		tracks++;
	s = open_after(w, tracks, b->alloc.thread, &ended);
	for (size_t i = 0; i < s.depth; i++) {
		uint32_t type = w->track[s.begin[i]].type;

		if (!seen[type]) {
			add(&x[type].allocated, w, &b->alloc);
			if (b->lifetime == INT64_MAX)
				add(&x[type].live, w, &b->alloc);
		}
		seen[type] = true;
		if (i + 1 == s.depth)
			add(&x[type].self, w, &b->alloc);
	}
}

/* Time from `from` to `to` (track events) in which no span that began later was open. */
static int64_t own_time(const struct whole *w, size_t from, size_t to)
{
	uint32_t thread = w->track[from].thread;
	int64_t sum = 0;
	size_t ended;

	for (size_t i = from; i < to; i++) {
		struct stack s = open_after(w, i + 1, thread, &ended);

		if (s.depth && s.begin[s.depth - 1] == from)
			sum += w->track[i + 1].time_ns - w->track[i].time_ns;
	}
	return sum;
}

static uint64_t expect_tracks(const struct whole *w, struct expected *x)
{
	uint64_t unmatched = 0;
	size_t begun;

	for (size_t i = 0; i < w->tracks; i++) {
		const struct mayfly_track_event *e = &w->track[i];
		struct expected *t = &x[e->type];

		if (e->type >= SPAN_TYPES || !thread_kept(w, e->thread))
			continue;
		if (e->kind == MAYFLY_TRACK_BEGIN) {
			t->open += in_window(w, e->time_ns);
			continue;
		}
		open_after(w, i + 1, e->thread, &begun);
		if (begun == SIZE_MAX) {
			unmatched += in_window(w, e->time_ns);
		} else if (in_window(w, w->track[begun].time_ns)) {
			t->open--;
			t->time[t->count++] = e->time_ns - w->track[begun].time_ns;
			t->total_ns += e->time_ns - w->track[begun].time_ns;
			t->self_ns += own_time(w, begun, i);
		}
	}
	return unmatched;
}

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t percentile(const int64_t *time, uint64_t count, unsigned int percent)
{
	return count ? time[(count * percent + 99) / 100 - 1] : 0;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * (1 + fabs(a));
}

static bool same_estimate(const struct mayfly_estimate *e, const struct tally *t, double interval)
{
	struct mayfly_estimate x = tally_estimate(t, (struct unseen){interval, 0.5});

	return e->samples == x.samples && near(e->bytes.estimate, x.bytes.estimate) &&
	       near(e->bytes.stderror, x.bytes.stderror) && near(e->bytes.low, x.bytes.low) &&
	       near(e->bytes.high, x.bytes.high) && near(e->bytes.certain, x.bytes.certain) &&
	       near(e->blocks.estimate, x.blocks.estimate);
}

static void check_row(const struct mayfly_span_row *row, struct expected *x, double interval)
{
	uint64_t classes = 0;

	qsort(x->time, x->count, sizeof(*x->time), compare_times);
	CHECK(row->count == x->count && row->open == x->open, "%zu %zu, %zu %zu",
	      (size_t)row->count, (size_t)x->count, (size_t)row->open, (size_t)x->open);
	CHECK(row->total_ns == x->total_ns && row->self_ns == x->self_ns, "self %lld %lld",
	      (long long)row->self_ns, (long long)x->self_ns);
	CHECK(row->min_ns == (x->count ? x->time[0] : 0));
	CHECK(row->max_ns == (x->count ? x->time[x->count - 1] : 0));
	CHECK(row->p50_ns == percentile(x->time, x->count, 50));
	CHECK(row->p90_ns == percentile(x->time, x->count, 90));
	CHECK(row->p99_ns == percentile(x->time, x->count, 99));
	for (size_t i = 0; i < MAYFLY_SPAN_CLASSES; i++)
		classes += row->in_class[i];
	CHECK(classes == row->count);
	CHECK(same_estimate(&row->allocated, &x->allocated, interval), "%g %g",
	      row->allocated.bytes.estimate,
	      tally_estimate(&x->allocated, (struct unseen){0, 0.5}).bytes.estimate);
	CHECK(same_estimate(&row->self_allocated, &x->self, interval));
	CHECK(same_estimate(&row->live, &x->live, interval), "%g %g", row->live.bytes.estimate,
	      tally_estimate(&x->live, (struct unseen){0, 0.5}).bytes.estimate);
}

/* What a figure of nothing may have missed. */
static double unseen_interval(const struct whole *w)
{
	double largest = (double)mayfly_trace_info(w->trace)->interval_bytes;

	for (size_t i = 0; i < w->blocks; i++)
		if (w->block[i].alloc.hits && w->block[i].alloc.interval > largest)
			largest = w->block[i].alloc.interval;
	if (mayfly_trace_info(w->trace)->snapshot_ns)
		return 0;
	if (mayfly_trace_info(w->trace)->sampler == MAYFLY_STRATIFIED &&
	    (double)w->query->min_size >= largest)
		return 0;
	return largest;
}

static void check_rows(const struct whole *w, const struct mayfly_spans *spans, struct expected *x)
{
	bool seen[SPAN_TYPES] = {false};
	int64_t before = INT64_MAX;

	for (size_t i = 0; i < spans->rows; i++) {
		const struct mayfly_span_row *row = &spans->row[i];

		CHECK(row->type < SPAN_TYPES && !seen[row->type]);
		CHECK(row->total_ns <= before);
		before = row->total_ns;
		seen[row->type] = true;
		check_row(row, &x[row->type], unseen_interval(w));
	}
	for (size_t i = 0; i < SPAN_TYPES; i++)
		CHECK(seen[i] || (!x[i].count && !x[i].open && !x[i].allocated.seen_blocks &&
				  !x[i].allocated.exact_count));
}

static void check_spans(const struct mayfly_trace *trace, const struct mayfly_query *query)
{
	struct whole w = {.trace = trace, .query = query};
	struct expected x[TYPES] = {0};
	struct mayfly_spans *spans;
	uint64_t unmatched;
	int error;

	read_blocks(&w);
	read_tracks(&w);
	for (size_t i = 0; i < TYPES; i++)
		x[i].time = calloc(w.tracks + 1, sizeof(int64_t));
	for (size_t i = 0; i < w.blocks; i++)
		expect_block(&w, &w.block[i], x);
	unmatched = expect_tracks(&w, x);
	error = mayfly_spans_run(trace, query, &spans);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	if (!error) {
		CHECK(spans->unmatched == unmatched && spans->ignored == 0);
		check_rows(&w, spans, x);
		mayfly_spans_free(spans);
	}
	for (size_t i = 0; i < TYPES; i++)
		free(x[i].time);
	free(w.block);
	free(w.track);
}

static struct mayfly_query span_query(const struct mayfly_info *info)
{
	struct mayfly_query q = random_query(info);
	struct mayfly_match none = {0};

	q.ignore = none;
	return q;
}

static void test_joins(void)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct source s = random_source(seed * 7919);
		struct opened o;

		add_types(s.r);
		o = open_tracked(&s, 0);
		for (int i = 0; i < 4; i++) {
			struct mayfly_query q;

			mayfly_query_defaults(&q);
			if (i)
				q = span_query(mayfly_trace_info(o.trace));
			check_spans(o.trace, &q);
		}
		close_opened(&o);
		free_source(&s);
	}
}

static void test_snapshots(void)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct source s = random_source(seed * 104729);
		struct mayfly_query q;
		struct opened o;

		s.mode = MAYFLY_EXACT;
		s.interval_log2 = 0;
		add_samples(&s, 200);
		add_types(s.r);
		o = open_tracked(&s, 1000000);
		mayfly_query_defaults(&q);
		check_spans(o.trace, &q);
		close_opened(&o);
		free_source(&s);
	}
}

/* ---- a trace that is written as one goes ---- */

struct made {
	struct recording *r;
	struct trace_writer *w;
	struct opened o;
};

static void begin_made(struct made *m, uint32_t mode, uint32_t interval_log2)
{
	struct trace_writer_options options = {
	    .mode = mode, .interval_log2 = interval_log2, .level = 1};

	*m = (struct made){.r = recording_new()};
	recording_thread(m->r, 100, intern(m->r, "main"));
	add_types(m->r);
	m->r->info.complete = true;
	m->r->info.interval_bytes = 1ull << interval_log2;
	m->w = trace_writer_new(&options, m->r, trace_buffer_sink, &m->o.buffer);
}

static void end_made(struct made *m, int64_t duration_ns)
{
	int error;

	m->r->info.duration_ns = duration_ns;
	error = trace_writer_finish(m->w);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	trace_writer_free_all(m->w);
	error = mayfly_trace_open(m->o.buffer.bytes, m->o.buffer.used, &m->o.trace);
	CHECK(error == 0, "%s", mayfly_error_text(error));
}

static void free_made(struct made *m)
{
	close_opened(&m->o);
	recording_free(m->r);
}

static struct mayfly_spans *run_all(const struct mayfly_trace *trace)
{
	struct mayfly_spans *spans = NULL;
	struct mayfly_query q;
	int error;

	mayfly_query_defaults(&q);
	error = mayfly_spans_run(trace, &q, &spans);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	return spans;
}

/* ---- many spans ---- */

#define MANY 60000

static void check_near(int64_t is, int64_t should)
{
	CHECK(fabs((double)(is - should)) <= 0.004 * (double)should, "%lld instead of %lld",
	      (long long)is, (long long)should);
}

/* Durations from ns to minutes. */
static void test_percentiles(void)
{
	static const size_t counts[] = {4095, 4096, 4097, MANY};
	int64_t *time = calloc(MANY, sizeof(*time));

	for (size_t c = 0; c < 4; c++) {
		struct made m;
		struct mayfly_spans *spans;
		int64_t now = 0;

		begin_made(&m, MAYFLY_EXACT, 0);
		random_state = c;
		for (size_t i = 0; i < counts[c]; i++) {
			time[i] = (int64_t)(random_bits() >> (24 + below(40)));
			put_track(m.w, now, MAYFLY_TRACK_BEGIN, 0, 0, 0);
			now += time[i];
			put_track(m.w, now, MAYFLY_TRACK_END, 0, 0, 0);
		}
		end_made(&m, now);
		qsort(time, counts[c], sizeof(*time), compare_times);
		spans = run_all(m.o.trace);
		CHECK(spans->rows == 1 && spans->row[0].count == counts[c]);
		CHECK(spans->row[0].total_ns == now && spans->row[0].self_ns == now);
		CHECK(spans->row[0].min_ns == time[0]);
		CHECK(spans->row[0].max_ns == time[counts[c] - 1]);
		check_near(spans->row[0].p50_ns, percentile(time, counts[c], 50));
		check_near(spans->row[0].p90_ns, percentile(time, counts[c], 90));
		check_near(spans->row[0].p99_ns, percentile(time, counts[c], 99));
		mayfly_spans_free(spans);
		free_made(&m);
	}
	free(time);
}

/* Many equal durations, at either end of a class: percentiles lie between the least and the most. */
static void test_equal_durations(void)
{
	static const int64_t times[] = {1 << 20, (1 << 20) + 4095};

	for (size_t c = 0; c < 2; c++) {
		struct made m;
		struct mayfly_spans *spans;
		int64_t now = 0;

		begin_made(&m, MAYFLY_EXACT, 0);
		for (size_t i = 0; i < 4097; i++) {
			put_track(m.w, now, MAYFLY_TRACK_BEGIN, 0, 0, 0);
			now += times[c];
			put_track(m.w, now, MAYFLY_TRACK_END, 0, 0, 0);
		}
		end_made(&m, now);
		spans = run_all(m.o.trace);
		CHECK(spans->rows == 1 && spans->row[0].count == 4097);
		CHECK(spans->row[0].p50_ns == times[c] && spans->row[0].p99_ns == times[c]);
		mayfly_spans_free(spans);
		free_made(&m);
	}
}

static void test_classes(void)
{
	CHECK(mayfly_span_class_ns(0) == 0 && mayfly_span_class_ns(1) == 100);
	CHECK(mayfly_span_class_ns(2) == 300 && mayfly_span_class_ns(3) == 1000);
	CHECK(mayfly_span_class_ns(MAYFLY_SPAN_CLASSES - 1) == 100000000000);
	CHECK(mayfly_span_class_ns(MAYFLY_SPAN_CLASSES) == INT64_MAX);
}

/* ---- limits ---- */

/* 5000 open spans of one type and one of another: 4096 are followed. */
static void test_deep(void)
{
	struct made m;
	struct mayfly_spans *spans;
	uint64_t serial;
	struct trace_block block = {.size = 100};

	begin_made(&m, MAYFLY_EXACT, 0);
	for (int i = 0; i < 5000; i++)
		put_track(m.w, i, MAYFLY_TRACK_BEGIN, 1, 0, 0);
	put_track(m.w, 5000, MAYFLY_TRACK_BEGIN, 0, 0, 0);
	CHECK(trace_writer_alloc(m.w, 5000, &block, &serial) == 0);
	put_track(m.w, 5000, MAYFLY_TRACK_END, 0, 0, 0);
	for (int i = 5000; i > 0; i--)
		put_track(m.w, 10000 - i, MAYFLY_TRACK_END, 1, 0, 0);
	end_made(&m, 10000);
	spans = run_all(m.o.trace);
	CHECK(spans->rows == 1 && spans->row[0].count == 4096 && spans->row[0].open == 0);
	CHECK(spans->row[0].max_ns == 9999 && spans->row[0].min_ns == 9999 - 2 * 4095);
	CHECK(spans->row[0].allocated.bytes.estimate == 100 &&
	      spans->row[0].live.bytes.estimate == 100);
	CHECK(spans->ignored == 905 && spans->unmatched == 1);
	mayfly_spans_free(spans);
	free_made(&m);
}

/* What spans take is known without any block. */
static void test_without_blocks(void)
{
	struct source s = random_source(99);
	struct mayfly_spans *all, *none;
	struct mayfly_query q;
	struct opened o;

	add_types(s.r);
	o = open_tracked(&s, 0);
	all = run_all(o.trace);
	mayfly_query_defaults(&q);
	q.min_size = 1;
	q.max_size = 0;
	CHECK(mayfly_spans_run(o.trace, &q, &none) == 0);
	CHECK(none->rows == all->rows && all->rows > 0);
	for (size_t i = 0; i < all->rows && i < none->rows; i++) {
		CHECK(none->row[i].type == all->row[i].type);
		CHECK(none->row[i].count == all->row[i].count);
		CHECK(none->row[i].self_ns == all->row[i].self_ns);
		CHECK(none->row[i].allocated.samples == 0);
	}
	mayfly_spans_free(all);
	mayfly_spans_free(none);
	close_opened(&o);
	free_source(&s);
}

/* Spans of two types that overlap, as of tasks that take turns on a thread. */
static void test_overlap(void)
{
	static const struct {
		int64_t time_ns;
		uint32_t kind, type;
	} events[] = {
	    {10, MAYFLY_TRACK_BEGIN, 0}, {20, MAYFLY_TRACK_BEGIN, 1}, {50, MAYFLY_TRACK_END, 0},
	    {90, MAYFLY_TRACK_END, 1},	 {95, MAYFLY_TRACK_END, 1},
	};
	struct made m;
	struct mayfly_spans *spans;
	struct trace_block block = {.size = 7};
	uint64_t serial;

	begin_made(&m, MAYFLY_EXACT, 0);
	for (size_t i = 0; i < 5; i++) {
		put_track(m.w, events[i].time_ns, events[i].kind, events[i].type, 0, 0);
		CHECK(trace_writer_alloc(m.w, events[i].time_ns, &block, &serial) == 0);
	}
	end_made(&m, 100);
	spans = run_all(m.o.trace);
	CHECK(spans->rows == 2 && spans->unmatched == 1);
	CHECK(spans->row[0].type == 1 && spans->row[0].total_ns == 70 &&
	      spans->row[0].self_ns == 70 && spans->row[0].allocated.samples == 2);
	CHECK(spans->row[1].type == 0 && spans->row[1].total_ns == 40 &&
	      spans->row[1].self_ns == 10 && spans->row[1].allocated.samples == 2 &&
	      spans->row[1].self_allocated.samples == 1);
	mayfly_spans_free(spans);
	free_made(&m);
}

/* ---- estimates ---- */

#define RUNS   400
#define ROUNDS 60

struct truth {
	double allocated[SPAN_TYPES], self[SPAN_TYPES], live[SPAN_TYPES];
};

struct program {
	struct made *m;
	struct sampler sampler;
	uint32_t open[8], depth;
	int64_t now;
	struct truth *truth;
};

/* The size says from which site. */
static void allocate(struct program *p, uint64_t size, bool leaked)
{
	struct trace_block block = {.size = size, .interval_log2 = 14};
	bool seen[SPAN_TYPES] = {false};
	uint64_t serial;
	int32_t hits = SAMPLER_SKIP;

	for (uint32_t i = 0; i < p->depth; i++) {
		if (!seen[p->open[i]]) {
			p->truth->allocated[p->open[i]] += (double)size;
			p->truth->live[p->open[i]] += leaked ? (double)size : 0;
		}
		seen[p->open[i]] = true;
	}
	if (p->depth)
		p->truth->self[p->open[p->depth - 1]] += (double)size;
	p->now += 10000;
	if (size < p->sampler.left)
		p->sampler.left -= size;
	else
		hits = sampler_take(&p->sampler, size, (uintptr_t)size * 64);
	if (hits == SAMPLER_SKIP)
		return;
	block.hits = (uint32_t)hits;
	CHECK(trace_writer_alloc(p->m->w, p->now, &block, &serial) == 0);
	if (!leaked)
		CHECK(trace_writer_free(p->m->w, p->now + 1, serial, &block, 0, 0) == 0);
}

static void enter(struct program *p, uint32_t type)
{
	p->open[p->depth++] = type;
	put_track(p->m->w, p->now, MAYFLY_TRACK_BEGIN, type, 0, 0);
}

static void leave(struct program *p)
{
	put_track(p->m->w, p->now, MAYFLY_TRACK_END, p->open[--p->depth], 0, 0);
}

/* The same in each run: only the sampler's seed differs. */
static void run_program(struct made *m, uint64_t seed, struct truth *truth)
{
	struct program p = {.m = m, .truth = truth};

	sampler_init(&p.sampler, SAMPLER_STRATIFIED, 14, seed);
	*truth = (struct truth){0};
	for (uint64_t round = 0; round < ROUNDS; round++) {
		allocate(&p, 500, false);
		enter(&p, 0);
		for (uint64_t i = 0; i < 40; i++)
			allocate(&p, 48 + 16 * (i % 4), i % 10 == 0);
		enter(&p, 1);
		for (uint64_t i = 0; i < 12; i++)
			allocate(&p, 700 + 100 * (i % 3), i == 5);
		if (round % 3 == 0) {
			enter(&p, 0);
			allocate(&p, 9000 + round * 16, round % 2 == 0);
			leave(&p);
		}
		leave(&p);
		if (round % 8 == 0) {
			enter(&p, 2);
			allocate(&p, 60000, false);
			leave(&p);
		}
		leave(&p);
	}
}

/* How good one figure is, over all runs. */
struct quality {
	double sum, squares, covered, count;
};

static void judge(struct quality *q, const struct mayfly_estimate *e, double truth)
{
	q->sum += e->bytes.estimate - truth;
	q->squares += (e->bytes.estimate - truth) * (e->bytes.estimate - truth);
	q->covered += e->bytes.low <= truth && truth <= e->bytes.high;
	q->count++;
}

static void check_quality(const char *name, const struct quality *q)
{
	double error = sqrt(q->squares / q->count / q->count);

	printf("# %s: bias %.2f standard errors, %.1f %% covered\n", name,
	       error > 0 ? q->sum / q->count / error : 0, 100 * q->covered / q->count);
	CHECK(fabs(q->sum / q->count) <= 4 * error + 1e-6, "%s is biased", name);
	CHECK(q->covered >= 0.93 * q->count, "%s: too few intervals are right", name);
}

static void test_estimates(void)
{
	struct quality allocated[SPAN_TYPES] = {0}, self[SPAN_TYPES] = {0}, live[SPAN_TYPES] = {0};
	struct truth truth;

	for (uint64_t run = 0; run < RUNS; run++) {
		struct made m;
		struct mayfly_spans *spans;

		begin_made(&m, MAYFLY_SAMPLED, 14);
		run_program(&m, run * 1000003 + 17, &truth);
		end_made(&m, 1000000000);
		spans = run_all(m.o.trace);
		CHECK(spans->rows == 3);
		for (size_t i = 0; i < spans->rows; i++) {
			const struct mayfly_span_row *row = &spans->row[i];

			judge(&allocated[row->type], &row->allocated, truth.allocated[row->type]);
			judge(&self[row->type], &row->self_allocated, truth.self[row->type]);
			judge(&live[row->type], &row->live, truth.live[row->type]);
		}
		mayfly_spans_free(spans);
		free_made(&m);
	}
	check_quality("request, allocated", &allocated[0]);
	check_quality("request, self", &self[0]);
	check_quality("request, live", &live[0]);
	check_quality("parse, allocated", &allocated[1]);
	check_quality("parse, self", &self[1]);
	check_quality("parse, live", &live[1]);
	check_quality("query, allocated", &allocated[2]);
	/* Blocks above the interval are all there. */
	CHECK(allocated[2].squares == 0);
}

/* ---- instants and counters ---- */

static void check_sums(const struct mayfly_trace *trace, const struct mayfly_query *query)
{
	struct whole w = {.trace = trace, .query = query};
	struct mayfly_track_sum x[TYPES] = {0};
	struct mayfly_track_sums *sums;
	size_t rows = 0;

	read_tracks(&w);
	for (size_t i = 0; i < w.tracks; i++) {
		const struct mayfly_track_event *e = &w.track[i];
		struct mayfly_track_sum *s = &x[e->type];
		double value = e->type == COUNTER_TYPE ? (double)e->value[0].i : 0;

		if (e->type < SPAN_TYPES || !in_window(&w, e->time_ns) ||
		    !thread_kept(&w, e->thread))
			continue;
		rows += s->count == 0;
		s->first_ns = s->count ? s->first_ns : e->time_ns;
		s->last_ns = e->time_ns;
		s->min = s->count ? fmin(s->min, value) : value;
		s->max = s->count ? fmax(s->max, value) : value;
		s->last = value;
		s->total += value;
		s->count++;
	}
	CHECK(mayfly_track_sums_run(trace, query, &sums) == 0);
	CHECK(sums->rows == rows, "%zu %zu", sums->rows, rows);
	for (size_t i = 0; i < sums->rows; i++) {
		const struct mayfly_track_sum *s = &sums->row[i], *t = &x[s->type];

		CHECK(s->count == t->count && s->first_ns == t->first_ns &&
		      s->last_ns == t->last_ns && s->min == t->min && s->max == t->max &&
		      s->last == t->last && s->total == t->total &&
		      near(s->mean, t->total / (double)t->count));
		CHECK(i == 0 || sums->row[i - 1].count >= s->count);
	}
	mayfly_track_sums_free(sums);
	free(w.track);
}

static void test_sums(void)
{
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct source s = random_source(seed * 31337);
		struct mayfly_query q;
		struct opened o;

		add_types(s.r);
		o = open_tracked(&s, 0);
		mayfly_query_defaults(&q);
		check_sums(o.trace, &q);
		q = span_query(mayfly_trace_info(o.trace));
		check_sums(o.trace, &q);
		close_opened(&o);
		free_source(&s);
	}
}

/* One event that stands for several. */
static void test_aggregated(void)
{
	struct made m;
	struct recording_track_type t = {.kind = MAYFLY_TYPE_COUNTER, .fields = 2};
	uint64_t values[] = {5, 100}, more[] = {7, 1};
	struct trace_track event = {.time_ns = 1, .kind = MAYFLY_TRACK_COUNT, .value = values};
	struct mayfly_track_sums *sums;
	struct mayfly_query q;

	begin_made(&m, MAYFLY_EXACT, 0);
	t.name = intern(m.r, "asked");
	t.field[0].type = t.field[1].type = MAYFLY_FIELD_UINT;
	t.field[0].name = intern(m.r, "value");
	t.field[1].name = intern(m.r, "events");
	event.type = recording_track_type(m.r, &t);
	CHECK(trace_writer_track(m.w, &event) == 0);
	event.value = more;
	CHECK(trace_writer_track(m.w, &event) == 0);
	end_made(&m, 10);
	mayfly_query_defaults(&q);
	CHECK(mayfly_track_sums_run(m.o.trace, &q, &sums) == 0);
	CHECK(sums->rows == 1 && sums->row[0].count == 101 && sums->row[0].total == 507);
	CHECK(sums->row[0].min == 5 && sums->row[0].max == 7 && sums->row[0].last == 7);
	mayfly_track_sums_free(sums);
	free_made(&m);
}

static void put_cpu(struct made *m, uint32_t type, int64_t time_ns, uint32_t thread, uint64_t value)
{
	struct trace_track event = {.time_ns = time_ns,
				    .kind = MAYFLY_TRACK_COUNT,
				    .type = type,
				    .thread = thread,
				    .value = &value};

	CHECK(trace_writer_track(m->w, &event) == 0);
}

/* What it grew by in the window; not of a thread whose values fall, which is two in one. */
static void test_thread_cpu(void)
{
	struct made m;
	struct recording_track_type t = {.kind = MAYFLY_TYPE_COUNTER, .fields = 1};
	struct mayfly_track_sums *sums;
	struct mayfly_query q;
	uint32_t type, second, both;

	begin_made(&m, MAYFLY_EXACT, 0);
	second = recording_thread(m.r, 101, intern(m.r, "second"));
	both = recording_thread(m.r, 102, intern(m.r, "both"));
	t.name = intern(m.r, "thread.cpu");
	t.category = intern(m.r, "thread");
	t.field[0].type = MAYFLY_FIELD_UINT;
	t.field[0].name = intern(m.r, "value");
	type = recording_track_type(m.r, &t);
	put_cpu(&m, type, 10, 0, 100);
	put_cpu(&m, type, 10, both, 50);
	put_cpu(&m, type, 20, 0, 250);
	put_cpu(&m, type, 20, both, 20);
	put_cpu(&m, type, 30, 0, 300);
	put_cpu(&m, type, 30, second, 7000);
	put_cpu(&m, type, 30, both, 70);
	end_made(&m, 40);
	mayfly_query_defaults(&q);
	CHECK(mayfly_track_sums_run(m.o.trace, &q, &sums) == 0);
	CHECK(sums->rows == 1 && sums->row[0].count == 7 && sums->threads == 2);
	CHECK(sums->thread[0].thread == second && sums->thread[0].cpu_ns == 7000);
	CHECK(sums->thread[1].thread == 0 && sums->thread[1].cpu_ns == 300);
	mayfly_track_sums_free(sums);
	q.from_ns = 15;
	q.to_ns = 25;
	CHECK(mayfly_track_sums_run(m.o.trace, &q, &sums) == 0);
	CHECK(sums->threads == 1 && sums->thread[0].cpu_ns == 150);
	mayfly_track_sums_free(sums);
	free_made(&m);
}

/* ---- damage ---- */

static void ask(const uint8_t *bytes, size_t size)
{
	struct mayfly_track_sums *sums;
	struct mayfly_spans *spans;
	struct mayfly_trace *trace;
	struct mayfly_query q;

	if (mayfly_trace_open(bytes, size, &trace) != 0)
		return;
	mayfly_query_defaults(&q);
	if (mayfly_spans_run(trace, &q, &spans) == 0)
		mayfly_spans_free(spans);
	if (mayfly_track_sums_run(trace, &q, &sums) == 0)
		mayfly_track_sums_free(sums);
	mayfly_trace_close(trace);
}

/* Whatever comes, the sanitizers have nothing to say. */
static void test_damaged(void)
{
	struct source s = random_source(4711);
	struct opened o;
	uint8_t *bytes;

	add_types(s.r);
	o = open_tracked(&s, 0);
	bytes = malloc(o.buffer.used);
	for (int i = 0; i < 400; i++) {
		memcpy(bytes, o.buffer.bytes, o.buffer.used);
		for (uint32_t k = below(4); k < 4; k++)
			bytes[below((uint32_t)o.buffer.used)] = (uint8_t)random_bits();
		ask(bytes, i % 3 ? o.buffer.used : below((uint32_t)o.buffer.used));
	}
	free(bytes);
	close_opened(&o);
	free_source(&s);
}

int main(void)
{
	RUN(test_joins);
	RUN(test_snapshots);
	RUN(test_percentiles);
	RUN(test_equal_durations);
	RUN(test_classes);
	RUN(test_deep);
	RUN(test_overlap);
	RUN(test_without_blocks);
	RUN(test_estimates);
	RUN(test_sums);
	RUN(test_aggregated);
	RUN(test_thread_cpu);
	RUN(test_damaged);
	DONE();
}
