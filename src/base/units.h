/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that people write: numbers, sizes, times, yes and no. Options, the variable MAYFLY, the
 * rules of --when, the names of fleets and the file of mayfly agent are read with these functions,
 * so that a spelling that one of them takes is taken by all. The text need not end with a zero byte,
 * and nothing is called: the agent inside a program reads its settings with them, too.
 */
#ifndef MAYFLY_UNITS_H
#define MAYFLY_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline char units_small(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether the text is the word, which is in small letters, in whichever case. */
static inline bool units_is(const char *text, size_t length, const char *word)
{
	size_t i = 0;

	while (i < length && word[i] && units_small(text[i]) == word[i])
		i++;
	return i == length && !word[i];
}

/* digits x 10^exponent */
struct decimal {
	uint64_t digits;
	int exponent;
};

/* "e-5" and the like: the number of bytes, 0 when it is none. */
static inline size_t decimal_exponent(const char *text, size_t length, int *exponent)
{
	size_t at = 1, first;
	int value = 0;

	if (length < 2 || units_small(*text) != 'e')
		return 0;
	at += text[1] == '-' || text[1] == '+';
	for (first = at; at < length && text[at] >= '0' && text[at] <= '9'; at++)
		value = value < 1000 ? value * 10 + (text[at] - '0') : value;
	*exponent = text[1] == '-' ? -value : value;
	return at > first ? at : 0;
}

/* Reads "512", ".5", "1e-5"; no sign, no hexadecimal. The number of bytes; 0: there is no number. */
static inline size_t decimal_read(const char *text, size_t length, struct decimal *d)
{
	size_t at = 0, digits = 0;
	bool point = false, full = false;
	int exponent = 0;
	uint64_t more = 0;

	*d = (struct decimal){0, 0};
	for (; at < length; at++) {
		if (text[at] == '.' && !point) {
			point = true;
			continue;
		}
		if (text[at] < '0' || text[at] > '9')
			break;
		digits++;
		full = full || __builtin_mul_overflow(d->digits, 10, &more) ||
		       __builtin_add_overflow(more, (uint64_t)(text[at] - '0'), &more);
		d->digits = full ? d->digits : more;
		d->exponent += full ? !point : -(int)point;
	}
	if (!digits)
		return 0;
	at += decimal_exponent(text + at, length - at, &exponent);
	d->exponent += exponent;
	return at;
}

/* Exact to the last bit for up to 15 digits and 22 places. A number that is too large is infinite. */
static inline double decimal_value(const struct decimal *d)
{
	int places = d->exponent < 0 ? -d->exponent : d->exponent;
	double power = 1;

	if (!d->digits)
		return 0;
	for (; places; places--)
		power *= 10;
	return d->exponent < 0 ? (double)d->digits / power : (double)d->digits * power;
}

/* The whole text is a number. */
static inline bool number_read(const char *text, size_t length, double *number)
{
	struct decimal d;
	size_t used = decimal_read(text, length, &d);

	*number = decimal_value(&d);
	return used && used == length;
}

/* The log2 of "", "B", "K", "KB", "KiB" and so on to T; -1: it is none of them. */
static inline int size_unit(const char *text, size_t length)
{
	static const char letters[] = "kmgt";

	if (length == 0 || units_is(text, length, "b"))
		return 0;
	for (int i = 0; letters[i]; i++)
		if (units_small(*text) == letters[i])
			return length == 1 || units_is(text + 1, length - 1, "b") ||
				       units_is(text + 1, length - 1, "ib")
				   ? 10 * (i + 1)
				   : -1;
	return -1;
}

/* "4096", "512K", "1.5M", "2GiB": powers of 1024. */
static inline bool size_read(const char *text, size_t length, uint64_t *bytes)
{
	struct decimal d;
	size_t used = decimal_read(text, length, &d);
	int shift = used ? size_unit(text + used, length - used) : -1;
	double value;

	if (shift < 0)
		return false;
	if (d.exponent == 0) { /* whole numbers beyond 2^53 keep their digits */
		*bytes = d.digits << shift;
		return d.digits <= UINT64_MAX >> shift;
	}
	value = decimal_value(&d) * (double)(1ull << shift);
	if (!(value < 0x1p64))
		return false;
	*bytes = (uint64_t)value;
	return true;
}

/* The nanoseconds of a unit; "" is seconds. 0: it is none. */
static inline int64_t time_unit(const char *text, size_t length)
{
	static const struct {
		char name[4];
		int64_t ns;
	} units[] = {{"", 1000000000},
		     {"s", 1000000000},
		     {"sec", 1000000000},
		     {"ms", 1000000},
		     {"us", 1000},
		     {"ns", 1},
		     {"m", 60000000000},
		     {"min", 60000000000},
		     {"h", 3600000000000},
		     {"d", 86400000000000},
		     {"w", 7 * 86400000000000}};

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (units_is(text, length, units[i].name))
			return units[i].ns;
	return 0;
}

/* "250ms", "1.5s", "10us", "5m", "5min", "2h", "1d", "1w"; a plain number is seconds. */
static inline bool time_read(const char *text, size_t length, int64_t *ns)
{
	struct decimal d;
	size_t used = decimal_read(text, length, &d);
	int64_t unit = used ? time_unit(text + used, length - used) : 0;
	double value = decimal_value(&d) * (double)unit;

	if (!unit || !(value < 0x1p62))
		return false;
	*ns = (int64_t)(value + 0.5);
	return true;
}

/* 1: yes, on, true, 1; 0: no, off, false, 0; -1: neither. */
static inline int yes_or_no(const char *text, size_t length)
{
	static const char words[][2][6] = {
	    {"no", "yes"}, {"off", "on"}, {"false", "true"}, {"0", "1"}};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		for (int k = 0; k < 2; k++)
			if (units_is(text, length, words[i][k]))
				return k;
	return -1;
}

#define YES_OR_NO "yes, on, true or 1, nor no, off, false or 0" /* after "neither" */

#endif
