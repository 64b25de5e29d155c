/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which windows a question is about: what follows the '?' of clickhouse://HOST/DATABASE?...
 *
 *	service=api  host=...  program=...	equal
 *	version=ab12				the beginning of the build-id
 *	label.KEY=VALUE
 *	from=-1h  to=now			seconds since 1970, a UTC time as 2026-11-23T16:00:00, or
 *						a time before now (s, m, h, d, w)
 *
 * and how the answer is given:
 *
 *	every=5m  every=auto			over time, in steps of that length (s, m, h, d, w)
 *	per=process				the mean of a process, not the sum of all
 */
#ifndef MAYFLY_FLEET_FILTER_H
#define MAYFLY_FLEET_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define FLEET_FILTER_WHY 256

struct fleet_filter {
	struct bytes
	    sql; /* ends with a zero byte: a condition on the table windows, "1" when all are meant */
	int64_t every_ns; /* 0: without times; -1: in steps that fit */
	bool per_process; /* not with times */
};

/* Values are %-decoded; in the SQL they are hexadecimal, so they may have any bytes. The caller frees
 * filter->sql, also after false: why[FLEET_FILTER_WHY] says what is wrong. */
bool fleet_filter_read(const char *url, int64_t now_s, struct fleet_filter *filter, char *why);
/* Adds a condition to an SQL text that does not have its zero byte yet, and ends it with one. */
void fleet_filter_add(struct fleet_filter *filter, const char *expression, const char *value);
/* Adds a text with any bytes as an SQL expression. */
void fleet_filter_put_text(struct bytes *sql, const char *text);
/* Adds an SQL expression on the table windows, which is text: service, version (12 digits of the build-id),
 * host, program or label.KEY. False: it is none of them. */
bool fleet_filter_group(const char *by, struct bytes *sql);

#endif
