/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which windows a question is about: what follows the '?' of clickhouse://HOST/DATABASE?...
 *
 *	service=api  host=...  program=...	equal
 *	version=ab12				the beginning of the build-id
 *	label.KEY=VALUE
 *	from=-1h  to=now			seconds since 1970, a UTC time as 2026-11-23T16:00:00, or
 *						a time before now (s, m, h, d, w)
 */
#ifndef MAYFLY_FLEET_FILTER_H
#define MAYFLY_FLEET_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "format/bytes.h"

#define FLEET_FILTER_WHY 256

/* Adds an SQL condition on the table windows, "1" when all are meant. Values are %-decoded; in the SQL they
 * are hexadecimal, so they may have any bytes. False: why[FLEET_FILTER_WHY] says what is wrong. */
bool fleet_filter_add(const char *url, int64_t now_s, struct bytes *sql, char *why);
/* Adds an SQL expression on the table windows, which is text: service, version (12 digits of the build-id),
 * host, program or label.KEY. False: it is none of them. */
bool fleet_filter_group(const char *by, struct bytes *sql);

#endif
