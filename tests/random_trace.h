/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random small traces with all kinds of stacks: recursion, inlining, marks, unknown functions,
 * equal names in several modules, frames that print the same. And random questions to them.
 */
#ifndef MAYFLY_RANDOM_TRACE_H
#define MAYFLY_RANDOM_TRACE_H

#include "test.h"
#include "trace/write/writer.h"

#include <string.h>

/* ---- random traces ---- */

static uint64_t random_state;

static inline uint64_t random_bits(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint32_t below(uint32_t limit)
{
	return (uint32_t)(random_bits() % limit);
}

static const char *const function_names[] = {"main",	 "parse", "grow",  "push<int>",
					     "read_row", "visit", "alloc", ""};
static const char *const file_names[] = {"a.c", "src/b.cc", "c.h", ""};
static const char *const module_names[] = {"/bin/prog", "/lib/libx.so", "/lib/liby.so"};
static const char *const thread_names[] = {"main", "worker", "io"};

/* A block of a trace that is to be written. */
struct sample {
	int64_t time_ns, free_ns; /* INT64_MAX: never */
	struct trace_block block;
	uint32_t free_thread, free_flags;
};

struct source {
	struct recording *r;
	struct sample *sample;
	size_t samples;
	uint32_t mode, sampler, interval_log2;
};

static inline uint32_t intern(struct recording *r, const char *text)
{
	return recording_string(r, text, strlen(text));
}

static inline void add_modules_and_threads(struct recording *r)
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

static inline void add_code_frame(struct recording *r)
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

static inline void add_frames(struct recording *r)
{
	for (int i = 0; i < 24; i++)
		add_code_frame(r);
	recording_frame(r, MAYFLY_FRAME_TRUNCATED, RECORDING_NONE, 0);
	recording_frame(r, MAYFLY_FRAME_ELIDED, RECORDING_NONE, 77);
	recording_frame(r, MAYFLY_FRAME_ELIDED, RECORDING_NONE, 78);
}

static inline void add_nodes(struct recording *r, uint32_t count)
{
	recording_node(r, 0, 24); /* a truncated stack's root */
	for (uint32_t i = 0; i < count; i++) {
		uint32_t parent = below((uint32_t)r->nodes);

		recording_node(r, parent, below(10) == 0 && parent ? 25 + below(2) : below(24));
	}
}

static const char *const label_keys[] = {"tenant", "phase"};
static const char *const label_values[] = {"a", "b", "load", ""};

/* Set 1 to 8; some keys are there twice. */
static inline void add_label_sets(struct recording *r)
{
	while (r->label_sets < 9) {
		struct recording_label label[3];
		uint32_t count = 1 + below(3);

		for (uint32_t i = 0; i < count; i++)
			label[i] = (struct recording_label){intern(r, label_keys[below(2)]),
							    intern(r, label_values[below(4)])};
		recording_labels(r, label, count);
	}
}

/* Times are multiples of what every kind of trace can hold. */
#define TICK 10000

static inline void add_samples(struct source *s, uint32_t count)
{
	bool exact = s->mode == MAYFLY_EXACT;
	int64_t now = 0;

	free(s->sample);
	s->sample = calloc(count + 1, sizeof(*s->sample));
	s->samples = count;
	for (uint32_t i = 0; i < count; i++) {
		struct sample *p = &s->sample[i];
		struct trace_block *b = &p->block;

		now += below(3) == 0 ? 0 : below(100) * TICK;
		*p = (struct sample){.time_ns = now, .free_ns = INT64_MAX};
		b->thread = below(5);
		b->node = below((uint32_t)s->r->nodes);
		b->labels = below((uint32_t)s->r->label_sets);
		b->size = below(4) == 0 ? below(3000000) : 1 + below(5000);
		b->interval_log2 = exact ? 0 : (uint8_t)(13 + below(2));
		if (!exact && b->size < 1ull << b->interval_log2) {
			b->size += b->size == 0;
			b->hits = 1 + (below(9) == 0);
			if (s->sampler == MAYFLY_POISSON)
				b->hits = 1;
		}
		if (below(3)) {
			p->free_ns = now + (below(4) ? below(10000) * TICK : below(3) * TICK);
			p->free_thread = below(2) ? b->thread : below(5);
			p->free_flags = below(3) ? 0 : MAYFLY_FLAG_TEMPORARY;
		}
	}
	s->r->info.duration_ns = now + 200000000;
}

static inline struct source random_source(uint64_t seed)
{
	struct source s = {.r = recording_new()};

	random_state = seed;
	s.mode = below(3) == 0 ? MAYFLY_EXACT : MAYFLY_SAMPLED;
	s.sampler = below(3) ? MAYFLY_STRATIFIED : MAYFLY_POISSON;
	s.interval_log2 = s.mode == MAYFLY_EXACT ? 0 : 13;
	add_modules_and_threads(s.r);
	add_frames(s.r);
	add_nodes(s.r, 40 + below(80));
	if (below(3))
		add_label_sets(s.r);
	add_samples(&s, below(300));
	return s;
}

static inline void free_source(struct source *s)
{
	recording_free(s->r);
	free(s->sample);
}

struct happening {
	int64_t time_ns;
	size_t order, sample;
	bool is_free;
};

static inline int compare_happenings(const void *a, const void *b)
{
	const struct happening *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static inline struct happening *list_happenings(const struct source *s, size_t *count)
{
	struct happening *h = calloc(2 * s->samples + 1, sizeof(*h));

	*count = 0;
	for (size_t i = 0; i < s->samples; i++) {
		h[*count] = (struct happening){s->sample[i].time_ns, *count, i, false};
		++*count;
		if (s->sample[i].free_ns == INT64_MAX)
			continue;
		h[*count] = (struct happening){s->sample[i].free_ns, *count, i, true};
		++*count;
	}
	qsort(h, *count, sizeof(*h), compare_happenings);
	return h;
}

struct opened {
	struct trace_buffer buffer;
	struct mayfly_trace *trace;
};

static inline void write_happening(struct trace_writer *w, const struct source *s,
				   const struct happening *h, uint64_t *serial)
{
	const struct sample *p = &s->sample[h->sample];
	int error;

	if (h->is_free)
		error = trace_writer_free(w, h->time_ns, serial[h->sample], &p->block,
					  p->free_thread, p->free_flags);
	else
		error = trace_writer_alloc(w, h->time_ns, &p->block, &serial[h->sample]);
	CHECK(error == 0, "%s", mayfly_error_text(error));
}

/* chunk: a chunk ends about so often, to have several of them. between: writes what else there is,
 * before each event and behind the last one; NULL: nothing. */
static inline struct opened
open_source_with(const struct source *s, int64_t snapshot_ns, uint32_t chunk,
		 void (*between)(struct trace_writer *w, int64_t now_ns))
{
	struct trace_writer_options options = {.mode = s->mode,
					       .sampler = s->sampler,
					       .interval_log2 = s->interval_log2,
					       .snapshot_ns = snapshot_ns,
					       .level = 1};
	struct opened o = {0};
	struct trace_writer *w = trace_writer_new(&options, s->r, trace_buffer_sink, &o.buffer);
	uint64_t *serial = calloc(s->samples + 1, sizeof(*serial));
	size_t count;
	struct happening *h = list_happenings(s, &count);
	int error;

	for (size_t i = 0; i < count; i++) {
		if (between)
			between(w, h[i].time_ns);
		write_happening(w, s, &h[i], serial);
		if (chunk && below(chunk) == 0)
			CHECK(trace_writer_flush(w) == 0);
	}
	if (between)
		between(w, s->r->info.duration_ns);
	s->r->info.complete = true;
	error = trace_writer_finish(w);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	trace_writer_free_all(w);
	error = mayfly_trace_open(o.buffer.bytes, o.buffer.used, &o.trace);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	free(serial);
	free(h);
	return o;
}

static inline struct opened open_source(const struct source *s, int64_t snapshot_ns, uint32_t chunk)
{
	return open_source_with(s, snapshot_ns, chunk, NULL);
}

static inline void close_opened(struct opened *o)
{
	mayfly_trace_close(o->trace);
	free(o->buffer.bytes);
}

/* ---- random questions ---- */

static int matcher_calls; /* how often matchers were called */

static inline int contains(void *context, const char *text)
{
	matcher_calls++;
	return strstr(text, context) != NULL;
}

static inline struct mayfly_match random_match(void)
{
	static char *const words[] = {"parse", "grow", ".c",	"libx",
				      "lib",   "src/", "<int>", "main"};

	return (struct mayfly_match){contains, words[below(8)]};
}

static inline struct mayfly_query random_query(const struct mayfly_info *info)
{
	static char *const threads[] = {"io", "101", "w", "10"};
	static char *const labels[] = {"tenant=a", "phase=", "load", "=b"};
	static const enum mayfly_by bys[] = {
	    MAYFLY_BY_FUNCTION, MAYFLY_BY_LINE, MAYFLY_BY_STACK,    MAYFLY_BY_MODULE,
	    MAYFLY_BY_THREAD,	MAYFLY_BY_SIZE, MAYFLY_BY_LIFETIME, MAYFLY_BY_FREEING_THREAD,
	    MAYFLY_BY_THREADS,	MAYFLY_BY_LABEL};
	uint32_t duration = (uint32_t)(info->duration_ns > 1 ? info->duration_ns : 1);
	struct mayfly_query q;

	mayfly_query_defaults(&q);
	q.metric = (enum mayfly_metric)below(MAYFLY_SURVIVED + 1);
	q.by = bys[below(sizeof(bys) / sizeof(*bys))];
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
	if (below(5) == 0)
		q.label = (struct mayfly_match){contains, labels[below(4)]};
	if (below(2))
		q.label_key = label_keys[below(2)];
	return q;
}

#endif
