/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that take profiles of other tools' formats, one POST each:
 *
 *	otlp://		/v1development/profiles		convert/export/otlp_export.c, gzip
 *	pyroscope://	/ingest?name=...&format=pprof	convert/export/pprof_export.c
 *
 * They do not tell what they have, and count what is pushed twice twice. For one thread at a time.
 */
#ifndef MAYFLY_FACE_PUSH_H
#define MAYFLY_FACE_PUSH_H

#include "convert/export/exporter.h"
#include "fleet/http/server_url.h"

#define COLLECTOR_WHY 600

struct collector_login {
	const char *user, *password, *token; /* NULL: none; copied */
};

struct collector;

/* A server that is no database. NULL: why[COLLECTOR_WHY] says so. */
struct collector *collector_open(const struct server_url *url, const struct collector_login *login,
				 char *why);
void collector_close(struct collector *f);

enum collector_failure {
	COLLECTOR_GOOD,
	COLLECTOR_AWAY,	   /* no answer, or it takes nothing now: it may be tried again later */
	COLLECTOR_REFUSED, /* it will not take this */
	COLLECTOR_TRACE,   /* the trace cannot be written in that format */
};

/* The trace says when it began. On a failure why[] is one line without a line break. */
enum collector_failure collector_push(struct collector *f, const struct mayfly_trace *trace,
				      const struct export_options *options, char *why);

#endif
