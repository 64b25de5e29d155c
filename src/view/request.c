/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: see request.h. */
#include "view/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/percent.h"

static const char *const class_names[] = {"size", "lifetime", NULL};
/* As enum request_merge. */
static const char *const merge_names[] = {"none", "function", "line", NULL};

static bool take_share(const struct given *given, void *to)
{
	char *end;
	double share = strtod(given->value, &end);

	if (end == given->value || *end || !(share >= 0 && share <= 1))
		return error_say(given->error_line, "%s: '%s' is not a share from 0 to 1",
				 given->option, given->value);
	*(double *)to = share;
	return true;
}

static const struct option_row request_rows[] = {
    OPTION_GROUP(question_metric_rows, struct request, q),
    OPTION_GROUP(question_window_rows, struct request, q),
    OPTION_GROUP(question_by_rows, struct request, q),
    OPTION_GROUP(question_sort_rows, struct request, q),
    OPTION_GROUP(question_filter_rows, struct request, q),
    OPTION_GROUP(question_picture_rows, struct request, q),
    OPTION_FRAMES(struct request, q.hidden.frames, FRAMES_OWN_HELP),
    {"top", .argument = "N", OPTION_COUNT(struct request, top),
     OPTION_GIVEN(struct request, top_given)},
    {"skip", .argument = "N", OPTION_COUNT(struct request, skip)},
    {"points", .argument = "N", .least = 1, .most = VIEW_MOST_POINTS,
     OPTION_COUNT(struct request, points)},
    {"width", .argument = "N", .least = 1, .most = 16384, OPTION_COUNT(struct request, width)},
    {"depth", .argument = "N", OPTION_COUNT(struct request, depth)},
    {"classes", .argument = "CLASSES", OPTION_CHOICE(class_names, struct request, classes)},
    {"merge", .argument = "HOW", OPTION_CHOICE(merge_names, struct request, merge)},
    {"least", .argument = "SHARE", OPTION_IN(take_share, double, struct request, least)},
    {"function", .argument = "NAME", OPTION_TEXT(struct request, function)},
    {"file", .argument = "PATH", OPTION_FILE(struct request, file)},
    {"format", .argument = "FORMAT", OPTION_FILE(struct request, format)},
    {"invert", OPTION_FLAG(struct request, invert)},
    {"recursion", OPTION_FLAG(struct request, recursion)},
    {"blocks", OPTION_FLAG(struct request, blocks)},
    {"extremes", OPTION_FLAG(struct request, extremes)},
    OPTION_END,
};

/* A flag is "1"; a question's parameter without a value is an empty text. */
static bool take_parameter(struct request *r, const struct flat_row *flat, size_t rows,
			   const char *name, const char *value, struct error_line *c)
{
	for (size_t i = 0; i < rows; i++) {
		const struct option_row *row = flat[i].row;

		if (!row->name || strcmp(row->name, name) != 0)
			continue;
		if (!row->argument && strcmp(value, "1") != 0)
			return strcmp(value, "0") == 0 ||
			       error_say(c, "%s: '%s' is neither 0 nor 1", name, value);
		return option_row_take(&flat[i], name, value, r, c);
	}
	return error_say(c, "unknown parameter '%s'", name);
}

static bool take_parameters(struct request *r, char *list, struct error_line *c)
{
	struct flat_row flat[MOST_OPTIONS];
	size_t rows = option_rows_flatten(request_rows, 0, flat, 0);

	for (char *next; list && *list; list = next) {
		char *end = strchr(list, '&'), *equals;

		next = end ? end + 1 : NULL;
		if (end)
			*end = 0;
		if (!*list)
			continue;
		equals = strchr(list, '=');
		if (equals)
			*equals = 0;
		if (!percent_decode(list) || (equals && !percent_decode(equals + 1)))
			return error_say(c, "a parameter is not encoded as in a URL");
		if (!take_parameter(r, flat, rows, list, equals ? equals + 1 : "", c))
			return false;
	}
	return true;
}

bool request_parse(struct request *r, const struct view *view, const char *request,
		   struct error_line *c)
{
	char *parameters;

	*r = (struct request){.view = view,
			      .trace = view->trace,
			      .info = mayfly_trace_info(view->trace),
			      .top = VIEW_DEFAULT_TOP,
			      .points = VIEW_DEFAULT_POINTS,
			      .width = VIEW_DEFAULT_WIDTH};
	question_init(&r->q);
	r->text = strdup(request);
	if (!r->text)
		return error_say(c, "out of memory");
	r->name = r->text;
	parameters = strchr(r->text, '?');
	if (parameters)
		*parameters++ = 0;
	if (!take_parameters(r, parameters, c) || !question_check(&r->q, c))
		return false;
	question_fit(&r->q, r->info);
	return true;
}

void request_free(struct request *r)
{
	question_free(&r->q);
	free(r->text);
}
