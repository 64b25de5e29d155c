/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions against a reference that answers them block by block, the long way, on random small
 * traces with all kinds of stacks: recursion, inlining, marks, unknown functions, equal names in
 * several modules, frames that print the same. Sampled, exact, and snapshots. Also series, the
 * timeline, the summary, and the time and memory that large traces take.
 */
#include "random_trace.h"
#include "trace/read/cursor.h"
#include "query/chosen_sums.h"
#include "query/estimate.h"
#include "query/peak.h"
#include "query/query_two.h"
#include "query/row_key.h"
#include "query/series.h"
#include "trace/read/sums.h"

#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* ---- the reference ---- */

/* The events in order, as plain blocks. */
struct block {
	struct mayfly_event alloc;
	uint64_t born, died; /* numbers of the events; died UINT64_MAX: never */
	int64_t lifetime;
	bool temporary;
	uint32_t free_thread;
};

struct history {
	struct block *block;
	size_t blocks;
	uint64_t events, peak_event; /* the peak is after peak_event events */
	int64_t peak_time, *time;    /* of each event */
	double *live;		     /* after each event */
};

/* The peak of a trace of samples is several moments: peak.h. */
static struct peak peak_of_samples;
static bool has_peak_of_samples;
static enum mayfly_sampler sampler_of_samples;

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
			*b = (struct block){e, h.events, UINT64_MAX, INT64_MAX, false, UINT32_MAX};
			h.blocks++;
			live += e.weight_bytes;
		} else {
			CHECK(e.sample < h.blocks && b->died == UINT64_MAX);
			b->died = h.events;
			b->lifetime = e.time_ns - b->alloc.time_ns;
			b->temporary = e.flags & MAYFLY_FLAG_TEMPORARY;
			b->free_thread = e.thread;
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
	has_peak_of_samples = (info->mode != MAYFLY_EXACT || info->thinned) && !info->snapshot_ns;
	sampler_of_samples = (enum mayfly_sampler)info->sampler;
	if (has_peak_of_samples)
		CHECK(peak_find(trace, false, &peak_of_samples) == 0);
	return h;
}

/* Times of exact traces are a little wrong (doc/FORMAT.md); these are the written ones. */
static void true_times(struct history *h, const struct source *s)
{
	size_t count, alloc = 0;
	struct happening *events = list_happenings(s, &count);
	size_t *number = calloc(s->samples + 1, sizeof(*number)); /* of a sample, in the trace */

	CHECK(count == h->events);
	for (size_t i = 0; i < count && i < h->events; i++) {
		struct block *b;

		if (!events[i].is_free)
			number[events[i].sample] = alloc++;
		b = &h->block[number[events[i].sample]];
		h->time[i] = events[i].time_ns;
		if (!events[i].is_free)
			b->alloc.time_ns = events[i].time_ns;
		else
			b->lifetime = events[i].time_ns - b->alloc.time_ns;
	}
	free(number);
	free(events);
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

static bool asks_peak(const struct mayfly_query *q)
{
	return q->metric == MAYFLY_PEAK || (q->metric == MAYFLY_LIVE && q->at_ns == MAYFLY_AT_PEAK);
}

/* After how many events the live set is asked for. */
static uint64_t asked_moment(const struct history *h, const struct mayfly_query *q,
			     const struct block *b)
{
	int64_t at_ns = q->metric == MAYFLY_SURVIVED ? q->to_ns : q->at_ns;
	uint64_t events = 0;

	if (asks_peak(q) && has_peak_of_samples) {
		struct weight w = weigh_sample(sampler_of_samples, b->alloc.interval, b->alloc.size,
					       b->alloc.hits);

		return peak_at(&peak_of_samples, peak_moment(b->alloc.sample, weight_certain(&w)))
		    .events;
	}
	if (asks_peak(q))
		return h->peak_event;
	while (events < h->events && h->time[events] <= at_ns)
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
		moment = asked_moment(h, q, b);
		return b->born < moment && b->died >= moment;
	}
}

/* The value that counts of a key: the last one. */
static const char *label_value(const struct mayfly_trace *trace, uint32_t set, const char *key)
{
	size_t count;
	const struct mayfly_label *label = mayfly_trace_labels(trace, set, &count);
	const char *value = NULL;

	for (size_t i = 0; i < count; i++)
		if (strcmp(label[i].key, key) == 0)
			value = label[i].value;
	return value;
}

static bool labels_match(const struct mayfly_trace *trace, uint32_t set,
			 const struct mayfly_match *match)
{
	for (int i = 0; i < 2; i++) {
		const char *value = label_value(trace, set, label_keys[i]);
		char text[80];

		snprintf(text, sizeof(text), "%s=%s", label_keys[i], value ? value : "");
		if (value && match->matches(match->context, text))
			return true;
	}
	return false;
}

static void label_row(char *key, size_t size, const struct mayfly_trace *trace,
		      const struct mayfly_query *q, uint32_t set)
{
	size_t count, used = 0;
	const struct mayfly_label *label = mayfly_trace_labels(trace, set, &count);

	*key = 0;
	if (q->label_key) {
		const char *value = label_value(trace, set, q->label_key);

		snprintf(key, size, "%s", value ? value : "");
		return;
	}
	for (size_t i = 0; i < count; i++) {
		bool last = true;

		for (size_t k = i + 1; k < count; k++)
			last &= strcmp(label[i].key, label[k].key) != 0;
		if (last)
			used += (size_t)snprintf(key + used, size - used, "%s%s=%s",
						 used ? ", " : "", label[i].key, label[i].value);
	}
	CHECK(strcmp(key, mayfly_trace_label_text(trace, set)) == 0);
}

static bool filters_keep(const struct mayfly_trace *trace, const struct mayfly_query *q,
			 const struct block *b)
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
	if (q->label.matches && !labels_match(trace, b->alloc.labels, &q->label))
		return false;
	if (q->focus.matches && !stack_matches(trace, b->alloc.node, &q->focus))
		return false;
	return !q->ignore.matches || !stack_matches(trace, b->alloc.node, &q->ignore);
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

static void thread_key(char *key, size_t size, enum mayfly_by by, uint32_t thread,
		       uint32_t free_thread)
{
	if (by == MAYFLY_BY_THREAD)
		snprintf(key, size, "%u", thread);
	else if (by == MAYFLY_BY_FREEING_THREAD)
		snprintf(key, size, "freed by %u", free_thread);
	else
		snprintf(key, size, "%u freed by %u", thread, free_thread);
}

