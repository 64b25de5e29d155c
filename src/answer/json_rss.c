/* SPDX-License-Identifier: Apache-2.0 */
/* json_rss.c: what the resident memory consists of as JSON: see rss.h. */
#include <math.h>

#include "answer/json_parts.h"
#include "answer/rss.h"
#include "answer/trace_names.h"

static void put_place(struct json *j, const struct rss *r, const struct mapped_row *row)
{
	const struct mayfly_location *location = row ? row->location : NULL;
	char name[512];

	json_text_or_null(j, "function",
			  row && row->frame
			      ? frame_name(name, sizeof(name), r->trace, row->frame, location)
			      : NULL);
	json_text_or_null(j, "file", location ? location->file : NULL);
	json_integer(j, "line", location ? location->line : 0);
}

static void put_rows(struct json *j, const struct rss *r, size_t moment)
{
	JSON_ROWS_WHERE(j, "rows", i, i < r->rows, r->row[i].resident[moment] != 0) {
		const struct rss_row *row = &r->row[i];

		json_text(j, "kind", rss_kind_names[row->kind].key);
		json_text_or_null(j, "name", *row->name ? row->name : NULL);
		put_place(j, r, row->mapper);
		json_bool(j, "several", row->several);
		json_integer(j, "resident", llround(row->resident[moment]));
	}
}

static void put_moment(struct json *j, const struct rss *r, const struct rss_moment *m)
{
	char line[1024];

	json_text(j, "which", m->which);
	json_integer(j, "time_ns", m->time_ns);
	json_integer(j, "rss", llround(m->rss));
	json_estimate(j, "live", &m->live);
	json_unsigned_or_null(j, "allocator_time_ns", m->allocator_ns >= 0,
			      (uint64_t)m->allocator_ns);
	json_integer(j, "arenas", (int64_t)m->arenas);
	json_integer(j, "stacks", (int64_t)m->stacks);
	json_text_or_null(j, "advice", rss_advice(r, m, line, sizeof(line)) ? line : NULL);
	json_object(j, "parts");
	for (unsigned int i = 0; i < RSS_KINDS; i++)
		json_integer(j, rss_kind_names[i].key, llround(m->kind[i]));
	json_end(j);
	put_rows(j, r, (size_t)(m - r->moment));
	json_object(j, "blocks");
	for (unsigned int i = 0; i < FACTS; i++)
		json_real(j, rss_fact_names[i].key, m->fact[i]);
	json_end(j);
}

static void put_mapped(struct json *j, const struct rss *r, const struct mapped_row *row)
{
	json_text(j, "access", row->access);
	put_place(j, r, row);
	JSON_LIST(j, "bytes", k, k < r->moments, json_integer(j, NULL, (int64_t)row->bytes[k]));
}

static void put_counter(struct json *j, const struct mayfly_counter *c)
{
	json_text(j, "name", c->name);
	json_text(j, "unit", c->unit);
	JSON_LIST(j, "time_ns", i, i < c->points, json_integer(j, NULL, c->time_ns[i]));
	json_array(j, "value");
	for (size_t i = 0; i < c->points; i++) {
		double value = c->value[i];

		if (value == floor(value) && fabs(value) < 0x1p53)
			json_integer(j, NULL, (int64_t)value);
		else
			json_real(j, NULL, value);
	}
	json_end(j);
}

void json_rss(struct json *j, const struct rss *r)
{
	size_t counters = mayfly_trace_info(r->trace)->counters;

	json_text_or_null(j, "allocator", r->allocator);
	json_real(j, "highest_rss", r->highest > 0 ? r->highest : NAN);
	JSON_ROWS(j, "moments", i, i < r->moments)
		put_moment(j, r, &r->moment[i]);
	JSON_ROWS(j, "mapped", i, i < r->mapped.rows)
		put_mapped(j, r, &r->mapped.row[i]);
	JSON_ROWS(j, "counters", i, i < counters)
		put_counter(j, mayfly_trace_counter(r->trace, i));
}
