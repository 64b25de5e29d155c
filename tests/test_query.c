/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions against a reference that answers them block by block, the long way, on random small
 * traces with all kinds of stacks: recursion, inlining, marks, unknown functions, equal names in
 * several modules, frames that print the same. Also the timeline, the summary, and the time that a
 * large trace takes.
 */
#include "test.h"
#include "trace/estimate.h"
#include "trace/recording.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* ---- random traces ---- */

static uint64_t random_state;

static uint64_t random_bits(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint32_t below(uint32_t limit)
{
	return (uint32_t)(random_bits() % limit);
}

static const char *const function_names[] = {"main",	 "parse", "grow",  "push<int>",
					     "read_row", "visit", "alloc", ""};
static const char *const file_names[] = {"a.c", "src/b.cc", "c.h", ""};
static const char *const module_names[] = {"/bin/prog", "/lib/libx.so", "/lib/liby.so"};
static const char *const thread_names[] = {"main", "worker", "io"};

static uint32_t intern(struct recording *r, const char *text)
{
	return recording_string(r, text, strlen(text));
}

static void add_modules_and_threads(struct recording *r)
{
	for (uint32_t i = 0; i < 3; i++) {
		struct recording_module m = {.path = intern(r, module_names[i]),
					     .start = 0x1000000ull * (i + 1),
					     .end = 0x1000000ull * (i + 2),
					     .to_ns = INT64_MAX};

		recording_module(r, &m);
	}
	for (uint32_t i = 0; i < 5; i++)
		recording_thread(r, 100 + i, intern(r, thread_names[i % 3]));
}

static void add_code_frame(struct recording *r)
{
	uint32_t module = below(4);
	uint32_t f = recording_frame(r, MAYFLY_FRAME_CODE, module < 3 ? module : RECORDING_NONE,
				     0x100 + r->frames * 16);
	uint32_t places = 1 + (below(3) == 0) + (below(6) == 0);

	r->frame[f].first_location = (uint32_t)r->locations;
	r->frame[f].locations = places;
	for (uint32_t i = 0; i < places; i++) {
		const char *function = function_names[below(8)];
		struct recording_location l = {.function = intern(r, function),
					       .inlined = i + 1 < places};

		if (*function) {
			l.file = intern(r, file_names[below(4)]);
			l.line = below(3);
		}
		recording_location(r, &l);
	}
}

static void add_frames(struct recording *r)
{
	for (int i = 0; i < 24; i++)
		add_code_frame(r);
	recording_frame(r, MAYFLY_FRAME_TRUNCATED, RECORDING_NONE, 0);
	recording_frame(r, MAYFLY_FRAME_ELIDED, RECORDING_NONE, 77);
	recording_frame(r, MAYFLY_FRAME_ELIDED, RECORDING_NONE, 78);
}

static void add_nodes(struct recording *r, uint32_t count)
{
	recording_node(r, 0, 24); /* a truncated stack's root */
	for (uint32_t i = 0; i < count; i++) {
		uint32_t parent = below((uint32_t)r->nodes);

		recording_node(r, parent, below(10) == 0 && parent ? 25 + below(2) : below(24));
	}
}

static void add_samples(struct recording *r, uint32_t count, bool exact)
{
	int64_t now = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct recording_sample s = {.thread = below(5), .free_ns = INT64_MAX};

		now += below(3) == 0 ? 0 : below(1000000);
		s.time_ns = now;
		s.node = below((uint32_t)r->nodes);
		s.size = below(4) == 0 ? below(3000000) : 1 + below(5000);
		s.interval_log2 = exact ? 0 : (uint8_t)(13 + below(2));
		if (!exact && s.size < 1ull << s.interval_log2) {
			s.size += s.size == 0;
			s.hits = 1 + (below(9) == 0);
			if (r->info.sampler == MAYFLY_POISSON)
				s.hits = 1;
		}
		if (below(3)) {
			s.free_ns = now + (below(4) ? below(100000000) : below(20));
			s.free_thread = below(2) ? s.thread : below(5);
			s.free_flags = below(3) ? 0 : MAYFLY_FLAG_TEMPORARY;
			r->info.frees++;
		}
		recording_sample(r, &s);
	}
	r->info.samples = count;
	r->info.duration_ns = now + 200000000;
}

static struct recording *random_recording(uint64_t seed)
{
	struct recording *r = recording_new();
	bool exact;