static void block_key(char *key, size_t size, enum mayfly_by by, const struct block *b)
{
	int64_t low = 0, high = by == MAYFLY_BY_SIZE ? 1 : 10;

	if (by == MAYFLY_BY_THREAD || by == MAYFLY_BY_FREEING_THREAD || by == MAYFLY_BY_THREADS) {
		thread_key(key, size, by, b->alloc.thread, b->free_thread);
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

static bool block_kept(const struct mayfly_trace *trace, const struct history *h,
		       const struct mayfly_query *q, const struct block *b)
{
	return filters_keep(trace, q, b) && metric_has(h, q, b);
}

/* How the block that is being added counts: itself, and at the moments of a peak. */
static bool adding_counts = true;
static uint32_t adding_moments;

static void add(const struct mayfly_trace *trace, struct tally *t, const struct block *b)
{
	for (int k = 0; k < PEAK_MOMENTS; k++)
		if (adding_moments >> k & 1)
			t->at[k] += b->alloc.weight_bytes;
	if (adding_counts)
		tally_add(t, mayfly_trace_info(trace)->sampler, b->alloc.interval, b->alloc.size,
			  b->alloc.hits);
}

static uint32_t moments_of(const struct mayfly_query *q, const struct block *b)
{
	uint32_t moments = 0;

	for (int k = 0; k < PEAK_MOMENTS && asks_peak(q) && has_peak_of_samples; k++)
		if (b->born < peak_of_samples.near[k].events &&
		    b->died >= peak_of_samples.near[k].events)
			moments |= 1u << k;
	return moments;
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

static bool same_turn(const struct line *a, const struct line *b)
{
	if (a->place.kind != b->place.kind || strcmp(a->place.function, b->place.function) != 0 ||
	    strcmp(a->place.module, b->place.module) != 0)
		return false;
	return (a->place.kind == MAYFLY_FRAME_CODE && *a->place.function) ||
	       (a->place.address == b->place.address && a->place.inlined == b->place.inlined &&
		a->place.line == b->place.line && strcmp(a->place.file, b->place.file) == 0);
}

/* The key of count lines, the last one first. */
static void stack_key(char *key, size_t size, const struct line *line, size_t count)
{
	size_t used = 0;

	*key = 0;
	while (count-- > 0) {
		print_place(key + used, size - used, &line[count].place);
		used += strlen(key + used);
	}
}

/* With recursion folded: from the root on, a turn of up to 8 functions takes the place of one like
 * it before it. All stacks on the way call the block. */
static void refer_folded(const struct mayfly_trace *trace, const struct lines *s,
			 const struct block *b)
{
	static struct line line[512];
	char key[20000];
	size_t count = 0, turn, i;

	for (size_t at = s->count; at-- > 0;) {
		line[count++] = s->line[at];
		for (turn = 1; turn <= 8 && 2 * turn <= count; turn++) {
			for (i = 1; i <= turn; i++)
				if (!same_turn(&line[count - i], &line[count - turn - i]))
					break;
			if (i > turn)
				break;
		}
		if (turn <= 8 && 2 * turn <= count) {
			memmove(&line[count - 2 * turn], &line[count - turn], turn * sizeof(*line));
			count -= turn;
		}
		for (i = 1; i <= count; i++) {
			stack_key(key, sizeof(key), line, i);
			add_total(trace, key, b);
		}
	}
	stack_key(key, sizeof(key), line, count);
	add(trace, &row_of(key)->self, b);
}

static void refer_block(const struct mayfly_trace *trace, const struct mayfly_query *q,
			const struct block *b)
{
	static struct lines s;
	char key[20000];
	bool self = true;

	if (q->by > MAYFLY_BY_MODULE) {
		if (q->by == MAYFLY_BY_LABEL)
			label_row(key, sizeof(key), trace, q, b->alloc.labels);
		else
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
	if (q->by == MAYFLY_BY_STACK && q->fold_recursion) {
		refer_folded(trace, &s, b);
		return;
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

/* The total of a stack is that of all stacks that end with it at the root. */
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
	case MAYFLY_BY_FREEING_THREAD:
	case MAYFLY_BY_THREADS:
		thread_key(key, size, by, row->thread, row->free_thread);
		break;
	case MAYFLY_BY_SIZE:
	case MAYFLY_BY_LIFETIME:
		snprintf(key, size, "%lld..%lld", (long long)row->low, (long long)row->high);
		break;
	case MAYFLY_BY_LABEL:
		snprintf(key, size, "%s", row->function);
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

/* Rows that have blocks at other moments of the peak only. */
static void drop_empty_rows(const struct mayfly_query *q)
{
	size_t kept = 0;

	for (size_t i = 0; i < reference_rows; i++) {
		const struct tally *t =
		    q->by == MAYFLY_BY_STACK ? &reference[i].self : &reference[i].total;

		if (t->seen_blocks == 0 && t->exact_count == 0)
			continue;
		if (kept != i)
			reference[kept] = reference[i];
		kept++;
	}
	reference_rows = kept;
}

/* How sizes differ: within the rows' self and total, and all (estimate.h). */
static void measure_spread(const struct tally *all, double spread[3])
{
	struct spread s[3] = {0};

	for (size_t i = 0; i < reference_rows; i++) {
		spread_add(&s[0], &reference[i].self);
		spread_add(&s[1], &reference[i].total);
	}
	spread_add(&s[2], all);
	spread[0] = spread_variance(&s[0]);
	spread[1] = spread_variance(&s[1]);
	spread[2] = spread_all(&s[2]);
}

/* asked: what is asked of `other`; q: what the reference answers from the events of `trace`. */
static void compare_as(const struct mayfly_trace *trace, const struct history *h,
		       const struct mayfly_query *q, const struct mayfly_trace *other,
		       const struct mayfly_query *asked, uint64_t seed)
{
	bool whole = mayfly_trace_info(trace)->sampler == MAYFLY_STRATIFIED;
	uint64_t interval = coarsest(trace, h), smallest = q->min_size;
	struct mayfly_result *result = NULL;
	struct mayfly_estimate e;
	bool peaks = asks_peak(q) && has_peak_of_samples;
	struct tally all = {0};
	double spread[3];
	char key[20000];
	int error;

	reference_rows = 0;
	for (size_t i = 0; i < h->blocks; i++) {
		const struct block *b = &h->block[i];

		if (!filters_keep(trace, q, b))
			continue;
		adding_counts = metric_has(h, q, b);
		adding_moments = moments_of(q, b);
		if (adding_counts || adding_moments) {
			refer_block(trace, q, b);
			add(trace, &all, b);
		}
	}
	adding_counts = true;
	adding_moments = 0;
	if (q->by == MAYFLY_BY_STACK && !q->fold_recursion)
		refer_stack_totals();
	drop_empty_rows(q);
	error = mayfly_query_run(other, asked, &result);
	CHECK(error == 0, "seed %llu: %s", (unsigned long long)seed, mayfly_error_text(error));
	if (error)
		return;
	measure_spread(&all, spread);
	e = tally_estimate(&all,
			   (struct unseen){unseen(trace, interval, smallest), spread[2], peaks});
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
		e = tally_estimate(
		    &r->self, (struct unseen){unseen(trace, interval, smallest), spread[0], peaks});
		CHECK(same_estimate(&row->self, &e, whole), "seed %llu by %d %s: self %g, not %g",
		      (unsigned long long)seed, q->by, key, row->self.bytes.estimate,
		      e.bytes.estimate);
		e = tally_estimate(&r->total, (struct unseen){unseen(trace, interval, smallest),
							      spread[1], peaks});
		CHECK(same_estimate(&row->total, &e, whole), "seed %llu by %d %s: total %g, not %g",
		      (unsigned long long)seed, q->by, key, row->total.bytes.estimate,
		      e.bytes.estimate);
		smallest = q->min_size;
	}
	check_order(q, result);
	mayfly_result_free(result);
}

static void compare(const struct mayfly_trace *trace, const struct history *h,
		    const struct mayfly_query *q, uint64_t seed)
{
	compare_as(trace, h, q, trace, q, seed);
}

/* ---- random questions ---- */

enum { TRACES = 120, QUESTIONS = 12 };

static void test_questions(void)
{
	for (uint64_t seed = 1; seed <= TRACES; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 60);
		struct history h = {0};

		if (o.trace) {
			h = read_history(o.trace);
			for (int i = 0; i < QUESTIONS; i++) {
				struct mayfly_query q = random_query(mayfly_trace_info(o.trace));

				compare(o.trace, &h, &q, seed);
				q.by = MAYFLY_BY_STACK;
				compare(o.trace, &h, &q, seed);
				q.fold_recursion = true;
				compare(o.trace, &h, &q, seed);
			}
		}
		free_history(&h);
		close_opened(&o);
		free_source(&source);
	}
	free(reference);
	reference = NULL;
	printf("# %d questions to %d traces\n", 3 * TRACES * QUESTIONS, TRACES);
}

/* ---- counters against events ---- */

static void check_same_rows(const struct mayfly_query *q, const struct mayfly_result *a,
			    const struct mayfly_result *b)
{
	CHECK(a->time_ns == b->time_ns, "metric %d: %lld, %lld", q->metric, (long long)a->time_ns,
	      (long long)b->time_ns);
	CHECK(a->rows == b->rows, "metric %d by %d: %zu, %zu", q->metric, q->by, a->rows, b->rows);
	CHECK(memcmp(&a->total, &b->total, sizeof(a->total)) == 0);
	for (size_t i = 0; i < a->rows && i < b->rows; i++) {
		char x[20000], y[20000];

		result_key(x, sizeof(x), q->by, &a->row[i]);
		result_key(y, sizeof(y), q->by, &b->row[i]);
		CHECK(strcmp(x, y) == 0, "row %zu: %s, %s", i, x, y);
		CHECK(memcmp(&a->row[i].self, &b->row[i].self, sizeof(a->row[i].self)) == 0);
		CHECK(memcmp(&a->row[i].total, &b->row[i].total, sizeof(a->row[i].total)) == 0);
	}
}

static void check_same_answer(const struct mayfly_trace *trace, const struct mayfly_query *q)
{
	struct mayfly_query by_events = *q;
	struct mayfly_result *a, *b;

	by_events.max_size = UINT64_MAX - 1; /* counters know of no sizes */
	CHECK(mayfly_query_run(trace, q, &a) == 0);
	CHECK(mayfly_query_run(trace, &by_events, &b) == 0);
	check_same_rows(q, a, b);
	mayfly_result_free(a);
	mayfly_result_free(b);
}

static void test_counters_and_events_agree(void)
{
	size_t parts = 0;

	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct source source = random_source(seed);
		struct opened o;

		source.mode = MAYFLY_EXACT;
		source.interval_log2 = 0;
		add_samples(&source, below(400));
		o = open_source(&source, 0, 40);
		parts += trace_sums_parts(o.trace);
		for (int i = 0; i < 6; i++) {
			struct mayfly_query q = random_query(mayfly_trace_info(o.trace)), plain;

			mayfly_query_defaults(&plain);
			plain.metric = q.metric;
			plain.by = (enum mayfly_by)below(4);
			plain.sort = q.sort;
			plain.at_ns = q.at_ns;
			plain.focus = q.focus;
			plain.ignore = q.ignore;
			plain.hide = q.hide;
			check_same_answer(o.trace, &plain);
		}
		close_opened(&o);
		free_source(&source);
	}
	CHECK(parts > 150, "%zu parts", parts);
}

/* ---- two questions at once ---- */

static void check_two(const struct mayfly_trace *trace, const struct mayfly_query query[2])
{
	struct mayfly_result *together[2], *alone;

	CHECK(query_run_two(trace, query, together) == 0);
	for (int i = 0; i < 2; i++) {
		CHECK(mayfly_query_run(trace, &query[i], &alone) == 0);
		check_same_rows(&query[i], alone, together[i]);
		CHECK(alone->all_rows == together[i]->all_rows);
		mayfly_result_free(alone);
		mayfly_result_free(together[i]);
	}
}

static void test_two_questions_at_once(void)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 40);
		struct mayfly_result *none[2];
		struct mayfly_query q[2];

		q[0] = q[1] = random_query(mayfly_trace_info(o.trace));
		q[0].by = (enum mayfly_by)below(4);
		q[1].by = (enum mayfly_by)below(4);
		q[1].stack_rows = below(2) ? below(20) : 0;
		check_two(o.trace, q);
		q[1].by = MAYFLY_BY_SIZE;
		CHECK(query_run_two(o.trace, q, none) == MAYFLY_E_RANGE && !none[0] && !none[1]);
		close_opened(&o);
		free_source(&source);
	}
}

