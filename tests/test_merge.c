/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a merged trace the sum of its parts? Made-up histories are merged, and every question to the
 * result must have the sum of the answers of the parts. And the example of jemalloc's document: one
 * site of 8 bytes, a million times, one of 8 MB, once, sampled at different intervals.
 */
#include "agent/sampler.h"
#include "format/weights.h"
#include "history.h"
#include "query/plan.h"
#include "test.h"
#include "trace/rewrite/merge.h"

#include <math.h>

static uint64_t random_state = 7;

static uint64_t random_bits(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* ---- making and merging ---- */

struct made {
	uint8_t *bytes;
	size_t size;
	struct mayfly_trace *trace;
};

static void make(struct made *m, const struct history *h,
		 const struct trace_writer_options *options, size_t flush)
{
	CHECK(history_write(h, options, flush, &m->bytes, &m->size) == 0);
	CHECK(mayfly_trace_open(m->bytes, m->size, &m->trace) == 0);
}

static void drop(struct made *m, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		mayfly_trace_close(m[i].trace);
		free(m[i].bytes);
	}
}

static struct made merge(const struct made *part, size_t parts, enum merge_align align)
{
	struct trace_merge *m = trace_merge_new(align);
	struct trace_buffer buffer = {0};
	struct made made = {0};
	bool stay;

	for (size_t i = 0; i < parts; i++)
		CHECK(trace_merge_add(m, part[i].trace, &stay) == 0);
	CHECK(trace_merge_write(m, "merged", trace_buffer_sink, &buffer) == 0);
	trace_merge_free(m);
	made.bytes = buffer.bytes;
	made.size = buffer.used;
	CHECK(mayfly_trace_open(made.bytes, made.size, &made.trace) == 0);
	return made;
}

/* A frame at an address of module 0 that has this name. */
static uint32_t add_frame(struct recording *r, uint64_t address, const char *function,
			  uint32_t line)
{
	struct recording_location l = {.line = line};
	uint32_t frame = recording_frame(r, MAYFLY_FRAME_CODE, 0, address);

	if (!function)
		return frame;
	l.function = recording_string(r, function, strlen(function));
	l.file = recording_string(r, "file.c", 6);
	r->frame[frame].first_location = recording_location(r, &l);
	r->frame[frame].locations = 1;
	return frame;
}

static void add_module(struct recording *r, uint8_t build)
{
	struct recording_module module = {
	    .build_id = {build}, .build_id_length = 20, .to_ns = INT64_MAX};

	module.path = recording_string(r, "/bin/program", 12);
	recording_module(r, &module);
}

#define SITES	 6
#define SPAN_NS	 1000000000
#define STEP_NS	 100000000
#define MICROSEC 2000 /* the unit of times in sampled traces */

/* main -> one of the sites; some blocks have no stack. Sampled at random intervals, or exact. */
static struct history make_history(size_t blocks, bool exact, uint8_t build)
{
	static const char *const names[SITES] = {"read", "parse", "print", "grow", "copy", NULL};
	struct history h = {.r = recording_new()};
	uint32_t node[SITES + 1] = {0}, caller, name;

	add_module(h.r, build);
	caller = recording_node(h.r, 0, add_frame(h.r, build * 4096u, "main", 1));
	for (uint32_t i = 0; i < SITES; i++)
		node[i + 1] = recording_node(
		    h.r, caller, add_frame(h.r, build * 4096u + 16 * i + 16, names[i], 10 + i));
	name = recording_string(h.r, "worker", 6);
	for (uint32_t i = 0; i < 3; i++)
		recording_thread(h.r, build * 100u + i, i ? name : 0);
	for (size_t i = 0; i < blocks; i++) {
		struct history_block b = {
		    .time_ns = (int64_t)(i * (SPAN_NS / MICROSEC) / blocks) * MICROSEC,
		    .free_ns = INT64_MAX,
		    .free_thread = (uint32_t)(random_bits() % 3),
		};

		if (random_bits() % 4)
			b.free_ns = b.time_ns + (int64_t)(random_bits() % 100000) * MICROSEC;
		if (b.free_ns != INT64_MAX && random_bits() % 8 == 0)
			b.free_flags = MAYFLY_FLAG_TEMPORARY;
		b.block = (struct trace_block){
		    .size = 1 + random_bits() % 10000,
		    .node = node[random_bits() % (SITES + 1)],
		    .thread = (uint32_t)(random_bits() % 3),
		};
		if (!exact) {
			b.block.hits = (uint32_t)(random_bits() % 3);
			b.block.interval_log2 = (uint8_t)(12 + random_bits() % 4);
		}
		history_add(&h, &b);
	}
	h.r->info.duration_ns = SPAN_NS;
	h.r->info.start_real_ns = build * (int64_t)SPAN_NS;
	h.r->info.interval_bytes = exact ? 1 : 4096;
	h.r->info.complete = true;
	return h;
}

/* ---- sums ---- */

/* Rows without a function are told apart by their address. */
static uint64_t address_of(const struct mayfly_row *row)
{
	return row->stack_length ? row->stack[0].address : 0;
}

static const struct mayfly_row *find_row(const struct mayfly_result *r,
					 const struct mayfly_row *like)
{
	for (size_t i = 0; i < r->rows; i++)
		if (strcmp(r->row[i].function, like->function) == 0 &&
		    r->row[i].line == like->line && r->row[i].low == like->low &&
		    r->row[i].high == like->high && address_of(&r->row[i]) == address_of(like))
			return &r->row[i];
	return NULL;
}

