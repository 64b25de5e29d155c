/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: the names of traces, and when they get them. */
#include "record/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

char *record_name_with(const char *file, const char *tail)
{
	const char *base = spool_base_name(file), *dot = strrchr(base, '.');

	if (!dot || dot == base)
		dot = file + strlen(file);
	return record_format("%.*s%s%s", (int)(dot - file), file, tail, dot);
}

char *record_old_name(const char *file)
{
	char *real = realpath(file, NULL);
	char *name = record_name_with(real ? real : file, ".old");

	free(real);
	return name;
}

static bool is_settled(const struct record *r, pid_t pid)
{
	for (size_t i = 0; i < r->settled_count; i++)
		if (r->settled[i] == pid)
			return true;
	return false;
}

/* A process's last image gets its plain name, unless another process of the same number has it. */
char *record_trace_name(const struct record *r, pid_t pid, unsigned long number, bool last)
{
	char tail[64] = "";

	if (!last || is_settled(r, pid))
		snprintf(tail, sizeof(tail), ".%ld.%lu", (long)pid, number);
	else if (pid != r->child.pid)
		snprintf(tail, sizeof(tail), ".%ld", (long)pid);
	return record_name_with(r->file, tail);
}

/* What may be the cause. */
static const char *memory_limit(int error)
{
	struct rlimit data, all;

	if (error != MAYFLY_E_MEMORY || getrlimit(RLIMIT_DATA, &data) ||
	    getrlimit(RLIMIT_AS, &all) ||
	    (data.rlim_max == RLIM_INFINITY && all.rlim_max == RLIM_INFINITY))
		return "";
	return ": mayfly's own limit on memory (ulimit -d, ulimit -v) is too low for it";
}

bool record_name_trace(const struct record *r, const struct piece *p)
{
	struct recorder *one = p->recorder;
	char *old;
	int error;

	if (!one)
		return false; /* said */
	if (one->state != RECORDER_FINISHED) {
		if (one->error > 0)
			record_say(r, "cannot write '%s': %s", p->trace, strerror(one->error));
		else
			record_say(r, "'%s': %s%s", p->spool, mayfly_error_text(one->error),
				   memory_limit(one->error));
		return false;
	}
	old = r->force ? NULL : record_old_name(p->trace);
	error = recorder_become(one, p->trace, old);
	free(old);
	if (error)
		record_say(r, "cannot write '%s': %s; it is complete in '%s'", p->trace,
			   strerror(error), one->part_path);
	return !error;
}
