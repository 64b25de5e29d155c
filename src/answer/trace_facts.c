/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a trace as a whole: see trace_facts.h. */
#include "answer/trace_facts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer/figures.h"
#include "answer/text_format.h"
#include "format/spool_format.h"
#include "trace/read/sums.h"

bool trace_has_no_blocks(const struct mayfly_info *info)
{
	return info->absent & MAYFLY_ABSENT_ALLOCATIONS;
}

/* Each importer lacks something that recordings have; snapshots of old versions have no errors. */
bool trace_is_recorded(const struct mayfly_info *info)
{
	return !(info->absent & ~(uint32_t)MAYFLY_ABSENT_ERRORS) && !info->memtrace_version;
}

bool trace_is_exact(const struct mayfly_info *info)
{
	bool sampled = info->mode == MAYFLY_SAMPLED && !(info->absent & MAYFLY_ABSENT_ERRORS);

	/* Sums in a trace of snapshots have errors only if it says which. */
	return info->snapshot_ns ? !sampled : info->mode == MAYFLY_EXACT && !info->thinned;
}

bool trace_is_ocaml_alone(const struct mayfly_info *info)
{
	return info->heaps & MAYFLY_HEAPS_OCAML &&
	       !(info->heaps & ~(MAYFLY_HEAPS_OCAML | 1u << MAYFLY_HEAP_MAPPING));
}

bool trace_overlaps(const struct mayfly_info *info)
{
	const uint32_t malloc_heap = 1u << MAYFLY_HEAP_MALLOC;

	/* A trace that was cut off does not say which heaps it has. */
	return info->ocaml_interval_bytes &&
	       (!info->heaps || (info->heaps & malloc_heap && info->heaps & MAYFLY_HEAPS_OCAML));
}

bool trace_has_pools(const struct mayfly_info *info)
{
	return info->heaps >> MAYFLY_HEAP_POOL & info->heaps >> MAYFLY_HEAP_MALLOC & 1;
}

/* A damaged file may say anything. */
static uint64_t without(uint64_t all, uint64_t mapped)
{
	return all > mapped ? all - mapped : 0;
}

uint64_t trace_samples(const struct mayfly_info *info)
{
	return without(info->samples, info->mapped_samples);
}

uint64_t trace_frees(const struct mayfly_info *info)
{
	return without(info->frees, info->mapped_frees);
}

uint64_t trace_inherited(const struct mayfly_info *info)
{
	return without(info->inherited, info->mapped_inherited);
}

/* A signal handler's allocation that is lost now and then changes no figure that can be seen. */
#define MUCH 0.01

char *trace_lost_text(char *buffer, size_t size, const struct mayfly_info *info)
{
	double samples = (double)info->dropped_samples, frees = (double)info->dropped_frees;
	double all_samples = samples + (double)info->samples,
	       all_frees = frees + (double)info->frees;
	bool exact = trace_is_exact(info);
	char share[FIGURE_TEXT];

	*buffer = 0;
	if (samples > MUCH * all_samples)
		text_format(buffer, size, "%s of the %s were dropped while recording",
			    text_percent(share, sizeof(share), samples, all_samples),
			    exact ? "allocations" : "samples");
	else if (frees > MUCH * all_frees)
		text_format(buffer, size, "%s of the frees were dropped while recording",
			    text_percent(share, sizeof(share), frees, all_frees));
	return buffer;
}

bool trace_is_runtime_frame(const struct mayfly_frame *frame)
{
	return frame->kind == MAYFLY_FRAME_CODE && frame->module == UINT32_MAX &&
	       frame->address >> 32 == SPOOL_RUNTIME_CODE >> 32;
}

/* The only value of the label heap=NAME; NULL: there is none, or there are several. */
static const char *only_heap_name(const struct mayfly_trace *trace)
{
	const char *name = NULL;

	for (size_t set = 1; set < mayfly_trace_info(trace)->label_sets; set++) {
		const struct mayfly_label *label;
		size_t count = 0;

		label = mayfly_trace_labels(trace, set, &count);
		for (size_t i = 0; i < count; i++) {
			if (strcmp(label[i].key, "heap") != 0)
				continue;
			if (name && strcmp(name, label[i].value) != 0)
				return NULL;
			name = label[i].value;
		}
	}
	return name;
}