/* ---- totals without rows ---- */

#define MOMENTS 5

/* In no order; some are those of events, some after the last one. */
static void draw_moments(const struct mayfly_info *info, int64_t at_ns[MOMENTS])
{
	for (int i = 0; i < MOMENTS; i++)
		at_ns[i] = (int64_t)below((uint64_t)info->duration_ns * 5 / 4 + 2);
	at_ns[1] = info->duration_ns;
}

static void check_totals(const struct mayfly_trace *trace, struct mayfly_query q)
{
	struct mayfly_estimate live[MOMENTS], total;
	struct mayfly_result *whole;
	int64_t at_ns[MOMENTS], time_ns;

	CHECK(mayfly_query_run(trace, &q, &whole) == 0);
	CHECK(query_total(trace, &q, &total, &time_ns) == 0);
	CHECK(same_estimate(&total, &whole->total, true) && time_ns == whole->time_ns);
	mayfly_result_free(whole);
	q.metric = MAYFLY_LIVE;
	draw_moments(mayfly_trace_info(trace), at_ns);
	CHECK(query_live_totals(trace, &q, at_ns, MOMENTS, live) == 0);
	for (int i = 0; i < MOMENTS; i++) {
		q.at_ns = at_ns[i];
		CHECK(mayfly_query_run(trace, &q, &whole) == 0);
		CHECK(same_estimate(&live[i], &whole->total, true), "at %lld: %g, not %g",
		      (long long)at_ns[i], live[i].bytes.estimate, whole->total.bytes.estimate);
		mayfly_result_free(whole);
	}
}

