/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a host's processes: see host_push.h. */
#include "fleet/host/host_push.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer/trace_names.h"
#include "fleet/host/host_rights.h"
#include "fleet/database/fleet_schema.h"
#include "fleet/push/fleet_service.h"
#include "base/system/process_file.h"
#include "record/spool_copy.h"
#include "base/system/clock.h"

/* ---- a look at the spool ---- */

/* What there is to say of a process. */
struct sight {
	bool on, records, live; /* now; records: on, and the agent has not given up */
	bool recorded;		/* ever */
	struct live_trace trace;
};

static void take_header(struct sight *s, const struct spool_header *h)
{
	s->on = atomic_load(&h->control_enabled) != 0;
	s->records = s->on && atomic_load(&h->state) == SPOOL_RUNNING;
	s->recorded = host_process_recorded(h);
	s->live = h->mode == SPOOL_EXACT ? s->recorded : atomic_load(&h->live_samples) != 0;
}

static bool is_due(const struct host_process *p, const struct sight *s, const struct host_config *c,
		   int64_t now_ns)
{
	int64_t length = p->rule && p->rule->for_ns > c->every_ns ? p->rule->for_ns : c->every_ns;

	if (!s->recorded && !p->unpushed)
		return false;
	return p->ended || p->unpushed || (p->live && now_ns - p->pushed_ns >= length);
}

static const char *text_of(int error)
{
	return error == EFBIG ? "is larger than the configuration's 'largest'"
	       : error < 0    ? mayfly_error_text(error)
			      : strerror(error);
}

/* 0 with *s, whose trace is not open where nothing is due; or an errno or a negative enum mayfly_error. */
static int look(struct host_push *h, struct host_process *p, const struct host_config *c,
		int64_t now_ns, struct sight *s)
{
	struct spool_header header;
	ino_t inode;
	uid_t owner;
	int error, fd = host_rights_open(p->path, &owner, &inode, &error);

	if (fd >= 0)
		error = inode == p->inode ? spool_copy_header(fd, &header) : ENOENT;
	if (!error) {
		take_header(s, &header);
		/* Whoever has switched it on or off. */
		p->on = s->on;
		p->unpushed |= s->records;
		if (is_due(p, s, c, now_ns))
			error =
			    host_copy_open(&h->copies, p->owner, fd, c->largest, true, &s->trace);
	}
	host_rights_close(fd);
	return error;
}

/* ---- the window ---- */

static enum push_done push_sight(struct host_push *h, const struct host_process *p,
				 const struct host_config *c, const struct sight *s, char *why)
{
	const struct mayfly_info *info = mayfly_trace_info(s->trace.trace);
	struct named_process named = {.host = c->host};
	struct known_stacks known = {0};
	struct push_to to = h->to;
	struct window_facts facts = {.process = {.host = c->host}};
	char *before = NULL;
	enum push_done done = PUSH_AWAY;

	if (p->service || fleet_service_of(to.c, s->trace.trace, &facts, &before)) {
		named.service = p->service ? p->service
				: before   ? before
					   : path_base(info->program);
		named.labels = host_process_labels(p, c, named.label);
		to.process = &named;
		to.same_share = !(p->share > 0);
		to.share = to.same_share ? host_process_share(p) : p->share;
		to.begin_ns = p->begin_ns;
		to.known = &known;
		done = push_window(&to, s->trace.trace, p->ended, NULL,
				   p->ended ? 0 : process_resident(p->watch.pid), why);
	} else {
		snprintf(why, PUSH_WHY, "%s", to.c->why);
	}
	known_stacks_forget(&known);
	free(before);
	return done;
}

/* Says it once, until a push succeeds again. */
static void get_away(struct host_push *h, const char *why)
{
	push_say_away(&h->said, &h->to.url, why, false);
	h->away = true;
	h->failures++;
}

static bool check_tables(struct host_push *h)
{
	h->checked = h->checked || fleet_schema_check(h->to.c);
	return h->checked;
}

static void take_pushed(struct host_push *h, struct host_process *p, const struct sight *s,
			int64_t now_ns)
{
	push_say_back(&h->said, &h->to.url);
	push_say_window(&h->said, mayfly_trace_info(s->trace.trace), p->ended);
	h->last_ns = now_ns;
	p->unpushed = s->records && !p->ended;
	p->live = s->live;
	p->share = host_process_share(p);
	p->begin_ns = 0;
	p->urgent = false;
	p->pushed_ns = now_ns;
	if (p->ended)
		p->state = HOST_DONE;
}

void host_push(struct host_push *h, struct host_process *p, const struct host_config *c,
	       int64_t now_ns)
{
	struct sight s = {0};
	char why[PUSH_WHY];
	int error = look(h, p, c, now_ns, &s);

	if (error && error != MAYFLY_E_EMPTY && error != ENOENT)
		host_process_error(p, text_of(error));
	if (!s.trace.trace) {
		/* Nothing is to be had, now or ever. */
		if (p->ended)
			p->state = HOST_DONE;
		return;
	}
	if (!p->ended)
		live_trace_say_whole(&s.trace);
	switch (check_tables(h) ? push_sight(h, p, c, &s, why) : PUSH_AWAY) {
	case PUSH_GOOD:
		h->windows++;
		take_pushed(h, p, &s, now_ns);
		break;
	case PUSH_THERE:
		take_pushed(h, p, &s, now_ns);
		break;
	case PUSH_TRACE:
		host_process_error(p, why);
		p->state = HOST_DONE;
		break;
	case PUSH_AWAY:
	case PUSH_REFUSED:
		get_away(h, h->checked ? why : h->to.c->why);
		break;
	}
	live_trace_close(&s.trace);
}
