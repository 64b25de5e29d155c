/* SPDX-License-Identifier: Apache-2.0 */
/* top_json.c: what the terminal shows, for scripts. */
#include "cli/top/top.h"

#include "answer/absent.h"
#include "answer/json_parts.h"
#include "answer/trace_facts.h"
#include "answer/trace_names.h"

static void put_process(struct json *j, const struct top *t)
{
	const struct mayfly_info *info = t->r.file.info;
	static char command[NAME_BYTES];
	uint32_t pid = t->source.pid ? (uint32_t)t->source.pid : info->pid;

	json_text(j, "path", t->source.path);
	json_text(j, "state", top_state_word(t));
	json_unsigned_or_null(j, "pid", pid != 0, pid);
	json_text_or_null(j, "command", command_line(command, sizeof(command), info));
	json_integer(j, "time_ns", info->duration_ns);
	json_text(j, "mode", t->r.exact ? "exact" : "sampled");
	json_unsigned_or_null(j, "interval_bytes", !t->r.exact, info->interval_bytes);
	json_unsigned(j, "samples", trace_samples(info));
	json_unsigned(j, "frees", trace_frees(info));
	json_unsigned(j, "dropped_samples", info->dropped_samples);
}

static void put_figures(struct json *j, const struct top *t)
{
	const struct top_facts *f = &t->facts;

	json_object(j, "summary");
	json_summary(j, &f->summary);
	json_end(j);
	if (f->rss >= 0)
		json_rounded(j, "rss_bytes", f->rss);
	else
		json_null(j, "rss_bytes");
	if (f->rate_ns) {
		json_rounded(j, "allocated_bytes_per_second", f->allocated_rate);
		json_rounded(j, "freed_bytes_per_second", f->freed_rate);
		json_integer(j, "rates_of_ns", f->rate_ns);
	} else {
		json_null(j, "allocated_bytes_per_second");
		json_null(j, "freed_bytes_per_second");
		json_null(j, "rates_of_ns");
	}
	JSON_LIST(j, "live_bytes", i, i < f->steps, json_rounded(j, NULL, f->live[i]));
}

static void put_row(struct json *j, const struct top *t, const struct mayfly_row *row)
{
	json_row_key(j, t->r.file.trace, t->r.q.query.by, row);
	json_estimate(j, t->peak ? "peak" : "live", top_cell(t, row, TOP_LIVE));
	json_estimate(j, "allocated", top_cell(t, row, TOP_ALLOCATED));
	json_estimate(j, "freed", top_cell(t, row, TOP_FREED));
}

int top_print_json(const struct top *t)
{
	const struct top_facts *f = &t->facts;
	struct json j = {.one_line = !t->once};

	json_object(&j, NULL);
	json_unsigned(&j, "schema", JSON_SCHEMA);
	if (t->r.file.info->absent) {
		j.is_null = absent_key;
		j.null_context = t->r.file.info->absent;
	}
	put_process(&j, t);
	put_figures(&j, t);
	json_text(&j, "by", by_names[t->r.q.query.by]);
	json_text(&j, "sort", top_column_names[f->sorted]);
	json_estimate(&j, "total", &f->of[f->sorted]->total);
	JSON_ROWS(&j, "rows", i, i < f->ranking.rows)
		put_row(&j, t, f->ranking.row[i]);
	return json_print_line(&j);
}