	random_state = seed;
	exact = below(4) == 0;
	r->info.mode = exact ? MAYFLY_EXACT : MAYFLY_SAMPLED;
	r->info.sampler = below(3) ? MAYFLY_STRATIFIED : MAYFLY_POISSON;
	r->info.interval_bytes = exact ? 1 : 1 << 13;
	add_modules_and_threads(r);
	add_frames(r);
	add_nodes(r, 40 + below(80));
	add_samples(r, below(300), exact);
	return r;
}

struct opened {
	uint8_t *bytes;
	struct mayfly_trace *trace;
};

static struct opened open_recording(const struct recording *r)
{
	struct opened o = {0};
	size_t size;
	int error = trace_encode(r, 1, &o.bytes, &size);

	CHECK(error == 0, "%s", mayfly_error_text(error));
	error = mayfly_trace_open(o.bytes, size, &o.trace);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	return o;
}

static void close_opened(struct opened *o)
{
	mayfly_trace_close(o->trace);
	free(o->bytes);
}

/* ---- the reference ---- */

/* The events in order, as plain blocks. */
struct block {
	struct mayfly_event alloc;
	uint64_t born, died; /* numbers of the events; died UINT64_MAX: never */
	int64_t lifetime;
	bool temporary;
};

struct history {
	struct block *block;
	size_t blocks;
	uint64_t events, peak_event; /* the peak is after peak_event events */
	int64_t peak_time, *time;    /* of each event */
	double *live;		     /* after each event */
};

static struct history read_history(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct history h = {0};
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	double live = 0, peak = 0;

	h.block = calloc(info->samples + 1, sizeof(*h.block));
	h.time = calloc(info->samples + info->frees + 1, sizeof(*h.time));
	h.live = calloc(info->samples + info->frees + 1, sizeof(*h.live));
	CHECK(mayfly_cursor_open(trace, &cursor) == 0);
	while (mayfly_cursor_next(cursor, &e) == 1) {
		struct block *b = &h.block[e.sample];

		h.time[h.events] = e.time_ns;
		if (e.kind == MAYFLY_ALLOC) {
			CHECK(e.sample == h.blocks);
			*b = (struct block){e, h.events, UINT64_MAX, INT64_MAX, false};
			h.blocks++;
			live += e.weight_bytes;
		} else {
			CHECK(e.sample < h.blocks && b->died == UINT64_MAX);
			b->died = h.events;
			b->lifetime = e.time_ns - b->alloc.time_ns;
			b->temporary = e.flags & MAYFLY_FLAG_TEMPORARY;
			live -= e.weight_bytes;
		}
		h.live[h.events++] = live;
		if (live > peak) {
			peak = live;
			h.peak_event = h.events;
			h.peak_time = e.time_ns;
		}
	}
	mayfly_cursor_close(cursor);
	return h;
}

static void free_history(struct history *h)
{
	free(h->block);
	free(h->time);
	free(h->live);
}

static bool matches(const struct mayfly_match *m, const char *text)
{
	return *text && m->matches(m->context, text);
}

static const char *module_of(const struct mayfly_trace *trace, const struct mayfly_frame *f)
{
	return f->module == UINT32_MAX ? "" : mayfly_trace_module(trace, f->module)->path;
}

struct line { /* of a block's stack */
	struct mayfly_place place;
	bool code;
};

struct lines {
	struct line line[512];
	size_t count;
	bool hidden;
};

/* All places of a stack, leaf first; what `hide` matches is left out. */
static void list_lines(const struct mayfly_trace *trace, uint32_t node,
		       const struct mayfly_match *hide, struct lines *out)
{
	out->count = 0;
	out->hidden = false;
	for (; node; node = mayfly_trace_node(trace, node).parent) {
		const struct mayfly_frame *f =
		    mayfly_trace_frame(trace, mayfly_trace_node(trace, node).frame);
		const char *module = module_of(trace, f);

		if (f->kind != MAYFLY_FRAME_CODE) {
			out->line[out->count++].place =
			    (struct mayfly_place){.function = "",
						  .file = "",
						  .module = "",
						  .kind = f->kind,
						  .address = f->address};
			continue;
		}
		for (size_t i = 0; i < f->locations; i++) {
			const struct mayfly_location *l = &f->location[i];
			struct mayfly_place p = {.function = l->function,
						 .file = l->file,
						 .module = module,
						 .line = l->line,
						 .inlined = l->inlined,
						 .address = *l->function ? 0 : f->address};

			if (hide->matches && (matches(hide, p.function) || matches(hide, p.file) ||
					      matches(hide, p.module)))
				out->hidden = true;
			else
				out->line[out->count++].place = p;
		}
	}
}

