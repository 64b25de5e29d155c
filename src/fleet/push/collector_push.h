/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that take profiles of other tools' formats, one POST each:
 *
 *	otlp://		/v1development/profiles		convert/export/otlp_export.c, gzip
 *	pyroscope://	/ingest?name=...&format=pprof	convert/export/pprof_export.c
 *
 * They do not tell what they have, and count what is pushed twice twice. For one thread at a time.
 */
#ifndef MAYFLY_COLLECTOR_PUSH_H
#define MAYFLY_COLLECTOR_PUSH_H

#include "convert/export/exporter.h"
#include "fleet/http/server_url.h"
#include "fleet/push/push_done.h"

struct collector;

/* A server that is no database. The login is copied. NULL: why[PUSH_WHY] says so. */
struct collector *collector_open(const struct server_url *url, const struct server_login *login,
				 char *why);
void collector_close(struct collector *f);

/* The trace says when it began. It is never PUSH_THERE. */
enum push_done collector_push(struct collector *f, const struct mayfly_trace *trace,
			      const struct export_options *options, char *why);

#endif
