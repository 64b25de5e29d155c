/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about a process's memory: see watch_rules.h. */
#include "record/watch_rules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define SECOND_NS 1000000000
#define HOUR_NS	  (3600ll * SECOND_NS)
#define LEAST_NS  1e6
#define MOST_NS	  (366.0 * 24 * HOUR_NS)
#define MOST_SIZE 0x1p62
#define PEAK_RISE 5u /* by 1/5 */

/* ---- reading a rule ---- */

#define QUANTITY(key, name, read, grows) [WATCH_##key] = {name, grows},
static const struct {
	const char *name;
	bool grows;
} quantities[] = {WATCH_QUANTITIES(QUANTITY)};

/* "live, rss or growth" */
static const char *quantity_names(void)
{
	static char names[256];

	if (!*names)
		for (size_t i = 0, used = 0; i < WATCH_COUNT; i++)
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 i == 0		       ? ""
						 : i + 1 < WATCH_COUNT ? ", "
								       : " or ",
						 quantities[i].name);
	return names;
}

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

/* The letters that come next. */
static const char *next_word(struct rule_text *t, size_t *length)
{
	skip_spaces(t);
	for (*length = 0; isalpha((unsigned char)t->at[*length]); ++*length)
		;
	return t->at;
}

/* The letters of a unit; none when the next part of the rule follows. */
static const char *next_unit(struct rule_text *t, size_t *length)
{
	const char *word = next_word(t, length);

	if (units_is(word, *length, "for"))
		*length = 0;
	return word;
}

/* Whatever the case. False: another word, and nothing is taken. */
static bool take_one_word(struct rule_text *t, const char *word)
{
	size_t length;
	const char *next = next_word(t, &length);

	if (!units_is(next, length, word))
		return false;
	t->at += length;
	return true;
}

/* No sign. */
static bool take_number(struct rule_text *t, double *number)
{
	struct decimal d;
	size_t used;

	skip_spaces(t);
	used = decimal_read(t->at, strlen(t->at), &d);
	*number = decimal_value(&d);
	t->at += used ? used : strspn(t->at, "."); /* what is missing, is after it */
	return used > 0;
}

static const char *take_limit(struct rule_text *t, struct watch_rule *rule)
{
	static const char size[] = "a size, such as 512M or 2G", share[] = "from 1 to 100 percent";
	struct rule_text from = *t;
	const char *unit;
	size_t length;
	int shift;

	skip_spaces(&from);
	if (!take_number(t, &rule->limit))
		return size;
	if (!quantities[rule->quantity].grows && take_sign(t, '%')) {
		rule->of_cgroup = true;
		rule->limit /= 100;
		if (!(rule->limit >= 0.01 && rule->limit <= 1)) {
			*t = from;
			return share;
		}
		return take_one_word(t, "of") && take_one_word(t, "cgroup") ? NULL : "'of cgroup'";
	}
	unit = next_unit(t, &length);
	shift = size_unit(unit, length);
	if (shift < 0)
		return size;
	t->at += length;
	rule->limit *= (double)(1ull << shift);
	if (rule->limit >= 1 && rule->limit < MOST_SIZE)
		return NULL;
	*t = from;
	return size;
}

static const char *take_rate(struct rule_text *t, struct watch_rule *rule)
{
	const char *unit;
	size_t length;
	int64_t ns = 0;

	if (take_sign(t, '/')) {
		unit = next_word(t, &length);
		ns = length ? time_unit(unit, length) : 0;
	}
	if (ns < SECOND_NS || ns > HOUR_NS)
		return "a rate, such as 100M/min; /s, /min or /h";
	t->at += length;
	rule->limit /= (double)ns;
	rule->for_ns = ns;
	return NULL;
}

static const char *take_duration(struct rule_text *t, struct watch_rule *rule)
{
	static const char time[] = "a time, such as 30s or 5m";
	struct rule_text from = *t;
	const char *unit;
	size_t length;
	double ns;

	skip_spaces(&from);
	if (!take_number(t, &ns))
		return time;
	unit = next_unit(t, &length);
	if (!time_unit(unit, length))
		return time;
	t->at += length;
	ns *= (double)time_unit(unit, length);
	if (!(ns >= LEAST_NS && ns <= MOST_NS)) {
		*t = from;
		return time;
	}
	rule->for_ns = (int64_t)ns;
	return NULL;
}

static const char *take_rule(struct rule_text *t, struct watch_rule *rule)
{
	const char *wanted;
	size_t i = 0;

	while (i < WATCH_COUNT && !take_one_word(t, quantities[i].name))
		i++;
	if (i == WATCH_COUNT)
		return quantity_names();
	rule->quantity = (enum watch_quantity)i;
	if (!take_sign(t, '>'))
		return "'>'";
	wanted = take_limit(t, rule);
	if (!wanted && quantities[rule->quantity].grows)
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

static void keep_point(struct watch_state *s, const struct watch_rule *rule, struct watch_point now)
{
	const struct watch_point *last;

	if (!s->point)
		s->point = calloc(WATCH_POINTS, sizeof(*s->point));
	if (!s->point)
		return;
	last = &s->point[(s->next + WATCH_POINTS - 1) % WATCH_POINTS];
	if (s->points && now.ns - last->ns < rule->for_ns / (WATCH_POINTS / 2))
		return;
	s->point[s->next] = now;
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

static bool grows(const struct watch_rule *rule, struct watch_state *s, struct watch_point now)
{
	const struct watch_point *before = point_before(s, now.ns - rule->for_ns);
	bool more =
	    before && now.bytes > before->bytes &&
	    (double)(now.bytes - before->bytes) > rule->limit * (double)(now.ns - before->ns);

	keep_point(s, rule, now);
	return more;
}

static bool is_above(const struct watch_rule *rule, uint64_t bytes, uint64_t cgroup_limit)
{
	if (rule->of_cgroup)
		return cgroup_limit && (double)bytes > rule->limit * (double)cgroup_limit;
	return (double)bytes > rule->limit;
}

/* So a program of 1 TiB has less than 90 of them. */
static bool rises(struct watch_state *s, uint64_t bytes)
{
	if (bytes < WATCH_PEAK_LEAST || bytes < s->high + s->high / PEAK_RISE)
		return false;
	s->high = bytes;
	return true;
}

bool watch_rule_look(const struct watch_rule *rule, struct watch_state *s,
		     const struct watch_reading *now)
{
	bool growth = quantities[rule->quantity].grows, holds;
	uint64_t bytes = now->of[rule->quantity].bytes;

	if (!now->of[rule->quantity].known)
		return false;
	if (rule->peak)
		return rises(s, bytes);
	holds = growth ? grows(rule, s, (struct watch_point){now->now_ns, bytes})
		       : is_above(rule, bytes, now->cgroup_limit);
	if (!holds || !s->holds) {
		s->told = false;
		s->since_ns = now->now_ns;
	}
	s->holds = holds;
	if (!holds || s->told || now->now_ns - s->since_ns < (growth ? 0 : rule->for_ns))
		return false;
	s->told = true;
	return true;
}

void watch_state_free(struct watch_state *s)
{
	free(s->point);
	*s = (struct watch_state){0};
}