static bool stack_matches(const struct mayfly_trace *trace, uint32_t node,
			  const struct mayfly_match *m)
{
	static const struct mayfly_match none;
	static struct lines all;

	list_lines(trace, node, &none, &all);
	for (size_t i = 0; i < all.count; i++) {
		const struct mayfly_place *p = &all.line[i].place;

		if (matches(m, p->function) || matches(m, p->file) || matches(m, p->module))
			return true;
	}
	return false;
}

/* After how many events the live set is asked for. */
static uint64_t asked_moment(const struct history *h, const struct mayfly_query *q)
{
	uint64_t events = 0;

	if (q->metric == MAYFLY_PEAK || q->at_ns == MAYFLY_AT_PEAK)
		return h->peak_event;
	while (events < h->events && h->time[events] <= q->at_ns)
		events++;
	return events;
}

static bool metric_has(const struct history *h, const struct mayfly_query *q, const struct block *b)
{
	uint64_t moment;

	switch (q->metric) {
	case MAYFLY_LEAKED:
		return b->died == UINT64_MAX;
	case MAYFLY_TEMPORARY:
		return b->temporary;
	case MAYFLY_ALLOCATED:
		return true;
	default:
		moment = asked_moment(h, q);
		return b->born < moment && b->died >= moment;
	}
}

static bool block_kept(const struct mayfly_trace *trace, const struct history *h,
		       const struct mayfly_query *q, const struct block *b)
{
	const struct mayfly_thread *thread = mayfly_trace_thread(trace, b->alloc.thread);
	char number[16];

	if (b->alloc.time_ns < q->from_ns ||
	    (q->to_ns != INT64_MAX && b->alloc.time_ns >= q->to_ns))
		return false;
	if (b->alloc.size < q->min_size || b->alloc.size > q->max_size)
		return false;
	if (b->lifetime < q->min_lifetime_ns || b->lifetime > q->max_lifetime_ns)
		return false;
	snprintf(number, sizeof(number), "%u", thread->tid);
	if (q->thread.matches && !q->thread.matches(q->thread.context, thread->name) &&
	    !q->thread.matches(q->thread.context, number))
		return false;
	if (q->focus.matches && !stack_matches(trace, b->alloc.node, &q->focus))
		return false;
	if (q->ignore.matches && stack_matches(trace, b->alloc.node, &q->ignore))
		return false;
	return metric_has(h, q, b);
}

struct reference_row {
	char key[20000];
	struct tally self, total;
	uint64_t counted; /* number of the block that was last added to total */
};

static struct reference_row *reference;
static size_t reference_rows;

static struct reference_row *row_of(const char *key)
{
	for (size_t i = 0; i < reference_rows; i++) {
		if (strcmp(reference[i].key, key) == 0)
			return &reference[i];
	}
	reference = realloc(reference, (reference_rows + 1) * sizeof(*reference));
	memset(&reference[reference_rows], 0, sizeof(*reference));
	snprintf(reference[reference_rows].key, sizeof(reference->key), "%s", key);
	reference[reference_rows].counted = UINT64_MAX;
	return &reference[reference_rows++];
}

static void print_place(char *key, size_t size, const struct mayfly_place *p)
{
	snprintf(key, size, "%s|%s|%u|%s|%#llx|%u|%d;", p->function, p->file, p->line, p->module,
		 (unsigned long long)p->address, p->kind, p->inlined);
}

static void place_key(char *key, size_t size, enum mayfly_by by, const struct mayfly_place *p)
{
	if (by == MAYFLY_BY_MODULE)
		snprintf(key, size, "%s", p->module);
	else if (!*p->function)
		snprintf(key, size, "?%s+%#llx", p->module, (unsigned long long)p->address);
	else if (by == MAYFLY_BY_LINE)
		snprintf(key, size, "%s %s:%u", p->function, p->file, p->line);
	else
		snprintf(key, size, "%s", p->function);
}

