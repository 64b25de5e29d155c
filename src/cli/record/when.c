/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about memory, and what is done when one comes true: see when.h. */
#include "cli/record/when.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "record/cgroup_limit.h"
#include "record/heap_request.h"
#include "record/live_trace.h"
#include "record/spool_mark.h"

#define MOST_SNAPSHOTS 10 /* of a rule and a process */

enum when_action { WHEN_SNAPSHOT, WHEN_MARK, WHEN_HEAP };

static const char *const action_names[] = {"snapshot", "mark", "heap", NULL};

/* One snapshot on its way. */
struct when_job {
	struct when_job *next;
	struct live_trace live;
	char *path, *note;
	const char *rule;
	bool last; /* no more of this rule and process */
	int error;
	pthread_t thread;
	_Atomic bool done;
};

/* ---- options ---- */

static bool add_rule(struct when *w, const struct given *given, const struct watch_rule *rule,
		     enum when_action action)
{
	if (!watch_list_add(&w->list, given->value, rule))
		return error_say(given->error_line, "out of memory");
	w->list.rule[w->list.count - 1].action = action;
	return true;
}

static bool take_rule(const struct given *given, struct when *w, const char *others,
		      enum when_action action)
{
	struct watch_rule rule;
	size_t at;
	const char *wanted = watch_rule_parse(given->value, &rule, &at);

	if (wanted)
		return error_say(given->error_line, "%s '%s': %s%s was expected %s%s; such as %s",
				 given->option, given->value, at ? "" : others, wanted,
				 given->value[at] ? "at " : "at the end", given->value + at,
				 WATCH_EXAMPLES);
	return add_rule(w, given, &rule, action);
}

static bool take_when(const struct given *given, void *to)
{
	struct when *w = to;

	w->may_do = true;
	return take_rule(given, w, "", WHEN_SNAPSHOT);
}

static bool take_heap_at(const struct given *given, void *to)
{
	const struct watch_rule peak = {.quantity = WATCH_LIVE, .peak = true};
	struct when *w = to;

	w->may_do = false;
	w->heap_at = true;
	w->peak |= !strcmp(given->value, "peak");
	if (!strcmp(given->value, "peak"))
		return add_rule(w, given, &peak, WHEN_HEAP);
	if (strcmp(given->value, "exit") != 0)
		return take_rule(given, w, "exit, peak, ", WHEN_HEAP);
	w->last_heap = true;
	return true;
}

static bool take_do(const struct given *given, void *to)
{
	struct when *w = to;

	if (!w->may_do)
		return error_say(given->error_line, "%s: write it after the --when that it is for",
				 given->option);
	return option_choice(given->option, given->value, action_names,
			     &w->list.rule[w->list.count - 1].action, given->error_line);
}

const struct option_row when_rows[] = {
    {"when", .argument = "RULE", OPTION_OWN(take_when),
     .help =
	 "do something each time that RULE comes true: live>2G, 'rss>90% of cgroup', 'live>1G for "
	 "30s', 'growth>100M/min for 5m'; may be given more than once"},
    {"do", .argument = "snapshot|mark|heap", .choices = action_names, OPTION_OWN(take_do),
     .help = "what the --when before it does: a trace, FILE with .when-N before its suffix "
	     "(default), a mark, or a picture of the heap"},
    {"heap-at", .rare = true, .argument = "exit|peak|RULE", .words = "exit peak",
     OPTION_OWN(take_heap_at),
     .help =
	 "take a picture of the heap, for leaks and --by holder: before the program exits, near "
	 "its peak, or when RULE comes true; may be given more than once"},
    OPTION_END,
};

/* ---- snapshots ---- */

static void free_job(struct when_job *job)
{
	live_trace_close(&job->live);
	free(job->path);
	free(job->note);
	free(job);
}

static void *write_job(void *context)
{
	struct when_job *job = context;
	struct live_session *session = live_session_new();

	job->error = session ? live_trace_name(session, &job->live) : MAYFLY_E_MEMORY;
	live_trace_say_whole(&job->live);
	if (!job->error)
		job->error = live_trace_save(&job->live, job->path, job->note);
	live_session_free(session);
	atomic_store(&job->done, true);
	return NULL;
}

/* Signals are for the recorder's thread. */
static void start_writing(struct when *w)
{
	struct when_job *job = w->first;
	sigset_t all, before;

	if (w->writing || !job)
		return;
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	w->writing = !pthread_create(&job->thread, NULL, write_job, job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!w->writing)
		write_job(job);
}

static const char *reason(int error)
{
	return error > 0 ? strerror(error) : mayfly_error_text(error);
}