static bool about(double a, double b)
{
	return fabs(a - b) <= 1e-9 * (1 + fabs(a) + fabs(b));
}

struct expected {
	double bytes, blocks, variance;
	uint64_t samples;
};

static void add(struct expected *to, const struct mayfly_estimate *e)
{
	to->bytes += e->bytes.estimate;
	to->blocks += e->blocks.estimate;
	to->variance += e->bytes.stderror * e->bytes.stderror;
	to->samples += e->samples;
}

static void same(const struct expected *x, const struct mayfly_estimate *e, const char *what)
{
	CHECK(about(x->bytes, e->bytes.estimate), "%s: %g, not %g", what, e->bytes.estimate,
	      x->bytes);
	CHECK(about(x->blocks, e->blocks.estimate), "%s", what);
	CHECK(about(sqrt(x->variance), e->bytes.stderror), "%s: %g, not %g", what,
	      e->bytes.stderror, sqrt(x->variance));
	CHECK(x->samples == e->samples, "%s", what);
}

/* Every row of the merged trace is the sum of the rows of the parts, and there are no others. */
static void check_query(const struct made *part, size_t parts, const struct made *all,
			const struct mayfly_query *q, const char *what)
{
	struct mayfly_result *of[8], *sum;
	struct expected total = {0};

	CHECK(mayfly_query_run(all->trace, q, &sum) == 0);
	for (size_t k = 0; k < parts; k++) {
		CHECK(mayfly_query_run(part[k].trace, q, &of[k]) == 0);
		add(&total, &of[k]->total);
		for (size_t i = 0; i < of[k]->rows; i++)
			CHECK(find_row(sum, &of[k]->row[i]), "%s", what);
	}
	same(&total, &sum->total, what);
	for (size_t i = 0; i < sum->rows; i++) {
		struct expected x = {0};

		for (size_t k = 0; k < parts; k++) {
			const struct mayfly_row *row = find_row(of[k], &sum->row[i]);

			if (row)
				add(&x, &row->self);
		}
		same(&x, &sum->row[i].self, what);
	}
	for (size_t k = 0; k < parts; k++)
		mayfly_result_free(of[k]);
	mayfly_result_free(sum);
}

/* Exact traces do not keep times to the nanosecond, large ones still less. */
enum what { SMALL, LARGE, SNAPSHOTS };

static void check_sums(const struct made *part, size_t parts, const struct made *all,
		       enum what what)
{
	struct mayfly_query q;

	mayfly_query_defaults(&q);
	q.metric = MAYFLY_ALLOCATED;
	q.by = MAYFLY_BY_LINE;
	check_query(part, parts, all, &q, "allocated");
	q.metric = MAYFLY_TEMPORARY;
	check_query(part, parts, all, &q, "temporary");
	q.metric = MAYFLY_LEAKED;
	check_query(part, parts, all, &q, "leaked");
	q.metric = MAYFLY_LIVE;
	for (q.at_ns = STEP_NS; what != LARGE && q.at_ns <= SPAN_NS; q.at_ns += STEP_NS)
		check_query(part, parts, all, &q, "live");
	if (what == SNAPSHOTS)
		return;
	q.at_ns = MAYFLY_AT_END;
	q.by = MAYFLY_BY_SIZE;
	check_query(part, parts, all, &q, "by size");
	q.metric = MAYFLY_ALLOCATED;
	q.by = MAYFLY_BY_LIFETIME;
	if (mayfly_trace_info(all->trace)->mode != MAYFLY_EXACT)
		check_query(part, parts, all, &q, "by lifetime");
}

static void check_counts(const struct made *part, size_t parts, const struct made *all)
{
	const struct mayfly_info *info = mayfly_trace_info(all->trace);
	uint64_t samples = 0, frees = 0;

	for (size_t i = 0; i < parts; i++) {
		samples += mayfly_trace_info(part[i].trace)->samples;
		frees += mayfly_trace_info(part[i].trace)->frees;
	}
	CHECK(info->samples == samples && info->frees == frees);
	CHECK(info->complete && strcmp(info->note, "merged") == 0);
}

/* How many rows an answer by thread has. */
static size_t thread_rows(const struct made *all)
{
	struct mayfly_query q;
	struct mayfly_result *result;
	size_t rows;

	mayfly_query_defaults(&q);
	q.metric = MAYFLY_ALLOCATED;
	q.by = MAYFLY_BY_THREAD;
	CHECK(mayfly_query_run(all->trace, &q, &result) == 0);
	rows = result->rows;
	mayfly_result_free(result);
	return rows;
}

