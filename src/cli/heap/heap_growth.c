/* SPDX-License-Identifier: Apache-2.0 */
/* What grew from picture to picture: see heap_growth.h. */
#include "cli/heap/heap_growth.h"

#include <stdlib.h>
#include <string.h>

#include "answer/text_format.h"
#include "base/array.h"
#include "cli/heap/heap_rows.h"

#define IDENTITY_TEXT 8192

/* ---- series by identity ---- */

static const char *keep(struct heap_growth *g, const char *text)
{
	return demangle_intern(g->texts, text, strlen(text));
}

/* The number of a series, which may be new; INTERNER_NONE: out of memory. */
static uint32_t series_of(struct heap_growth *g, enum heap_series_kind kind, const char *identity)
{
	/* A text is kept once, so its place stands for it. */
	const char *kept = keep(g, identity);
	bool is_new = false;
	uint32_t number = INTERNER_NONE;

	if (kept)
		number = interner_add(&g->numbers,
				      (struct key){{(uint64_t)kind, (uint64_t)(uintptr_t)kept}},
				      &is_new);
	if (number == INTERNER_NONE || !is_new)
		return number;
	if (!array_reserve(&g->series, &g->series_room, number, sizeof(*g->series)))
		return INTERNER_NONE;
	g->series[number] = (struct heap_series){.kind = kind, .name = "", .where = "", .type = ""};
	g->count = number + 1;
	return number;
}

/* Two variables may have one name, as static ones in functions do: they are one series. */
static bool add_total(struct heap_growth *g, uint32_t number, const struct heap_total *total)
{
	struct heap_series *s = &g->series[number];
	size_t moment = g->moments - 1;

	if (!array_reserve_filled(&s->total, &s->room, moment, sizeof(*s->total), 0))
		return false;
	s->total[moment].bytes += total->bytes;
	s->total[moment].blocks += total->blocks;
	return true;
}

static uint32_t series_of_holder(struct heap_growth *g, const struct picture *p, uint32_t holder)
{
	const struct holder *h = &p->holders.holder[holder];
	bool by_address = h->kind == HOLDER_MAPPING && h->address;
	char text[IDENTITY_TEXT];
	struct heap_series *s;
	uint32_t number;

	text_format(text, sizeof(text), "%d %d %llx %s\n%s", (int)h->kind, (int)h->tid,
		    by_address ? (unsigned long long)h->address : 0, h->module,
		    by_address ? "" : h->name);
	number = series_of(g, HEAP_SERIES_HOLDER, text);
	if (number == INTERNER_NONE)
		return number;
	/* A thread may have a new name, a mapping another size. */
	s = &g->series[number];
	s->holder = *h;
	s->holder.name = keep(g, h->name);
	s->holder.module = keep(g, h->module);
	s->holder.thread = keep(g, h->thread);
	s->name = keep(g, holder_text(text, sizeof(text), &p->holders.holder[holder]));
	s->where = keep(g, holder_where(text, sizeof(text), &p->holders.holder[holder]));
	if (!s->holder.name || !s->holder.module || !s->holder.thread || !s->name || !s->where)
		return INTERNER_NONE;
	return number;
}

static int compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t series_of_group(struct heap_growth *g, const struct picture *p,
				const struct heap_row *row)
{
	uint64_t holders = p->shared.group[row->group].holders;
	uint32_t sharer[HEAP_SHARERS_MOST], number;
	char text[IDENTITY_TEXT];
	struct heap_series *s;
	size_t sharers = 0;

	for (unsigned int i = 0; i < p->shared.sharers; i++) {
		if (!(holders >> i & 1))
			continue;
		number = series_of_holder(g, p, p->shared.sharer[i]);
		if (number == INTERNER_NONE)
			return number;
		sharer[sharers++] = number;
	}
	if (sharers)
		qsort(sharer, sharers, sizeof(*sharer), compare_numbers);
	text_format(text, sizeof(text), "%s", holders & HEAP_OTHER_SHARERS ? "others" : "");
	for (size_t i = 0; i < sharers; i++)
		text_append(text, sizeof(text), " %u", sharer[i]);
	number = series_of(g, HEAP_SERIES_SHARED, text);
	if (number == INTERNER_NONE || g->series[number].sharer)
		return number;
	s = &g->series[number];
	s->name = keep(g, heap_row_text(text, sizeof(text), p, row));
	s->sharer = calloc(sharers + 1, sizeof(*s->sharer));
	if (!s->name || !s->sharer)
		return INTERNER_NONE;
	memcpy(s->sharer, sharer, sharers * sizeof(*sharer));
	s->sharers = sharers;
	s->others = holders & HEAP_OTHER_SHARERS;
	return number;
}

static uint32_t series_of_row(struct heap_growth *g, const struct picture *p,
			      const struct heap_row *row)
{
	uint32_t number;

	switch (row->kind) {
	case HEAP_ROW_HOLDER:
		return series_of_holder(g, p, row->holder);
	case HEAP_ROW_SHARED:
		return series_of_group(g, p, row);
	case HEAP_ROW_LOST:
		break;
	}
	number = series_of(g, HEAP_SERIES_LOST, "");
	if (number != INTERNER_NONE)
		g->series[number].name = "nothing: lost";
	return number;
}

