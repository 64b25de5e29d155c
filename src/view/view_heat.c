/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size by lifetime: "metric", "time_ns", "total", "sizes", "lifetimes", "cells". Each class has its
 * sum and the options that keep just its blocks; the first option of one class and the second of a
 * later one keep what lies between them. Each list of cells is by size, then by lifetime.
 */
#include <inttypes.h>

#include "answer/json_parts.h"
#include "answer/query_words.h"
#include "answer/text_format.h"
#include "query/heat.h"
#include "view/answers.h"

/* The longest time that options take, in words that stay short: only blocks that are never freed
 * live longer. */
#define NEVER_FREED_OPTION "1000000h"

static void put_option(struct json *j, const char *key, uint64_t value, const char *unit)
{
	char text[32];

	json_text(j, key, text_format(text, sizeof(text), "%" PRIu64 "%s", value, unit));
}

/* Sizes of a class are above `low`, up to `high`; the first class begins with 0. */
static void put_size(struct json *j, const struct heat_class *c)
{
	json_integer(j, "low", c->low);
	json_bound(j, "high", c->high);
	if (c->low > 0)
		put_option(j, "min_size", (uint64_t)c->low + 1, "");
	else
		json_null(j, "min_size");
	if (c->high < INT64_MAX)
		put_option(j, "max_size", (uint64_t)c->high, "");
	else
		json_null(j, "max_size");
	json_estimate(j, "sum", &c->sum);
}

/* Lifetimes of a class are at least `low` and below `high`. */
static void put_lifetime(struct json *j, const struct heat_class *c)
{
	bool never = c->low == INT64_MAX;

	json_bool(j, "never", never);
	json_bound(j, "low_ns", c->low);
	json_bound(j, "high_ns", c->high);
	if (never)
		json_text(j, "min_lifetime", NEVER_FREED_OPTION);
	else if (c->low > 0)
		put_option(j, "min_lifetime", (uint64_t)c->low, "ns");
	else
		json_null(j, "min_lifetime");
	if (never || c->high >= INT64_MAX - 1)
		json_null(j, "max_lifetime");
	else
		put_option(j, "max_lifetime", (uint64_t)c->high - 1, "ns");
	json_estimate(j, "sum", &c->sum);
}

enum cell_list { CELL_BYTES, CELL_STDERR, CELL_LOW, CELL_HIGH, CELL_BLOCKS, CELL_SAMPLES, CELLS };

static void put_cell(struct json *j, const struct mayfly_estimate *e, enum cell_list list)
{
	switch (list) {
	case CELL_BYTES:
		json_rounded(j, NULL, e->bytes.estimate);
		break;
	case CELL_STDERR:
		json_rounded(j, NULL, e->bytes.stderror);
		break;
	case CELL_LOW:
		json_rounded(j, NULL, e->bytes.low);
		break;
	case CELL_HIGH:
		json_rounded(j, NULL, e->bytes.high);
		break;
	case CELL_BLOCKS:
		json_rounded(j, NULL, e->blocks.estimate);
		break;
	case CELL_SAMPLES:
		json_unsigned(j, NULL, e->samples);
		break;
	case CELLS:
		break;
	}
}

static void put_heat(struct json *j, const struct heat *heat)
{
	static const char *const names[] = {"bytes",	  "bytes_stderr", "bytes_low",
					    "bytes_high", "blocks",	  "samples"};

	JSON_ROWS(j, "sizes", i, i < heat->sizes)
		put_size(j, &heat->size[i]);
	JSON_ROWS(j, "lifetimes", i, i < heat->lifetimes)
		put_lifetime(j, &heat->lifetime[i]);
	json_object(j, "cells");
	for (int list = 0; list < CELLS; list++) {
		json_array(j, names[list]);
		for (size_t i = 0; i < heat->sizes * heat->lifetimes; i++)
			put_cell(j, &heat->cell[i], (enum cell_list)list);
		json_end(j);
	}
	json_end(j);
}

int view_heat(struct request *r, struct json *j)
{
	struct heat *heat;
	int error;

	r->q.query.by = MAYFLY_BY_LIFETIME; /* what the message says where there are none */
	error = heat_run(r->trace, &r->q.query, &heat);
	if (error)
		return error;
	json_text(j, "metric", metric_names[r->q.query.metric]);
	json_integer(j, "time_ns", heat->time_ns);
	json_estimate(j, "total", &heat->total);
	put_heat(j, heat);
	heat_free(heat);
	return 0;
}