static void test_totals(void)
{
	for (uint64_t seed = 1; seed <= 120; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 40);
		struct mayfly_query q = random_query(mayfly_trace_info(o.trace));

		q.by = (enum mayfly_by)below(4);
		check_totals(o.trace, q);
		close_opened(&o);
		free_source(&source);
	}
}

/* ---- sums of chosen stacks ---- */

/* The rows of an answer by stack, and the one of each node. */
struct by_stack {
	const struct mayfly_trace *trace;
	const struct mayfly_result *result;
};

static size_t places_of(const struct mayfly_trace *trace, uint32_t node, struct mayfly_place *to)
{
	size_t count = 0;

	for (; node; node = mayfly_trace_node(trace, node).parent) {
		const struct mayfly_frame *f =
		    mayfly_trace_frame(trace, mayfly_trace_node(trace, node).frame);
		const struct mayfly_module *m = f ? mayfly_trace_module(trace, f->module) : NULL;

		for (size_t i = 0; f && i < (f->locations ? f->locations : 1); i++) {
			struct mayfly_place p = {"", "", "", .kind = f->kind,
						 .address = f->address};

			if (f->kind == MAYFLY_FRAME_CODE)
				p.module = m ? m->path : "";
			if (f->locations) {
				p.function = f->location[i].function;
				p.file = f->location[i].file;
				p.line = f->location[i].line;
				p.inlined = f->location[i].inlined;
				if (*p.function)
					p.address = 0;
			}
			to[count++] = p;
		}
	}
	if (!count)
		to[count++] = (struct mayfly_place){"[no stack]", "", ""};
	return count;
}

static uint32_t row_that_has(void *context, uint32_t node)
{
	const struct by_stack *by = context;
	struct mayfly_place place[1000];
	struct mayfly_row row = {.stack = place};
	char x[20000], y[20000];

	row.stack_length = places_of(by->trace, node, place);
	result_key(x, sizeof(x), MAYFLY_BY_STACK, &row);
	for (size_t i = 0; i < by->result->rows; i++) {
		result_key(y, sizeof(y), MAYFLY_BY_STACK, &by->result->row[i]);
		if (!strcmp(x, y))
			return (uint32_t)i;
	}
	CHECK(false, "no row of node %u: %s", node, x);
	return 0;
}

static bool is_close(double a, double b)
{
	return fabs(a - b) <= 1e-6 * (1 + fabs(a));
}

static void check_brief(const struct tally_brief *b, const struct mayfly_estimate *e)
{
	CHECK(b->samples == e->samples, "%llu, %llu", (unsigned long long)b->samples,
	      (unsigned long long)e->samples);
	CHECK(is_close(b->bytes, e->bytes.estimate) && is_close(b->blocks, e->blocks.estimate));
	CHECK(is_close(b->bytes_stderror, e->bytes.stderror), "%g, %g", b->bytes_stderror,
	      e->bytes.stderror);
	CHECK(is_close(b->blocks_stderror, e->blocks.stderror));
}

static void test_chosen_sums(void)
{
	static const enum mayfly_metric metrics[] = {MAYFLY_ALLOCATED, MAYFLY_LEAKED, MAYFLY_PEAK};
	size_t rows = 0;

	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 40);
		struct by_stack by = {o.trace};
		struct mayfly_query q;

		mayfly_query_defaults(&q);
		q.metric = metrics[seed % 3];
		q.by = MAYFLY_BY_STACK;
		if (below(2))
			q.min_size = below(1000);
		if (!mayfly_query_absent(o.trace, &q)) {
			struct chosen_sums sums;
			struct mayfly_result *result;

			CHECK(mayfly_query_run(o.trace, &q, &result) == 0);
			by.result = result;
			CHECK(chosen_sums_run(o.trace, &q, row_that_has, &by, &sums) == 0);
			CHECK(sums.count <= result->rows);
			check_brief(&sums.total, &result->total);
			for (size_t i = 0; i < sums.count; i++)
				check_brief(&sums.of[i], &result->row[i].self);
			rows += sums.count;
			chosen_sums_free(&sums);
			mayfly_result_free(result);
		}
		close_opened(&o);
		free_source(&source);
	}
	CHECK(rows > 1000, "%zu rows", rows);
}

/* ---- snapshots ---- */

static int64_t round_up(int64_t time_ns, int64_t step)
{
	return time_ns == INT64_MAX ? time_ns : (time_ns + step - 1) / step * step;
}

/* Live bytes when an interval ends: the first end at which they are largest. */
static int64_t snapshot_peak(const struct history *h, int64_t step)
{
	int64_t peak = 0, end = h->events ? h->time[h->events - 1] : 0;
	double largest = 0, live = 0;
	uint64_t i = 0;

	for (int64_t at = step; at <= end + step; at += step) {
		for (; i < h->events && h->time[i] < at; i++)
			live = h->live[i];
		if (live > largest) {
			largest = live;
			peak = at;
		}
	}
	return peak;
}

