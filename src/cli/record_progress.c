/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: the line that shows how far it is. */
#include "cli/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/output.h"

#define PROGRESS_NS 200000000ll

char *record_count_text(uint64_t count)
{
	char digits[32];
	char *text = record_format("%*s", 32, ""), *to = text;
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
	return text;
}

void record_clear_progress(struct record *r)
{
	if (r->progress_ns)
		fputs("\r\033[K", stderr);
	fflush(stderr);
	r->progress_ns = 0;
}

/* On a terminal that the program does not write to itself: a line in the middle of its output, or
 * of a screen that it draws, would do harm. */
bool record_wants_progress(const struct record *r)
{
	return !r->quiet && isatty(STDERR_FILENO) && (r->progress || !isatty(STDOUT_FILENO));
}

/* Of the image that runs now: "1,234 samples  live about 12 MB". NULL: there is nothing to say. */
static char *counts_text(const struct record *r)
{
	const struct recorder *one = NULL;
	char live[FIGURE_TEXT], *count, *text;
	struct spool_glance g;
	bool exact;

	for (size_t i = 0; i < r->recorders; i++)
		if (r->recorder[i]->pid == r->child.pid)
			one = r->recorder[i];
	if (!one || !one->watch.header)
		return NULL;
	spool_glance_at(one->watch.header, &g);
	exact = g.exact;
	if (g.state == SPOOL_WAITING)
		return NULL;
	if (exact) {
		g.samples = one->status.allocations;
		g.live_bytes = (int64_t)one->status.live_bytes;
	}
	count = record_count_text(g.samples);
	text = record_format(
	    "%s %s  live %s%s%s", count, exact ? "allocations" : "samples", exact ? "" : "about ",
	    text_bytes(live, sizeof(live), g.live_bytes > 0 ? (double)g.live_bytes : 0),
	    g.dropped ? "  (some dropped)" : "");
	free(count);
	return text;
}

void record_show_progress(struct record *r)
{
	char time[FIGURE_TEXT], line[256];
	struct winsize window;
	int64_t now = now_ns();
	int columns = 80;
	char *counts;

	if (now - r->progress_ns < PROGRESS_NS)
		return;
	counts = counts_text(r);
	if (!counts)
		return;
	snprintf(line, sizeof(line), "mayfly: %s  %s",
		 text_duration(time, sizeof(time), (double)(now - r->start_ns)), counts);
	free(counts);
	/* A line that wraps could not be taken back. */
	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &window) && window.ws_col)
		columns = window.ws_col;
	fprintf(stderr, "\r\033[K%.*s", columns - 1, line);
	fflush(stderr);
	r->progress_ns = now;
}
