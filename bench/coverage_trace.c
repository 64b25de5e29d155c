/* SPDX-License-Identifier: Apache-2.0 */
/* From a stream to a trace, and to its true figures: see coverage_trace.h. */
#include "coverage_trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sampler.h"
#include "trace/rewrite/merge.h"
#include "trace/write/writer.h"

static void *need(void *p)
{
	if (!p) {
		fputs("bench_coverage: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

static void check(int error)
{
	if (error) {
		fprintf(stderr, "bench_coverage: %s\n", mayfly_error_text(error));
		exit(1);
	}
}

/* ---- recording ---- */

#define BIAS 0x555555554000u /* where the program is mapped; its pages stay pages */

/* The events of each process, those of process i from first[i] to first[i + 1]. */
struct parts {
	size_t *first;
	uint32_t *event;
};

/* Memprof chooses each word of a thread's blocks with the same chance. */
struct words {
	uint64_t random, position, next; /* words so far; the next one that is chosen */
};

/* As in the real thing, the trace knows only what was sampled. */
struct recorder {
	const struct coverage_stream *s;
	const struct coverage_run *run;
	struct recording *r;
	struct trace_writer *w;
	struct sampler *sampler;  /* [threads] */
	struct words *words;	  /* [threads]: of OCaml's heaps */
	uint32_t *node;		  /* by stack; 0: not yet made */
	uint64_t *serial;	  /* by block; UINT64_MAX: not sampled */
	uint64_t *position;	  /* of its thread's sampler after it */
	struct trace_block *kept; /* by serial number */
	size_t room;
	uint32_t module, main_node, code_file;
	uint32_t process; /* the only thread that is recorded, or COVERAGE_NOBODY */
};

static uint32_t string_of(struct recorder *c, const char *format, uint32_t number)
{
	char text[40];
	int length = snprintf(text, sizeof(text), format, number);

	return recording_string(c->r, text, (size_t)length);
}

static uint32_t make_frame(struct recorder *c, uint64_t address, uint32_t function, uint32_t line)
{
	struct recording_location l = {function, c->code_file, line, false, 0, 0};
	uint32_t f = recording_frame(c->r, MAYFLY_FRAME_CODE, c->module, address);

	if (f == RECORDING_NONE)
		check(MAYFLY_E_MEMORY);
	if (c->r->frame[f].locations == 0) {
		c->r->frame[f].first_location = recording_location(c->r, &l);
		c->r->frame[f].locations = 1;
	}
	return f;
}

/* A call of malloc is on line 1 + the site, a group's call on line 1 + the stack. The three kinds of
 * frames are at different places of the file; a site's is that of its call. */
static uint32_t node_of(struct recorder *c, uint32_t number)
{
	const struct coverage_stack *stack = &c->s->stack[number];
	uint32_t frame, node;

	if (c->node[number])
		return c->node[number];
	frame = make_frame(c, 0x40000000u + number, string_of(c, "g%u", stack->group), number + 1);
	node = recording_node(c->r, c->main_node, frame);
	frame = make_frame(c, c->s->site_address[stack->site], string_of(c, "f%u", stack->function),
			   stack->site + 1);
	c->node[number] = recording_node(c->r, node, frame);
	return c->node[number];
}

static uint32_t labels_of(struct recorder *c, uint32_t request)
{
	struct recording_label label[2];

	if (!request || !c->s->tenants)
		return 0;
	label[0].key = recording_string(c->r, "request", 7);
	label[0].value = string_of(c, "r%u", request);
	label[1].key = recording_string(c->r, "tenant", 6);
	label[1].value = string_of(c, "t%u", coverage_tenant(c->s, request));
	return recording_labels(c->r, label, 2);
}

static void begin_recording(struct recorder *c)
{
	struct recording_module m = {.start = BIAS, .end = BIAS + (1u << 31), .bias = BIAS};
	struct recording *r = c->r;

	r->info.pid = 1000 + (c->process == COVERAGE_NOBODY ? 0 : c->process);
	r->info.seed = c->run->seed;
	r->info.interval_bytes = 1ull << c->run->interval_log2;
	r->info.grouped = c->run->sampler == MAYFLY_STRATIFIED;
	if (c->run->sampler == ESTIMATE_WORDS) {
		r->info.ocaml_interval_bytes = r->info.interval_bytes;
		r->info.ocaml_rate = 8 / (double)r->info.interval_bytes;
	}
	r->info.duration_ns = (int64_t)(c->s->events + 1) * COVERAGE_STEP_NS;
	r->info.ending = MAYFLY_END_EXITED;
	r->info.complete = true;
	m.path = recording_string(r, "/bin/program", 12);
	m.to_ns = INT64_MAX;
	/* Two runs are of one build: in a diff, no line has moved. */
	memset(m.build_id, 7, 20);
	m.build_id_length = 20;
	c->module = recording_module(r, &m);
	c->code_file = recording_string(r, "/src/code.c", 11);
	c->main_node = recording_node(r, 0, make_frame(c, 0x1000, string_of(c, "main", 0), 7));
	for (uint32_t i = 0; i < c->s->threads; i++)
		if (c->process == COVERAGE_NOBODY || c->process == i)
			recording_thread(r, 1000 + i,
					 string_of(c, c->s->one_name ? "main" : "thread %u", i));
}

static uint32_t thread_of(const struct recorder *c, uint32_t thread)
{
	return c->process == COVERAGE_NOBODY ? thread : 0;
}

static void choose_word(struct words *w, uint32_t interval_log2)
{
	double chance = exp2(3 - (double)interval_log2);

	w->random = sampler_splitmix(w->random + SAMPLER_SPLITMIX_STEP);
	w->next +=
	    1 + (uint64_t)(log(((double)(w->random >> 11) + 0.5) * 0x1p-53) / log1p(-chance));
}

/* The number of the block's words that are chosen; SAMPLER_SKIP: none. */
static int32_t take_words(struct words *w, uint64_t size, uint32_t interval_log2)
{
	int32_t hits = 0;

	for (w->position += (size + 7) / 8; w->next <= w->position; hits++)
		choose_word(w, interval_log2);
	return hits ? hits : SAMPLER_SKIP;
}

static int32_t take(struct recorder *c, const struct coverage_block *b, uint64_t size)
{
	struct sampler *sampler = &c->sampler[b->thread];

	if (c->run->sampler == ESTIMATE_WORDS)
		return take_words(&c->words[b->thread], size, c->run->interval_log2);
	if (size < sampler->left) {
		sampler->left -= size;
		return SAMPLER_SKIP;
	}
	/* A frame's address is one below the return address. */
	return sampler_take(sampler, size,
			    BIAS + c->s->site_address[c->s->stack[b->stack].site] + 1);
}

/* How far the thread has come, as its sampler counts allocations. */
static uint64_t position_of(const struct recorder *c, uint32_t thread)
{
	return c->run->sampler == ESTIMATE_WORDS ? c->words[thread].position
						 : sampler_position(&c->sampler[thread]);
}

static void one_alloc(struct recorder *c, uint32_t number, int64_t time_ns)
{
	const struct coverage_block *b = &c->s->block[number];
	uint64_t size = coverage_size(c->s, number, c->run->grown);
	struct trace_block kept;
	int32_t hits = take(c, b, size);

	c->serial[number] = UINT64_MAX;
	if (hits == SAMPLER_SKIP)
		return;
	kept = (struct trace_block){
	    .size = size,
	    .node = node_of(c, b->stack),
	    .thread = thread_of(c, b->thread),
	    .hits = (uint32_t)hits,
	    .interval_log2 = (uint8_t)c->run->interval_log2,
	    .flags = (b->realloc_alloc ? MAYFLY_FLAG_REALLOC : 0u) |
		     (c->run->sampler == ESTIMATE_WORDS
			  ? MAYFLY_HEAP_OCAML_MAJOR << MAYFLY_FLAG_HEAP_SHIFT
			  : 0u),
	    .labels = labels_of(c, b->request),
	};
	check(trace_writer_alloc(c->w, time_ns, &kept, &c->serial[number]));
	if (c->serial[number] >= c->room) {
		c->room = c->serial[number] * 2 + 1024;
		c->kept = need(realloc(c->kept, c->room * sizeof(*c->kept)));
		c->position = need(realloc(c->position, c->room * sizeof(*c->position)));
	}
	c->kept[c->serial[number]] = kept;
	c->position[c->serial[number]] = position_of(c, b->thread);
}

static void one_free(struct recorder *c, uint32_t number, int64_t time_ns)
{
	const struct coverage_block *b = &c->s->block[number];
	uint64_t serial = c->serial[number];
	uint32_t flags = b->realloc_free ? MAYFLY_FLAG_REALLOC : 0;

	if (serial == UINT64_MAX)
		return;
	if (b->thread == b->free_thread && c->position[serial] == position_of(c, b->thread))
		flags |= MAYFLY_FLAG_TEMPORARY;
	check(trace_writer_free(c->w, time_ns, serial, &c->kept[serial],
				thread_of(c, b->free_thread), flags));
}

static void record_event(struct recorder *c, size_t e)
{
	int64_t time_ns = (int64_t)(e + 1) * COVERAGE_STEP_NS;

	if (c->s->event[e] & 1)
		one_free(c, c->s->event[e] >> 1, time_ns);
	else
		one_alloc(c, c->s->event[e] >> 1, time_ns);
}

static uint32_t thread_of_event(const struct coverage_stream *s, size_t e)
{
	return s->block[s->event[e] >> 1].thread;
}

static void record_events(struct recorder *c, const struct parts *parts)
{
	if (c->process == COVERAGE_NOBODY)
		for (size_t e = 0; e < c->s->events; e++)
			record_event(c, e);
	else
		for (size_t i = parts->first[c->process]; i < parts->first[c->process + 1]; i++)
			record_event(c, parts->event[i]);
}

static struct parts make_parts(const struct coverage_stream *s)
{
	struct parts p = {.first = need(calloc(s->threads + 2, sizeof(*p.first))),
			  .event = need(calloc(s->events + 1, sizeof(*p.event)))};

	for (size_t e = 0; e < s->events; e++)
		p.first[thread_of_event(s, e) + 2]++;
	for (uint32_t i = 0; i < s->threads; i++)
		p.first[i + 2] += p.first[i + 1];
	for (size_t e = 0; e < s->events; e++)
		p.event[p.first[thread_of_event(s, e) + 1]++] = (uint32_t)e;
	return p;
}

static void forget_parts(struct parts *p)
{
	free(p->first);
	free(p->event);
}

static void forget(struct recorder *c)
{
	free(c->sampler);
	free(c->words);
	free(c->node);
	free(c->serial);
	free(c->kept);
	free(c->position);
	recording_free(c->r);
}

static struct coverage_trace record_one(const struct coverage_stream *s,
					const struct coverage_run *run, uint32_t process,
					const struct parts *parts)
{
	struct recorder c = {.s = s, .run = run, .process = process};
	const struct trace_writer_options options = {
	    .mode = MAYFLY_SAMPLED,
	    .sampler = run->sampler == MAYFLY_POISSON ? MAYFLY_POISSON : MAYFLY_STRATIFIED,
	    .interval_log2 = run->interval_log2,
	    .level = TRACE_LEVEL_FAST,
	};
	struct trace_buffer buffer = {0};
	struct coverage_trace t = {0};

	c.r = need(recording_new());
	c.sampler = need(calloc(s->threads, sizeof(*c.sampler)));
	c.node = need(calloc(s->stacks, sizeof(*c.node)));
	c.serial = need(malloc((s->blocks + 1) * sizeof(*c.serial)));
	c.words = need(calloc(s->threads, sizeof(*c.words)));
	for (uint32_t i = 0; i < s->threads; i++) {
		uint64_t seed = sampler_splitmix(run->seed * 100003 + i);

		if (process != COVERAGE_NOBODY && process != i)
			continue;
		sampler_init(&c.sampler[i],
			     run->sampler == MAYFLY_POISSON ? SAMPLER_POISSON : SAMPLER_STRATIFIED,
			     run->interval_log2, seed);
		c.words[i].random = seed;
		choose_word(&c.words[i], run->interval_log2);
	}
	begin_recording(&c);
	c.w = need(trace_writer_new(&options, c.r, trace_buffer_sink, &buffer));
	record_events(&c, parts);
	check(trace_writer_finish(c.w));
	trace_writer_free_all(c.w);
	forget(&c);
	t.bytes = buffer.bytes;
	t.size = buffer.used;
	check(mayfly_trace_open(t.bytes, t.size, &t.trace));
	return t;
}

static struct coverage_trace record_processes(const struct coverage_stream *s,
					      const struct coverage_run *run)
{
	struct trace_merge *merge = need(trace_merge_new(MERGE_FROM_START));
	struct parts parts = make_parts(s);
	struct trace_buffer buffer = {0};
	struct coverage_trace t = {0};

	for (uint32_t i = 0; i < s->threads; i++) {
		struct coverage_trace part = record_one(s, run, i, &parts);
		bool stay;

		check(trace_merge_add(merge, part.trace, &stay));
		coverage_close(&part); /* a small one does not stay */
	}
	forget_parts(&parts);
	check(trace_merge_write(merge, "", trace_buffer_sink, &buffer));
	trace_merge_free(merge);
	t.bytes = buffer.bytes;
	t.size = buffer.used;
	check(mayfly_trace_open(t.bytes, t.size, &t.trace));
	return t;
}

struct coverage_trace coverage_record(const struct coverage_stream *s,
				      const struct coverage_run *run)
{
	return s->processes ? record_processes(s, run) : record_one(s, run, COVERAGE_NOBODY, NULL);
}

struct coverage_trace coverage_open(const char *path)
{
	struct coverage_trace t = {0};
	FILE *file = fopen(path, "rbe");
	long size = -1;

	if (file && fseek(file, 0, SEEK_END) == 0)
		size = ftell(file);
	if (size < 0 || fseek(file, 0, SEEK_SET) != 0) {
		perror(path);
		exit(1);
	}
	t.size = (size_t)size;
	t.bytes = need(malloc(t.size + 1));
	if (fread(t.bytes, 1, t.size, file) != t.size) {
		perror(path);
		exit(1);
	}
	fclose(file);
	check(mayfly_trace_open(t.bytes, t.size, &t.trace));
	return t;
}

void coverage_close(struct coverage_trace *t)
{
	mayfly_trace_close(t->trace);
	free(t->bytes);
	*t = (struct coverage_trace){0};
}

/* ---- questions ---- */

const char *const coverage_metric_names[COVERAGE_METRICS] = {
    "allocated", "live", "middle", "leaked", "temporary", "survived", "peak", "stated"};
const char *const coverage_by_names[COVERAGE_BYS] = {"function", "total", "stack",    "line",
						     "thread",	 "size",  "lifetime", "freer",
						     "heap",	 "label", "labelled"};

static int is_first_tenant(void *context, const char *text)
{
	(void)context;
	return strcmp(text, "tenant=t1") == 0;
}

/* A moment between two events. */
static int64_t after_events(size_t events)
{
	return (int64_t)events * COVERAGE_STEP_NS + COVERAGE_STEP_NS / 2;
}

struct mayfly_query coverage_query(const struct coverage_stream *s, enum coverage_metric metric,
				   enum coverage_by by)
{
	static const enum mayfly_metric metrics[COVERAGE_METRICS] = {
	    MAYFLY_ALLOCATED, MAYFLY_LIVE,     MAYFLY_LIVE, MAYFLY_LEAKED,
	    MAYFLY_TEMPORARY, MAYFLY_SURVIVED, MAYFLY_PEAK, MAYFLY_PEAK};
	static const enum mayfly_by bys[COVERAGE_BYS] = {
	    MAYFLY_BY_FUNCTION, MAYFLY_BY_FUNCTION, MAYFLY_BY_STACK,	MAYFLY_BY_LINE,
	    MAYFLY_BY_THREAD,	MAYFLY_BY_SIZE,	    MAYFLY_BY_LIFETIME, MAYFLY_BY_FREEING_THREAD,
	    MAYFLY_BY_HEAP,	MAYFLY_BY_LABEL,    MAYFLY_BY_FUNCTION};
	struct mayfly_query q;

	mayfly_query_defaults(&q);
	q.metric = metrics[metric];
	q.by = bys[by];
	if (metric == COVERAGE_MIDDLE)
		q.at_ns = after_events(s->events / 2);
	if (metric == COVERAGE_SURVIVED) {
		q.from_ns = after_events(s->events / 4);
		q.to_ns = after_events(s->events * 3 / 4);
	}
	if (by == COVERAGE_TOTAL)
		q.sort = MAYFLY_SORT_TOTAL;
	if (by == COVERAGE_LABEL)
		q.label_key = "tenant";
	if (by == COVERAGE_LABELLED)
		q.label.matches = is_first_tenant;
	return q;
}

#define NEVER_CLASS 20 /* of lifetimes */

/* Functions with callees: the functions, then the groups, then main. */
size_t coverage_keys(const struct coverage_stream *s, enum coverage_by by)
{
	switch (by) {
	case COVERAGE_FUNCTION:
	case COVERAGE_TOTAL:
		return s->functions + s->groups + 1;
	case COVERAGE_STACK:
		return s->stacks;
	case COVERAGE_LINE:
		return s->sites;
	case COVERAGE_THREAD:
		return s->threads;
	case COVERAGE_SIZE:
		return 65;
	case COVERAGE_LIFETIME:
		return NEVER_CLASS + 1;
	case COVERAGE_FREER:
		return s->threads + 1;
	case COVERAGE_HEAP:
		return 1;
	case COVERAGE_LABEL:
		return s->tenants ? s->tenants + 1 : 0;
	case COVERAGE_LABELLED:
		return s->tenants ? s->functions + s->groups + 1 : 0;
	case COVERAGE_BYS:
		break;
	}
	return 0;
}

/* SIZE_MAX: not of the stream. A recorded program has functions of libc, too. */
static size_t function_key(const struct coverage_stream *s, const char *name)
{
	char *end = NULL;
	size_t number;

	if (strcmp(name, "main") == 0)
		return s->functions + s->groups;
	if (name[0] != 'f' && name[0] != 'g')
		return SIZE_MAX;
	number = strtoul(name + 1, &end, 10);
	if (end == name + 1 || *end)
		return SIZE_MAX;
	return name[0] == 'g' ? s->functions + number : number;
}

/* (2^(k-1), 2^k] */
static size_t size_class(uint64_t size)
{
	return size <= 1 ? 0 : 64 - (size_t)__builtin_clzll(size - 1);
}

/* [10^k, 10^(k+1)) ns */
static size_t lifetime_class(int64_t lifetime_ns)
{
	size_t class = 0;

	for (; lifetime_ns >= 10; lifetime_ns /= 10)
		class ++;
	return class;
}

size_t coverage_row_key(const struct coverage_stream *s, enum coverage_by by,
			const struct mayfly_row *row)
{
	switch (by) {
	case COVERAGE_FUNCTION:
	case COVERAGE_TOTAL:
	case COVERAGE_LABELLED:
		return function_key(s, row->function);
	case COVERAGE_STACK:
		return row->stack_length > 1 ? row->stack[1].line - 1 : SIZE_MAX;
	case COVERAGE_LINE:
		/* main and groups have rows too, with callees only. */
		return row->function[0] == 'f' ? row->line - 1 : SIZE_MAX;
	case COVERAGE_THREAD:
		return row->thread; /* the first thread of its row */
	case COVERAGE_SIZE:
		return size_class((uint64_t)row->high);
	case COVERAGE_LIFETIME:
		return row->high == INT64_MAX ? NEVER_CLASS : lifetime_class(row->low);
	case COVERAGE_FREER:
		return row->free_thread == UINT32_MAX ? s->threads : row->free_thread;
	case COVERAGE_LABEL:
		return *row->function ? strtoul(row->function + 1, NULL, 10) : 0;
	case COVERAGE_HEAP:
	case COVERAGE_BYS:
		break;
	}
	return 0;
}

/* ---- the truth ---- */

struct coverage_truth coverage_truth_new(const struct coverage_stream *s)
{
	struct coverage_truth t = {0};

	for (enum coverage_by by = 0; by < COVERAGE_BYS; by++)
		t.row[by] = need(calloc(coverage_keys(s, by) + 1, sizeof(*t.row[by])));
	return t;
}

void coverage_truth_free(struct coverage_truth *t)
{
	for (enum coverage_by by = 0; by < COVERAGE_BYS; by++)
		free(t->row[by]);
}

static void count(struct coverage_figures *f, const struct coverage_block *b)
{
	f->bytes += (double)b->size;
	f->blocks++;
}

static uint32_t thread_key(const struct coverage_stream *s, uint32_t thread)
{
	return s->one_name ? 0 : thread;
}

static void count_block(const struct coverage_stream *s, const struct coverage_block *b,
			struct coverage_truth *t)
{
	const struct coverage_stack *stack = &s->stack[b->stack];
	uint32_t tenant = coverage_tenant(s, b->request);

	count(&t->total, b);
	count(&t->row[COVERAGE_FUNCTION][stack->function], b);
	count(&t->row[COVERAGE_TOTAL][stack->function], b);
	count(&t->row[COVERAGE_TOTAL][s->functions + stack->group], b);
	count(&t->row[COVERAGE_TOTAL][s->functions + s->groups], b);
	count(&t->row[COVERAGE_STACK][b->stack], b);
	count(&t->row[COVERAGE_LINE][stack->site], b);
	count(&t->row[COVERAGE_THREAD][thread_key(s, b->thread)], b);
	count(&t->row[COVERAGE_SIZE][size_class(b->size)], b);
	count(&t->row[COVERAGE_LIFETIME]
		     [b->to == COVERAGE_NEVER
			  ? NEVER_CLASS
			  : lifetime_class((int64_t)(b->to - b->from) * COVERAGE_STEP_NS)],
	      b);
	count(&t->row[COVERAGE_FREER]
		     [b->to == COVERAGE_NEVER ? s->threads : thread_key(s, b->free_thread)],
	      b);
	count(&t->row[COVERAGE_HEAP][0], b);
	if (s->tenants)
		count(&t->row[COVERAGE_LABEL][tenant], b);
	if (tenant == 1)
		count(&t->row[COVERAGE_LABELLED][stack->function], b);
}

void coverage_truth_fill(const struct coverage_stream *s, enum coverage_metric metric,
			 uint64_t events, struct coverage_truth *t)
{
	t->total = (struct coverage_figures){0};
	for (enum coverage_by by = 0; by < COVERAGE_BYS; by++)
		memset(t->row[by], 0, coverage_keys(s, by) * sizeof(*t->row[by]));
	if (metric == COVERAGE_MIDDLE)
		events = s->events / 2;
	for (size_t i = 0; i < s->blocks; i++) {
		const struct coverage_block *b = &s->block[i];
		bool counts = true;

		switch (metric) {
		case COVERAGE_LIVE:
		case COVERAGE_LEAKED:
			counts = b->to == COVERAGE_NEVER;
			break;
		case COVERAGE_TEMPORARY:
			counts = b->temporary;
			break;
		case COVERAGE_SURVIVED:
			counts = b->from >= s->events / 4 && b->from < s->events * 3 / 4 &&
				 b->to >= s->events * 3 / 4;
			break;
		case COVERAGE_MIDDLE:
		case COVERAGE_PEAK:
		case COVERAGE_STATED:
			counts = b->from < events && b->to >= events;
			break;
		case COVERAGE_ALLOCATED:
		case COVERAGE_METRICS:
			break;
		}
		if (counts)
			count_block(s, b, t);
	}
}

uint64_t coverage_true_peak(const struct coverage_stream *s)
{
	uint64_t live = 0, most = 0, peak = 0;

	for (size_t e = 0; e < s->events; e++) {
		uint64_t size = s->block[s->event[e] >> 1].size;

		live += s->event[e] & 1 ? -size : size;
		if (live > most) {
			most = live;
			peak = e + 1;
		}
	}
	return peak;
}
