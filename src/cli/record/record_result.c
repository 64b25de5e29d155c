/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: what is reported at the end. */
#include "cli/record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "terminal/message.h"
#include "terminal/output.h"

#define LATE_NS 500000000ll /* a shorter delay of the recorder is not reported */

const struct piece *record_main_piece(const struct record *r, const struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].pid == r->child.pid && list->piece[i].last)
			return &list->piece[i];
	return NULL;
}

/* The remarks of the last line: each begins with "; ". */

static void put_old(FILE *to, const struct piece *p)
{
	char *old = p->recorder->kept_old ? record_old_name(p->trace) : NULL;

	if (old)
		fprintf(to, "; the trace that was there is now %s", old);
	free(old);
}

static void put_children(FILE *to, const struct record *r, const struct pieces *list)
{
	size_t children = 0;
	char *pattern;

	for (size_t i = 0; i < list->count; i++)
		children += list->piece[i].pid != r->child.pid && list->piece[i].last &&
			    !list->piece[i].kept &&
			    !(list->piece[i].recorder && list->piece[i].recorder->place.settled);
	children += r->settled_count;
	pattern = children ? record_name_with(r->file, ".*") : NULL;
	if (pattern)
		fprintf(to, "; %zu child process%s -> %s", children, children == 1 ? "" : "es",
			pattern);
	free(pattern);
}

/* The samples of the program before it became another one by exec. */
static void put_earlier(FILE *to, const struct record *r, const struct pieces *list)
{
	uint64_t earlier = 0;
	bool exact = false;
	char count[COUNT_TEXT];

	for (size_t i = 0; i < list->count && !r->follow; i++) {
		const struct piece *p = &list->piece[i];

		if (p->pid != r->child.pid || p->last)
			continue;
		earlier += p->glance.samples;
		exact |= p->glance.exact;
	}
	if (exact)
		fputs("; what was allocated before an exec is left out (--follow keeps it)", to);
	else if (earlier)
		fprintf(to, "; %s samples from before an exec left out (--follow keeps them)",
			record_count_text(count, earlier));
}

/* What the agent could not deliver or see, and what helps. Events without room and events of signal
 * handlers that had interrupted the agent have one common count. */
static void put_dropped(FILE *to, const struct record *r, const struct recorder *one)
{
	char count[COUNT_TEXT], spool[FIGURE_TEXT];

	if (one->dropped && one->no_space)
		fprintf(to,
			"; %s %s%s dropped, as the spool had no space: write to a folder with more "
			"(-o)%s",
			record_count_text(count, one->dropped), r->exact ? "allocation" : "sample",
			one->dropped == 1 ? "" : "s", r->exact ? ", or sample with -i" : "");
	else if (one->dropped && r->exact)
		fprintf(to,
			"; %s allocation%s dropped, as mayfly could not keep up: raise --max-spool "
			"(%s), or sample with -i",
			record_count_text(count, one->dropped), one->dropped == 1 ? "" : "s",
			text_bytes(spool, sizeof(spool), (double)r->max_spool));
	else if (one->dropped)
		fprintf(to, "; %s samples dropped", record_count_text(count, one->dropped));
	if (one->dropped_events)
		fprintf(to, "; %s event%s dropped%s", record_count_text(count, one->dropped_events),
			one->dropped_events == 1 ? "" : "s",
			r->exact && one->dropped ? ""
						 : ": of signal handlers, or mayfly could not keep "
						   "up (raise --max-spool)");
	if (one->missed_frees)
		fprintf(to, "; %s free%s not seen: see mayfly info",
			record_count_text(count, one->missed_frees),
			one->missed_frees == 1 ? "" : "s");
}

/* Reading went on for a while after the program's end. */
static void put_late(FILE *to, const struct record *r, const struct recorder *one)
{
	char late[FIGURE_TEXT], rate[FIGURE_TEXT];
	double events = (double)(one->status.allocations + one->status.frees);

	if (r->exact && one->late_ns >= LATE_NS && one->read_ns)
		fprintf(to, "; mayfly was behind by %s, it reads %s events a second",
			text_duration(late, sizeof(late), (double)one->late_ns),
			text_count(rate, sizeof(rate), events / ((double)one->read_ns / 1e9)));
}

/* NULL: out of memory. */
static char *remarks_text(const struct record *r, const struct pieces *list, const struct piece *p)
{
	char reason[2 * sizeof(p->glance.off_text)], note[2 * sizeof(p->recorder->note)];
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	put_old(to, p);
	put_children(to, r, list);
	put_earlier(to, r, list);
	put_dropped(to, r, p->recorder);
	put_late(to, r, p->recorder);
	if (*p->recorder->note)
		fprintf(to, "; note: %s", text_clean(note, sizeof(note), p->recorder->note));
	if (p->glance.state == SPOOL_OFF && !r->child.adopted)
		fprintf(to, "; recording stopped early: %s",
			text_clean(reason, sizeof(reason), p->glance.off_text));
	return fclose(to) ? NULL : text;
}

/* These run what they are told to in a child process and wait for it, where others become it. */
static void say_child(const struct record *r)
{
	static const char *const parents[] = {"su",    "sudo",	  "runuser",	       "doas",
					      "bwrap", "unshare", "start-stop-daemon", NULL};
	const char *name = spool_base_name(r->argv[0]);
	size_t i = 0;

	while (parents[i] && strcmp(parents[i], name))
		i++;
	if (parents[i] && !r->quiet && !r->follow && !r->child.adopted && !r->images)
		cli_error("%s runs its program in a child process, which is not recorded without "
			  "--follow",
			  name);
}

void record_say_result(const struct record *r, const struct pieces *list, const struct piece *p)
{
	char time[FIGURE_TEXT], size[FIGURE_TEXT], name[256];
	const struct recorder *one = p->recorder;
	char count[COUNT_TEXT], *remarks = remarks_text(r, list, p);

	/* Away from a terminal, only errors are reported, so the output is the program's alone. */
	if ((!r->quiet && isatty(STDERR_FILENO)) ||
	    (p->glance.state == SPOOL_OFF && !r->child.adopted) || (one->dropped && r->exact) ||
	    one->dropped_events || one->missed_frees)
		cli_error(
		    "%s %s%s of %s in %s -> %s (%s)%s%s%s",
		    record_count_text(count, one->status.allocations),
		    r->exact ? "allocation" : "sample", one->status.allocations == 1 ? "" : "s",
		    text_clean(name, sizeof(name), r->argv[0]),
		    text_duration(time, sizeof(time), (double)(r->child.ended_ns - r->start_ns)),
		    r->stream.only ? r->stream.to : p->trace,
		    text_bytes(size, sizeof(size), (double)one->trace_bytes),
		    remarks ? remarks : "", r->stream.only ? "" : "; next: mayfly report ",
		    r->stream.only ? "" : p->trace);
	free(remarks);
	say_child(r);
}

/* The agent never came up, or its spool was removed, maybe with its folder. */
void record_say_not_attached(const struct record *r, bool removed)
{
	const char *command = r->argv[0];

	if (recorder_is_lost(r->recorder[0])) {
		cli_error("no trace of %s: somebody emptied '%s', or its disk failed", command,
			  r->spool);
		return;
	}
	if (!r->program.ordinary)
		return; /* that has been said before it started */
	if (removed)
		cli_error("no trace of %s: '%s' was removed while it ran", command, r->spool);
	else if (WIFSIGNALED(r->child.status))
		cli_error("no trace of %s: it was killed before the agent could start", command);
	else
		cli_error("no trace of %s: the agent could not start in it", command);
}
