/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of traces that are made of foreign files: see import_tables.h. */
#include "convert/import/import_tables.h"

#include <mayfly/trace.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int budget_spend(struct budget *b, uint64_t bytes)
{
	if (bytes > b->left)
		return MAYFLY_E_TOO_LARGE;
	b->left -= bytes;
	return 0;
}

int budget_grow(struct budget *b, void *array, size_t used, size_t *room, size_t item)
{
	size_t want = *room ? *room + *room / 2 : 64;
	void *old, *bigger;
	int error;

	if (used < *room)
		return 0;
	error = budget_spend(b, (want - *room) * item);
	if (error)
		return error;
	memcpy(&old, array, sizeof(old));
	bigger = reallocarray(old, want, item);
	if (!bigger)
		return MAYFLY_E_MEMORY;
	memset((char *)bigger + *room * item, 0, (want - *room) * item);
	memcpy(array, &bigger, sizeof(bigger));
	*room = want;
	return 0;
}

int import_function(struct recording *t, uint32_t frame, const struct recording_location *place)
{
	struct recording_frame *f = &t->frame[frame];
	uint32_t index = recording_location(t, place);

	if (index == RECORDING_NONE)
		return MAYFLY_E_MEMORY;
	if (f->locations)
		t->location[index - 1].inlined = true;
	else
		f->first_location = index;
	f->locations++;
	return 0;
}

void import_count_named(struct recording *t)
{
	t->info.frames_symbolized = 0;
	for (size_t i = 0; i < t->frames; i++) {
		const struct recording_frame *f = &t->frame[i];

		t->info.frames_symbolized +=
		    f->locations && t->location[f->first_location].function;
	}
}

int import_describe(struct recording *t, const char *problem, const char *format, ...)
{
	char note[1024];
	va_list arguments;
	size_t used;

	va_start(arguments, format);
	vsnprintf(note, sizeof(note), format, arguments);
	va_end(arguments);
	used = strlen(note);
	if (*problem)
		snprintf(note + used, sizeof(note) - used, "; it is damaged: %s", problem);
	t->note = recording_string(t, note, strlen(note));
	t->info.complete = !*problem;
	return t->note == RECORDING_NONE ? MAYFLY_E_MEMORY : 0;
}

int import_describe_events(struct recording *t, const char *what, uint64_t events,
			   int64_t duration_ns, const char *problem, const char *left_out)
{
	int error = import_describe(t, problem, "converted from %s, %" PRIu64 " events%s%s", what,
				    events, *left_out ? "; left out: " : "", left_out);

	if (error || (!t->threads && recording_thread(t, 0, 0) == RECORDING_NONE))
		return MAYFLY_E_MEMORY;
	t->info.interval_bytes = 1;
	t->info.absent = MAYFLY_ABSENT_ALLOCATIONS | MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_LIVE |
			 MAYFLY_ABSENT_ALLOCATED | MAYFLY_ABSENT_TEMPORARY |
			 MAYFLY_ABSENT_LIFETIMES | MAYFLY_ABSENT_SIZES | MAYFLY_ABSENT_ERRORS |
			 MAYFLY_ABSENT_BLOCKS | MAYFLY_ABSENT_START | MAYFLY_ABSENT_COMMAND |
			 MAYFLY_ABSENT_MODULES;
	t->info.duration_ns = duration_ns;
	t->info.ending = MAYFLY_END_UNKNOWN;
	t->info.complete &= !*left_out;
	return 0;
}