static void block_key(char *key, size_t size, enum mayfly_by by, const struct block *b)
{
	int64_t low = 0, high = by == MAYFLY_BY_SIZE ? 1 : 10;

	if (by == MAYFLY_BY_THREAD) {
		snprintf(key, size, "%u", b->alloc.thread);
		return;
	}
	if (by == MAYFLY_BY_SIZE) {
		for (; high < (int64_t)b->alloc.size; high *= 2)
			low = high;
	} else if (b->lifetime == INT64_MAX) {
		low = high = INT64_MAX;
	} else {
		for (; high <= b->lifetime; high *= 10)
			low = high;
	}
	snprintf(key, size, "%lld..%lld", (long long)low, (long long)high);
}

static void add(const struct mayfly_trace *trace, struct tally *t, const struct block *b)
{
	tally_add(t, mayfly_trace_info(trace)->sampler, b->alloc.interval, b->alloc.size,
		  b->alloc.hits);
}

static void add_total(const struct mayfly_trace *trace, const char *key, const struct block *b)
{
	struct reference_row *row = row_of(key);

	if (row->counted == b->alloc.sample)
		return;
	row->counted = b->alloc.sample;
	add(trace, &row->total, b);
}

static bool has_code(const struct lines *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->line[i].place.kind == MAYFLY_FRAME_CODE)
			return true;
	}
	return false;
}

static void refer_block(const struct mayfly_trace *trace, const struct mayfly_query *q,
			const struct block *b)
{
	static struct lines s;
	char key[20000];
	bool self = true;

	if (q->by == MAYFLY_BY_THREAD || q->by == MAYFLY_BY_SIZE || q->by == MAYFLY_BY_LIFETIME) {
		block_key(key, sizeof(key), q->by, b);
		add(trace, &row_of(key)->self, b);
		add_total(trace, key, b);
		return;
	}
	list_lines(trace, b->alloc.node, &q->hide, &s);
	if (!has_code(&s) && (s.hidden || s.count == 0 || q->by != MAYFLY_BY_STACK)) {
		struct mayfly_place *p = &s.line[0].place;

		s.count = 1;
		*p = (struct mayfly_place){.file = "", .module = ""};
		p->function = s.hidden ? "[hidden]" : "[no stack]";
		if (q->by == MAYFLY_BY_MODULE)
			p->module = p->function;
	}
	if (q->by == MAYFLY_BY_STACK) {
		size_t used = 0;

		for (size_t i = 0; i < s.count; i++) {
			print_place(key + used, sizeof(key) - used, &s.line[i].place);
			used += strlen(key + used);
		}
		add(trace, &row_of(key)->self, b);
		return;
	}
	for (size_t i = 0; i < s.count; i++) {
		if (s.line[i].place.kind != MAYFLY_FRAME_CODE)
			continue;
		place_key(key, sizeof(key), q->by, &s.line[i].place);
		if (self)
			add(trace, &row_of(key)->self, b);
		self = false;
		add_total(trace, key, b);
	}
}

/* total of a stack: of all stacks that end, at the root, with it. */
static void refer_stack_totals(void)
{
	for (size_t i = 0; i < reference_rows; i++) {
		for (size_t k = 0; k < reference_rows; k++) {
			size_t whole = strlen(reference[k].key), part = strlen(reference[i].key);
			const char *tail = reference[k].key + whole - part;

			if (part <= whole && strcmp(tail, reference[i].key) == 0 &&
			    (part == whole || tail[-1] == ';'))
				tally_merge(&reference[i].total, &reference[k].self);
		}
	}
}

/* ---- comparison ---- */

