/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and what answers them: see view.h. */
#include "view/view.h"

#include <string.h>

#include "answer/absent.h"
#include "view/answers.h"

static const struct {
	const char *name;
	view_json *json; /* or: */
	view_bytes *bytes;
	bool of_picture; /* can be asked of the picture of the heap */
} requests[] = {
    {"info", view_info},
    {"overview", view_overview, .of_picture = true},
    {"rows", view_rows, .of_picture = true},
    {"curve", view_curve},
    {"series", view_series},
    {"grown", view_grown},
    {"histogram", view_histogram},
    {"leaks", view_leaks, .of_picture = true},
    {"spans", view_spans},
    {"events", view_events},
    {"churn", view_churn},
    {"reallocs", view_reallocs},
    {"survival", view_survival},
    {"rss", view_rss},
    {"fragmentation", view_fragmentation},
    {"source", view_source, .of_picture = true},
    {"export", .bytes = view_export},
    {"file", .bytes = view_file},
    {"basefile", .bytes = view_basefile},
    {"diff", view_diff, .of_picture = true},
    {"changes", view_changes, .of_picture = true},
    {"tree", .bytes = view_tree, .of_picture = true},
    {"difftree", .bytes = view_difftree, .of_picture = true},
    {"callers", view_callers, .of_picture = true},
    {"lanes", view_lanes},
    {"counters", view_counters},
    {"heat", view_heat},
    {"held", view_held, .of_picture = true},
};

#define REQUESTS (sizeof(requests) / sizeof(requests[0]))

static void refuse(struct view_answer *a, enum view_status status, const char *text)
{
	struct json j = {.one_line = true};

	bytes_free(&a->bytes);
	json_object(&j, NULL);
	json_text(&j, "error", text);
	json_end(&j);
	*a = (struct view_answer){status, "application/json", j.bytes};
}

static void refuse_error(struct view_answer *a, const struct request *r, int error)
{
	uint32_t absent = mayfly_query_absent(r->trace, &r->q.query);
	const char *needs = question_needs_blocks(&r->q);
	char text[512], names[256];

	if (error == MAYFLY_E_RANGE && (!strcmp(r->name, "diff") || !strcmp(r->name, "changes"))) {
		refuse(a, VIEW_BAD_REQUEST, "There is no trace to compare with.");
		return;
	}
	if (error == MAYFLY_E_RANGE && r->q.query.from_ns > r->info->duration_ns) {
		refuse(a, VIEW_BAD_REQUEST, "The recording ended before the chosen time.");
		return;
	}
	if (error == MAYFLY_E_RANGE && r->format) {
		text_format(text, sizeof(text),
			    "%s files of this cannot be written here; see "
			    "'mayfly export --help'.",
			    r->format);
		refuse(a, VIEW_BAD_REQUEST, text);
		return;
	}
	if (error != MAYFLY_E_ABSENT) {
		refuse(a, error == MAYFLY_E_RANGE ? VIEW_BAD_REQUEST : VIEW_FAILED,
		       mayfly_error_text(error));
		return;
	}
	if (r->q.query.metric == MAYFLY_IN_PICTURE && !mayfly_trace_picture(r->trace))
		text_format(text, sizeof(text),
			    "The trace has no picture of the heap; 'mayfly ctl PID heap' takes one "
			    "while the program is recorded.");
	else if (absent)
		text_format(text, sizeof(text), "The file that it comes from does not have %s.",
			    absent_text(names, sizeof(names), absent));
	else if (r->info->snapshot_ns && needs)
		text_format(text, sizeof(text), "Snapshots have no single blocks, which %s needs.",
			    needs);
	else
		text_format(text, sizeof(text), "The trace does not hold what this needs.");
	refuse(a, VIEW_ABSENT, text);
}

static int answer_json(struct request *r, view_json *put, struct view_answer *a)
{
	struct json j = {.one_line = true};
	int error;

	if (r->info->absent) {
		j.is_null = absent_key;
		j.null_context = r->info->absent;
	}
	json_object(&j, NULL);
	error = put(r, &j);
	json_end(&j);
	a->type = "application/json";
	a->bytes = j.bytes;
	return error;
}

static void answer(struct request *r, struct view_answer *a)
{
	for (size_t i = 0; i < REQUESTS; i++) {
		int error;

		if (strcmp(r->name, requests[i].name) != 0)
			continue;
		if (question_asks_picture(&r->q) && !requests[i].of_picture) {
			refuse(a, VIEW_BAD_REQUEST,
			       "This cannot be asked of the picture of the heap, which has one "
			       "moment.");
			return;
		}
		a->status = VIEW_OK;
		error = requests[i].json ? answer_json(r, requests[i].json, a)
					 : requests[i].bytes(r, a);
		if (!error && a->bytes.failed)
			error = MAYFLY_E_MEMORY;
		if (error)
			refuse_error(a, r, error);
		return;
	}
	refuse(a, VIEW_NOT_FOUND, "There is no such request.");
}

void view_ask(const struct view *view, const char *request, struct view_answer *a)
{
	struct error_line c = {0};
	struct request r;

	*a = (struct view_answer){0};
	if (request_parse(&r, view, request, &c))
		answer(&r, a);
	else
		refuse(a, VIEW_BAD_REQUEST, c.text);
	request_free(&r);
}