static void merge_histories(bool exact_too, bool sampled_too)
{
	const struct trace_writer_options sampled = {.interval_log2 = 12},
					  exact = {.mode = MAYFLY_EXACT};
	struct made part[4], all;
	const struct mayfly_info *info;

	for (uint8_t i = 0; i < 4; i++) {
		bool is_exact = i % 2 ? exact_too : !sampled_too;
		struct history h = make_history(3000 + 500 * i, is_exact, (uint8_t)(1 + i / 2));

		make(&part[i], &h, is_exact ? &exact : &sampled, i % 3 ? 700 : 0);
		history_free(&h);
	}
	all = merge(part, 4, MERGE_FROM_START);
	check_counts(part, 4, &all);
	check_sums(part, 4, &all, SMALL);
	info = mayfly_trace_info(all.trace);
	CHECK(info->mode == (sampled_too ? MAYFLY_SAMPLED : MAYFLY_EXACT));
	/* Two builds: one stack for each name, two for what has none. */
	CHECK(info->modules == 2, "%zu modules", info->modules);
	CHECK(info->nodes == 1 + 1 + (SITES - 1) + 2, "%zu nodes", info->nodes);
	CHECK(info->threads == 4 * 3 && info->processes == 4);
	/* The unnamed ones of two builds; the first and the second worker. */
	CHECK(thread_rows(&all) == 2 + 2);
	drop(part, 4);
	drop(&all, 1);
}

static void test_sampled(void)
{
	merge_histories(false, true);
}

static void test_exact(void)
{
	merge_histories(true, false);
}

static void test_mixed(void)
{
	merge_histories(true, true);
}

/* Larger than what is packed: read event by event. */
static void test_large(void)
{
	const struct trace_writer_options exact = {.mode = MAYFLY_EXACT, .level = 1};
	struct made part[2], all;

	for (uint8_t i = 0; i < 2; i++) {
		struct history h = make_history(i ? 1000 : 450000, true, 1);

		make(&part[i], &h, &exact, 0);
		history_free(&h);
	}
	CHECK(mayfly_trace_info(part[0].trace)->samples + mayfly_trace_info(part[0].trace)->frees >
	      786432);
	all = merge(part, 2, MERGE_FROM_START);
	check_counts(part, 2, &all);
	check_sums(part, 2, &all, LARGE);
	drop(part, 2);
	drop(&all, 1);
}

static void test_snapshots(void)
{
	struct made part[3], all;

	for (uint8_t i = 0; i < 3; i++) {
		const struct trace_writer_options options = {
		    .mode = MAYFLY_EXACT, .snapshot_ns = i == 2 ? STEP_NS / 5 : STEP_NS};
		struct history h = make_history(4000, true, (uint8_t)(1 + i));

		make(&part[i], &h, &options, 0);
		history_free(&h);
	}
	all = merge(part, 3, MERGE_FROM_START);
	CHECK(mayfly_trace_info(all.trace)->snapshot_ns == STEP_NS);
	check_counts(part, 3, &all);
	check_sums(part, 3, &all, SNAPSHOTS);
	drop(part, 3);
	drop(&all, 1);
}

/* ---- track events and labels ---- */

#define TOLD 200 /* blocks, and as many track events */

/* Blocks of size 1000 + who with label who=..., events that say who and the how-manyth they are. */
static struct history tell(uint32_t who)
{
	struct history h = {.r = recording_new()};
	char text[16];
	const struct recording_track_type span = {
	    .kind = MAYFLY_TYPE_SPAN,
	    .name = recording_string(h.r, "work", 4),
	    .fields = 2,
	    .field = {{MAYFLY_FIELD_UINT, 0}, {MAYFLY_FIELD_TEXT, 0}}};
	uint32_t type = recording_track_type(h.r, &span);
	struct recording_label label = {recording_string(h.r, "who", 3), 0};
	int64_t now = 0;

	snprintf(text, sizeof(text), "%u", who);
	label.value = recording_string(h.r, text, strlen(text));
	recording_thread(h.r, 1, recording_string(h.r, "worker", 6)); /* has spans */
	recording_thread(h.r, 2, recording_string(h.r, "quiet", 5));
	for (uint32_t i = 0; i < TOLD; i++) {
		struct history_block b = {
		    .free_ns = INT64_MAX,
		    .block = {.size = 1000 + who,
			      .thread = i % 2,
			      .labels = recording_labels(h.r, &label, i % 3 == 0)},
		};
		struct history_track t = {.track = {0, i % 2, type, 0, 0, NULL},
					  .value = {i, label.value}};

		now += (int64_t)(random_bits() % 3) * 20000;
		b.time_ns = now;
		history_add(&h, &b);
		now += (int64_t)(random_bits() % 3) * 20000;
		t.track.time_ns = now;
		history_add_track(&h, &t);
	}
	h.r->info.duration_ns = now;
	h.r->info.complete = true;
	return h;
}

/* An event of a part: its time, and how many blocks of that part come before. */
struct told {
	int64_t time_ns;
	uint64_t blocks;
};

static void read_told(const struct made *m, struct told *told)
{
	struct mayfly_track_cursor *c;
	struct mayfly_track_event e;

	CHECK(mayfly_track_cursor_open(m->trace, &c) == 0);
	for (size_t i = 0; i < TOLD; i++) {
		CHECK(mayfly_track_cursor_next(c, &e) == 1);
		told[i] = (struct told){e.time_ns, e.events_before};
	}
	mayfly_track_cursor_close(c);
}

/* Blocks of each part, up to so many events of the merged trace. */
static void count_blocks(struct mayfly_cursor *c, const struct mayfly_trace *t, uint64_t *at,
			 uint64_t end, uint64_t blocks[2])
{
	struct mayfly_event e;

	for (; *at < end; ++*at) {
		char text[16];

		CHECK(mayfly_cursor_next(c, &e) == 1);
		snprintf(text, sizeof(text), "who=%d", (int)e.size - 1000);
		CHECK(strcmp(mayfly_trace_label_text(t, e.labels),
			     blocks[e.size - 1000]++ % 3 == 0 ? text : "") == 0);
	}
}