static bool close_to(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static bool same_figure(const struct mayfly_figure *a, const struct mayfly_figure *b)
{
	return close_to(a->estimate, b->estimate) && close_to(a->stderror, b->stderror) &&
	       close_to(a->low, b->low) && close_to(a->high, b->high);
}

static bool same_estimate(const struct mayfly_estimate *a, const struct mayfly_estimate *b,
			  bool whole_numbers)
{
	if (whole_numbers && a->bytes.estimate != b->bytes.estimate)
		return false;
	return a->samples == b->samples && same_figure(&a->bytes, &b->bytes) &&
	       same_figure(&a->blocks, &b->blocks);
}

static void result_key(char *key, size_t size, enum mayfly_by by, const struct mayfly_row *row)
{
	struct mayfly_place p = {
	    .function = row->function, .file = row->file, .module = row->module, .line = row->line};
	size_t used = 0;

	switch (by) {
	case MAYFLY_BY_THREAD:
		snprintf(key, size, "%u", row->thread);
		break;
	case MAYFLY_BY_SIZE:
	case MAYFLY_BY_LIFETIME:
		snprintf(key, size, "%lld..%lld", (long long)row->low, (long long)row->high);
		break;
	case MAYFLY_BY_STACK:
		for (size_t i = 0; i < row->stack_length; i++) {
			print_place(key + used, size - used, &row->stack[i]);
			used += strlen(key + used);
		}
		break;
	default:
		if (by != MAYFLY_BY_MODULE && !*row->function) {
			CHECK(row->stack_length == 1);
			p = row->stack[0];
		}
		place_key(key, size, by, &p);
	}
}

static void check_order(const struct mayfly_query *q, const struct mayfly_result *result)
{
	for (size_t i = 1; i < result->rows; i++) {
		const struct mayfly_row *a = &result->row[i - 1], *b = &result->row[i];

		if (q->sort == MAYFLY_SORT_TOTAL)
			CHECK(a->total.bytes.estimate >= b->total.bytes.estimate);
		else
			CHECK(a->self.bytes.estimate >= b->self.bytes.estimate);
	}
}

static uint64_t coarsest(const struct mayfly_trace *trace, const struct history *h)
{
	uint64_t interval = mayfly_trace_info(trace)->interval_bytes;

	for (size_t i = 0; i < h->blocks; i++) {
		if (h->block[i].alloc.hits && h->block[i].alloc.interval > interval)
			interval = h->block[i].alloc.interval;
	}
	return interval;
}

/* Nothing can be unseen among blocks that the stratified sampler takes always. */
static uint64_t unseen(const struct mayfly_trace *trace, uint64_t interval, uint64_t smallest)
{
	return mayfly_trace_info(trace)->sampler == MAYFLY_STRATIFIED && smallest >= interval
		   ? 0
		   : interval;
}

static void compare(const struct mayfly_trace *trace, const struct history *h,
		    const struct mayfly_query *q, uint64_t seed)
{
	bool whole = mayfly_trace_info(trace)->sampler == MAYFLY_STRATIFIED;
	uint64_t interval = coarsest(trace, h), smallest = q->min_size;
	struct mayfly_result *result = NULL;
	struct mayfly_estimate e;
	struct tally all = {0};
	char key[20000];
	int error;

	reference_rows = 0;
	for (size_t i = 0; i < h->blocks; i++) {
		if (block_kept(trace, h, q, &h->block[i])) {
			refer_block(trace, q, &h->block[i]);
			add(trace, &all, &h->block[i]);
		}
	}
	if (q->by == MAYFLY_BY_STACK)
		refer_stack_totals();
	error = mayfly_query_run(trace, q, &result);
	CHECK(error == 0, "seed %llu: %s", (unsigned long long)seed, mayfly_error_text(error));
	if (error)
		return;
	e = tally_estimate(&all, unseen(trace, interval, smallest));
	CHECK(same_estimate(&result->total, &e, whole), "seed %llu: %g, not %g",
	      (unsigned long long)seed, result->total.bytes.estimate, e.bytes.estimate);
	CHECK(result->rows == reference_rows, "seed %llu by %d: %zu rows, not %zu",
	      (unsigned long long)seed, q->by, result->rows, reference_rows);
	for (size_t i = 0; i < result->rows; i++) {
		const struct mayfly_row *row = &result->row[i];
		struct reference_row *r;
		size_t before = reference_rows;

		result_key(key, sizeof(key), q->by, row);
		r = row_of(key);
		CHECK(reference_rows == before, "seed %llu by %d: row %s", (unsigned long long)seed,
		      q->by, key);
		if (q->by == MAYFLY_BY_SIZE && (uint64_t)row->low + 1 > q->min_size)
			smallest = (uint64_t)row->low + 1;
		e = tally_estimate(&r->self, unseen(trace, interval, smallest));
		CHECK(same_estimate(&row->self, &e, whole), "seed %llu by %d %s: self %g, not %g",
		      (unsigned long long)seed, q->by, key, row->self.bytes.estimate,
		      e.bytes.estimate);
		e = tally_estimate(&r->total, unseen(trace, interval, smallest));
		CHECK(same_estimate(&row->total, &e, whole), "seed %llu by %d %s: total %g, not %g",
		      (unsigned long long)seed, q->by, key, row->total.bytes.estimate,
		      e.bytes.estimate);
		smallest = q->min_size;
	}
	check_order(q, result);
	mayfly_result_free(result);
}

/* ---- random questions ---- */

static int asked; /* how often matchers were called */

static int contains(void *context, const char *text)
{
	asked++;
	return strstr(text, context) != NULL;
}

static struct mayfly_match random_match(void)
{
	static char *const words[] = {"parse", "grow", ".c",	"libx",
				      "lib",   "src/", "<int>", "main"};

	return (struct mayfly_match){contains, words[below(8)]};
}

static struct mayfly_query random_query(const struct mayfly_info *info)
{
	static char *const threads[] = {"io", "101", "w", "10"};
	uint32_t duration = (uint32_t)(info->duration_ns > 1 ? info->duration_ns : 1);
	struct mayfly_query q;

	mayfly_query_defaults(&q);
	q.metric = (enum mayfly_metric)below(5);
	q.by = (enum mayfly_by)below(7);
	q.sort = (enum mayfly_sort)below(2);
	if (q.metric == MAYFLY_LIVE && below(3))
		q.at_ns = below(3) ? (int64_t)below(duration) : MAYFLY_AT_PEAK;
	if (below(4) == 0)
		q.from_ns = (int64_t)below(duration) / 2;
	if (below(4) == 0)
		q.to_ns = q.from_ns + (int64_t)below(duration);
	if (below(4) == 0)
		q.min_size = below(3) ? below(4000) : 20000;
	if (below(4) == 0)
		q.max_size = q.min_size + below(10000);
	if (below(5) == 0)
		q.min_lifetime_ns = (int64_t)below(20000000);
	if (below(5) == 0)
		q.max_lifetime_ns = q.min_lifetime_ns + (int64_t)below(50000000);
	if (below(4) == 0)
		q.focus = random_match();
	if (below(4) == 0)
		q.ignore = random_match();
	if (below(3) == 0)
		q.hide = random_match();
	if (below(4) == 0)
		q.thread = (struct mayfly_match){contains, threads[below(4)]};
	return q;
}

enum { TRACES = 120, QUESTIONS = 12 };

static void test_questions(void)
{
	for (uint64_t seed = 1; seed <= TRACES; seed++) {
		struct recording *r = random_recording(seed);
		struct opened o = open_recording(r);
		struct history h = {0};

		if (o.trace) {
			h = read_history(o.trace);
			for (int i = 0; i < QUESTIONS; i++) {
				struct mayfly_query q = random_query(mayfly_trace_info(o.trace));

				compare(o.trace, &h, &q, seed);
			}
		}
		free_history(&h);
		close_opened(&o);
		recording_free(r);
	}
	free(reference);
	reference = NULL;
	printf("# %d questions to %d traces\n", TRACES * QUESTIONS, TRACES);
}

/* Each distinct name is asked for once, by each filter. */
static void test_matchers_asked_once(void)
{
	struct recording *r = random_recording(5);
	struct opened o = open_recording(r);
	struct mayfly_query q;
	struct mayfly_result *result;

	mayfly_query_defaults(&q);
	q.metric = MAYFLY_ALLOCATED;
	q.focus = (struct mayfly_match){contains, "nothing has this name"};
	asked = 0;
	CHECK(mayfly_query_run(o.trace, &q, &result) == 0);
	CHECK(asked > 5 && asked <= 7 + 3 + 3, "%d", asked);
	CHECK(result->rows == 0 && result->total.bytes.estimate == 0);
	mayfly_result_free(result);
	q.by = (enum mayfly_by)7;
	CHECK(mayfly_query_run(o.trace, &q, &result) == MAYFLY_E_RANGE);
	close_opened(&o);
	recording_free(r);
}

/* ---- summary and timeline ---- */

static struct mayfly_estimate ask_total(const struct mayfly_trace *trace, enum mayfly_metric metric)
{
	struct mayfly_estimate total = {0};
	struct mayfly_result *result;
	struct mayfly_query q;

	mayfly_query_defaults(&q);
	q.metric = metric;
	q.by = MAYFLY_BY_THREAD;
	if (mayfly_query_run(trace, &q, &result) == 0) {
		total = result->total;
		mayfly_result_free(result);
	}
	return total;
}

static void test_summary(void)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct recording *r = random_recording(seed);
		struct opened o = open_recording(r);
		struct history h = read_history(o.trace);
		bool whole = r->info.sampler == MAYFLY_STRATIFIED;
		struct mayfly_summary s;
		struct mayfly_estimate e;

		CHECK(mayfly_trace_summary(o.trace, &s) == 0);
		CHECK(s.peak_time_ns == h.peak_time);
		e = ask_total(o.trace, MAYFLY_ALLOCATED);
		CHECK(same_estimate(&s.allocated, &e, whole), "seed %d", (int)seed);
		e = ask_total(o.trace, MAYFLY_PEAK);
		CHECK(same_estimate(&s.peak, &e, whole), "seed %d", (int)seed);
		e = ask_total(o.trace, MAYFLY_LIVE);
		CHECK(same_estimate(&s.live_at_end, &e, whole), "seed %d", (int)seed);
		e = ask_total(o.trace, MAYFLY_TEMPORARY);
		CHECK(same_estimate(&s.temporary, &e, whole), "seed %d", (int)seed);
		free_history(&h);
		close_opened(&o);
		recording_free(r);
	}
}

