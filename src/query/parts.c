/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c: totals of per-stack counters. */
#include "query/parts.h"

#include "trace/read/reader.h"

static uint64_t sum(const uint64_t *value, size_t count)
{
	uint64_t total = 0;

	for (size_t i = 0; i < count; i++)
		total += value[i];
	return total;
}

static void add_part(struct parts_totals *totals, const struct sums_part *part)
{
	totals->allocs += sum(part->allocs, part->nodes);
	totals->alloc_bytes += sum(part->alloc_bytes, part->nodes);
	totals->frees += sum(part->frees, part->nodes);
	totals->free_bytes += sum(part->free_bytes, part->nodes);
	totals->temps += sum(part->temps, part->nodes);
	totals->temp_bytes += sum(part->temp_bytes, part->nodes);
	totals->inherited += sum(part->inherited, part->nodes);
	totals->inherited_bytes += sum(part->inherited_bytes, part->nodes);
}

static void parts_look(struct parts_view *view, const struct sums_part *part, uint64_t *largest)
{
	uint64_t live;

	add_part(&view->end, part);
	view->parts++;
	live = parts_left(view->end.alloc_bytes, view->end.free_bytes);
	if (live <= *largest)
		return;
	*largest = live;
	view->peak = view->end;
	view->peak_time_ns = part->to_ns;
}

/* Live bytes at the peak, from the index of the trace: comparing with this tells whether a part
 * ends at the peak. In snapshots: the most live bytes at the end of an interval. */
static uint64_t peak_bytes(const struct mayfly_trace *trace)
{
	bool snapshots = trace->info.snapshot_ns != 0;
	uint64_t most = 0;

	for (size_t i = 0; i < trace->chunks; i++) {
		const struct trace_chunk *c = &trace->chunk[i];
		uint64_t bytes = snapshots ? c->live_bytes : c->largest_bytes;

		if (most < bytes)
			most = bytes;
	}
	return most;
}

int parts_find_peak(const struct mayfly_trace *trace, struct parts_peak *peak)
{
	uint64_t most = peak_bytes(trace);
	struct sums_part part;
	int found;

	*peak = (struct parts_peak){0};
	if (most == 0)
		return 0;
	for (size_t i = 0; trace->info.snapshot_ns && i < trace->chunks; i++) {
		const struct trace_chunk *c = &trace->chunk[i];

		if (c->live_bytes == most) {
			*peak = (struct parts_peak){c->first_event + c->events, c->to_ns};
			return 0;
		}
	}
	found = sums_find_peak(trace, most, &part);
	if (found == 1)
		*peak = (struct parts_peak){part.end_event, part.to_ns};
	return found < 0 ? found : 0;
}

int parts_scan(const struct mayfly_trace *trace, struct parts_view *view)
{
	uint64_t largest = 0;
	struct sums_cursor *cursor;
	struct sums_part part;
	int more;

	*view = (struct parts_view){0};
	if (trace_sums_parts(trace) == 0)
		return 0;
	more = sums_cursor_open(trace, &cursor);
	if (more)
		return more;
	while ((more = sums_cursor_next(cursor, &part)) == 1)
		parts_look(view, &part, &largest);
	sums_cursor_close(cursor);
	return more;
}
