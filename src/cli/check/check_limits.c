/* SPDX-License-Identifier: Apache-2.0 */
/* check_limits.c: limits, from options and from files. */
#include "cli/check/check.h"

#include "terminal/message.h"
#include "question/option_values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void end_focus(void *context)
{
	pattern_free(context);
	free(context);
}

void check_free(struct limits *l)
{
	limits_free(l, end_focus);
}

static struct limit *new_limit(struct limits *l, enum limit_metric metric, const char *where)
{
	struct limit *limit = limits_new(l, metric, where);

	if (!limit)
		cli_error("out of memory");
	return limit;
}

/* "10%" or "10" -> .1 */
static bool percent_value(const char *where, const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end) / 100;
	if (end > text && (!*end || strcmp(end, "%") == 0) && *value >= 0 && isfinite(*value))
		return true;
	return cli_fail("%s: '%s' is not a percentage; write it like 10%%", where, text);
}

/* "10M", or a plain number for blocks; "+10%": more than in the baseline. */
static bool set_value(struct limit *limit, const char *text)
{
	struct error_line c = {0};
	size_t blocks;
	uint64_t bytes;

	if (*text == '+') {
		limit->relative = true;
		return percent_value(limit->where, text + 1, &limit->value);
	}
	if (limit->metric == LIMIT_BLOCKS) {
		if (!option_count(limit->where, text, &blocks, &c))
			return cli_refuse("%s", c.text);
		limit->value = (double)blocks;
	} else {
		if (!option_bytes(limit->where, text, &bytes, &c))
			return cli_refuse("%s", c.text);
		limit->value = (double)bytes;
	}
	return true;
}

bool check_add(struct limits *l, const char *option, enum limit_metric metric, const char *value)
{
	struct limit *limit = new_limit(l, metric, option);

	return limit && set_value(limit, value);
}

/* One of "10%" and "peak=10%". */
static bool add_increase(struct limits *l, const char *option, const char *text)
{
	const char *equals = strchr(text, '=');
	enum limit_metric metric = LIMIT_PEAK;
	struct limit *limit;

	if (equals && !limit_metric_named(text, (size_t)(equals - text), &metric))
		return cli_refuse(
		    "%s: '%.*s' is not one of peak, allocated, leaked, temporary, blocks", option,
		    (int)(equals - text), text);
	limit = new_limit(l, metric, option);
	if (!limit)
		return false;
	limit->relative = true;
	return percent_value(option, equals ? equals + 1 : text, &limit->value);
}

bool check_add_increases(struct limits *l, const char *option, const char *list)
{
	char *copy = strdup(list), *save = NULL;
	bool done = copy != NULL, any = false;

	for (char *text = copy ? strtok_r(copy, ",", &save) : NULL; text && done;
	     text = strtok_r(NULL, ",", &save)) {
		done = add_increase(l, option, text);
		any = true;
	}
	if (!copy)
		cli_error("out of memory");
	else if (!any)
		done = percent_value(option, list, &(double){0});
	free(copy);
	return done;
}

/* The next word of the line, ended by a zero; *line moves past it. NULL: there is none. */
static char *next_word(char **line)
{
	char *word = *line + strspn(*line, " \t"), *end = word + strcspn(word, " \t");

	if (!*word)
		return NULL;
	*line = *end ? end + 1 : end;
	*end = 0;
	return word;
}

static bool bad_line(const char *where, const char *what, const char *word)
{
	return cli_fail("%s: %s%s%s; a limit is METRIC LIMIT [function RE], as in peak 10M "
			"function ^parse",
			where, what, word ? " " : "", word ? word : "");
}

/* The pattern is the rest of the line. */
static bool set_function(struct limit *limit, char *rest)
{
	struct error_line c = {0};
	struct pattern *pattern;

	rest += strspn(rest, " \t");
	if (!*rest)
		return bad_line(limit->where, "a pattern is missing after 'function'", NULL);
	limit->function = strdup(rest);
	pattern = calloc(1, sizeof(*pattern));
	if (!limit->function || !pattern) {
		free(pattern);
		return cli_fail("out of memory");
	}
	limit->focus.context = pattern; /* limits_free() ends it */
	if (!pattern_add(pattern, limit->where, rest, &c))
		return cli_refuse("%s", c.text);
	limit->focus = pattern_match(pattern);
	return true;
}

static bool add_line(struct limits *l, const char *where, char *line)
{
	char *word = next_word(&line), *value, *function;
	enum limit_metric metric;
	struct limit *limit;

	if (!word || *word == '#')
		return true;
	if (!limit_metric_named(word, strlen(word), &metric))
		return bad_line(where, "unknown metric", word);
	value = next_word(&line);
	if (!value)
		return bad_line(where, "no limit after", word);
	limit = new_limit(l, metric, where);
	if (!limit || !set_value(limit, value))
		return false;
	function = next_word(&line);
	if (!function || *function == '#')
		return true;
	if (strcmp(function, "function") != 0)
		return bad_line(where, "unexpected", function);
	return set_function(limit, line);
}

bool check_add_file(struct limits *l, const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL, *where = NULL;
	size_t room = 0, number = 0;
	ssize_t length;
	bool done = true;

	if (!file)
		return cli_fail("%s: %s", path, strerror(errno));
	while (done && (errno = 0, length = getline(&line, &room, file)) >= 0) {
		while (length && isspace((unsigned char)line[length - 1]))
			line[--length] = 0;
		if (asprintf(&where, "%s:%zu", path, ++number) < 0) {
			cli_error("out of memory");
			done = false;
			break;
		}
		done = add_line(l, where, line);
		free(where);
	}
	if (done && ferror(file)) {
		cli_error("%s: %s", path, strerror(errno ? errno : EIO));
		done = false;
	}
	free(line);
	fclose(file);
	return done;
}
