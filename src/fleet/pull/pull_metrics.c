/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures for Prometheus: see pull_metrics.h. Names as https://prometheus.io/docs/practices/naming/ wants them: base
 * units, _total for what only grows.
 *
 *	processes now ──> a count for each ──┐
 *	those seen before that are gone ──> `ended`, by service ──┴──> sums by service
 */
#include "fleet/pull/pull_metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/system/clock.h"
#include "base/system/process_file.h"

/* The figures of a process, or of a service. */
struct pull_count {
	char *service;
	char *spool;
	ino_t inode;
	bool seen;
	double processes, live, resident, spool_bytes; /* now */
	double samples, dropped;		       /* ever */
};

void pull_seen_free(struct pull_seen *seen)
{
	for (size_t i = 0; i < seen->processes; i++) {
		free(seen->process[i].service);
		free(seen->process[i].spool);
	}
	for (size_t i = 0; i < seen->services; i++)
		free(seen->ended[i].service);
	free(seen->process);
	free(seen->ended);
	*seen = (struct pull_seen){0};
}

/* ---- counts ---- */

/* That of a service; NULL: out of memory. */
static struct pull_count *service_in(struct pull_count **all, size_t *count, size_t *room,
				     const char *service)
{
	struct pull_count made = {0};

	for (size_t i = 0; i < *count; i++)
		if (!strcmp((*all)[i].service, service))
			return &(*all)[i];
	made.service = strdup(service);
	if (made.service && ARRAY_ADD(*all, *room, *count, made))
		return &(*all)[*count - 1];
	free(made.service);
	return NULL;
}

static struct pull_count *process_in(struct pull_seen *seen, const struct pull_process *p)
{
	struct pull_count made = {.inode = p->inode};

	for (size_t i = 0; i < seen->processes; i++)
		if (seen->process[i].inode == p->inode && !strcmp(seen->process[i].spool, p->spool))
			return &seen->process[i];
	made.service = strdup(p->service);
	made.spool = strdup(p->spool);
	if (made.service && made.spool &&
	    ARRAY_ADD(seen->process, seen->process_room, seen->processes, made))
		return &seen->process[seen->processes - 1];
	free(made.service);
	free(made.spool);
	return NULL;
}

static void take_trace(struct pull_count *c, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_node_sums *sums = NULL;
	struct mayfly_query query;

	mayfly_query_defaults(&query);
	query.metric = MAYFLY_LIVE;
	query.at_ns = MAYFLY_AT_END;
	if (!mayfly_node_sums_run(trace, &query, &sums))
		c->live = sums->total.bytes.estimate;
	mayfly_node_sums_free(sums);
	c->samples = (double)info->samples;
	c->dropped = (double)info->dropped_samples;
}

/* What cannot be read now keeps the figures of before. */
static bool take_process(const struct pull_source *source, struct pull_seen *seen,
			 const struct pull_process *p)
{
	struct pull_count *c = process_in(seen, p);
	struct live_trace trace = {0};
	struct stat status;

	if (!c)
		return false;
	c->seen = true;
	c->processes = 1;
	c->resident = (double)process_resident(p->pid);
	if (!lstat(p->spool, &status))
		c->spool_bytes = (double)status.st_blocks * 512;
	if (!source->open(source->context, p, false, &trace))
		take_trace(c, trace.trace);
	live_trace_close(&trace);
	return true;
}

static void add(struct pull_count *to, const struct pull_count *c, bool now)
{
	to->samples += c->samples;
	to->dropped += c->dropped;
	if (!now)
		return;
	to->processes += c->processes;
	to->live += c->live;
	to->resident += c->resident;
	to->spool_bytes += c->spool_bytes;
}

/* Processes that are gone count for their services only. */
static bool drop_unseen(struct pull_seen *seen)
{
	size_t kept = 0;
	bool good = true;

	for (size_t i = 0; i < seen->processes; i++) {
		struct pull_count *c = &seen->process[i], *to;

		if (c->seen) {
			seen->process[kept++] = *c;
			continue;
		}
		to = service_in(&seen->ended, &seen->services, &seen->service_room, c->service);
		good &= to != NULL;
		if (to)
			add(to, c, false);
		free(c->service);
		free(c->spool);
	}
	seen->processes = kept;
	return good;
}

static bool look(const struct pull_source *source, struct pull_seen *seen)
{
	struct pull_list list = {0};
	bool good = source->list(source->context, &list);

	for (size_t i = 0; i < seen->processes; i++)
		seen->process[i].seen = false;
	for (size_t i = 0; good && i < list.count; i++)
		good = take_process(source, seen, &list.process[i]);
	pull_list_free(&list);
	return good && drop_unseen(seen);
}