static void check_timeline(const struct mayfly_trace *trace, const struct history *h, size_t points)
{
	int64_t duration = mayfly_trace_info(trace)->duration_ns;
	double *found = calloc(points, sizeof(double)), *expected = calloc(points, sizeof(double));
	double before = 0;

	for (size_t p = 0, event = 0; p < points; p++) {
		expected[p] = before;
		while (event < h->events &&
		       (p + 1 == points || (size_t)((double)h->time[event] / (double)duration *
						    (double)points) <= p)) {
			before = h->live[event++];
			expected[p] = fmax(expected[p], before);
		}
	}
	CHECK(mayfly_timeline(trace, points, found) == 0);
	for (size_t p = 0; p < points; p++)
		CHECK(found[p] == expected[p], "point %zu: %g, not %g", p, found[p], expected[p]);
	free(found);
	free(expected);
}

static void test_timeline(void)
{
	double one;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct recording *r = random_recording(seed);
		struct opened o = open_recording(r);
		struct history h = read_history(o.trace);

		check_timeline(o.trace, &h, 1);
		check_timeline(o.trace, &h, 7);
		check_timeline(o.trace, &h, 1000);
		CHECK(mayfly_timeline(o.trace, 0, &one) == MAYFLY_E_RANGE);
		free_history(&h);
		close_opened(&o);
		recording_free(r);
	}
}

