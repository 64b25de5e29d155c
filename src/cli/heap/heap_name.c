/* SPDX-License-Identifier: Apache-2.0 */
/* Names in tables of heaps. */
#include "cli/heap/heap_print.h"

void heap_put_name(struct table *t, const struct heap_view *view, const char *name, size_t columns)
{
	char fitted[HEAP_NAME_TEXT];

	table_cell(t, view->out.wide ? name
				     : name_fit(fitted, sizeof(fitted), &view->out, name, columns));
}
