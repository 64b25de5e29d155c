/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: the line that shows how far it is. */
#include "cli/record/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "terminal/border.h"
#include "terminal/output.h"

#define PROGRESS_NS 200000000ll

char *record_count_text(char buffer[COUNT_TEXT], uint64_t count)
{
	char digits[COUNT_TEXT], *to = buffer;
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
	return buffer;
}

void record_clear_progress(struct record_command *c)
{
	if (c->progress_ns)
		border_sign(stderr, SIGN_CLEAR_LINE);
	fflush(stderr);
	c->progress_ns = 0;
}

/* Shows progress only on a terminal that the program does not write to: a line in the middle of its
 * output, or of a screen that it draws, would do harm. */
bool record_wants_progress(const struct record_command *c)
{
	return !c->record.quiet && isatty(STDERR_FILENO) && (c->progress || !isatty(STDOUT_FILENO));
}

/* Counts of the image that runs now: "1,234 samples  live about 12 MiB". False: none yet. */
static bool counts_text(const struct record *r, char *text, size_t size)
{
	const struct recorder *one = NULL;
	char live[FIGURE_TEXT], count[COUNT_TEXT];
	struct spool_glance g;
	bool exact;

	for (size_t i = 0; i < r->recorders; i++)
		if (r->recorder[i]->pid == r->child.pid)
			one = r->recorder[i];
	if (!one || !one->watch.header)
		return false;
	spool_glance_at(one->watch.header, &g);
	exact = g.exact;
	if (g.state == SPOOL_WAITING)
		return false;
	if (exact) {
		g.samples = one->status.allocations;
		g.live_bytes = (int64_t)one->status.live_bytes;
	}
	snprintf(text, size, "%s %s  live %s%s%s", record_count_text(count, g.samples),
		 exact ? "allocations" : "samples", exact ? "" : "about ",
		 text_bytes(live, sizeof(live), g.live_bytes > 0 ? (double)g.live_bytes : 0),
		 g.dropped ? "  (some dropped)" : "");
	return true;
}

void record_show_progress(struct record_command *c)
{
	char time[FIGURE_TEXT], counts[192], line[256];
	int64_t now = now_ns();

	if (now - c->progress_ns < PROGRESS_NS || !counts_text(&c->record, counts, sizeof(counts)))
		return;
	snprintf(line, sizeof(line), "mayfly: %s  %s",
		 text_duration(time, sizeof(time), (double)(now - c->record.start_ns)), counts);
	border_replace_line(line);
	c->progress_ns = now;
}

void record_show_download(void *command, const char *text)
{
	struct record_command *c = command;

	/* When the program has ended, the terminal is free. */
	if (c->record.quiet || !isatty(STDERR_FILENO) ||
	    (!c->record.child.ended && !record_wants_progress(c)))
		return;
	border_replace_line(text);
	c->progress_ns = *text ? now_ns() : 0;
}
