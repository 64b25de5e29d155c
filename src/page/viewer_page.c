/* SPDX-License-Identifier: Apache-2.0 */
/* The page of mayfly view: see viewer_page.h. */
#include "page/viewer_page.h"

#include <string.h>

#ifdef HAVE_PAGE
/* viewer_page.S, in the build folder. */
extern const char viewer_page_begin[], viewer_page_end[];

static const char mark[] = "<!-- data -->";

bool viewer_page(struct viewer_page *page)
{
	size_t size = (size_t)(viewer_page_end - viewer_page_begin);
	const char *at = memmem(viewer_page_begin, size, mark, sizeof(mark) - 1);

	if (!at)
		return false;
	page->before = viewer_page_begin;
	page->before_size = (size_t)(at - viewer_page_begin);
	page->after = at + sizeof(mark) - 1;
	page->after_size = (size_t)(viewer_page_end - page->after);
	return true;
}
#else
bool viewer_page(struct viewer_page *page)
{
	*page = (struct viewer_page){0};
	return false;
}
#endif
