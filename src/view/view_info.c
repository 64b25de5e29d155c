/* SPDX-License-Identifier: Apache-2.0 */
/* What the trace is, and what the report without options says of it. */
#include <stdlib.h>
#include <string.h>

#include "answer/bad_chunks.h"
#include "answer/caveats.h"
#include "answer/headline.h"
#include "answer/hints.h"
#include "answer/json_parts.h"
#include "answer/own_code.h"
#include "answer/picture_headline.h"
#include "answer/text_format.h"
#include "query/query_two.h"
#include "view/answers.h"

#define OVERVIEW_ROWS 12

/* The newest name of the program: the last part of its path, or of the file's. */
static const char *program_name(const struct mayfly_info *info, const char *path)
{
	const char *name = *info->program	 ? info->program
			   : info->command_count ? info->command[0]
			   : path		 ? path
						 : "";
	const char *slash = strrchr(name, '/');

	return slash ? slash + 1 : name;
}

static void put_counters(struct json *j, const struct mayfly_trace *trace, size_t count)
{
	JSON_ROWS(j, "counters", i, i < count) {
		const struct mayfly_counter *c = mayfly_trace_counter(trace, i);

		json_text(j, "name", c->name);
		json_text(j, "unit", c->unit);
	}
}

/* As the terminal says them, each in a line that begins with its title. */
static void put_notes(struct json *j, const struct mayfly_trace *trace)
{
	char line[CAVEAT_BYTES + 32];
	const size_t size = sizeof(line);

	json_array(j, "notes");
	if (*bad_chunks_text(line, size, trace))
		json_text(j, NULL, line);
	for (int kind = 0; kind < CAVEATS; kind++) {
		const char *title = caveat_title((enum caveat_kind)kind);
		size_t used = strlen(text_format(line, size, "%s: ", title));

		if (*caveat_text(line + used, size - used, trace, (enum caveat_kind)kind))
			json_text(j, NULL, line);
	}
	for (unsigned i = 0; i < HINTS; i++) {
		size_t used = strlen(text_format(line, size, "Hint: "));

		if (*hint_text(line + used, size - used, trace, i))
			json_text(j, NULL, line);
	}
	json_end(j);
	json_text_or_null(j, "resident", resident_text(line, size, trace));
}

static void put_picture(struct json *j, const struct mayfly_picture *p)
{
	char headline[HEADLINE_BYTES];

	if (!p) {
		json_null(j, "picture");
		return;
	}
	json_object(j, "picture");
	json_text_or_null(j, "headline", picture_headline_text(headline, sizeof(headline), p));
	json_integer(j, "time_ns", p->time_ns);
	json_integer(j, "stopped_ns", p->stopped_ns);
	json_unsigned(j, "bytes", p->bytes);
	json_unsigned(j, "blocks", p->blocks);
	json_end(j);
}

static int put_trace(struct json *j, const struct mayfly_trace *trace, const char *path,
		     bool sources)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_summary s;
	struct own_code own = {0};
	int error = mayfly_trace_summary(trace, &s);

	if (error)
		return error;
	json_text(j, "file", path ? path : "");
	json_text(j, "program", program_name(info, path));
	JSON_LIST(j, "command", i, i < info->command_count, json_text(j, NULL, info->command[i]));
	json_object(j, "info");
	json_info(j, trace, &s, info->file_bytes);
	json_end(j);
	json_object(j, "summary");
	json_summary(j, &s);
	json_end(j);
	put_counters(j, trace, info->counters);
	put_notes(j, trace);
	put_picture(j, mayfly_trace_picture(trace));
	json_text_or_null(j, "interpreted", own_code_interpreted(&own, trace) ?: "");
	json_bool(j, "sources", sources);
	return 0;
}

int view_info(struct request *r, struct json *j)
{
	const struct view *v = r->view;
	int error = put_trace(j, v->trace, v->path, v->source != NULL);

	if (error)
		return error;
	if (!v->base) {
		json_null(j, "base");
		return 0;
	}
	json_object(j, "base");
	error = put_trace(j, v->base, v->base_path, false);
	json_end(j);
	return error;
}

static void put_ranked(struct json *j, const char *key, const struct request *r,
		       const struct mayfly_query *query, const struct ranking *ranking)
{
	JSON_ROWS(j, key, i, i < ranking->rows)
		json_row(j, r->trace, query->by, ranking->row[i]);
}

static bool put_tables(struct json *j, struct request *r, const struct mayfly_query query[2],
		       struct mayfly_result *const result[2])
{
	const struct caller_question question = {r->trace, &query[0], &r->q.own};
	char headline[HEADLINE_BYTES];
	struct ranking ranking = {0};
	bool done;

	done = rank_rows(&query[0], result[0],
			 (struct rank_options){.top = OVERVIEW_ROWS, .sorted = true}, &ranking);
	if (done)
		put_ranked(j, "functions", r, &query[0], &ranking);
	free(ranking.row);
	ranking = (struct ranking){0};
	done = done && rank_callers(&question, result[0], result[1], OVERVIEW_ROWS, &ranking);
	if (done) {
		put_ranked(j, "callers", r, &query[0], &ranking);
		headline_text(headline, sizeof(headline), true, &question,
			      &(struct headline_answers){result[0], result[1], &ranking});
		json_text_or_null(j, "headline", headline);
	}
	free(ranking.row);
	ranking = (struct ranking){0};
	done = done &&
	       rank_rows(&query[1], result[1],
			 (struct rank_options){.top = OVERVIEW_ROWS, .sorted = true}, &ranking);
	if (done)
		put_ranked(j, "stacks", r, &query[1], &ranking);
	free(ranking.row);
	return done;
}

int view_overview(struct request *r, struct json *j)
{
	struct mayfly_query query[2] = {r->q.query, r->q.query};
	struct mayfly_result *result[2];
	int error;

	query[0].by = MAYFLY_BY_FUNCTION;
	query[1].by = MAYFLY_BY_STACK;
	query[1].stack_rows = r->info->mode == MAYFLY_EXACT ? CALLERS_SEARCH_STACKS : 0;
	error = query_run_two(r->trace, query, result);
	if (error)
		return error;
	json_integer(j, "time_ns", result[0]->time_ns);
	json_estimate(j, "total", &result[0]->total);
	if (!put_tables(j, r, query, result))
		error = MAYFLY_E_MEMORY;
	mayfly_result_free(result[0]);
	mayfly_result_free(result[1]);
	return error;
}