/* The same question as one that events can answer; false: snapshots cannot. */
static bool as_snapshots_see(struct mayfly_query *q, const struct history *h, int64_t step)
{
	bool window = q->from_ns > 0 || q->to_ns < INT64_MAX;

	if (q->by > MAYFLY_BY_MODULE || q->min_size || q->max_size < UINT64_MAX ||
	    q->min_lifetime_ns || q->max_lifetime_ns < INT64_MAX || q->thread.matches ||
	    q->label.matches || (window && q->metric != MAYFLY_ALLOCATED))
		return false;
	q->from_ns = round_up(q->from_ns, step);
	q->to_ns = round_up(q->to_ns, step);
	if (q->metric == MAYFLY_PEAK || (q->metric == MAYFLY_LIVE && q->at_ns == MAYFLY_AT_PEAK)) {
		q->metric = MAYFLY_LIVE;
		q->at_ns = snapshot_peak(h, step) - 1;
	} else if (q->metric == MAYFLY_LIVE && q->at_ns != MAYFLY_AT_END) {
		q->at_ns = round_up(q->at_ns, step) - 1;
	}
	return true;
}

static void check_snapshot_totals(const struct mayfly_trace *exact,
				  const struct mayfly_trace *trace, const struct history *h)
{
	struct mayfly_summary a, b;
	double one;

	CHECK(mayfly_trace_summary(exact, &a) == 0 && mayfly_trace_summary(trace, &b) == 0);
	CHECK(same_estimate(&a.allocated, &b.allocated, true));
	CHECK(same_estimate(&a.live_at_end, &b.live_at_end, true));
	CHECK(same_estimate(&a.temporary, &b.temporary, true));
	/* The highest point within the intervals is known, too. */
	CHECK(mayfly_timeline(trace, 1, &one) == 0);
	CHECK(one == a.peak.bytes.estimate, "%g, not %g", one, a.peak.bytes.estimate);
	CHECK(b.peak.bytes.estimate <= one);
	CHECK(h->events == 0 || mayfly_trace_info(trace)->samples == h->blocks);
}

static void test_snapshots(void)
{
	int answered = 0, refused = 0;

	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct source source = random_source(seed);
		int64_t step = (1 + below(2000)) * TICK;
		struct opened exact, o;
		struct mayfly_cursor *cursor;
		struct history h;

		source.mode = MAYFLY_EXACT;
		source.interval_log2 = 0;
		add_samples(&source, below(300));
		exact = open_source(&source, 0, 0);
		o = open_source(&source, step, 0);
		h = read_history(exact.trace);
		true_times(&h, &source);
		CHECK(mayfly_trace_info(o.trace)->snapshot_ns == step);
		CHECK(mayfly_cursor_open(o.trace, &cursor) == MAYFLY_E_ABSENT);
		check_snapshot_totals(exact.trace, o.trace, &h);
		for (int i = 0; i < 12; i++) {
			struct mayfly_query question = random_query(mayfly_trace_info(o.trace)), q;
			struct mayfly_result *result;

			if (below(3)) {
				question.by = (enum mayfly_by)below(4);
				question.min_size = 0;
				question.max_size = UINT64_MAX;
				question.min_lifetime_ns = 0;
				question.max_lifetime_ns = INT64_MAX;
				question.thread.matches = question.label.matches = NULL;
			}
			q = question;
			if (as_snapshots_see(&q, &h, step)) {
				compare_as(exact.trace, &h, &q, o.trace, &question, seed);
				answered++;
				continue;
			}
			refused++;
			CHECK(mayfly_query_run(o.trace, &question, &result) == MAYFLY_E_ABSENT);
		}
		free_history(&h);
		close_opened(&o);
		close_opened(&exact);
		free_source(&source);
	}
	CHECK(answered > 300 && refused > 300, "%d, %d", answered, refused);
}

/* ---- series ---- */

enum { MOST_SHOWN = 8, MOST_POINTS = 12 };

struct reference_series {
	char key[MOST_SHOWN][20000];
	size_t rows, points;	      /* without the row for the others, which is the last */
	int64_t time_ns[MOST_POINTS]; /* events up to this time are seen */
	double live_bytes[MOST_SHOWN + 1][MOST_POINTS], live_blocks[MOST_SHOWN + 1][MOST_POINTS];
	double bytes[MOST_SHOWN + 1][MOST_POINTS], blocks[MOST_SHOWN + 1][MOST_POINTS];
};

static bool ends_with(const char *text, const char *end)
{
	size_t whole = strlen(text), part = strlen(end);

	return part <= whole && strcmp(text + whole - part, end) == 0 &&
	       (part == whole || text[whole - part - 1] == ';');
}

/* Whether the block that the reference rows were just made from counts for a shown row. */
static bool counts_for(const char *key, const struct mayfly_query *q)
{
	for (size_t i = 0; i < reference_rows; i++) {
		const struct tally *self = &reference[i].self;
		bool own = self->exact_count || self->seen_blocks;

		if (q->sort == MAYFLY_SORT_SELF ? own && strcmp(reference[i].key, key) == 0
		    : q->by == MAYFLY_BY_STACK	? ends_with(reference[i].key, key)
						: strcmp(reference[i].key, key) == 0)
			return true;
	}
	return false;
}

static void refer_series(struct reference_series *s, const struct mayfly_trace *trace,
			 const struct mayfly_query *q, const struct block *b)
{
	bool shown[MOST_SHOWN + 1] = {false}, any = false;
	int64_t died = b->died == UINT64_MAX ? INT64_MAX : b->alloc.time_ns + b->lifetime;

	reference_rows = 0;
	refer_block(trace, q, b);
	for (size_t r = 0; r < s->rows; r++)
		any |= shown[r] = counts_for(s->key[r], q);
	shown[s->rows] = !any;
	for (size_t r = 0; r <= s->rows; r++) {
		for (size_t p = 0; shown[r] && p < s->points; p++) {
			if (b->alloc.time_ns > s->time_ns[p])
				continue;
			s->bytes[r][p] += b->alloc.weight_bytes;
			s->blocks[r][p] += b->alloc.weight_blocks;
			if (died <= s->time_ns[p] && b->died != UINT64_MAX)
				continue;
			s->live_bytes[r][p] += b->alloc.weight_bytes;
			s->live_blocks[r][p] += b->alloc.weight_blocks;
		}
	}
}

