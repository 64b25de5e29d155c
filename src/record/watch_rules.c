/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about a process's memory: see watch_rules.h. */
#include "record/watch_rules.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1e9
#define MINUTE_NS 60e9
#define HOUR_NS	  3600e9
#define LEAST_NS  1e6
#define MOST_NS	  (366 * 24 * HOUR_NS)
#define MOST_SIZE 0x1p62

/* ---- reading a rule ---- */

struct unit {
	const char *name;
	double factor;
};

static const struct unit sizes[] = {
    {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40}, {"KB", 0x1p10},
    {"MB", 0x1p20},  {"GB", 0x1p30},  {"TB", 0x1p40},  {"B", 1},      {"KiB", 0x1p10},
    {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"", 1},	      {NULL, 0}};
static const struct unit times[] = {{"ms", 1e6},	{"s", SECOND_NS}, {"m", MINUTE_NS},
				    {"min", MINUTE_NS}, {"h", HOUR_NS},	  {"", SECOND_NS},
				    {NULL, 0}};
static const struct unit quantities[] = {
    {"live", WATCH_LIVE}, {"rss", WATCH_RSS}, {"growth", WATCH_GROWTH}, {NULL, 0}};

/* The rest of a rule. */
struct rule_text {
	const char *begin, *at;
};

static void skip_spaces(struct rule_text *t)
{
	while (*t->at == ' ' || *t->at == '\t')
		t->at++;
}

static bool take_sign(struct rule_text *t, char sign)
{
	skip_spaces(t);
	if (*t->at != sign)
		return false;
	t->at++;
	return true;
}

/* One of the words, whatever the case; NULL: none, and nothing is taken. */
static const struct unit *take_word(struct rule_text *t, const struct unit *words)
{
	size_t length = 0;

	skip_spaces(t);
	while (isalpha((unsigned char)t->at[length]))
		length++;
	if (length == strlen("for") && !strncasecmp(t->at, "for", length) && *words->name != 'f')
		length = 0; /* no unit, and the next part of the rule */
	for (; words->name; words++) {
		if (strlen(words->name) != length || strncasecmp(words->name, t->at, length) != 0)
			continue;
		t->at += length;
		return words;
	}
	return NULL;
}

static bool take_one_word(struct rule_text *t, const char *word)
{
	const struct unit words[] = {{word, 1}, {NULL, 0}};

	return take_word(t, words);
}

/* Digits, perhaps with a point; no sign, no exponent. */
static bool take_number(struct rule_text *t, double *number)
{
	double digits = 0, scale = 1;
	bool point = false;
	const char *from;

	skip_spaces(t);
	for (from = t->at; isdigit((unsigned char)*t->at) || (*t->at == '.' && !point); t->at++) {
		point |= *t->at == '.';
		if (*t->at == '.')
			continue;
		digits = digits * 10 + (*t->at - '0');
		scale *= point ? 10 : 1;
	}
	*number = digits / scale;
	return t->at - from > point;
}

static const char *take_limit(struct rule_text *t, struct watch_rule *rule)
{
	static const char size[] = "a size, such as 512M or 2G", share[] = "from 1 to 100 percent";
	const struct unit *unit;
	struct rule_text from = *t;

	skip_spaces(&from);
	if (!take_number(t, &rule->limit))
		return size;
	if (rule->quantity != WATCH_GROWTH && take_sign(t, '%')) {
		rule->of_cgroup = true;
		rule->limit /= 100;
		if (!(rule->limit >= 0.01 && rule->limit <= 1)) {
			*t = from;
			return share;
		}
		return take_one_word(t, "of") && take_one_word(t, "cgroup") ? NULL : "'of cgroup'";
	}
	unit = take_word(t, sizes);
	if (!unit)
		return size;
	rule->limit *= unit->factor;
	if (rule->limit >= 1 && rule->limit < MOST_SIZE)
		return NULL;
	*t = from;
	return size;
}

static const char *take_rate(struct rule_text *t, struct watch_rule *rule)
{
	static const struct unit each[] = {{"s", SECOND_NS},   {"sec", SECOND_NS}, {"m", MINUTE_NS},
					   {"min", MINUTE_NS}, {"h", HOUR_NS},	   {NULL, 0}};
	const struct unit *unit;

	if (!take_sign(t, '/') || !(unit = take_word(t, each)))
		return "a rate, such as 100M/min; /s, /min or /h";
	rule->limit /= unit->factor;
	rule->for_ns = (int64_t)unit->factor;
	return NULL;
}

