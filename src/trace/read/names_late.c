/* SPDX-License-Identifier: Apache-2.0 */
/* Names for a trace that was opened without: in a recording they come last. */
#include <assert.h>
#include <stdlib.h>

#include "base/array.h"
#include "trace/read/reader.h"

int trace_name_late(struct mayfly_trace *t, struct mayfly_location *location,
		    const struct late_name *name, size_t names)
{
	if (!ARRAY_ADD(t->block, t->block_room, t->blocks, location)) {
		free(location);
		return MAYFLY_E_MEMORY;
	}
	for (size_t i = 0; i < names; i++) {
		struct mayfly_frame *f = &t->frame[name[i].frame];

		assert(name[i].frame < t->info.frames && name[i].count);
		t->info.frames_symbolized -= f->locations && *f->location->function;
		f->location = location + name[i].first;
		f->locations = name[i].count;
		t->info.frames_symbolized += *f->location->function != 0;
	}
	free(t->pool);
	t->pool = NULL;
	return overlap_find(t);
}