static bool about(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b)));
}

static void check_series_numbers(const struct mayfly_series *series,
				 const struct reference_series *s, uint64_t seed)
{
	for (size_t r = 0; r <= s->rows; r++) {
		for (size_t p = 0; p < s->points; p++) {
			size_t i = r * s->points + p;

			CHECK(about(series->live_bytes[i], s->live_bytes[r][p]),
			      "seed %d row %zu of %zu at %zu: live %g, not %g", (int)seed, r,
			      s->rows, p, series->live_bytes[i], s->live_bytes[r][p]);
			CHECK(about(series->live_blocks[i], s->live_blocks[r][p]));
			CHECK(about(series->allocated_bytes[i], s->bytes[r][p]),
			      "seed %d row %zu at %zu: allocated %g, not %g", (int)seed, r, p,
			      series->allocated_bytes[i], s->bytes[r][p]);
			CHECK(about(series->allocated_blocks[i], s->blocks[r][p]));
		}
	}
}

static void check_series_rows(const struct mayfly_trace *trace, const struct mayfly_query *q,
			      const struct mayfly_series *series, struct reference_series *s)
{
	struct mayfly_query ranking = *q;
	struct mayfly_result *result;

	if (q->metric == MAYFLY_LIVE || q->metric == MAYFLY_PEAK) {
		ranking.from_ns = 0;
		ranking.to_ns = INT64_MAX;
	}
	CHECK(mayfly_query_run(trace, &ranking, &result) == 0);
	CHECK(series->rows == (result->rows < s->rows ? result->rows : s->rows) + 1);
	s->rows = series->rows - 1;
	for (size_t r = 0; r < s->rows; r++) {
		char key[20000];

		result_key(key, sizeof(key), q->by, &result->row[r]);
		result_key(s->key[r], sizeof(s->key[r]), q->by, &series->row[r]);
		CHECK(strcmp(key, s->key[r]) == 0, "%s, not %s", s->key[r], key);
		CHECK(memcmp(&series->row[r].self, &result->row[r].self,
			     sizeof(result->row[r].self)) == 0);
	}
	CHECK(*series->row[s->rows].function == 0 && series->row[s->rows].stack_length == 0);
	mayfly_result_free(result);
}

/* step: of snapshots, else 0. trace: with events; other: what is asked. */
static void check_series(const struct mayfly_trace *trace, const struct history *h,
			 const struct mayfly_trace *other, const struct mayfly_query *q,
			 int64_t step, uint64_t seed)
{
	static struct reference_series s;
	int64_t end = mayfly_trace_info(trace)->duration_ns;
	struct mayfly_query all = *q;
	struct mayfly_series *series;
	bool open = q->to_ns >= end;
	int error;

	memset(&s, 0, sizeof(s));
	s.rows = below(MOST_SHOWN + 1);
	s.points = 1 + below(MOST_POINTS);
	error = mayfly_series_run(other, q, s.points, s.rows, &series);
	CHECK(error == 0, "seed %d: %s", (int)seed, mayfly_error_text(error));
	if (error)
		return;
	check_series_rows(other, q, series, &s);
	if (!open)
		end = q->to_ns;
	for (size_t p = 0; p < s.points; p++) {
		s.time_ns[p] =
		    q->from_ns + (end - q->from_ns) * (int64_t)(p + 1) / (int64_t)s.points;
		if (step)
			s.time_ns[p] = round_up(s.time_ns[p], step);
		CHECK(series->time_ns[p] == s.time_ns[p] || (step && s.time_ns[p] >= end),
		      "point %zu: %lld, not %lld", p, (long long)series->time_ns[p],
		      (long long)s.time_ns[p]);
		s.time_ns[p] -= step > 0;
	}
	if (open)
		s.time_ns[s.points - 1] = INT64_MAX;
	all.metric = MAYFLY_ALLOCATED;
	all.from_ns = 0;
	all.to_ns = INT64_MAX;
	for (size_t i = 0; i < h->blocks; i++) {
		if (block_kept(trace, h, &all, &h->block[i]))
			refer_series(&s, trace, q, &h->block[i]);
	}
	check_series_numbers(series, &s, seed);
	mayfly_series_free(series);
}

static void test_series(void)
{
	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 60);
		struct history h = read_history(o.trace);
		struct mayfly_series *series;
		struct mayfly_query q;

		for (int i = 0; i < 8; i++) {
			q = random_query(mayfly_trace_info(o.trace));
			if (q.from_ns < q.to_ns)
				check_series(o.trace, &h, o.trace, &q, 0, seed);
		}
		mayfly_query_defaults(&q);
		CHECK(mayfly_series_run(o.trace, &q, 0, 1, &series) == MAYFLY_E_RANGE);
		CHECK(mayfly_series_run(o.trace, &q, 1u << 25, 1, &series) == MAYFLY_E_RANGE);
		q.to_ns = q.from_ns;
		CHECK(mayfly_series_run(o.trace, &q, 1, 1, &series) == MAYFLY_E_RANGE);
		free_history(&h);
		close_opened(&o);
		free_source(&source);
	}
}

static double live_at(const struct mayfly_series *s, size_t row, size_t point)
{
	return s->live_bytes[row * s->points + point];
}

static double all_live_at(const struct mayfly_series *s, size_t point)
{
	double sum = 0;

	for (size_t row = 0; row < s->rows; row++)
		sum += live_at(s, row, point);
	return sum;
}