static void check_told(const struct made *all, struct told told[2][TOLD])
{
	const struct mayfly_info *info = mayfly_trace_info(all->trace);
	struct mayfly_track_cursor *c;
	struct mayfly_track_event e;
	struct mayfly_cursor *cursor;
	uint64_t at = 0, blocks[2] = {0}, events[2] = {0};
	uint32_t thread[2] = {UINT32_MAX, UINT32_MAX};

	CHECK(info->track_types == 1 && info->track_events == 2 * TOLD);
	CHECK(info->threads == 2 * 2 && info->label_sets == 3);
	CHECK(mayfly_cursor_open(all->trace, &cursor) == (info->snapshot_ns ? MAYFLY_E_ABSENT : 0));
	CHECK(mayfly_track_cursor_open(all->trace, &c) == 0);
	while (mayfly_track_cursor_next(c, &e) == 1) {
		static uint32_t who; /* an end does not say it: the thread does */

		if (e.kind == MAYFLY_TRACK_BEGIN)
			who = e.value[1].text[0] != '0';
		else
			who = e.thread == thread[1];
		count_blocks(cursor, all->trace, &at, e.events_before, blocks);
		CHECK(e.time_ns == told[who][events[who]].time_ns);
		CHECK(blocks[who] == told[who][events[who]].blocks);
		CHECK(e.kind == events[who] % 2);
		CHECK(e.kind || e.value[0].u == events[who]);
		CHECK(thread[who] == UINT32_MAX || thread[who] == e.thread);
		thread[who] = e.thread;
		events[who]++;
	}
	CHECK(events[0] == TOLD && events[1] == TOLD);
	if (!info->snapshot_ns)
		count_blocks(cursor, all->trace, &at, 2 * TOLD, blocks);
	CHECK(thread[0] != thread[1]);
	mayfly_track_cursor_close(c);
	mayfly_cursor_close(cursor);
}

/* Each part's events stay in their places among its blocks, with the threads that had them. */
static void test_track_events(void)
{
	for (int kind = 0; kind < 3; kind++) {
		const struct trace_writer_options options = {
		    .mode = kind ? MAYFLY_EXACT : MAYFLY_SAMPLED,
		    .snapshot_ns = kind == 2 ? 1000000 : 0};
		struct told told[2][TOLD];
		struct made part[2], all;

		for (uint32_t i = 0; i < 2; i++) {
			struct history h = tell(i);

			make(&part[i], &h, &options, 50);
			read_told(&part[i], told[i]);
			history_free(&h);
		}
		all = merge(part, 2, MERGE_FROM_START);
		check_told(&all, told);
		drop(&all, 1);
		drop(part, 2);
	}
}

static void test_kinds(void)
{
	const struct trace_writer_options options[] = {
	    {.mode = MAYFLY_EXACT},
	    {.interval_log2 = 12},
	    {.interval_log2 = 12, .sampler = MAYFLY_POISSON},
	    {.mode = MAYFLY_EXACT, .snapshot_ns = STEP_NS}};
	static const bool fits[4][4] = {
	    {true, true, true, false},
	    {true, true, false, false},
	    {true, false, true, false},
	    {false, false, false, true},
	};
	struct made part[4];
	bool stay;

	for (int i = 0; i < 4; i++) {
		struct history h = make_history(100, i % 3 == 0, 1);

		make(&part[i], &h, &options[i], 0);
		history_free(&h);
	}
	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < 4; k++) {
			struct trace_merge *m = trace_merge_new(MERGE_FROM_START);

			CHECK(trace_merge_add(m, part[i].trace, &stay) == 0);
			CHECK((trace_merge_add(m, part[k].trace, &stay) == 0) == fits[i][k],
			      "%d %d", i, k);
			trace_merge_free(m);
		}
	}
	drop(part, 4);
}

/* ---- blocks of OCaml's heaps ---- */

struct ocaml_sums {
	double bytes;
	uint64_t blocks, promotions;
};

/* Blocks at the rate, some thinned to twice and four times its interval; every third is promoted. rate 0:
 * malloc's blocks only. *sums: what the trace shall say. */
