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
	json_array(j, "rows");
	for (size_t i = 0; i < r->rows; i++) {
		const struct rss_row *row = &r->row[i];

		if (row->resident[moment] == 0)
			continue;
		json_object(j, NULL);
		json_text(j, "kind", rss_kind_names[row->kind].key);
		json_text_or_null(j, "name", *row->name ? row->name : NULL);
		put_place(j, r, row->mapper);
		json_bool(j, "several", row->several);
		json_integer(j, "resident", llround(row->resident[moment]));
		json_end(j);
	}
	json_end(j);
}

static void put_moment(struct json *j, const struct rss *r, const struct rss_moment *m)
{
	char line[1024];

	json_object(j, NULL);
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
	json_end(j);
}

static void put_mapped(struct json *j, const struct rss *r, const struct mapped_row *row)
{
	json_object(j, NULL);
	json_text(j, "access", row->access);
	put_place(j, r, row);
	json_array(j, "bytes");
	for (size_t k = 0; k < r->moments; k++)
		json_integer(j, NULL, (int64_t)row->bytes[k]);
	json_end(j);
	json_end(j);
}

static void put_counter(struct json *j, const struct mayfly_counter *c)
{
	json_object(j, NULL);
	json_text(j, "name", c->name);
	json_text(j, "unit", c->unit);
	json_array(j, "time_ns");
	for (size_t i = 0; i < c->points; i++)
		json_integer(j, NULL, c->time_ns[i]);
	json_end(j);
	json_array(j, "value");
	for (size_t i = 0; i < c->points; i++) {
		double value = c->value[i];

		if (value == floor(value) && fabs(value) < 0x1p53)
			json_integer(j, NULL, (int64_t)value);
		else
			json_real(j, NULL, value);
	}
	json_end(j);
	json_end(j);
}

void json_rss(struct json *j, const struct rss *r)
{
	size_t counters = mayfly_trace_info(r->trace)->counters;

	json_text_or_null(j, "allocator", r->allocator);
	json_real(j, "highest_rss", r->highest > 0 ? r->highest : NAN);
	json_array(j, "moments");
	for (size_t i = 0; i < r->moments; i++)
		put_moment(j, r, &r->moment[i]);
	json_end(j);
	json_array(j, "mapped");
	for (size_t i = 0; i < r->mapped.rows; i++)
		put_mapped(j, r, &r->mapped.row[i]);
	json_end(j);
	json_array(j, "counters");
	for (size_t i = 0; i < counters; i++)
		put_counter(j, mayfly_trace_counter(r->trace, i));
	json_end(j);
}
