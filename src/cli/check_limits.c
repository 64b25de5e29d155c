/* SPDX-License-Identifier: Apache-2.0 */
/* check_limits.c: limits, from options and from files. */
#include "cli/check.h"

#include "cli/message.h"
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const check_metric_names[] = {"peak",      "allocated", "leaked",
					  "temporary", "blocks",    NULL};

/* ---- the list ---- */

static struct limit *new_limit(struct limits *l, enum check_metric metric, const char *where)
{
	size_t room = l->room ? 2 * l->room : 8;
	struct limit *item;

	if (l->count == l->room) {
		item = realloc(l->item, room * sizeof(*item));
		if (!item)
			return NULL;
		l->item = item;
		l->room = room;
	}
	item = &l->item[l->count];
	*item = (struct limit){.metric = metric, .where = strdup(where)};
	if (!item->where)
		return NULL;
	l->count++;
	return item;
}

static void free_limit(struct limit *limit)
{
	for (size_t i = 0; i < limit->guilty; i++) {
		free(limit->guilt[i].text);
		json_decref(limit->guilt[i].places);
	}
	free(limit->guilt);
	free(limit->function);
	free(limit->where);
	pattern_free(&limit->focus);
}

void limits_free(struct limits *l)
{
	for (size_t i = 0; i < l->count; i++)
		free_limit(&l->item[i]);
	free(l->item);
	*l = (struct limits){0};
}

bool limits_are_relative(const struct limits *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->item[i].relative)
			return true;
	return false;
}

/* ---- values ---- */

/* "10%" or "10" -> .1 */
static bool percent_value(const char *where, const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end) / 100;
	if (end > text && (!*end || strcmp(end, "%") == 0) && *value >= 0 && isfinite(*value))
		return true;
	cli_error("%s: '%s' is not a percentage; write it as in 10%%", where, text);
	return false;
}

/* "10M", of blocks a plain number; "+10%": more than in the baseline. */
static bool set_value(struct limit *limit, const char *text)
{
	size_t blocks;
	uint64_t bytes;

	if (*text == '+') {
		limit->relative = true;
		return percent_value(limit->where, text + 1, &limit->value);
	}
	if (limit->metric == CHECK_BLOCKS) {
		if (!option_count(limit->where, text, &blocks))
			return false;
		limit->value = (double)blocks;
	} else {
		if (!option_bytes(limit->where, text, &bytes))
			return false;
		limit->value = (double)bytes;
	}
	return true;
}

bool limits_add(struct limits *l, const char *option, enum check_metric metric, const char *value)
{
	struct limit *limit = new_limit(l, metric, option);

	if (!limit) {
		cli_error("out of memory");
		return false;
	}
	return set_value(limit, value);
}

static bool find_metric(const char *text, size_t length, enum check_metric *metric)
{
	for (size_t i = 0; check_metric_names[i]; i++) {
		if (strlen(check_metric_names[i]) == length &&
		    memcmp(check_metric_names[i], text, length) == 0) {
			*metric = (enum check_metric)i;
			return true;
		}
	}
	return false;
}

/* One of "10%" and "peak=10%". */
static bool add_increase(struct limits *l, const char *option, const char *text)
{
	const char *equals = strchr(text, '=');
	enum check_metric metric = CHECK_PEAK;
	struct limit *limit;

	if (equals && !find_metric(text, (size_t)(equals - text), &metric)) {
		cli_usage("%s: '%.*s' is none of peak, allocated, leaked, temporary, blocks",
			  option, (int)(equals - text), text);
		return false;
	}
	limit = new_limit(l, metric, option);
	if (!limit) {
		cli_error("out of memory");
		return false;
	}
	limit->relative = true;
	return percent_value(option, equals ? equals + 1 : text, &limit->value);
}

bool limits_add_increases(struct limits *l, const char *option, const char *list)
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

/* ---- files ---- */

/* The next word of the line, ended by a zero; *line goes behind it. NULL: there is none. */
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
	cli_error(
	    "%s: %s%s%s; a limit is METRIC LIMIT [function RE], as in peak 10M function ^parse",
	    where, what, word ? " " : "", word ? word : "");
	return false;
}

/* The pattern is all that is left of the line. */
static bool set_function(struct limit *limit, char *rest)
{
	rest += strspn(rest, " \t");
	if (!*rest)
		return bad_line(limit->where, "a pattern is missing behind 'function'", NULL);
	limit->function = strdup(rest);
	return limit->function && pattern_add(&limit->focus, limit->where, rest);
}

static bool add_line(struct limits *l, const char *where, char *line)
{
	char *word = next_word(&line), *value, *function;
	enum check_metric metric;
	struct limit *limit;

	if (!word || *word == '#')
		return true;
	if (!find_metric(word, strlen(word), &metric))
		return bad_line(where, "unknown metric", word);
	value = next_word(&line);
	if (!value)
		return bad_line(where, "no limit behind", word);
	limit = new_limit(l, metric, where);
	if (!limit) {
		cli_error("out of memory");
		return false;
	}
	if (!set_value(limit, value))
		return false;
	function = next_word(&line);
	if (!function || *function == '#')
		return true;
	if (strcmp(function, "function") != 0)
		return bad_line(where, "unexpected", function);
	return set_function(limit, line);
}

bool limits_add_file(struct limits *l, const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL, *where = NULL;
	size_t room = 0, number = 0;
	ssize_t length;
	bool done = true;

	if (!file) {
		cli_error("%s: %s", path, strerror(errno));
		return false;
	}
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
