/* SPDX-License-Identifier: Apache-2.0 */
/* top_whole.c: all lines of what is shown. */
#include "cli/top/top_frame.h"

bool frame_make(struct top_frame *f, struct top *t, struct top_cursor *cursor)
{
	f->o = &t->r.out;
	frame_head(f, t);
	if (t->facts.known) {
		frame_table_head(f, t);
		f->head = f->lines;
		frame_rows(f, t, cursor);
	} else {
		f->head = f->lines;
	}
	return !f->failed;
}
