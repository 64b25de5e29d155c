/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of mayfly view, made by viewer/build.mjs: one HTML file in two parts. Between them
 * belongs what this page is to show:
 *
 *	<meta name="mayfly-server" content="1">		ask the server that served the page
 *	<script type="application/octet-stream" id="trace" data-name="NAME">BASE64</script>
 *
 * The latter may be followed by the same with the id "base", a trace to compare with, and by a
 * script of type "application/json" with the id "sources", {"PATH": "TEXT", ...}. With neither,
 * the page asks for a file.
 */
#ifndef MAYFLY_VIEWER_PAGE_H
#define MAYFLY_VIEWER_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct viewer_page {
	const char *before, *after;
	size_t before_size, after_size;
};

/* False: mayfly was built without the page. */
bool viewer_page(struct viewer_page *page);

#endif