static void make_ocaml(struct made *m, double rate, size_t blocks, struct ocaml_sums *sums)
{
	const struct trace_writer_options options = {.interval_log2 = 12};
	struct recording *r = recording_new();
	struct trace_buffer buffer = {0};
	struct trace_writer *w = trace_writer_new(&options, r, trace_buffer_sink, &buffer);
	unsigned k = rate > 0 ? (unsigned)floor(log2(8 / rate)) : 12;

	r->info.interval_bytes = 4096;
	r->info.ocaml_rate = rate;
	r->info.ocaml_interval_bytes = rate > 0 ? (uint64_t)(8 / rate + 0.5) : 0;
	r->info.duration_ns = SPAN_NS;
	r->info.complete = true;
	recording_thread(r, 1, 0);
	*sums = (struct ocaml_sums){.blocks = blocks};
	for (size_t i = 0; i < blocks; i++) {
		int64_t time_ns = (int64_t)i * 10 * MICROSEC;
		struct trace_block b = {.size = 16 + 8 * (i % 5),
					.hits = 1 + i % 7 / 6,
					.interval_log2 = (uint8_t)(k + (rate > 0 ? i % 3 : 0))};
		uint64_t serial;

		if (rate > 0)
			b.flags = 1u << MAYFLY_FLAG_HEAP_SHIFT;
		sums->bytes += b.hits * (rate > 0 ? 8 / rate * (1 << i % 3) : 4096);
		CHECK(trace_writer_alloc(w, time_ns, &b, &serial) == 0);
		if (rate > 0 && i % 3 == 0) {
			sums->promotions++;
			CHECK(trace_writer_promote(w, time_ns + MICROSEC, serial) == 0);
		}
		if (i % 2)
			CHECK(trace_writer_free(w, time_ns + 2 * MICROSEC, serial, &b, 0, 0) == 0);
	}
	CHECK(trace_writer_finish(w) == 0);
	trace_writer_free_all(w);
	recording_free(r);
	m->bytes = buffer.bytes;
	m->size = buffer.used;
	CHECK(mayfly_trace_open(m->bytes, m->size, &m->trace) == 0);
}

static void check_ocaml(const struct made *m, const struct ocaml_sums *want)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	struct ocaml_sums got = {0};
	struct mayfly_query query = {.metric = MAYFLY_ALLOCATED,
				     .by = MAYFLY_BY_HEAP,
				     .max_size = UINT64_MAX,
				     .to_ns = INT64_MAX,
				     .max_lifetime_ns = INT64_MAX};
	struct mayfly_result *result;

	CHECK(mayfly_cursor_open(m->trace, &cursor) == 0);
	mayfly_cursor_promotions(cursor);
	while (mayfly_cursor_next(cursor, &e) == 1) {
		got.promotions += e.kind == MAYFLY_PROMOTE;
		got.blocks += e.kind == MAYFLY_ALLOC;
		got.bytes += e.kind == MAYFLY_ALLOC ? e.weight_bytes : 0;
	}
	mayfly_cursor_close(cursor);
	CHECK(about(got.bytes, want->bytes), "%g, not %g", got.bytes, want->bytes);
	CHECK(got.blocks == want->blocks && got.promotions == want->promotions);
	CHECK(mayfly_query_run(m->trace, &query, &result) == 0);
	CHECK(about(result->total.bytes.estimate, want->bytes));
	mayfly_result_free(result);
}

static void merge_ocaml(const double *rate, const size_t *blocks, size_t parts, double merged,
			uint32_t heaps)
{
	struct made part[3], all;
	struct ocaml_sums one, sums = {0};

	for (size_t i = 0; i < parts; i++) {
		make_ocaml(&part[i], rate[i], blocks[i], &one);
		check_ocaml(&part[i], &one);
		sums.bytes += one.bytes;
		sums.blocks += one.blocks;
		sums.promotions += one.promotions;
	}
	all = merge(part, parts, MERGE_FROM_START);
	check_ocaml(&all, &sums);
	CHECK(mayfly_trace_info(all.trace)->ocaml_rate == merged);
	CHECK(mayfly_trace_info(all.trace)->heaps == heaps);
	drop(part, parts);
	drop(&all, 1);
}

static void test_ocaml(void)
{
	/* The last ones are so large that they are merged by cursors. */
	merge_ocaml((double[]){1e-5, 1e-5}, (size_t[]){1000, 500}, 2, 1e-5, 2);
	merge_ocaml((double[]){4e-4, 1e-4, 2e-4}, (size_t[]){700, 800, 900}, 3, 1e-4, 2);
	merge_ocaml((double[]){0, 3e-3, 0}, (size_t[]){500, 1000, 700}, 3, 3e-3, 3);
	merge_ocaml((double[]){1, 1.0 / 1024}, (size_t[]){500, 700}, 2, 1.0 / 1024, 2);
	merge_ocaml((double[]){1e-6, 1e-6}, (size_t[]){600000, 500}, 2, 1e-6, 2);
}

/* Without one number that all intervals are a power of two times of. */
static void test_ocaml_rates(void)
{
	static const double rate[] = {1e-5, 3e-5, 2e-5};
	struct made part[3];
	struct ocaml_sums sums;
	bool stay;

	for (int i = 0; i < 3; i++)
		make_ocaml(&part[i], rate[i], 10, &sums);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++) {
			struct trace_merge *m = trace_merge_new(MERGE_FROM_START);
			bool fit = i == k || i + k == 2; /* 1e-5 and 2e-5 */

			CHECK(trace_merge_add(m, part[i].trace, &stay) == 0);
			CHECK(trace_merge_rates_fit(m, part[k].trace) == fit, "%d %d", i, k);
			CHECK(trace_merge_add(m, part[k].trace, &stay) ==
			      (fit ? 0 : MAYFLY_E_RANGE));
			trace_merge_free(m);
		}
	}
	drop(part, 3);
}

