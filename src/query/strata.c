/* SPDX-License-Identifier: Apache-2.0 */
/* strata.c: successive samples of a stratum's line that count for the same sum: see query.h. */
#include "format/strata.h"

#include "base/array.h"
#include "query/query.h"

#include <math.h>
#include <stdlib.h>

#define THREAD_LINE STRATA_CLASSES /* a thread's own line stands behind those of its classes */

/* A sample, as its successors need it. */
struct sample_link {
	uint32_t slot;		/* NONE: the query does not count it */
	uint32_t class, thread; /* the sample before it on its two lines; NONE: it is the first */
	float blocks, rest;	/* R / Z; the share of R^2 that a hit's variance is */
	uint8_t interval_log2;
	uint16_t
	    epoch; /* how often the thread's interval has changed: all groups begin anew then */
};

struct pair_sum {
	double bytes, blocks;
};

/* A line: its first and last sample, and how many it has. */
struct stratum_line {
	uint32_t first, last, samples;
};

struct strata {
	struct sample_link *sample;
	size_t samples, room;
	uint64_t budget;
	struct interner line; /* thread, class */
	struct stratum_line *of_line;
	size_t line_room;
	struct interner pair; /* two slots, or one twice */
	struct pair_sum *pair_sum;
	size_t pair_room;
};

/* ---- lines ---- */

/* Makes `number` the latest sample of a line. Returns the one before it, NONE if it is the first.
 */
static uint32_t advance_line(struct query_state *s, uint32_t thread, uint32_t class,
			     uint32_t number)
{
	struct strata *st = s->strata;
	struct stratum_line *l;
	uint32_t line, before;
	bool is_new;

	line = interner_add(&st->line, (struct key){{thread, class}}, &is_new);
	if (line == NONE ||
	    !array_reserve(&st->of_line, &st->line_room, line, sizeof(*st->of_line))) {
		query_fail(s, MAYFLY_E_MEMORY);
		return NONE;
	}
	l = &st->of_line[line];
	if (is_new)
		*l = (struct stratum_line){.first = number, .last = NONE};
	before = l->last;
	l->last = number;
	l->samples++;
	return before;
}

/* The return address of a block's innermost frame, as far as its class depends on it. */
static uint64_t caller_of(const struct query_state *s, uint32_t node)
{
	uint32_t frame = node && node < s->info->nodes ? s->trace->node[node].frame : NONE;

	return frame < s->info->frames ? s->trace->frame[frame].address + 1 : 0;
}

static void link_sample(struct query_state *s, const struct cursor_batch *b, size_t i,
			uint32_t number)
{
	struct sample_link *l = &s->strata->sample[number];
	uint32_t flags = b->e.alloc_flags[i], log2 = b->e.interval_log2[i];
	struct weight w;

	*l = (struct sample_link){.slot = NONE, .class = NONE, .thread = NONE};
	if (b->e.hits[i] == 0 || flags & (MAYFLY_FLAG_INHERITED | MAYFLY_FLAG_THINNED) ||
	    mayfly_heap_is_ocaml(MAYFLY_FLAG_HEAP(flags)))
		return;
	w = weigh_sample(MAYFLY_STRATIFIED, exp2(log2), b->e.size[i], 1);
	l->blocks = (float)w.blocks;
	l->rest = (float)(w.variance_bytes / (w.bytes * w.bytes));
	l->interval_log2 = (uint8_t)log2;
	l->thread = advance_line(s, b->e.thread[i], THREAD_LINE, number);
	if (l->thread != NONE) {
		const struct sample_link *before = &s->strata->sample[l->thread];

		l->epoch = (uint16_t)(before->epoch + (before->interval_log2 != log2));
	}
	l->class = advance_line(s, b->e.thread[i],
				strata_class(b->e.size[i], caller_of(s, b->e.node[i])), number);
}

/* More samples than this have small errors anyway, and links take 24 bytes for each. */
#define MOST_LINKED (1u << 22)

/* A trace with too many samples is no error: those after the first ones stay without links. */
static bool has_room(struct strata *st)
{
	return st->samples < st->room ||
	       (st->samples < MOST_LINKED && 4 * st->samples * sizeof(*st->sample) < st->budget &&
		array_reserve(&st->sample, &st->room, st->samples, sizeof(*st->sample)));
}

void strata_note(struct query_state *s, const struct cursor_batch *b)
{
	struct strata *st = s->strata;

	if (!st || b->e.first_sample != st->samples)
		return;
	for (size_t i = 0; i < b->e.allocs && !s->error && has_room(st); i++)
		link_sample(s, b, i, (uint32_t)st->samples++);
}