/* ---- speed ---- */

/* 33,000 nodes in stacks of 60 frames, 6,000 samples: what a large program's sampled trace has. */
static struct recording *large_recording(void)
{
	struct recording *r = random_recording(1);

	for (int i = 0; i < 6000; i++)
		add_code_frame(r);
	while (r->nodes < 33000) {
		uint32_t node = below(8) ? 0 : below((uint32_t)r->nodes);

		for (int depth = 0; depth < 60 && r->nodes < 33000; depth++)
			node = recording_node(r, node, below(3) ? 1 + below(20) : 30 + below(5000));
	}
	r->samples = 0;
	add_samples(r, 6000, false);
	return r;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* others may be busy */
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Prints; the aim is 10 ms, but no time decides a test. */
static void test_speed(void)
{
	struct recording *r = large_recording();
	struct opened o = open_recording(r);

	for (int by = 0; by < 7; by++) {
		double best = 1e9;
		size_t rows = 0;

		for (int i = 0; i < 7; i++) {
			struct mayfly_result *result;
			struct mayfly_query q;
			double start = now_ms();

			mayfly_query_defaults(&q);
			q.by = (enum mayfly_by)by;
			CHECK(mayfly_query_run(o.trace, &q, &result) == 0);
			best = fmin(best, now_ms() - start);
			rows = result->rows;
			mayfly_result_free(result);
		}
		printf("# by %d: %.2f ms of processor time, %zu rows, %zu nodes\n", by, best, rows,
		       r->nodes);
	}
	close_opened(&o);
	recording_free(r);
}

int main(void)
{
	RUN(test_questions);
	RUN(test_matchers_asked_once);
	RUN(test_summary);
	RUN(test_timeline);
	RUN(test_speed);
	DONE();
}