/* By the clock the second process starts when the first has ended: its blocks come later. */
static void test_clock(void)
{
	const struct trace_writer_options exact = {.mode = MAYFLY_EXACT};
	struct made part[2], all;
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	uint64_t before = 0, after = 0, first;

	for (uint8_t i = 0; i < 2; i++) {
		struct history h = make_history(1000, true, (uint8_t)(1 + i));

		make(&part[i], &h, &exact, 0);
		history_free(&h);
	}
	all = merge(part, 2, MERGE_BY_CLOCK);
	first = mayfly_trace_info(part[0].trace)->samples;
	CHECK(mayfly_trace_info(all.trace)->duration_ns ==
	      SPAN_NS + mayfly_trace_info(part[1].trace)->duration_ns);
	CHECK(mayfly_trace_info(all.trace)->start_real_ns == SPAN_NS);
	CHECK(mayfly_cursor_open(all.trace, &cursor) == 0);
	while (mayfly_cursor_next(cursor, &e) == 1) {
		if (e.kind != MAYFLY_ALLOC)
			continue;
		before += e.time_ns < SPAN_NS;
		after += e.time_ns >= SPAN_NS;
	}
	CHECK(before == first && after == mayfly_trace_info(part[1].trace)->samples);
	mayfly_cursor_close(cursor);
	drop(part, 2);
	drop(&all, 1);
}

/* The same address says something else in a module without a build-id that was built again. */
static void test_same_address(void)
{
	const struct trace_writer_options exact = {.mode = MAYFLY_EXACT};
	static const char *const names[] = {"before", "after"};
	struct made part[2], all;
	struct mayfly_query q;
	struct mayfly_result *result;

	for (int i = 0; i < 2; i++) {
		struct history h = {.r = recording_new()};
		struct history_block b = {.free_ns = INT64_MAX, .block = {.size = 10}};

		add_module(h.r, 0);
		h.r->module[0].build_id_length = 0;
		b.block.node = recording_node(h.r, 0, add_frame(h.r, 4096, names[i], 1));
		recording_thread(h.r, 1, 0);
		history_add(&h, &b);
		make(&part[i], &h, &exact, 0);
		history_free(&h);
	}
	all = merge(part, 2, MERGE_FROM_START);
	mayfly_query_defaults(&q);
	q.metric = MAYFLY_LEAKED;
	CHECK(mayfly_query_run(all.trace, &q, &result) == 0);
	CHECK(result->rows == 2 && result->total.bytes.estimate == 20);
	for (size_t i = 0; i < result->rows; i++)
		CHECK(result->row[i].self.bytes.estimate == 10);
	mayfly_result_free(result);
	drop(part, 2);
	drop(&all, 1);
}

/* ---- the order of a thread's events ---- */

#define RUNS  20 /* of one program */
#define STEPS 200

/* A thread of each run: `main`, a block of a class in each step. */
static struct history make_run(bool exact, uint32_t number)
{
	struct history h = {.r = recording_new()};
	struct history_block b = {.free_ns = INT64_MAX};

	add_module(h.r, 1);
	b.block.node = recording_node(h.r, 0, add_frame(h.r, 4096, "grow", 1));
	b.block.size = exact ? 3000 : 100;
	b.block.hits = !exact;
	b.block.interval_log2 = exact ? 0 : 16;
	recording_thread(h.r, number, recording_string(h.r, "main", 4));
	for (size_t i = 0; i < STEPS; i++) {
		b.time_ns = (int64_t)i * 1000000;
		history_add(&h, &b);
	}
	h.r->info.pid = number;
	h.r->info.grouped = !exact;
	h.r->info.duration_ns = SPAN_NS;
	h.r->info.interval_bytes = exact ? 1 : 1 << 16;
	return h;
}

static void make_runs(struct made *part, size_t parts, bool exact)
{
	const struct trace_writer_options sampled = {.interval_log2 = 16},
					  all = {.mode = MAYFLY_EXACT};

	for (uint32_t i = 0; i < parts; i++) {
		struct history h = make_run(exact, 1000 + i);

		make(&part[i], &h, exact ? &all : &sampled, 0);
		history_free(&h);
	}
}

static double variance_of(const struct made *m)
{
	struct mayfly_query q;
	struct mayfly_result *result;
	double error = NAN;

	mayfly_query_defaults(&q);
	q.metric = MAYFLY_ALLOCATED;
	CHECK(mayfly_query_run(m->trace, &q, &result) == 0);
	for (size_t i = 0; i < result->rows; i++)
		if (strcmp(result->row[i].function, "grow") == 0)
			error = result->row[i].self.bytes.stderror;
	mayfly_result_free(result);
	return error * error;
}

/* Strata lower a variance; with n samples, at least this share of the reduction is to be expected. */
static double counted_on(double n)
{
	return 1 - pow(3 / n, 1.5);
}

/* Samples of two processes are no neighbours, whatever their threads are called. */
static void test_lines_end(void)
{
	double single = STEPS * weigh_sample(MAYFLY_STRATIFIED, 65536, 100, 1).variance_bytes;
	struct made part[RUNS], all, twice[2], again;
	double taken, expected;

	make_runs(part, RUNS, false);
	taken = (single - variance_of(&part[0])) / counted_on(STEPS);
	CHECK(taken > 0.9 * single);
	all = merge(part, RUNS, MERGE_FROM_START);
	expected = RUNS * (single - counted_on(RUNS * STEPS) * taken);
	CHECK(fabs(variance_of(&all) - expected) < 1e-6 * expected, "%g, not %g", variance_of(&all),
	      expected);
	CHECK(mayfly_trace_info(all.trace)->processes == RUNS && thread_rows(&all) == 1);
	/* Merges of merges. */
	twice[0] = merge(part, RUNS / 2, MERGE_FROM_START);
	twice[1] = merge(part + RUNS / 2, RUNS / 2, MERGE_FROM_START);
	again = merge(twice, 2, MERGE_FROM_START);
	CHECK(fabs(variance_of(&again) - expected) < 1e-6 * expected);
	CHECK(mayfly_trace_info(again.trace)->processes == RUNS && thread_rows(&again) == 1);
	drop(&again, 1);
	drop(twice, 2);
	drop(&all, 1);
	drop(part, RUNS);
}

