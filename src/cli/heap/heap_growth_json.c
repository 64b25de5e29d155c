/* SPDX-License-Identifier: Apache-2.0 */
/* What grew from picture to picture, as JSON: all rows of all pictures. */
#include "cli/heap/heap_growth_print.h"

#include "terminal/print_json.h"

static void put_moments(struct json *j, const struct heap_growth *g)
{
	JSON_ROWS(j, "pictures", i, i < g->moments) {
		const struct heap_moment *m = &g->moment[i];

		json_integer(j, "time_ns", m->at_ns);
		json_integer(j, "stopped_ns", m->stopped_ns);
		json_unsigned(j, "bytes", m->bytes);
		json_unsigned(j, "blocks", m->blocks);
	}
}

/* A figure of each picture. */
static void put_figures(struct json *j, const struct heap_growth *g, const struct heap_series *s)
{
	JSON_LIST(j, "bytes", i, i < g->moments,
		  json_unsigned(j, NULL, heap_series_at(s, i).bytes));
	JSON_LIST(j, "blocks", i, i < g->moments,
		  json_unsigned(j, NULL, heap_series_at(s, i).blocks));
	json_bool(j, "growing", heap_series_growing(g, s));
}

static void put_series(struct json *j, const struct heap_growth *g, const struct heap_series *s)
{
	switch (s->kind) {
	case HEAP_SERIES_HOLDER:
		heap_json_holder(j, &s->holder);
		break;
	case HEAP_SERIES_SHARED:
		JSON_ROWS(j, "holders", i, i < s->sharers)
			heap_json_holder(j, &g->series[s->sharer[i]].holder);
		json_bool(j, "others", s->others);
		break;
	case HEAP_SERIES_TYPE:
		json_text_or_null(j, "type", s->type);
		json_unsigned_or_null(j, "block_bytes", !*s->type, s->block_bytes);
		break;
	case HEAP_SERIES_LOST:
		break;
	}
	put_figures(j, g, s);
}

static bool has_blocks(const struct heap_growth *g, const struct heap_series *s)
{
	for (size_t i = 0; i < g->moments; i++)
		if (heap_series_at(s, i).blocks)
			return true;
	return false;
}

static void put_all_of(struct json *j, const struct heap_growth *g, enum heap_series_kind kind,
		       const char *key)
{
	JSON_ROWS_WHERE(j, key, i, i < g->count,
			g->series[i].kind == kind && has_blocks(g, &g->series[i]))
		put_series(j, g, &g->series[i]);
}

int heap_growth_print_json(const struct heap_growth *g, pid_t pid)
{
	struct json j = json_document();

	json_unsigned(&j, "pid", (uint64_t)pid);
	json_text_or_null(&j, "program", g->program);
	put_moments(&j, g);
	put_all_of(&j, g, HEAP_SERIES_HOLDER, "held");
	put_all_of(&j, g, HEAP_SERIES_SHARED, "shared");
	for (size_t i = 0; i < g->count; i++)
		if (g->series[i].kind == HEAP_SERIES_LOST) {
			json_object(&j, "lost");
			put_series(&j, g, &g->series[i]);
			json_end(&j);
		}
	put_all_of(&j, g, HEAP_SERIES_TYPE, "types");
	return json_print(&j);
}
