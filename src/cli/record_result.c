/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: what is said at the end. */
#include "cli/record.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/message.h"
#include "cli/output.h"

#define BEHIND_NS 500000000ll /* the recorder's being late that is worth a word */

const struct piece *record_main_piece(const struct record *r, const struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].pid == r->child.pid && list->piece[i].last)
			return &list->piece[i];
	return NULL;
}

/* "; 3 child processes -> out.*.mayfly", or "". */
static char *children_text(const struct record *r, const struct pieces *list)
{
	size_t children = 0;
	char *pattern, *text;

	for (size_t i = 0; i < list->count; i++)
		children += list->piece[i].pid != r->child.pid && list->piece[i].last &&
			    !list->piece[i].kept;
	if (!children)
		return record_format("%s", "");
	pattern = record_name_with(r->file, ".*");
	text = record_format("; %zu child process%s -> %s", children, children == 1 ? "" : "es",
			     pattern);
	free(pattern);
	return text;
}

/* What the program did before it became another one: "; ..." or "". */
static char *earlier_text(const struct record *r, const struct pieces *list)
{
	uint64_t earlier = 0;
	bool exact = false;
	char *count, *text;

	for (size_t i = 0; i < list->count && !r->follow; i++) {
		const struct piece *p = &list->piece[i];

		if (p->pid != r->child.pid || p->last)
			continue;
		earlier += p->glance.samples;
		exact |= p->glance.exact;
	}
	if (exact)
		return record_format(
		    "; what was allocated before an exec is left out (--follow keeps it)");
	if (!earlier)
		return record_format("%s", "");
	count = record_count_text(earlier);
	text =
	    record_format("; %s samples from before an exec left out (--follow keeps them)", count);
	free(count);
	return text;
}

/* What the agent could not hand over, and what helps: "; ..." or "". */
static char *dropped_text(const struct record *r, const struct recorder *one)
{
	char *count, *text, spool[FIGURE_TEXT];

	if (!one->dropped)
		return record_format("%s", "");
	count = record_count_text(one->dropped);
	if (r->exact)
		text =
		    record_format("; %s allocation%s dropped, as mayfly could not keep up: raise "
				  "--max-spool (%s), or sample with -i",
				  count, one->dropped == 1 ? "" : "s",
				  text_bytes(spool, sizeof(spool), (double)r->max_spool));
	else
		text = record_format("; %s samples dropped", count);
	free(count);
	return text;
}

/* The same of track events: "; ..." or "". The agent has one count of those for which there was no
 * room and those of signal handlers that had interrupted it. */
static char *dropped_events_text(const struct record *r, const struct recorder *one)
{
	char *count, *text;

	if (!one->dropped_events)
		return record_format("%s", "");
	count = record_count_text(one->dropped_events);
	text = record_format("; %s event%s dropped%s", count, one->dropped_events == 1 ? "" : "s",
			     r->exact && one->dropped
				 ? ""
				 : ": of signal handlers, or mayfly could not keep "
				   "up (raise --max-spool)");
	free(count);
	return text;
}

/* Reading went on for a while after the program's end: "; ..." or "". */
static char *behind_text(const struct record *r, const struct recorder *one)
{
	char late[FIGURE_TEXT], rate[FIGURE_TEXT];
	double events = (double)(one->status.allocations + one->status.frees);

	if (!r->exact || one->late_ns < BEHIND_NS || !one->read_ns)
		return record_format("%s", "");
	return record_format("; mayfly was behind by %s, it reads %s events a second",
			     text_duration(late, sizeof(late), (double)one->late_ns),
			     text_count(rate, sizeof(rate), events / ((double)one->read_ns / 1e9)));
}

/* All that is to be said of how it went; each begins with "; ". */
static char *remarks_text(const struct record *r, const struct pieces *list, const struct piece *p)
{
	char *earlier = earlier_text(r, list), *dropped = dropped_text(r, p->recorder);
	char *events = dropped_events_text(r, p->recorder);
	char *behind = behind_text(r, p->recorder), *text;
	char reason[2 * sizeof(p->glance.off_text)];
	bool off = p->glance.state == SPOOL_OFF;

	text = record_format("%s%s%s%s%s%s", earlier, dropped, events, behind,
			     off ? "; recording stopped early: " : "",
			     off ? text_clean(reason, sizeof(reason), p->glance.off_text) : "");
	free(earlier);
	free(dropped);
	free(events);
	free(behind);
	return text;
}

void record_say_result(const struct record *r, const struct pieces *list, const struct piece *p)
{
	char time[FIGURE_TEXT], size[FIGURE_TEXT], name[256];
	const struct recorder *one = p->recorder;
	char *count = record_count_text(one->status.allocations),
	     *children = children_text(r, list);
	char *remarks = remarks_text(r, list, p);

	/* Away from a terminal only what went wrong is said: the program's own messages stay as
	 * they are without mayfly. */
	if ((!r->quiet && isatty(STDERR_FILENO)) || p->glance.state == SPOOL_OFF ||
	    (one->dropped && r->exact) || one->dropped_events)
		cli_error(
		    "%s %s%s of %s in %s -> %s (%s)%s%s%s%s", count,
		    r->exact ? "allocation" : "sample", one->status.allocations == 1 ? "" : "s",
		    text_clean(name, sizeof(name), r->argv[0]),
		    text_duration(time, sizeof(time), (double)(r->child.ended_ns - r->start_ns)),
		    r->stream.only ? r->stream.to : p->trace,
		    text_bytes(size, sizeof(size), (double)one->trace_bytes), children, remarks,
		    r->stream.only ? "" : "; next: mayfly report ", r->stream.only ? "" : p->trace);
	free(count);
	free(children);
	free(remarks);
}

/* The agent never came up. */
void record_say_not_attached(const struct record *r)
{
	const char *command = r->argv[0];

	if (!r->program.ordinary)
		return; /* that has been said before it started */
	if (WIFSIGNALED(r->child.status))
		cli_error("no trace of %s: it was killed before the agent could start", command);
	else
		cli_error("no trace of %s: the agent could not start in it", command);
}
