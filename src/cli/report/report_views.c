/* SPDX-License-Identifier: Apache-2.0 */
/* report_views.c: the views of a report: their options, and what each can be combined with. */
#include "cli/report/report.h"

const struct report_view_kind report_views[] = {
    [VIEW_ROWS] = {"", TAKES_ALL | TAKES_PICTURE},
    [VIEW_SERIES] = {"--series", TAKES_ALL},
    [VIEW_HISTOGRAM] = {"--histogram", TAKES_ALL, .needs_blocks = true},
    [VIEW_CHURN] = {"--churn", TAKES_ALL & ~(TAKES_METRIC | TAKES_AT), .only_allocated = true,
		    .needs_blocks = true},
    [VIEW_REALLOCS] = {"--reallocs", TAKES_ALL & ~(TAKES_METRIC | TAKES_AT), .only_allocated = true,
		       .needs_blocks = true},
    [VIEW_SURVIVAL] = {"--survival", TAKES_BY | TAKES_WINDOW | TAKES_FILTERS | TAKES_THREAD |
					 TAKES_HIDE | TAKES_SHOW},
    [VIEW_RSS] = {"--rss", 0},
    [VIEW_FRAGMENTATION] = {"--fragmentation", TAKES_HIDE},
    [VIEW_SPANS] = {"--spans", TAKES_SORT | TAKES_WINDOW | TAKES_HEAP | TAKES_LIFETIME |
				   TAKES_FILTERS | TAKES_THREAD},
    [VIEW_EVENTS] = {"--events", TAKES_SORT | TAKES_WINDOW | TAKES_THREAD},
    [VIEW_TREE] = {"--by tree", TAKES_PICTURE | (TAKES_ALL & ~(TAKES_BY | TAKES_SORT))},
    [VIEW_CALLERS] = {"--callers", TAKES_PICTURE | (TAKES_ALL & ~(TAKES_BY | TAKES_SORT))},
    [VIEW_CALLEES] = {"--callees", TAKES_PICTURE | (TAKES_ALL & ~(TAKES_BY | TAKES_SORT))},
};
