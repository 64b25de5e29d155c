/* SPDX-License-Identifier: Apache-2.0 */
/* The page of the viewer, when this build has it: what viewer/build.mjs made, in the program. */
#ifndef MAYFLY_VIEWER_PAGE_H
#define MAYFLY_VIEWER_PAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Stands once in the page: what the page shall show can be put in its place (view_html.h). */
#define VIEWER_PAGE_MARK "<!-- data -->"

/* False: it was built without the page. */
bool viewer_page(const char **html, size_t *size);

#endif
