/* SPDX-License-Identifier: Apache-2.0 */
/* The page of the viewer: see viewer_page.h. */
#include "cli/view/viewer_page.h"

#ifdef HAVE_PAGE
/* From viewer_page.S, in the build folder. Nothing is between them when npm's libraries were missing. */
extern const char viewer_page_begin[], viewer_page_end[];
#else
static const char viewer_page_begin[1];
#define viewer_page_end viewer_page_begin
#endif

bool viewer_page(const char **html, size_t *size)
{
	*html = viewer_page_begin;
	*size = (size_t)(viewer_page_end - viewer_page_begin);
	return *size > 0;
}
