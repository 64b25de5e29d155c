/* SPDX-License-Identifier: Apache-2.0 */
/* Which windows a question is about: see fleet_filter.h. */
#include "fleet/database/fleet_filter.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"

#define VALUE_BYTES 4096
#define SECOND_NS   1000000000

struct pair {
	char key[VALUE_BYTES], value[VALUE_BYTES];
};

static bool wrong(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(char *why, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(why, FLEET_FILTER_WHY, format, list);
	va_end(list);
	return false;
}

static void put(struct bytes *sql, const char *text)
{
	bytes_put(sql, text, strlen(text));
}

void fleet_filter_put_text(struct bytes *sql, const char *value)
{
	char digits[3];

	put(sql, "unhex('");
	for (; *value; value++) {
		snprintf(digits, sizeof(digits), "%02X", (unsigned char)*value);
		put(sql, digits);
	}
	put(sql, "')");
}

static bool is_label(const char *key)
{
	return !strncmp(key, "label.", 6) && key[6];
}

static void put_label(struct bytes *sql, const char *key)
{
	put(sql, "labels.value[indexOf(labels.key, ");
	fleet_filter_put_text(sql, key + 6);
	put(sql, ")]");
}

/* Text up to an end byte, with %XX decoded. The place after it; NULL: too long, or a wrong %XX. */
static const char *decode(const char *at, const char *ends, char *to)
{
	size_t n = 0;

	for (; *at && !strchr(ends, *at); at++) {
		char digits[3] = {0};
		char *end = digits;

		if (n + 1 == VALUE_BYTES)
			return NULL;
		if (*at != '%') {
			to[n++] = *at;
			continue;
		}
		memcpy(digits, at + 1, strnlen(at + 1, 2));
		to[n] = (char)strtoul(digits, &end, 16);
		if (end != digits + 2 || !to[n++])
			return NULL;
		at += 2;
	}
	to[n] = 0;
	return at;
}

/* A length of time in whole seconds, at most 68 years. It has a unit, or it could be a time since 1970. */
static bool read_seconds(const char *text, int64_t *seconds)
{
	size_t length = strlen(text);
	int64_t ns;

	*seconds = 0;
	if (!time_read(text, length, &ns) || strchr("0123456789.", text[length - 1]) ||
	    ns % SECOND_NS || ns / SECOND_NS > INT32_MAX)
		return false;
	*seconds = ns / SECOND_NS;
	return true;
}

static bool read_time(const char *text, int64_t now_s, int64_t *seconds)
{
	struct tm tm = {0};
	char *end;

	if (!strcmp(text, "now")) {
		*seconds = now_s;
		return true;
	}
	end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (end && (!*end || !strcmp(end, "Z"))) {
		*seconds = timegm(&tm);
		return true;
	}
	if (*text == '-' || (*text == '0' && text[1])) {
		bool good = read_seconds(text + (*text == '-'), seconds);

		*seconds = now_s - *seconds;
		return good;
	}
	*seconds = strtoll(text, &end, 10);
	return end != text && !*end && *seconds > 0 && *seconds <= INT32_MAX * 4ll;
}

static bool read_every(const struct pair *p, int64_t *every_ns, char *why)
{
	int64_t seconds;

	if (!strcmp(p->value, "auto")) {
		*every_ns = -1;
		return true;
	}
	if (!read_seconds(p->value, &seconds) || !seconds)
		return wrong(why, "%s: '%.40s' is not a length of time, as 30s, 5m, 1h, 1d or auto",
			     p->key, p->value);
	*every_ns = seconds * SECOND_NS;
	return true;
}

/* later: seconds to add, as the second of `to` is meant whole. */
static bool add_time(const struct pair *p, const char *comparison, int64_t later, int64_t now_s,
		     struct bytes *sql, char *why)
{
	char text[64];
	int64_t seconds;

	if (!read_time(p->value, now_s, &seconds))
		return wrong(why, "%s: '%.40s' is not a time, as -1h, now, 2026-11-23T16:00:00",
			     p->key, p->value);
	snprintf(text, sizeof(text), "%s %" PRId64 "000000000", comparison, seconds + later);
	put(sql, text);
	return true;
}

static bool add_pair(const struct pair *p, int64_t now_s, struct bytes *sql, char *why)
{
	char text[64];

	if (!strcmp(p->key, "from"))
		return add_time(p, "end_ns >=", 0, now_s, sql, why);
	if (!strcmp(p->key, "to"))
		return add_time(p, "begin_ns <", 1, now_s, sql, why);
	if (!strcmp(p->key, "version")) {
		snprintf(text, sizeof(text), "substring(version, 1, %zu) = ", strlen(p->value));
		put(sql, text);
	} else if (!strcmp(p->key, "service") || !strcmp(p->key, "host") ||
		   !strcmp(p->key, "program")) {
		put(sql, p->key);
		put(sql, " = ");
	} else if (is_label(p->key)) {
		put_label(sql, p->key);
		put(sql, " = ");
	} else {
		return wrong(why,
			     "'%.40s' is not one of service, version, host, program, label.KEY, "
			     "from, to, every, per",
			     p->key);
	}
	fleet_filter_put_text(sql, p->value);
	return true;
}

bool fleet_filter_group(const char *by, struct bytes *sql)
{
	if (!strcmp(by, "version"))
		put(sql, "substring(version, 1, 12)");
	else if (!strcmp(by, "service") || !strcmp(by, "host") || !strcmp(by, "program"))
		put(sql, by);
	else if (is_label(by))
		put_label(sql, by);
	else
		return false;
	return true;
}

void fleet_filter_add(struct fleet_filter *filter, const char *expression, const char *value)
{
	put(&filter->sql, " AND ");
	put(&filter->sql, expression);
	put(&filter->sql, " = ");
	fleet_filter_put_text(&filter->sql, value);
	bytes_put(&filter->sql, "", 1);
}

bool fleet_filter_read(const char *url, int64_t now_s, struct fleet_filter *filter, char *why)
{
	const char *at = strchr(url, '?');
	struct pair *p = malloc(sizeof(*p));
	bool good = p || wrong(why, "out of memory");

	*filter = (struct fleet_filter){0};
	put(&filter->sql, "1");
	while (good && at && *at) {
		at = decode(at + 1, "=&", p->key);
		if (at && *at == '=')
			at = decode(at + 1, "&", p->value);
		else
			at = NULL;
		good = at || wrong(why, "what follows '?' is not KEY=VALUE&KEY=VALUE");
		if (good && !strcmp(p->key, "every")) {
			good = read_every(p, &filter->every_ns, why);
		} else if (good && !strcmp(p->key, "per")) {
			filter->per_process = !strcmp(p->value, "process");
			good = filter->per_process ||
			       wrong(why, "per: '%.40s' is not 'process'", p->value);
		} else if (good) {
			put(&filter->sql, " AND ");
			good = add_pair(p, now_s, &filter->sql, why);
		}
	}
	free(p);
	bytes_put(&filter->sql, "", 1);
	if (good && filter->per_process && filter->every_ns)
		good = wrong(why, "per=process and every= do not go together");
	return good && (!filter->sql.failed || wrong(why, "out of memory"));
}