void strata_count(struct query_state *s, uint64_t number, uint32_t slot)
{
	if (s->strata && number < s->strata->samples)
		s->strata->sample[number].slot = slot;
}

/* ---- pairs ---- */

static void add_pair(struct query_state *s, uint32_t a, uint32_t b, struct pair_sum sum)
{
	struct strata *st = s->strata;
	uint32_t number;
	bool is_new;

	number = interner_add(&st->pair, (struct key){{a < b ? a : b, a < b ? b : a}}, &is_new);
	if (number == NONE ||
	    !array_reserve(&st->pair_sum, &st->pair_room, number, sizeof(*st->pair_sum))) {
		query_fail(s, MAYFLY_E_MEMORY);
		return;
	}
	if (is_new)
		st->pair_sum[number] = (struct pair_sum){0};
	st->pair_sum[number].bytes += sum.bytes;
	st->pair_sum[number].blocks += sum.blocks;
}

/* Pairs a sample with the one before it on a line, which stands for `share` of its variance. */
static void join(struct query_state *s, const struct sample_link *l, uint32_t before, double share)
{
	const struct sample_link *p = before == NONE ? NULL : &s->strata->sample[before];
	double r = exp2(l->interval_log2);

	if (!p || p->slot == NONE || p->epoch != l->epoch)
		return;
	share *= fminf(p->rest, l->rest);
	add_pair(s, l->slot, p->slot,
		 (struct pair_sum){share * r * r, share * p->blocks * l->blocks});
}

/*
 * A run of successive samples that count is taken for one group's variance: R^2, as sparse samples
 * need. When the run begins or ends with its line, the groups there are simply not full, and have
 * R^2 / 6 on average instead of up to R^2. A short line does not show that it is such a run.
 */
#define LONG_LINE 8
#define LINE_END  0.4

static void join_ends(struct query_state *s, const struct stratum_line *line, bool of_thread)
{
	const uint32_t ends[2] = {line->first, line->last};

	for (int i = 0; i < 2 && line->samples >= LONG_LINE; i++) {
		const struct sample_link *l = &s->strata->sample[ends[i]];
		double one = exp2(-(double)strata_group_log2(l->interval_log2));
		double r = exp2(l->interval_log2);
		double share = LINE_END * l->rest * (of_thread ? one : 1 - one);

		if (l->slot != NONE)
			add_pair(s, l->slot, l->slot,
				 (struct pair_sum){share * r * r, share * l->blocks * l->blocks});
	}
}

bool strata_join(struct query_state *s)
{
	struct strata *st = s->strata;

	for (size_t i = 0; st && i < st->samples && !s->error; i++) {
		const struct sample_link *l = &st->sample[i];
		double one = exp2(-(double)strata_group_log2(l->interval_log2));

		if (l->slot == NONE)
			continue;
		join(s, l, l->class, 1 - one);
		join(s, l, l->thread, one);
	}
	for (size_t i = 0; st && i < st->line.count && !s->error; i++)
		join_ends(s, &st->of_line[i], st->line.key[i].word[1] == THREAD_LINE);
	if (st) {
		free(st->sample);
		st->sample = NULL;
		st->samples = st->room = 0;
	}
	return !s->error;
}

bool strata_next_pair(const struct query_state *s, size_t *at, struct strata_pair *pair)
{
	const struct strata *st = s->strata;

	if (!st || *at >= st->pair.count)
		return false;
	*pair = (struct strata_pair){
	    .slot = {(uint32_t)st->pair.key[*at].word[0], (uint32_t)st->pair.key[*at].word[1]},
	    .bytes = st->pair_sum[*at].bytes,
	    .blocks = st->pair_sum[*at].blocks,
	};
	++*at;
	return true;
}

/* ---- begin and end ---- */

bool strata_begin(struct query_state *s)
{
	if (s->exact || !s->info->grouped || s->info->sampler != MAYFLY_STRATIFIED)
		return true;
	s->strata = query_zeroed(s, 1, sizeof(*s->strata));
	if (s->strata)
		s->strata->budget = trace_budget(s->trace);
	return s->strata != NULL;
}

void strata_end(struct query_state *s)
{
	if (!s->strata)
		return;
	free(s->strata->sample);
	interner_free(&s->strata->line);
	free(s->strata->of_line);
	interner_free(&s->strata->pair);
	free(s->strata->pair_sum);
	free(s->strata);
	s->strata = NULL;
}