/* Rows by their largest value have the values that they have among all rows, and others the rest. */
static void check_largest(const struct mayfly_trace *trace, struct mayfly_query q, uint64_t seed)
{
	struct mayfly_series *all, *largest;
	size_t points = 1 + below(40), *in_all;
	bool whole = q.from_ns == 0 && q.to_ns == INT64_MAX;

	q.metric = MAYFLY_PEAK;
	CHECK(series_run_largest(trace, &q, NULL, points, 1 + below(6), &largest) == 0);
	q.metric = MAYFLY_ALLOCATED;
	CHECK(mayfly_series_run(trace, &q, points, SIZE_MAX, &all) == 0);
	in_all = rows_pair(largest->row, largest->rows - 1, all->row, all->rows - 1, q.by);
	for (size_t i = 0; i < points; i++) {
		for (size_t row = 0; row + 1 < largest->rows; row++) {
			/* What nobody allocated in the window is in none of the other rows. */
			if (in_all[row] == SIZE_MAX && !whole)
				continue;
			CHECK(in_all[row] != SIZE_MAX, "seed %llu", (unsigned long long)seed);
			CHECK(close_to(live_at(largest, row, i), live_at(all, in_all[row], i)),
			      "seed %llu row %zu: %g, not %g", (unsigned long long)seed, row,
			      live_at(largest, row, i), live_at(all, in_all[row], i));
			CHECK(close_to(largest->allocated_bytes[row * points + i],
				       all->allocated_bytes[in_all[row] * points + i]));
		}
		if (q.sort == MAYFLY_SORT_SELF)
			CHECK(close_to(all_live_at(largest, i), all_live_at(all, i)),
			      "seed %llu: %g, not %g", (unsigned long long)seed,
			      all_live_at(largest, i), all_live_at(all, i));
	}
	free(in_all);
	mayfly_series_free(all);
	mayfly_series_free(largest);
}

static void test_series_by_largest(void)
{
	for (uint64_t seed = 1; seed <= 80; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 60);
		const struct mayfly_info *info = mayfly_trace_info(o.trace);

		for (int i = 0; i < 6; i++) {
			struct mayfly_query q = random_query(info);

			q.by = (enum mayfly_by)below(4);
			if (q.from_ns < q.to_ns && !info->inherited)
				check_largest(o.trace, q, seed);
		}
		close_opened(&o);
		free_source(&source);
	}
}

static void test_series_of_snapshots(void)
{
	for (uint64_t seed = 1; seed <= 80; seed++) {
		struct source source = random_source(seed);
		int64_t step = (1 + below(3000)) * TICK;
		struct opened exact, o;
		struct history h;

		source.mode = MAYFLY_EXACT;
		source.interval_log2 = 0;
		add_samples(&source, 1 + below(300));
		exact = open_source(&source, 0, 0);
		o = open_source(&source, step, 0);
		h = read_history(exact.trace);
		true_times(&h, &source);
		for (int i = 0; i < 6; i++) {
			struct mayfly_query q = random_query(mayfly_trace_info(o.trace)), plain;
			struct mayfly_series *series;

			mayfly_query_defaults(&plain);
			plain.metric = q.metric;
			plain.by = (enum mayfly_by)below(4);
			plain.sort = q.sort;
			plain.at_ns = q.at_ns;
			plain.focus = q.focus;
			plain.hide = q.hide;
			if (q.metric <= MAYFLY_ALLOCATED && q.from_ns < q.to_ns) {
				plain.from_ns = q.from_ns;
				plain.to_ns = q.to_ns;
			}
			check_series(exact.trace, &h, o.trace, &plain, step, seed);
			plain.by = MAYFLY_BY_THREAD;
			CHECK(mayfly_series_run(o.trace, &plain, 3, 3, &series) == MAYFLY_E_ABSENT);
		}
		free_history(&h);
		close_opened(&o);
		close_opened(&exact);
		free_source(&source);
	}
}

/* Each distinct name is asked for once, by each filter. */
static void test_matchers_asked_once(void)
{
	struct source source = random_source(5);
	struct opened o = open_source(&source, 0, 0);
	struct mayfly_query q;
	struct mayfly_result *result;

	mayfly_query_defaults(&q);
	q.metric = MAYFLY_ALLOCATED;
	q.focus = (struct mayfly_match){contains, "nothing has this name"};
	matcher_calls = 0;
	CHECK(mayfly_query_run(o.trace, &q, &result) == 0);
	CHECK(matcher_calls > 5 && matcher_calls <= 7 + 3 + 3, "%d", matcher_calls);
	CHECK(result->rows == 0 && result->total.bytes.estimate == 0);
	mayfly_result_free(result);
	q.by = (enum mayfly_by)(MAYFLY_BY_THREADS + 1);
	CHECK(mayfly_query_run(o.trace, &q, &result) == MAYFLY_E_RANGE);
	close_opened(&o);
	free_source(&source);
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
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 60);
		struct history h = read_history(o.trace);
		bool whole = source.sampler == MAYFLY_STRATIFIED;
		bool exact = source.mode == MAYFLY_EXACT; /* times are a little wrong */
		struct mayfly_summary s;
		struct mayfly_estimate e;

		CHECK(mayfly_trace_summary(o.trace, &s) == 0);
		CHECK(llabs(s.peak_time_ns - h.peak_time) <= (exact ? 1000000 : 0));
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
		free_source(&source);
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
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 60);
		struct history h = read_history(o.trace);

		check_timeline(o.trace, &h, 1);
		check_timeline(o.trace, &h, 7);
		check_timeline(o.trace, &h, 1000);
		CHECK(mayfly_timeline(o.trace, 0, &one) == MAYFLY_E_RANGE);
		free_history(&h);
		close_opened(&o);
		free_source(&source);
	}
}

/* ---- heaps with a rate of their own ---- */

static double upper_end(const struct mayfly_trace *trace, uint32_t heaps)
{
	struct mayfly_query q = {.metric = MAYFLY_ALLOCATED,
				 .max_size = UINT64_MAX,
				 .to_ns = INT64_MAX,
				 .max_lifetime_ns = INT64_MAX,
				 .heaps = heaps};
	struct mayfly_result *result;
	double high;

	CHECK(mayfly_query_run(trace, &q, &result) == 0);
	high = result->total.bytes.high / result->total.bytes.estimate;
	mayfly_result_free(result);
	return high;
}

/* 40 samples of each: malloc's at 2^malloc_log2, a runtime's at 2^runtime_log2. */
static struct opened two_rates(uint32_t malloc_log2, uint32_t runtime_log2)
{
	const struct trace_writer_options options = {.interval_log2 = malloc_log2, .level = 1};
	struct recording *r = recording_new();
	struct opened o = {0};
	struct trace_writer *w = trace_writer_new(&options, r, trace_buffer_sink, &o.buffer);