const char *trace_heap_owner(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (size_t i = 0; info->heaps & MAYFLY_HEAPS_OCAML && i < info->frames; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, i);

		if (frame && trace_is_runtime_frame(frame)) {
			const char *name = only_heap_name(trace);

			return name ? name : "the runtime";
		}
	}
	return "OCaml";
}

/* ---- how it was recorded ---- */

size_t trace_snapshots(const struct mayfly_trace *trace)
{
	return mayfly_trace_info(trace)->snapshot_ns ? trace_sums_parts(trace) : 0;
}

char *trace_snapshots_text(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	int64_t every = mayfly_trace_info(trace)->snapshot_ns;
	char text[32];

	if (every <= 1)
		return text_format(buffer, size, "%zu", trace_snapshots(trace));
	return text_format(buffer, size, "every %s, %zu with changes",
			   text_duration(text, sizeof(text), (double)every),
			   trace_snapshots(trace));
}

/* The smallest and the largest interval that was in force; 0: nothing was sampled. */
struct intervals {
	double least, most;
};

static struct intervals intervals_of(const struct mayfly_trace *trace)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event event;
	struct intervals found = {0, 0};

	if (mayfly_cursor_open(trace, &cursor) != 0)
		return found;
	while (mayfly_cursor_next(cursor, &event) == 1) {
		if (event.kind != MAYFLY_ALLOC || event.heap != MAYFLY_HEAP_MALLOC ||
		    !(event.interval > 0))
			continue;
		if (event.interval > found.most)
			found.most = event.interval;
		if (!(found.least > 0) || event.interval < found.least)
			found.least = event.interval;
	}
	mayfly_cursor_close(cursor);
	return found;
}

char *interval_text(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	char first[FIGURE_TEXT], least[FIGURE_TEXT], most[FIGURE_TEXT];
	struct intervals found = intervals_of(trace);
	double begun = (double)info->interval_bytes;

	text_bytes(first, sizeof(first), begun);
	text_bytes(least, sizeof(least), found.least);
	text_bytes(most, sizeof(most), found.most);
	if (found.most > begun && found.least < begun)
		return text_format(buffer, size, "1 byte in %s at the start, in %s to %s later",
				   first, least, most);
	if (found.most > begun)
		return text_format(buffer, size, "1 byte in %s at the start, in up to %s later",
				   first, most);
	if (found.least > 0 && found.least < begun)
		return text_format(buffer, size, "1 byte in %s at the start, in down to %s later",
				   first, least);
	return text_format(buffer, size, "1 byte in %s", first);
}

char *sampler_text(char *buffer, size_t size, const struct mayfly_info *info, const char *before,
		   const char *after)
{
	if (info->absent & (MAYFLY_ABSENT_ERRORS | MAYFLY_ABSENT_SAMPLER))
		return text_format(buffer, size, "%s", "");
	return text_format(buffer, size, "%s%s%s", before,
			   info->sampler == MAYFLY_POISSON ? "Poisson" : "stratified", after);
}

char *mode_text(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	const char *what = info->absent & MAYFLY_ABSENT_LIVE	    ? "every allocation"
			   : info->absent & MAYFLY_ABSENT_ALLOCATED ? "every live block"
								    : "every allocation";
	char interval[160] = "", sampler[32];

	if (info->mode == MAYFLY_EXACT)
		return text_format(buffer, size, "%s", what);
	if (info->interval_bytes > 1)
		interval_text(interval, sizeof(interval), trace);
	else
		text_format(interval, sizeof(interval), "how finely is not known");
	if (info->absent & MAYFLY_ABSENT_ERRORS)
		return text_format(buffer, size, "%s; estimates as the file has them", interval);
	return text_format(buffer, size, "%s%s", interval,
			   sampler_text(sampler, sizeof(sampler), info, " (", ")"));
}

/* ---- counts ---- */

struct module_frames *count_module_frames(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct module_frames *count = calloc(info->modules + 1, sizeof(*count));

	for (size_t i = 0; count && i < info->frames; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(trace, i);

		if (f->kind != MAYFLY_FRAME_CODE || f->module >= info->modules)
			continue;
		count[f->module].frames++;
		count[f->module].named += f->locations > 0 && *f->location[0].function;
	}
	return count;
}

