/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of events share: what they show, and cells of several of them. */
#ifndef MAYFLY_REPORT_EVENT_CELLS_H
#define MAYFLY_REPORT_EVENT_CELLS_H

#include "answer/event_rows.h"
#include "cli/report/report.h"

/* All that is shown. */
struct event_view {
	const struct report *r;
	struct event_rows rows;
	bool categories; /* the types of the table at hand have some */
};

const struct mayfly_track_type *event_type(const struct event_view *v, uint32_t index);

/* The number of rows that --top leaves, and a line about the others. */
size_t events_shown(const struct event_view *v, size_t rows);
void events_print_more(const struct event_view *v, size_t rows);
void events_print_section(const struct event_view *v, const char *title);
/* ", from 1 s to 2 s", or "" */
char *event_window_text(char *buffer, size_t size, const struct report *r);
/* What the counts lack, beside them: "; 7 events could not be recorded", or "". more: " more" */
char *event_losses_text(char *buffer, size_t size, const struct event_view *v, const char *more);

/* Cells. */
void put_event_count(struct table *t, uint64_t count); /* as it is, while it is short */
/* The last one or two, with this title. */
void put_event_type(struct table *t, const struct event_view *v, const char *title, uint32_t index);

/* ---- the tables; false: out of memory ---- */

bool print_span_table(struct event_view *v);
bool print_pauses(const struct event_view *v);
bool print_instants(struct event_view *v);
bool print_counters(struct event_view *v);
bool print_cpu_by_thread(const struct event_view *v);
bool print_buckets(const struct event_view *v);

/* Prints the answer as JSON, or calls `text`. */
int print_event_view(struct event_view *v, int (*text)(struct event_view *));

#endif
