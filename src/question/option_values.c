/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options. */
#include "question/option_values.h"

#include "answer/text_format.h"
#include "base/array.h"
#include "base/units.h"
#include "match/expression.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_SHOWN 100 /* of an expression that is refused */

static bool whole_number(const char *text, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return *end == 0 && errno == 0;
}

bool option_bytes(const char *option, const char *text, uint64_t *bytes, struct error_line *c)
{
	return size_read(text, strlen(text), bytes) ||
	       error_say(c, "%s: '%s' is not a size; write bytes, or use K, M or G as in 512K",
			 option, text);
}

bool option_time(const char *option, const char *text, int64_t *ns, struct error_line *c)
{
	return time_read(text, strlen(text), ns) ||
	       error_say(
		   c,
		   "%s: '%s' is not a time; write seconds, or use ns, us, ms, s, m, h or d as "
		   "in 250ms",
		   option, text);
}

bool option_count(const char *option, const char *text, size_t *count, struct error_line *c)
{
	uint64_t value;

	if (!whole_number(text, &value) || value > SIZE_MAX / 2)
		return error_say(c, "%s: '%s' is not a whole number", option, text);
	*count = (size_t)value;
	return true;
}

bool option_choice(const char *option, const char *text, const char *const *choices, int *index,
		   struct error_line *c)
{
	char list[256] = "", several[256] = "";
	int found = -1, begin = 0;

	for (int i = 0; choices[i]; i++) {
		const char *comma = i == 0 ? "" : choices[i + 1] ? ", " : " or ";

		if (strcmp(choices[i], text) == 0) {
			*index = i;
			return true;
		}
		text_append(list, sizeof(list), "%s%s", comma, choices[i]);
		if (*text && strncmp(choices[i], text, strlen(text)) == 0) {
			text_append(several, sizeof(several), "%s%s", begin++ ? ", " : "",
				    choices[i]);
			found = i;
		}
	}
	if (begin == 1) {
		*index = found;
		return true;
	}
	if (begin)
		return error_say(c, "%s: '%s' can be one of %s", option, text, several);
	return error_say(c, "%s: '%s' is none of %s", option, text, list);
}

bool pattern_add(struct pattern *p, const char *option, const char *text, struct error_line *c)
{
	struct expression *made;
	const char *why;

	if (!array_reserve(&p->expression, &p->room, p->count, sizeof(*p->expression)))
		return error_say(c, "out of memory");
	made = expression_new(text, &why);
	if (!made)
		return error_say(c, "%s: '%.*s%s' is not a regular expression: %s", option,
				 LONGEST_SHOWN, text, strlen(text) > LONGEST_SHOWN ? "..." : "",
				 why);
	p->expression[p->count++] = made;
	return true;
}

bool pattern_add_thread(struct pattern *p, const char *option, const char *text,
			struct error_line *c)
{
	char number[32];

	if (*text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 24) {
		text_format(number, sizeof(number), "^%s$", text);
		text = number;
	}
	return pattern_add(p, option, text, c);
}

static bool pattern_matches(const struct pattern *p, const char *text)
{
	for (size_t i = 0; i < p->count; i++)
		if (expression_matches(p->expression[i], text))
			return true;
	return false;
}

void pattern_free(struct pattern *p)
{
	for (size_t i = 0; i < p->count; i++)
		expression_free(p->expression[i]);
	free(p->expression);
	*p = (struct pattern){0};
}

static int match(void *context, const char *text)
{
	return pattern_matches(context, text);
}

struct mayfly_match pattern_match(struct pattern *p)
{
	struct mayfly_match m = {p->count ? match : NULL, p};

	return m;
}