static void tell_job(const struct when *w, const struct when_job *job)
{
	if (job->error)
		record_say(w->record, "--when '%s': cannot write '%s': %s", job->rule, job->path,
			   reason(job->error));
	else if (!w->record->quiet)
		record_say(w->record, "%s: snapshot in '%s'%s", job->rule, job->path,
			   job->last ? ", the last of this rule" : "");
}

static void end_job(struct when *w)
{
	struct when_job *job = w->first;

	if (w->writing)
		pthread_join(job->thread, NULL);
	w->writing = false;
	tell_job(w, job);
	w->first = job->next;
	if (!w->first)
		w->end = &w->first;
	free_job(job);
}

static void when_looked(void *context)
{
	struct when *w = context;

	while (w->first && atomic_load(&w->first->done)) {
		end_job(w);
		start_writing(w);
	}
}

void when_finish(struct when *w)
{
	while (w->first) {
		start_writing(w);
		end_job(w);
	}
	/* One at the exit would have taken its place. */
	if (w->peak && !w->peak_seen && !w->last_heap)
		record_say(
		    w->record,
		    "no picture of the heap near the peak: less than %u KiB was live each time "
		    "that mayfly looked",
		    WATCH_PEAK_LEAST >> 10);
}

/* Beside the trace of this process. NULL: out of memory. */
static char *snapshot_name(struct when *w, const struct recorder *one)
{
	char *trace = record_trace_name(w->record, one->pid, spool_image_number(one->spool), true);
	char tail[32], *name;

	snprintf(tail, sizeof(tail), ".when-%u", ++w->snapshots);
	name = trace ? record_name_with(trace, tail) : NULL;
	free(trace);
	return name;
}

static void add_job(struct when *w, struct when_job *job)
{
	*w->end = job;
	w->end = &job->next;
	start_writing(w);
}

/* What there is now is opened before the program goes on, or is killed. */
static int open_now(struct when_job *job, struct recorder *one)
{
	int error = recorder_write_out(one);

	return error ? error : live_trace_open_unnamed(one->spool, LIVE_WAIT_NOT, &job->live);
}

static void take_snapshot(struct when *w, struct recorder *one, const char *rule, bool last)
{
	struct when_job *job = calloc(1, sizeof(*job));
	const char *obstacle;
	int error;

	if (!job)
		return;
	*job = (struct when_job){.rule = rule, .last = last, .path = snapshot_name(w, one)};
	job->note =
	    record_format("made while the program ran, when %s (mayfly record --when)", rule);
	obstacle = job->path ? part_obstacle(job->path, w->record->force) : NULL;
	error = job->path && job->note ? open_now(job, one) : MAYFLY_E_MEMORY;
	if (!error && !obstacle) {
		add_job(w, job);
		return;
	}
	if (obstacle)
		record_say(w->record, "--when '%s': '%s' %s", rule, job->path, obstacle);
	else
		record_say(w->record, "--when '%s': no snapshot: %s", rule, reason(error));
	free_job(job);
}

/* ---- rules ---- */

static void put_mark(const struct when *w, const struct recorder *one, const char *rule)
{
	int error = spool_mark(one->spool, rule);

	if (error)
		record_say(w->record, "--when '%s': no mark: %s", rule, strerror(error));
}

static void when_came_true(void *context, struct recorder *one, size_t number)
{
	struct when *w = context;
	const struct watched_rule *rule = &w->list.rule[number];
	unsigned int *made = &one->rules.state[number].made;

	switch ((enum when_action)rule->action) {
	case WHEN_SNAPSHOT:
		if (*made < MOST_SNAPSHOTS) {
			++*made;
			take_snapshot(w, one, rule->text, *made == MOST_SNAPSHOTS);
		}
		break;
	case WHEN_MARK:
		put_mark(w, one, rule->text);
		break;
	case WHEN_HEAP: /* the recorder's next round takes it */
		w->peak_seen |= rule->rule.peak;
		if (one->watch.header)
			heap_request(one->watch.header);
		break;
	}
}

void when_begin(struct when *w, struct record *r)
{
	w->record = r;
	w->end = &w->first;
	w->list.came_true = when_came_true;
	w->list.looked = when_looked;
	w->list.context = w;
	r->rules = &w->list;
	r->last_heap = w->last_heap;
	for (size_t i = 0; i < w->list.count; i++)
		if (w->list.rule[i].rule.of_cgroup && !cgroup_memory_limit(getpid()))
			record_say(r,
				   "--when '%s': there is no memory limit on this cgroup, so "
				   "the rule waits for one",
				   w->list.rule[i].text);
}

void when_free(struct when *w)
{
	while (w->first) {
		struct when_job *next = w->first->next;

		free_job(w->first);
		w->first = next;
	}
	watch_list_free(&w->list);
}