static const char *take_duration(struct rule_text *t, struct watch_rule *rule)
{
	static const char time[] = "a time, such as 30s or 5m";
	const struct unit *unit;
	struct rule_text from = *t;
	double ns;

	skip_spaces(&from);
	if (!take_number(t, &ns) || !(unit = take_word(t, times)))
		return time;
	ns *= unit->factor;
	if (!(ns >= LEAST_NS && ns <= MOST_NS)) {
		*t = from;
		return time;
	}
	rule->for_ns = (int64_t)ns;
	return NULL;
}

static const char *take_rule(struct rule_text *t, struct watch_rule *rule)
{
	const struct unit *quantity = take_word(t, quantities);
	const char *wanted;

	if (!quantity)
		return "live, rss or growth";
	rule->quantity = (enum watch_quantity)quantity->factor;
	if (!take_sign(t, '>'))
		return "'>'";
	wanted = take_limit(t, rule);
	if (!wanted && rule->quantity == WATCH_GROWTH)
		wanted = take_rate(t, rule);
	if (wanted)
		return wanted;
	skip_spaces(t);
	if (!*t->at)
		return NULL;
	if (!take_one_word(t, "for"))
		return "nothing more, or 'for' and a time";
	wanted = take_duration(t, rule);
	skip_spaces(t);
	return wanted || !*t->at ? wanted : "nothing more";
}

const char *watch_rule_parse(const char *text, struct watch_rule *rule, size_t *at)
{
	struct rule_text t = {text, text};
	const char *wanted;

	*rule = (struct watch_rule){0};
	wanted = take_rule(&t, rule);
	skip_spaces(&t);
	*at = (size_t)(t.at - text);
	return wanted;
}

/* ---- looking ---- */

static void keep_point(struct watch_state *s, const struct watch_rule *rule,
		       const struct watch_reading *now)
{
	const struct watch_point *last;

	if (!s->point)
		s->point = calloc(WATCH_POINTS, sizeof(*s->point));
	if (!s->point)
		return;
	last = &s->point[(s->next + WATCH_POINTS - 1) % WATCH_POINTS];
	if (s->points && now->now_ns - last->ns < rule->for_ns / (WATCH_POINTS / 2))
		return;
	s->point[s->next] = (struct watch_point){now->now_ns, now->live};
	s->next = (s->next + 1) % WATCH_POINTS;
	s->points += s->points < WATCH_POINTS;
}

/* The latest point that is as old as the rule wants it; NULL: there is none so far. */
static const struct watch_point *point_before(const struct watch_state *s, int64_t ns)
{
	for (size_t i = 1; i <= s->points; i++) {
		const struct watch_point *p =
		    &s->point[(s->next + WATCH_POINTS - i) % WATCH_POINTS];

		if (p->ns <= ns)
			return p;
	}
	return NULL;
}

static bool grows(const struct watch_rule *rule, struct watch_state *s,
		  const struct watch_reading *now)
{
	const struct watch_point *before = point_before(s, now->now_ns - rule->for_ns);
	bool more =
	    before && now->live > before->live &&
	    (double)(now->live - before->live) > rule->limit * (double)(now->now_ns - before->ns);

	keep_point(s, rule, now);
	return more;
}

static bool is_above(const struct watch_rule *rule, uint64_t bytes, uint64_t cgroup_limit)
{
	if (rule->of_cgroup)
		return cgroup_limit && (double)bytes > rule->limit * (double)cgroup_limit;
	return (double)bytes > rule->limit;
}

bool watch_rule_look(const struct watch_rule *rule, struct watch_state *s,
		     const struct watch_reading *now)
{
	int64_t wait_ns = rule->quantity == WATCH_GROWTH ? 0 : rule->for_ns;
	bool holds;

	if (!(rule->quantity == WATCH_RSS ? now->rss_known : now->live_known))
		return false;
	holds = rule->quantity == WATCH_GROWTH ? grows(rule, s, now)
		: rule->quantity == WATCH_RSS  ? is_above(rule, now->rss, now->cgroup_limit)
					       : is_above(rule, now->live, now->cgroup_limit);
	if (!holds || !s->holds) {
		s->told = false;
		s->since_ns = now->now_ns;
	}
	s->holds = holds;
	if (!holds || s->told || now->now_ns - s->since_ns < wait_ns)
		return false;
	s->told = true;
	return true;
}

void watch_state_free(struct watch_state *s)
{
	free(s->point);
	*s = (struct watch_state){0};
}