/* All groups of a thread begin anew when its interval changes, also when it changes back. */
static void test_lines_end_with_intervals(void)
{
	const struct trace_writer_options options = {.interval_log2 = 16};
	struct made made[2];

	for (uint32_t i = 0; i < 2; i++) {
		struct history h = make_run(false, 1);
		uint32_t frame = add_frame(h.r, 4096 + 64, "other", 1);

		for (size_t k = 5; k < h.blocks; k += 10) {
			h.block[k].block.node = recording_node(h.r, 0, frame);
			h.block[k].block.interval_log2 = i ? 14 : 16;
		}
		make(&made[i], &h, &options, 0);
		history_free(&h);
	}
	CHECK(variance_of(&made[1]) > 1.5 * variance_of(&made[0]), "%g, %g", variance_of(&made[1]),
	      variance_of(&made[0]));
	drop(made, 2);
}

/* Merged by a version that joined threads of one name: which samples are neighbours is not known. */
static void test_merged_before(void)
{
	const struct trace_writer_options options = {.interval_log2 = 16};
	struct history h = make_run(false, 1);
	struct made old, all[2], both;

	h.r->info.pid = 0;
	make(&old, &h, &options, 0);
	history_free(&h);
	CHECK(!mayfly_trace_info(old.trace)->grouped);
	make_runs(all, 1, false);
	CHECK(mayfly_trace_info(all[0].trace)->grouped);
	CHECK(variance_of(&old) > 10 * variance_of(&all[0]));
	all[1] = old;
	both = merge(all, 2, MERGE_FROM_START);
	CHECK(!mayfly_trace_info(both.trace)->grouped);
	drop(&both, 1);
	drop(all, 2);
}

/* What sampling would give is the sum of what it would give of each process. */
static void test_plan(void)
{
	struct made part[RUNS], all;
	struct mayfly_query q;
	struct plan *one, *sum;

	make_runs(part, RUNS, true);
	all = merge(part, RUNS, MERGE_FROM_START);
	mayfly_query_defaults(&q);
	q.metric = MAYFLY_ALLOCATED;
	CHECK(plan_make(part[0].trace, &q, &one) == 0 && plan_make(all.trace, &q, &sum) == 0);
	for (size_t i = 0; i < PLAN_LEVELS; i++)
		for (size_t k = 0; k < 2; k++) {
			double a = RUNS * one->scheme[i][k].allocated_variance,
			       b = sum->scheme[i][k].allocated_variance;

			CHECK(fabs(a - b) <= 1e-9 * a, "level %zu: %g, not %g", i, b, a);
		}
	plan_free(one);
	plan_free(sum);
	drop(&all, 1);
	drop(part, RUNS);
}

/* The halves of reallocs of two processes, between one another. */
static void test_reallocs(void)
{
	const struct trace_writer_options exact = {.mode = MAYFLY_EXACT};
	struct made part[2], all;
	struct mayfly_query q;
	struct mayfly_reallocs *a;

	mayfly_query_defaults(&q);
	for (uint32_t i = 0; i < 2; i++) {
		struct history h = make_run(true, 1);

		for (size_t k = 0; k < h.blocks; k++) {
			struct history_block *b = &h.block[k];

			b->time_ns += i * 250000;
			b->block.size = 100 + 10 * k + i;
			b->block.flags = k ? MAYFLY_FLAG_REALLOC : 0;
			if (k + 1 < h.blocks) {
				b->free_ns = b->time_ns + 500000;
				b->free_flags = MAYFLY_FLAG_REALLOC;
			}
		}
		make(&part[i], &h, &exact, 0);
		history_free(&h);
	}
	all = merge(part, 2, MERGE_FROM_START);
	CHECK(mayfly_reallocs_run(all.trace, &q, 10, &a) == 0);
	CHECK(a->total.chains == 2 && a->total.steps == 2 * (STEPS - 1) &&
		  a->total.longest == STEPS - 1 && a->total.first_bytes == 201,
	      "%g chains, %g steps", (double)a->total.chains, (double)a->total.steps);
	mayfly_reallocs_free(a);
	drop(&all, 1);
	drop(part, 2);
}

/* ---- 8 bytes a million times, 8 MB once ---- */

#define SMALL_BLOCKS 1000000
#define HOSTS	     6
#define STUDIES	     160

/* One host's trace, sampled at this interval. */
static struct history sample_host(int sampler, uint32_t interval_log2)
{
	struct history h = {.r = recording_new()};
	uint32_t small, large, left = SMALL_BLOCKS, when = (uint32_t)(random_bits() % SMALL_BLOCKS);
	struct history_block b = {.free_ns = INT64_MAX};
	struct sampler state;
	bool done = false;

