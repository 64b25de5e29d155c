/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What answers each request: a function that puts the members of the answer's JSON object, which is
 * open, or bytes of its own.
 *
 * A function returns 0, or a negative enum mayfly_error after which nothing of the answer is used.
 */
#ifndef MAYFLY_ANSWERS_H
#define MAYFLY_ANSWERS_H

#include "answer/json_writer.h"
#include "view/request.h"

typedef int view_json(struct request *r, struct json *j);
typedef int view_bytes(struct request *r, struct view_answer *a);

view_json view_info, view_overview; /* view_info.c */
view_json view_rows, view_curve, view_series, view_grown, view_histogram,
    view_leaks;								     /* view_rows.c */
view_json view_spans, view_events, view_churn, view_reallocs, view_survival, /* view_panes.c */
    view_rss, view_fragmentation;
view_json view_callers; /* view_tree.c */
view_bytes view_tree, view_difftree;
view_json view_diff, view_changes;		  /* view_diff.c */
view_json view_source;				  /* view_source.c */
view_bytes view_export, view_file, view_basefile; /* view_export.c */
view_json view_lanes;				  /* view_lanes.c */
view_json view_counters;			  /* view_counters.c */
view_json view_heat;				  /* view_heat.c */
view_json view_held;				  /* view_held.c */

/* A part of the recording: [from, to), not empty. */
struct time_range {
	int64_t from_ns, to_ns;
};

/* The window of the question, within the recording. */
struct time_range view_range(const struct request *r);

#endif
