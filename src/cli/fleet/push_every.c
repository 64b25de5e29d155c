/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of processes that run: see push_every.h. For a database nothing is kept here between the
 * rounds. A window is what the trace has beyond the windows that the database has; so after a while
 * without the server, or after another mayfly push took over, the next window is a longer one, and no
 * byte is lost or counted twice. Other servers do not tell what they have. So the end of the last window
 * that they were given is kept in memory, as long as this process runs.
 */
#include "cli/fleet/push_every.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/input/recorded_processes.h"
#include "cli/cli.h"
#include "cli/input/ongoing.h"
#include "fleet/push/push_said.h"
#include "base/array.h"
#include "record/live_trace.h"
#include "base/system/process_file.h"
#include "base/system/clock.h"

/* A recorder writes what it has within a second after it was asked. */
#define ASKED_NS 1200000000

struct followed {
	struct ongoing going;
	pid_t pid; /* here; 0: not known */
	char *spool;
	struct window_given given;
	bool ended;
};

struct rounds {
	const struct push_every *with;
	char **name; /* those that are named by name: more may come */
	int names;
	struct followed *followed;
	size_t count, room;
	struct push_said said;
	bool failed;
};

static volatile sig_atomic_t asked_to_end;

static void on_end(int number)
{
	(void)number;
	asked_to_end = 1;
}

static void take_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_end}, before;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

/* ---- whom ---- */

static bool is_followed(const struct rounds *r, const char *spool)
{
	for (size_t i = 0; i < r->count; i++)
		if (!strcmp(r->followed[i].spool, spool) ||
		    !strcmp(r->followed[i].going.spool, spool))
			return true;
	return false;
}

static bool follow(struct rounds *r, const char *spool, pid_t pid)
{
	struct followed f = {.pid = pid};

	if (is_followed(r, spool))
		return true;
	f.spool = strdup(spool);
	if (!f.spool || !array_reserve(&r->followed, &r->room, r->count, sizeof(f)) ||
	    !ongoing_begin(&f.going, spool, false)) {
		free(f.spool);
		return cli_fail("out of memory");
	}
	r->followed[r->count++] = f;
	return true;
}

static bool is_number(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

static bool follow_called(struct rounds *r, const char *name)
{
	struct recorded_processes found;
	bool good = recorded_processes_find(&found, name);

	for (size_t i = 0; good && i < found.count; i++)
		good = follow(r, found.process[i].spool, found.process[i].pid);
	recorded_processes_free(&found);
	return good;
}

/* A process by its number, or a spool. */
static bool is_one(const char *named)
{
	return is_number(named) || strchr(named, '/') || !access(named, F_OK);
}

static bool follow_one(struct rounds *r, const char *named)
{
	bool still, good;
	const char *why;
	char *spool = ongoing_find_unfinished(named, &still, &why);

	if (spool)
		good = follow(r, spool, is_number(named) ? atoi(named) : 0);
	else if (why)
		good = cli_fail("process %s: %s", named, why);
	else
		good = cli_fail("'%s' is neither a process nor a recording that goes on", named);
	free(spool);
	return good;
}

/* Those that have come since the last round. */
static bool find_others(struct rounds *r)
{
	bool good = r->with->count || follow_called(r, NULL);

	for (int i = 0; good && i < r->names; i++)
		good = follow_called(r, r->name[i]);
	return good;
}

/* Sorts what is named, while it is there to be looked at. */
static bool take_named(struct rounds *r)
{
	const struct push_every *p = r->with;
	bool good = true;

	r->name = calloc((size_t)p->count + 1, sizeof(*r->name));
	if (!r->name)
		return cli_fail("out of memory");
	for (int i = 0; good && i < p->count; i++) {
		if (is_one(p->named[i]))
			good = follow_one(r, p->named[i]);
		else
			r->name[r->names++] = p->named[i];
	}
	return good;
}

static void drop_ended(struct rounds *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->count; i++) {
		if (!r->followed[i].ended) {
			r->followed[kept++] = r->followed[i];
			continue;
		}
		ongoing_end(&r->followed[i].going);
		free(r->followed[i].spool);
	}
	r->count = kept;
}

/* ---- a round ---- */

static void ask_recorders(const struct rounds *r)
{
	for (size_t i = 0; i < r->count; i++) {
		struct live_trace live;

		if (!live_trace_open_unnamed(r->followed[i].going.spool, LIVE_WAIT_BEGUN, &live))
			live_trace_close(&live);
	}
}

static void push_one(struct rounds *r, struct followed *f)
{
	char why[PUSH_WHY];
	struct opened_trace opened;
	enum ongoing_seen seen;
	bool more = ongoing_look(&f->going, false, &opened, &seen);

	f->ended = !more;
	if (seen == ONGOING_UNSEEN)
		return;
	/* A window of what may change would lose what comes to lie in it. */
	if (seen == ONGOING_SO_FAR && f->going.unsettled) {
		close_trace(&opened);
		return;
	}
	switch (push_window(r->with->to, opened.trace, !more, &f->given,
			    more ? process_resident(f->pid) : 0, why)) {
	case PUSH_GOOD:
		push_say_back(&r->said, &r->with->to->url);
		push_say_window(&r->said, opened.info, f->ended);
		break;
	case PUSH_THERE:
		/* Only a database was asked. */
		if (r->with->to->c)
			push_say_back(&r->said, &r->with->to->url);
		if (f->ended)
			push_say_window(&r->said, opened.info, true);
		break;
	case PUSH_TRACE:
		cli_error("%s: %s", f->going.file, why);
		f->ended = true;
		r->failed = true;
		break;
	case PUSH_AWAY:
		push_say_away(&r->said, &r->with->to->url, why, asked_to_end);
		/* The trace of one that has ended stays: the next round tries again. */
		f->ended = false;
		break;
	case PUSH_REFUSED:
		cli_error("%s: process %u: %s; this window is lost", r->with->to->url.shown,
			  opened.info->pid, why);
		r->failed = true;
		break;
	}
	close_trace(&opened);
}

static void push_all(struct rounds *r)
{
	ask_recorders(r);
	clock_wait(ASKED_NS);
	known_stacks_forget(r->with->to->known);
	for (size_t i = 0; i < r->count; i++)
		push_one(r, &r->followed[i]);
	drop_ended(r);
}

/* What ends is seen within some seconds, as its spool goes and its trace may be moved. */
static bool has_ended(const struct rounds *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (access(r->followed[i].going.spool, F_OK))
			return true;
	return false;
}

static void wait_for_next(const struct rounds *r, int64_t next_ns)
{
	int64_t left;

	while (!asked_to_end && (left = next_ns - now_ns()) > 0) {
		clock_wait(left < 1000000000 ? left : 1000000000);
		if (!r->said.away && has_ended(r))
			break;
	}
}

int push_every(const struct push_every *p)
{
	struct rounds r = {.with = p, .said = {.quiet = p->quiet}};
	int64_t next_ns = now_ns();
	bool good;

	take_signals();
	good = take_named(&r);
	while (good && !asked_to_end) {
		good = find_others(&r);
		if (good && !r.count && p->count && !r.names)
			break;
		next_ns += p->every_ns;
		if (next_ns < now_ns())
			next_ns = now_ns();
		if (good)
			wait_for_next(&r, next_ns);
		if (good)
			push_all(&r);
	}
	good &= !r.said.away && !r.failed;
	for (size_t i = 0; i < r.count; i++)
		r.followed[i].ended = true;
	drop_ended(&r);
	free(r.followed);
	free(r.name);
	return good ? CLI_OK : CLI_FAILED;
}