	r->info.interval_bytes = 1u << malloc_log2;
	r->info.ocaml_interval_bytes = 1u << runtime_log2;
	r->info.ocaml_rate = 8.0 / (1u << runtime_log2);
	r->info.duration_ns = 1000;
	r->info.complete = true;
	recording_thread(r, 1, 0);
	for (int i = 0; i < 80; i++) {
		bool runtime = i & 1;
		struct trace_block b = {
		    .size = 24,
		    .hits = runtime && runtime_log2 == 3 ? 3 : 1,
		    .interval_log2 = (uint8_t)(runtime ? runtime_log2 : malloc_log2),
		    .flags = runtime ? MAYFLY_HEAP_OCAML_MINOR << MAYFLY_FLAG_HEAP_SHIFT : 0};
		uint64_t serial;

		CHECK(trace_writer_alloc(w, i, &b, &serial) == 0);
	}
	CHECK(trace_writer_finish(w) == 0);
	trace_writer_free_all(w);
	recording_free(r);
	CHECK(mayfly_trace_open(o.buffer.bytes, o.buffer.used, &o.trace) == 0);
	return o;
}

static void check_rates(uint32_t malloc_log2, uint32_t runtime_log2)
{
	const uint32_t malloc_heap = 1u << MAYFLY_HEAP_MALLOC;
	struct opened o = two_rates(malloc_log2, runtime_log2);

	/* Two standard errors of 40 samples are a third. */
	CHECK(upper_end(o.trace, MAYFLY_HEAPS_OCAML) < 1.6);
	CHECK(upper_end(o.trace, malloc_heap) < 1.6);
	CHECK(upper_end(o.trace, 0) < 1.6);
	close_opened(&o);
}

/* What may be unseen in a heap depends on its own rate. */
static void test_rates_of_heaps(void)
{
	check_rates(19, 12);
	check_rates(12, 23);
}

/* At one sample for each word there is nothing unseen in a runtime's heap, whatever malloc's is. */
static void test_every_word(void)
{
	struct opened o = two_rates(19, 3);
	struct mayfly_result *result;
	struct mayfly_query q;

	mayfly_query_defaults(&q);
	q.metric = MAYFLY_ALLOCATED;
	q.by = MAYFLY_BY_HEAP;
	CHECK(mayfly_query_run(o.trace, &q, &result) == 0);
	CHECK(result->rows == 2);
	for (size_t i = 0; i < result->rows; i++) {
		const struct mayfly_row *row = &result->row[i];
		bool runtime = row->low == MAYFLY_HEAP_OCAML_MINOR;

		CHECK((row->self.bytes.high == 40 * 24) == runtime, "%g", row->self.bytes.high);
		CHECK((row->total.bytes.high == 40 * 24) == runtime, "%g", row->total.bytes.high);
		CHECK((row->self.blocks.high == 40) == runtime);
	}
	mayfly_result_free(result);
	CHECK(upper_end(o.trace, MAYFLY_HEAPS_OCAML) == 1);
	close_opened(&o);
}

/* ---- speed ---- */

/* 33,000 nodes in stacks of 60 frames, 6,000 samples: what a large program's sampled trace has. */
static struct source large_source(uint32_t mode, uint32_t samples)
{
	struct source s = random_source(1);
	struct recording *r = s.r;

	s.mode = mode;
	s.sampler = MAYFLY_STRATIFIED;
	s.interval_log2 = mode == MAYFLY_EXACT ? 0 : 13;
	for (int i = 0; i < 6000; i++)
		add_code_frame(r);
	while (r->nodes < 33000) {
		uint32_t node = below(8) ? 0 : below((uint32_t)r->nodes);

		for (int depth = 0; depth < 60 && r->nodes < 33000; depth++)
			node = recording_node(r, node, below(3) ? 1 + below(20) : 30 + below(5000));
	}
	add_samples(&s, samples);
	return s;
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
	struct source source = large_source(MAYFLY_SAMPLED, 6000);
	struct opened o = open_source(&source, 0, 0);

	for (int by = 0; by <= MAYFLY_BY_THREADS; by++) {
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
		       source.r->nodes);
	}
	close_opened(&o);
	free_source(&source);
}

static long resident_kb(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* Several spans of counters, and a pass over all events beside it. */
static void test_many_events(void)
{
	struct source source = large_source(MAYFLY_EXACT, 1400000);
	struct opened o = open_source(&source, 0, 0);
	const struct mayfly_info *info = mayfly_trace_info(o.trace);
	long before;
	double live[48], largest = 0;
	struct mayfly_summary summary;

	free_source(&source);
	CHECK(trace_sums_parts(o.trace) > 2);
	before = resident_kb();
	for (int metric = 0; metric <= MAYFLY_SURVIVED; metric++) {
		struct mayfly_result *result;
		struct mayfly_query q;
		double start = now_ms(), counters, events;

		mayfly_query_defaults(&q);
		q.metric = (enum mayfly_metric)metric;
		check_same_answer(o.trace, &q);
		start = now_ms();
		CHECK(mayfly_query_run(o.trace, &q, &result) == 0);
		counters = now_ms() - start;
		mayfly_result_free(result);
		q.by = MAYFLY_BY_LIFETIME;
		start = now_ms();
		CHECK(mayfly_query_run(o.trace, &q, &result) == 0);
		events = now_ms() - start;
		mayfly_result_free(result);
		printf("# metric %d: %.1f ms from counters, %.0f ms from %llu events\n", metric,
		       counters, events, (unsigned long long)(info->samples + info->frees));
	}
	CHECK(mayfly_trace_summary(o.trace, &summary) == 0);
	CHECK(mayfly_timeline(o.trace, 48, live) == 0);
	for (int i = 0; i < 48; i++)
		largest = fmax(largest, live[i]);
	CHECK(largest == summary.peak.bytes.estimate);
	CHECK(live[(size_t)((double)summary.peak_time_ns / (double)info->duration_ns * 48)] ==
	      largest);
	CHECK(live[47] >= summary.live_at_end.bytes.estimate);
	printf("# %ld KB more than before\n", resident_kb() - before);
	close_opened(&o);
}

int main(void)
{
	RUN(test_questions);
	RUN(test_counters_and_events_agree);
	RUN(test_two_questions_at_once);
	RUN(test_totals);
	RUN(test_chosen_sums);
	RUN(test_snapshots);
	RUN(test_series);
	RUN(test_series_by_largest);
	RUN(test_series_of_snapshots);
	RUN(test_matchers_asked_once);
	RUN(test_summary);
	RUN(test_timeline);
	RUN(test_rates_of_heaps);
	RUN(test_every_word);
	RUN(test_speed);
	RUN(test_many_events);
	DONE();
}
