/* SPDX-License-Identifier: Apache-2.0 */
/* Domains of threads: see thread_domains.h. */
#include "convert/export/thread_domains.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "convert/memtrace.h"

#define NONE SIZE_MAX

static void take_names(struct thread_domains *d, const struct mayfly_trace *trace)
{
	for (size_t i = 0; i < d->threads; i++) {
		const struct mayfly_thread *t = mayfly_trace_thread(trace, i);

		if (strncmp(t->name, MEMTRACE_DOMAIN_NAME, strlen(MEMTRACE_DOMAIN_NAME)) == 0)
			d->domain[i] = (uint16_t)t->tid;
	}
}

/* The type of the agent's instants, see agent/ocaml/ocaml_domain.h; NONE: there are none. */
static size_t find_type(const struct mayfly_trace *trace)
{
	size_t types = mayfly_trace_info(trace)->track_types;

	for (size_t i = 0; i < types; i++) {
		const struct mayfly_track_type *t = mayfly_trace_track_type(trace, i);

		if (t->kind == MAYFLY_TYPE_INSTANT && t->fields == 1 &&
		    t->field[0].type == MAYFLY_FIELD_UINT && !strcmp(t->name, "domain") &&
		    !strcmp(t->category, "ocaml"))
			return i;
	}
	return NONE;
}

/* *several: the instants are of more than one domain. */
static int take_instants(struct thread_domains *d, const struct mayfly_trace *trace, size_t type,
			 bool *several)
{
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event e;
	bool any = false;
	uint16_t first = 0;
	int more, error = mayfly_track_cursor_open(trace, &cursor);

	if (error)
		return error;
	while ((more = mayfly_track_cursor_next(cursor, &e)) == 1) {
		if (e.type != type)
			continue;
		d->domain[e.thread] = (uint16_t)e.value[0].u;
		if (!any)
			first = d->domain[e.thread];
		*several |= d->domain[e.thread] != first;
		any = true;
	}
	mayfly_track_cursor_close(cursor);
	return more;
}

int thread_domains_find(struct thread_domains *d, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	bool imported = info->memtrace_version >= 3, several = imported;
	size_t type = find_type(trace);
	int error = 0;

	*d = (struct thread_domains){.threads = info->threads};
	if (!imported && (info->memtrace_version || type == NONE))
		return 0;
	d->domain = calloc(d->threads + 1, sizeof(*d->domain));
	if (!d->domain)
		return MAYFLY_E_MEMORY;
	if (imported)
		take_names(d, trace);
	else
		error = take_instants(d, trace, type, &several);
	if (error || !several)
		thread_domains_free(d);
	return error;
}

void thread_domains_free(struct thread_domains *d)
{
	free(d->domain);
	d->domain = NULL;
}