static uint32_t series_of_kind(struct heap_growth *g, const struct picture *p,
			       struct heap_kind kind)
{
	char text[IDENTITY_TEXT];
	struct heap_series *s;
	uint32_t number;

	heap_kind_text(text, sizeof(text), p, kind, NULL);
	number = series_of(g, HEAP_SERIES_TYPE, text);
	if (number == INTERNER_NONE)
		return number;
	s = &g->series[number];
	s->name = keep(g, text);
	s->type = kind.type ? s->name : "";
	s->block_bytes = kind.type ? 0 : kind.bytes;
	return s->name ? number : INTERNER_NONE;
}

/* ---- pictures ---- */

/* Keeps one of each `step` pictures, `kept` in all. */
static void keep_moments(struct heap_growth *g, size_t kept, size_t step)
{
	for (size_t i = 0; i < kept; i++)
		g->moment[i] = g->moment[step * i];
	for (size_t k = 0; k < g->count; k++) {
		struct heap_series *s = &g->series[k];

		for (size_t i = 0; i < s->room; i++)
			s->total[i] =
			    i < kept ? heap_series_at(s, step * i) : (struct heap_total){0};
	}
	g->moments = kept;
}

static void make_room(struct heap_growth *g)
{
	/* The last one was there because it was the last one. */
	if (g->moments && (g->taken - 1) & ((1ull << g->stride_log2) - 1))
		keep_moments(g, g->moments - 1, 1);
	if (g->moments == HEAP_MOMENTS_MOST) {
		keep_moments(g, HEAP_MOMENTS_MOST / 2, 2);
		g->stride_log2++;
	}
	g->taken++;
}

static bool add_rows(struct heap_growth *g, const struct picture *p)
{
	struct heap_rows rows;
	bool good = heap_rows_make(&rows, p, 0);

	for (size_t i = 0; good && i < rows.count; i++) {
		uint32_t number = series_of_row(g, p, &rows.row[i]);

		good = number != INTERNER_NONE && add_total(g, number, &rows.row[i].total);
	}
	heap_rows_free(&rows);
	return good;
}

static bool add_kinds(struct heap_growth *g, const struct picture *p)
{
	struct heap_kinds kinds;
	bool good = heap_kinds_find(&p->graph, &kinds);

	for (size_t i = 0; good && i < kinds.count; i++) {
		uint32_t number = series_of_kind(g, p, kinds.sum[i].kind);

		good = number != INTERNER_NONE && add_total(g, number, &kinds.sum[i].own);
	}
	heap_kinds_free(&kinds);
	return good;
}

bool heap_growth_add(struct heap_growth *g, const struct picture *p, int64_t at_ns)
{
	if (!g->texts)
		g->texts = demangle_new();
	make_room(g);
	if (!g->texts ||
	    !array_reserve(&g->moment, &g->moment_room, g->moments, sizeof(*g->moment)))
		return false;
	g->moment[g->moments++] = (struct heap_moment){.at_ns = at_ns,
						       .stopped_ns = p->stopped_ns,
						       .bytes = p->graph.all.bytes,
						       .blocks = p->graph.all.blocks};
	memcpy(g->program, p->program, sizeof(g->program));
	return add_rows(g, p) && add_kinds(g, p);
}

void heap_growth_free(struct heap_growth *g)
{
	for (size_t i = 0; i < g->count; i++) {
		free(g->series[i].sharer);
		free(g->series[i].total);
	}
	free(g->series);
	free(g->moment);
	interner_free(&g->numbers);
	if (g->texts)
		demangle_free(g->texts);
	*g = (struct heap_growth){0};
}

/* ---- what grew ---- */

struct heap_total heap_series_at(const struct heap_series *s, size_t moment)
{
	return moment < s->room ? s->total[moment] : (struct heap_total){0};
}

static double bytes_at(const struct heap_series *s, size_t moment)
{
	return (double)heap_series_at(s, moment).bytes;
}

double heap_series_grown(const struct heap_growth *g, const struct heap_series *s)
{
	return g->moments ? bytes_at(s, g->moments - 1) - bytes_at(s, 0) : 0;
}

/* Fewer than five pictures have no quarters: then since the middle. */
bool heap_series_growing(const struct heap_growth *g, const struct heap_series *s)
{
	size_t last = g->moments - 1, half = last / 2, quarter = (3 * last + 3) / 4;

	if (g->moments < 2 || bytes_at(s, half) >= bytes_at(s, quarter))
		return false;
	return quarter == last || bytes_at(s, quarter) < bytes_at(s, last);
}

double heap_series_rate(const struct heap_growth *g, const struct heap_series *s)
{
	size_t last = g->moments - 1, half = last / 2;
	double seconds;

	if (g->moments < 2)
		return 0;
	seconds = (double)(g->moment[last].at_ns - g->moment[half].at_ns) / 1e9;
	return seconds > 0 ? (bytes_at(s, last) - bytes_at(s, half)) / seconds : 0;
}
