/* SPDX-License-Identifier: Apache-2.0 */
/* The user's rules for what is the program's own code: see own_rules.h. */
#include "answer/own_rules.h"

#include <stdlib.h>
#include <string.h>

#include "answer/text_format.h"
#include "base/array.h"
#include "match/expression.h"

#define LONGEST_RULE 4096
#define BLANKS	     " \t\r"

static bool wrong(struct own_rules_problem *problem, const char *text, const char *what)
{
	text_format(problem->text, sizeof(problem->text), "'%.60s' %s", text, what);
	return false;
}

/* The word that a line begins with. NULL: neither word. */
static const char *rule_pattern(const char *line, bool *mine)
{
	static const char *const words[] = {"library", "mine"};

	for (size_t i = 0; i < 2; i++) {
		size_t length = strlen(words[i]);

		if (strncmp(line, words[i], length) != 0 || !line[length] ||
		    !strchr(BLANKS, line[length]))
			continue;
		*mine = i == 1;
		return line + length + strspn(line + length, BLANKS);
	}
	return NULL;
}

/* line: without the blanks around it. */
static bool add_rule(struct own_rules *rules, const char *line, struct own_rules_problem *problem)
{
	struct own_rule rule = {0};
	const char *pattern = rule_pattern(line, &rule.mine);
	const char *why;

	if (!pattern)
		return wrong(problem, line,
			     "is no rule; write library RE or mine RE, or # and a comment");
	rule.expression = expression_new(pattern, &why);
	if (!rule.expression) {
		wrong(problem, pattern, "is no regular expression: ");
		text_append(problem->text, sizeof(problem->text), "%s", why);
		return false;
	}
	if (ARRAY_ADD(rules->rule, rules->room, rules->count, rule))
		return true;
	expression_free(rule.expression);
	problem->line = 0;
	return false;
}

bool own_rules_add(struct own_rules *rules, const char *text, size_t size,
		   struct own_rules_problem *problem)
{
	const char *end = text + size;
	char line[LONGEST_RULE];

	*problem = (struct own_rules_problem){0};
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((stop ? stop : end) - text), left;

		problem->line++;
		if (length >= sizeof(line))
			return wrong(problem, "", "is too long");
		memcpy(line, text, length);
		line[length] = 0;
		if (strlen(line) < length)
			return wrong(problem, line, "has a byte 0");
		text += length + 1;
		while (length && strchr(BLANKS, line[length - 1]))
			line[--length] = 0;
		left = strspn(line, BLANKS);
		if (line[left] && line[left] != '#' && !add_rule(rules, line + left, problem))
			return false;
	}
	return true;
}

void own_rules_free(struct own_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		expression_free(rules->rule[i].expression);
	free(rules->rule);
	*rules = (struct own_rules){0};
}

static bool fits(const struct expression *expression, const char *text)
{
	return *text && expression_matches(expression, text);
}

const struct own_rule *own_rules_find(const struct own_rules *rules, const char *function,
				      const char *file, const char *module)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct expression *expression = rules->rule[i].expression;

		if (fits(expression, function) || fits(expression, file) ||
		    fits(expression, module))
			return &rules->rule[i];
	}
	return NULL;
}