static void mark_nodes_of_events(const struct mayfly_trace *trace, bool *seen, size_t nodes)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event event;

	if (mayfly_cursor_open(trace, &cursor) != 0)
		return;
	while (mayfly_cursor_next(cursor, &event) == 1)
		if (event.kind == MAYFLY_ALLOC && event.node < nodes &&
		    event.heap != MAYFLY_HEAP_MAPPING)
			seen[event.node] = true;
	mayfly_cursor_close(cursor);
}

static void mark_nodes_of_counters(const struct mayfly_trace *trace, bool *seen, size_t nodes)
{
	struct sums_cursor *cursor;
	struct sums_part part;

	if (sums_cursor_open(trace, &cursor) != 0)
		return;
	while (sums_cursor_next(cursor, &part) == 1)
		for (size_t i = 0; i < part.nodes; i++)
			if (part.allocs[i] && part.node[i] < nodes)
				seen[part.node[i]] = true;
	sums_cursor_close(cursor);
}

size_t trace_stacks(const struct mayfly_trace *trace)
{
	size_t nodes = mayfly_trace_info(trace)->nodes, stacks = 0;
	bool *seen = calloc(nodes + 1, sizeof(*seen));

	if (!seen)
		return 0;
	if (trace_sums_parts(trace))
		mark_nodes_of_counters(trace, seen, nodes);
	else
		mark_nodes_of_events(trace, seen, nodes);
	for (size_t i = 0; i < nodes; i++)
		stacks += seen[i];
	free(seen);
	return stacks;
}

/* Spans that began, and of how many types. */
static int count_spans(const struct mayfly_trace *trace, struct track_counts *counts)
{
	size_t types = mayfly_trace_info(trace)->track_types;
	bool *seen = calloc(types + 1, sizeof(*seen));
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event e;
	int more = seen ? mayfly_track_cursor_open(trace, &cursor) : MAYFLY_E_MEMORY;

	if (more) {
		free(seen);
		return more;
	}
	while ((more = mayfly_track_cursor_next(cursor, &e)) == 1) {
		if (e.kind != MAYFLY_TRACK_BEGIN || e.type >= types)
			continue;
		counts->spans++;
		counts->span_types += !seen[e.type];
		seen[e.type] = true;
	}
	mayfly_track_cursor_close(cursor);
	free(seen);
	return more;
}

static int count_others(const struct mayfly_trace *trace, struct track_counts *counts)
{
	struct mayfly_track_sums *sums;
	struct mayfly_query all;
	int error;

	mayfly_query_defaults(&all);
	error = mayfly_track_sums_run(trace, &all, &sums);
	if (error)
		return error;
	for (size_t i = 0; i < sums->rows; i++) {
		if (mayfly_trace_track_type(trace, sums->row[i].type)->kind == MAYFLY_TYPE_COUNTER)
			counts->values += sums->row[i].count;
		else
			counts->instants += sums->row[i].count;
	}
	mayfly_track_sums_free(sums);
	return 0;
}

int count_tracks(const struct mayfly_trace *trace, struct track_counts *counts)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	int error;

	*counts = (struct track_counts){.label_sets = info->label_sets ? info->label_sets - 1 : 0};
	if (!info->track_events)
		return 0;
	error = count_spans(trace, counts);
	return error ? error : count_others(trace, counts);
}

/* Appends "3 THINGs" to a list. */
static void add_count(char *buffer, size_t size, uint64_t count, const char *thing)
{
	if (count)
		text_append(buffer, size, "%s%" PRIu64 " %s%s", *buffer ? ", " : "", count, thing,
			    count == 1 ? "" : "s");
}

char *track_counts_text(char *buffer, size_t size, const struct track_counts *counts)
{
	*buffer = 0;
	add_count(buffer, size, counts->spans, "span");
	if (counts->span_types > 1)
		text_append(buffer, size, " of %zu types", counts->span_types);
	add_count(buffer, size, counts->instants, "instant");
	add_count(buffer, size, counts->values, "counter value");
	return buffer;
}
