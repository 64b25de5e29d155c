/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly view --html: the page with a trace in it, one file that needs nobody to serve it. In the
 * page, where VIEWER_PAGE_MARK stands:
 *
 *	<script type="application/octet-stream" id="trace" data-name="NAME">BASE64</script>
 *	... id="base"			the trace to compare with
 *	<script type="application/json" id="sources">{"PATH": "TEXT", ...}</script>
 */
#ifndef MAYFLY_VIEW_HTML_H
#define MAYFLY_VIEW_HTML_H

#include <stdbool.h>

#include "cli/input/open_trace.h"
#include "base/bytes.h"

struct view_html {
	const char *output; /* "-": standard output */
	bool force;	    /* replace it */
	/* NULL: the page alone, which asks for a file. */
	const char *path, *base_path;
	/* Source files that the trace names are put in, and listed on stderr; folder: nothing outside of
	 * it is read (source_files.h), NULL: wherever they are. */
	bool sources;
	const char *folder;
	const char
	    *state; /* what the page opens with, as its address has it; NULL: as the user likes */
};

/* trace, base: of path and base_path, or NULL. Returns an exit status, after a line on stderr when it
 * failed. */
int view_write_html(const struct view_html *how, const struct opened_trace *trace,
		    const struct opened_trace *base);

#endif