	add_module(h.r, 1);
	small = recording_node(h.r, 0, add_frame(h.r, 1, "small", 1));
	large = recording_node(h.r, 0, add_frame(h.r, 2, "large", 1));
	recording_thread(h.r, 1, 0);
	h.r->info.duration_ns = SPAN_NS;
	h.r->info.interval_bytes = (uint64_t)1 << interval_log2;
	sampler_init(&state, (uint32_t)sampler, interval_log2, random_bits());
	b.block.interval_log2 = (uint8_t)interval_log2;
	while (left || !done) {
		bool is_large = !done && left <= when;
		uint64_t size = is_large ? 8u << 20 : 8;
		/* Blocks that the sampler lets by, all at once. */
		uint64_t skip = state.left > 8 ? (state.left - 1) / 8 : 0;
		int32_t hits;

		if (!is_large && skip) {
			uint32_t until = done || left <= when ? left : left - when;

			if (skip > until)
				skip = until;
			left -= (uint32_t)skip;
			state.left -= 8 * skip;
			continue;
		}
		left -= !is_large;
		done |= is_large;
		hits = size < state.left ? SAMPLER_SKIP
					 : sampler_take(&state, size, is_large ? 64 : 128);
		if (size < state.left && hits == SAMPLER_SKIP && is_large)
			state.left -= (uint32_t)size;
		if (hits == SAMPLER_SKIP)
			continue;
		b.time_ns = (int64_t)(SMALL_BLOCKS - left) * 100;
		b.block.size = size;
		b.block.hits = (uint32_t)hits;
		b.block.node = is_large ? large : small;
		history_add(&h, &b);
	}
	return h;
}

struct site {
	double sum, variance, covered, blocks, runs;
};

static void add_site(struct site *s, const struct mayfly_result *result, const char *name,
		     double truth)
{
	const struct mayfly_estimate *e = &result->nothing;

	for (size_t i = 0; i < result->rows; i++)
		if (strcmp(result->row[i].function, name) == 0)
			e = &result->row[i].self;
	s->sum += e->bytes.estimate;
	s->blocks += e->blocks.estimate;
	s->variance += e->bytes.stderror * e->bytes.stderror;
	s->covered += e->bytes.low <= truth && truth <= e->bytes.high;
	s->runs++;
}

/* All hosts, with different intervals, as one trace; many times. */
static void study_example(int sampler)
{
	const double small_truth = 8.0 * SMALL_BLOCKS * HOSTS, large_truth = 8388608.0 * HOSTS;
	struct site small = {0}, large = {0};
	double error;

	for (int run = 0; run < STUDIES; run++) {
		struct made part[HOSTS], all;
		struct mayfly_query q;
		struct mayfly_result *result;

		for (uint32_t i = 0; i < HOSTS; i++) {
			const struct trace_writer_options options = {
			    .sampler = (uint32_t)sampler, .interval_log2 = 18 + i % 4, .level = 1};
			struct history h = sample_host(sampler, options.interval_log2);

			make(&part[i], &h, &options, 0);
			history_free(&h);
		}
		all = merge(part, HOSTS, MERGE_FROM_START);
		mayfly_query_defaults(&q);
		q.metric = MAYFLY_ALLOCATED;
		CHECK(mayfly_query_run(all.trace, &q, &result) == 0);
		add_site(&small, result, "small", small_truth);
		add_site(&large, result, "large", large_truth);
		mayfly_result_free(result);
		drop(part, HOSTS);
		drop(&all, 1);
	}
	error = sqrt(small.variance) / small.runs;
	printf("# 8 bytes: mean %.4f of the truth (standard error %.4f), covered %.3f; blocks "
	       "%.4f\n",
	       small.sum / small.runs / small_truth, error / small_truth,
	       small.covered / small.runs, small.blocks / small.runs / (small_truth / 8));
	CHECK(fabs(small.sum / small.runs - small_truth) <= 3.5 * error);
	CHECK(about(small.blocks * 8, small.sum) || sampler == SAMPLER_POISSON);
	CHECK(small.covered >= 0.92 * small.runs, "%g of %g", small.covered, small.runs);
	printf("# 8 MB: mean %.4f of the truth, covered %.3f\n",
	       large.sum / large.runs / large_truth, large.covered / large.runs);
	error = sqrt(large.variance) / large.runs;
	CHECK(fabs(large.sum / large.runs - large_truth) <= 3.5 * error + 1);
	CHECK(large.covered >= 0.9 * large.runs, "%g of %g", large.covered, large.runs);
}

static void test_example_stratified(void)
{
	study_example(SAMPLER_STRATIFIED);
}

static void test_example_poisson(void)
{
	study_example(SAMPLER_POISSON);
}

int main(void)
{
	RUN(test_sampled);
	RUN(test_exact);
	RUN(test_mixed);
	RUN(test_large);
	RUN(test_snapshots);
	RUN(test_track_events);
	RUN(test_kinds);
	RUN(test_ocaml);
	RUN(test_ocaml_rates);
	RUN(test_clock);
	RUN(test_same_address);
	RUN(test_lines_end);
	RUN(test_lines_end_with_intervals);
	RUN(test_merged_before);
	RUN(test_plan);
	RUN(test_reallocs);
	RUN(test_example_stratified);
	RUN(test_example_poisson);
	DONE();
}
