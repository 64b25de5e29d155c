/* SPDX-License-Identifier: Apache-2.0 */
/* top_source.c: the trace that is shown. */
#include "cli/top/top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/input/recorded_processes.h"
#include "cli/control/snapshot.h"
#include "record/process_watch.h"
#include "record/spool_control.h"
#include "record/spool_status.h"
#include "base/system/clock.h"

/* ---- which one ---- */

static bool several(const struct recorded_processes *c, const char *name)
{
	char numbers[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < c->count && used < sizeof(numbers) - 32; i++)
		used += (size_t)snprintf(numbers + used, sizeof(numbers) - used, "%s%d",
					 i ? ", " : "", (int)c->process[i].pid);
	return cli_fail("%zu processes are called '%s' (%s); name one by its number", c->count,
			name, numbers);
}

/* *spool stays NULL if no process that is being recorded is called so. False after a line on
 * stderr. */
static bool find_by_name(const char *name, char **spool)
{
	struct recorded_processes c;
	bool good = recorded_processes_find(&c, name) || cli_fail("out of memory");

	if (good && c.count > 1)
		good = several(&c, name);
	if (good && c.count == 1) {
		*spool = c.process[0].spool;
		c.process[0].spool = NULL;
	}
	recorded_processes_free(&c);
	return good;
}

static bool begin_recording(struct top *t, const char *spool)
{
	struct spool_entry e = {.path = (char *)(uintptr_t)spool};

	if (!ongoing_begin(&t->source.ongoing, spool, false))
		return cli_fail("out of memory");
	if (spool_glance(spool, &e.glance)) {
		e.pid = e.glance.pid;
		t->source.pid = process_of_spool(&e);
	}
	t->source.goes_on = true;
	t->source.path = strdup(spool);
	guard_mapped_files();
	return t->source.path || cli_fail("out of memory");
}

static bool open_file(struct top *t, const char *path)
{
	t->source.path = strdup(path);
	t->r.path = t->source.path;
	t->has_trace = t->source.path && open_trace(path, &t->r.file);
	return t->has_trace;
}

bool top_source_open(struct top *t, const char *named)
{
	const char *why;
	bool still, good;
	char *spool = ongoing_find(named, &still, &why);

	if (why)
		return cli_fail("process %s: %s", named, why);
	if (!spool && !strchr(named, '/') && strcmp(named, "-") != 0) {
		if (!find_by_name(named, &spool))
			return false;
		still = spool != NULL;
	}
	if (!spool && strcmp(named, "-") != 0 && access(named, F_OK) != 0)
		return cli_fail("'%s' is neither a process that is being recorded nor a file; "
				"'mayfly top' lists these processes",
				named);
	good = still ? begin_recording(t, spool) : open_file(t, spool ? spool : named);
	free(spool);
	return good;
}

/* ---- a look ---- */

static void take_trace(struct top *t, struct opened_trace *opened, const char *path)
{
	char *copy = strdup(path);

	if (t->has_trace) {
		top_facts_free(&t->facts);
		close_trace(&t->r.file);
	}
	t->r.file = *opened;
	t->has_trace = true;
	t->r.q.own.trace = NULL; /* another one may lie at the same address */
	if (copy) {
		free(t->source.path);
		t->source.path = copy;
	}
	t->r.path = t->source.path;
}

static void read_state(struct top_source *s)
{
	struct spool_control c;

	if (spool_control_open(&c, s->ongoing.spool, false))
		return;
	s->recorded_off = strcmp(spool_state_word(c.header), "on") != 0;
	s->start_ns = (int64_t)c.header->start_mono_ns;
	spool_control_close(&c);
}

/* The state of this moment. False: there is none. */
static bool look_closely(struct top *t)
{
	struct ongoing *o = &t->source.ongoing;
	struct live_trace live;
	struct opened_trace opened;

	if (snapshot_open(o->session, o->spool, &live))
		return false;
	opened = (struct opened_trace){
	    .trace = live.trace,
	    .info = mayfly_trace_info(live.trace),
	    .file = {.data = live.data, .size = live.size, .mapped = live.mapped},
	};
	take_trace(t, &opened, o->spool);
	return true;
}

bool top_source_look(struct top *t, bool now)
{
	struct top_source *s = &t->source;
	struct opened_trace opened;
	enum ongoing_seen seen;

	if (!s->goes_on)
		return t->has_trace;
	read_state(s);
	if (now && look_closely(t))
		return true;
	s->goes_on = ongoing_look(&s->ongoing, false, &opened, &seen);
	s->ended = !s->goes_on;
	switch (seen) {
	case ONGOING_UNSEEN:
		break;
	case ONGOING_SO_FAR:
		take_trace(t, &opened, s->ongoing.spool);
		break;
	case ONGOING_DONE:
		take_trace(t, &opened, s->ongoing.file);
		break;
	}
	return t->has_trace || s->goes_on ||
	       cli_fail("%s: the process has ended, and nothing was recorded", s->path);
}

void top_source_close(struct top *t)
{
	top_facts_free(&t->facts);
	if (t->has_trace)
		close_trace(&t->r.file);
	t->has_trace = false;
	ongoing_end(&t->source.ongoing);
	free(t->source.path);
	t->source.path = NULL;
}

int64_t top_source_now(const struct top *t)
{
	int64_t last = t->has_trace ? t->r.file.info->duration_ns : 0, now;

	if (!t->source.goes_on || !t->source.start_ns)
		return last;
	now = now_ns() - t->source.start_ns;
	return now > last ? now : last;
}

const char *top_state_word(const struct top *t)
{
	if (t->source.goes_on)
		return t->source.recorded_off ? "off" : "on";
	return t->source.ended ? "ended" : "finished";
}