/* ---- text ---- */

static void put(struct bytes *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct bytes *to, const char *format, ...)
{
	va_list arguments;
	char text[512];
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	bytes_put(to, text, length < 0 ? 0 : strlen(text));
}

static void put_head(struct bytes *to, const char *name, const char *type, const char *help)
{
	put(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_alone(struct bytes *to, const char *name, const char *type, const char *help,
		      double value)
{
	put_head(to, name, type, help);
	put(to, "%s %.17g\n", name, value);
}

/* A label's value: what would end it, or the line, is escaped. */
static void put_label(struct bytes *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			bytes_put(to, "\\n", 2);
		else if (*text == '"' || *text == '\\')
			put(to, "\\%c", *text);
		else
			bytes_put(to, text, 1);
	}
}

/* One line for each service. */
static void put_services(struct bytes *to, const struct pull_count *all, size_t count,
			 const char *name, const char *type, const char *help, size_t at)
{
	put_head(to, name, type, help);
	for (size_t i = 0; i < count; i++) {
		double value = *(const double *)(const void *)((const char *)&all[i] + at);

		put(to, "%s{service=\"", name);
		put_label(to, all[i].service);
		put(to, "\"} %.17g\n", value);
	}
}

static void put_all_services(struct bytes *to, const struct pull_count *all, size_t count)
{
#define PULL_FIELD(field) offsetof(struct pull_count, field)
	put_services(to, all, count, "mayfly_recorded_processes", "gauge",
		     "Processes that are recorded now.", PULL_FIELD(processes));
	put_services(to, all, count, "mayfly_live_bytes", "gauge",
		     "Estimate of what the processes have allocated and not freed.",
		     PULL_FIELD(live));
	put_services(to, all, count, "mayfly_resident_bytes", "gauge",
		     "Resident memory of the processes, as the kernel counts it.",
		     PULL_FIELD(resident));
	put_services(to, all, count, "mayfly_spool_bytes", "gauge",
		     "Disk space of the processes' spools.", PULL_FIELD(spool_bytes));
	put_services(to, all, count, "mayfly_samples_total", "counter",
		     "Blocks that were recorded.", PULL_FIELD(samples));
	put_services(to, all, count, "mayfly_dropped_samples_total", "counter",
		     "Blocks that could not be recorded, as there was no room for them.",
		     PULL_FIELD(dropped));
#undef PULL_FIELD
}

static void put_pushes(const struct pull_source *source, struct bytes *to)
{
	struct pull_pushes p = {0};
	int64_t age_ns;

	if (source->pushes)
		source->pushes(source->context, &p);
	if (!p.pushes)
		return;
	put_alone(to, "mayfly_pushed_windows_total", "counter",
		  "Windows that the database has taken.", (double)p.windows);
	put_alone(to, "mayfly_push_failures_total", "counter",
		  "Pushes that failed; what they had is in the next window.", (double)p.failures);
	if (!p.last_ns)
		return;
	age_ns = now_ns() - p.last_ns;
	put_alone(to, "mayfly_push_last_success_timestamp_seconds", "gauge",
		  "When the database has last taken a window, since 1970.",
		  (double)(clock_ns(CLOCK_REALTIME) - age_ns) / 1e9);
	put_alone(to, "mayfly_push_last_success_age_seconds", "gauge", "How long ago that was.",
		  (double)age_ns / 1e9);
}

static void put_self(struct bytes *to)
{
	put_head(to, "mayfly_build_info", "gauge", "The version of mayfly.");
	put(to, "mayfly_build_info{version=\"%s\"} 1\n", MAYFLY_VERSION);
	put_alone(to, "process_cpu_seconds_total", "counter", "CPU time of mayfly itself.",
		  (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9);
	put_alone(to, "process_resident_memory_bytes", "gauge", "Resident memory of mayfly itself.",
		  (double)process_resident(getpid()));
}

bool pull_metrics(const struct pull_source *source, struct pull_seen *seen, struct bytes *to)
{
	struct pull_count *all = NULL;
	size_t count = 0, room = 0;
	bool good = look(source, seen);

	for (size_t i = 0; good && i < seen->processes + seen->services; i++) {
		bool now = i < seen->processes;
		const struct pull_count *c =
		    now ? &seen->process[i] : &seen->ended[i - seen->processes];
		struct pull_count *service = service_in(&all, &count, &room, c->service);

		good = service != NULL;
		if (good)
			add(service, c, now);
	}
	if (good) {
		put_all_services(to, all, count);
		put_pushes(source, to);
		put_self(to);
	}
	for (size_t i = 0; i < count; i++)
		free(all[i].service);
	free(all);
	return good && !to->failed;
}
