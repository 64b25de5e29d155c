/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: opens any bytes as a trace, goes through its events and sums, asks the common
 * questions, compares it with itself and merges it with itself. */
#include <mayfly/trace.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "query/diff.h"
#include "query/grouping.h"
#include "trace/rewrite/merge.h"
#include "trace/rewrite/names_replace.h"
#include "trace/read/sums.h"

#include "fuzz_main.h"
#include "fuzz_repair.h"

/* What the tables have. */
static void look_at_picture(const struct mayfly_trace *t)
{
	const struct mayfly_picture *p = mayfly_trace_picture(t);
	size_t sum = 0;
	volatile size_t sink;

	for (size_t i = 0; p && i < p->holders; i++)
		sum += strlen(p->holder[i].name) + strlen(p->holder[i].place);
	for (size_t i = 0; p && i < p->types; i++)
		sum += strlen(p->type[i]);
	for (size_t i = 0; p && i < p->count; i++) {
		const struct mayfly_held *h = &p->held[i];

		if ((i && h->number <= h[-1].number) ||
		    (h->holder >= p->holders && h->holder != UINT32_MAX) ||
		    (h->type >= p->types && h->type != UINT32_MAX))
			abort();
	}
	sink = sum;
	(void)sink;
}

static void look(const struct mayfly_trace *t)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	size_t sum = strlen(info->program) + strlen(info->note) + strlen(info->off_text);
	volatile size_t sink;

	if (info->complete != (info->whole && !info->bad_chunks))
		abort();
	for (size_t i = 0; i < info->bad_chunks; i++) {
		const struct mayfly_bad_chunk *bad = mayfly_trace_bad_chunk(t, i);

		if (strlen(bad->type) > 4 || !*bad->holds || bad->offset >= info->file_bytes)
			abort();
	}
	for (size_t i = 0; i < info->command_count; i++)
		sum += strlen(info->command[i]);
	for (size_t i = 0; i < info->modules; i++) {
		const struct mayfly_module *m = mayfly_trace_module(t, i);

		sum += strlen(m->path) + strlen(m->problem);
		for (size_t k = 0; k < m->build_id_length; k++)
			sum += m->build_id[k];
	}
	for (size_t i = 0; i < info->threads; i++)
		sum += strlen(mayfly_trace_thread(t, i)->name);
	for (size_t i = 0; i < info->frames; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(t, i);

		for (size_t k = 0; k < f->locations; k++)
			sum += f->location[k].function[0] + f->location[k].file[0];
	}
	for (size_t i = 0; i < info->counters; i++) {
		const struct mayfly_counter *c = mayfly_trace_counter(t, i);

		sum += strlen(c->name) + strlen(c->unit);
		for (size_t k = 1; k < c->points; k++)
			if (c->time_ns[k] < c->time_ns[k - 1] || !isfinite(c->value[k]))
				abort();
	}
	for (int i = 0; i < 2; i++) {
		const struct mayfly_fragmentation *f = mayfly_trace_fragmentation(t, i);

		for (size_t k = 0; f && k < f->count; k++)
			if (f->fragment[k].node >= info->nodes)
				abort();
	}
	for (int i = 0; i < 2; i++) {
		const struct mayfly_residency *r = mayfly_trace_residency(t, i);

		for (size_t k = 0; r && k < r->count; k++) {
			if (r->mapping[k].start + r->mapping[k].size < r->mapping[k].start)
				abort();
			sum += strlen(r->mapping[k].name);
		}
	}
	look_at_picture(t);
	for (size_t i = 1; i < info->nodes; i++)
		if (mayfly_trace_node(t, i).parent >= i ||
		    mayfly_trace_node(t, i).frame >= info->frames)
			abort();
	sink = sum;
	(void)sink;
}

/* Types, labels and the track events. */
static void look_at_tracks(const struct mayfly_trace *t)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	size_t sum = 0, count;
	volatile size_t sink;

	for (size_t i = 0; i < info->track_types; i++) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(t, i);

		sum += strlen(type->name) + strlen(type->category) + strlen(type->unit);
		for (size_t k = 0; k < type->fields; k++)
			sum += strlen(type->field[k].name);
	}
	for (size_t i = 0; i < info->label_sets; i++) {
		const struct mayfly_label *label = mayfly_trace_labels(t, i, &count);

		for (size_t k = 0; k < count; k++)
			sum += strlen(label[k].key) + strlen(label[k].value);
	}
	sink = sum;
	(void)sink;
}

static void walk_tracks(const struct mayfly_trace *t)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	struct mayfly_track_cursor *c;
	struct mayfly_track_event e;
	int64_t last = INT64_MIN;
	uint64_t before = 0, events = 0;
	int more;

	if (mayfly_track_cursor_open(t, &c))
		return;
	while ((more = mayfly_track_cursor_next(c, &e)) == 1) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(t, e.type);

		if (!type || e.thread >= info->threads || e.node >= info->nodes ||
		    e.time_ns < last || e.events_before < before || e.values > type->fields)
			abort();
		events++;
		last = e.time_ns;
		before = e.events_before;
		for (size_t i = 0; i < e.values; i++)
			if (type->field[i].type == MAYFLY_FIELD_TEXT &&
			    strlen(e.value[i].text) > info->file_bytes * 4096)
				abort();
	}
	/* Opening has left out what is damaged. */
	if (more != MAYFLY_E_MEMORY && (more || events != info->track_events))
		abort();
	mayfly_track_cursor_close(c);
}

static void walk(const struct mayfly_trace *t)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	struct mayfly_cursor *c;
	struct mayfly_event e;
	int64_t last = INT64_MIN;

	if (mayfly_cursor_open(t, &c))
		return;
	while (mayfly_cursor_next(c, &e) == 1) {
		if (e.node >= info->nodes || e.thread >= info->threads ||
		    e.alloc_thread >= info->threads || e.labels >= info->label_sets ||
		    e.sample >= info->samples || e.time_ns < last || e.time_ns > info->duration_ns)
			abort();
		last = e.time_ns;
	}
	mayfly_cursor_close(c);
}

static void walk_sums(const struct mayfly_trace *t)
{
	struct sums_cursor *s;
	struct sums_part part;

	if (sums_cursor_open(t, &s))
		return;
	while (sums_cursor_next(s, &part) == 1)
		for (size_t i = 0; i < part.nodes; i++)
			if (part.node[i] >= mayfly_trace_info(t)->nodes ||
			    (i && part.node[i] <= part.node[i - 1]))
				abort();
	sums_cursor_close(s);
}

static void ask(const struct mayfly_trace *t)
{
	struct mayfly_result *result;
	struct mayfly_summary summary;
	struct mayfly_query query;
	struct mayfly_survival *survival;
	struct mayfly_track_sums *sums;
	struct mayfly_spans *spans;
	double points[16];

	mayfly_trace_summary(t, &summary);
	mayfly_timeline(t, 16, points);
	for (int by = MAYFLY_BY_FUNCTION; by <= MAYFLY_BY_LIFETIME; by++) {
		mayfly_query_defaults(&query);
		query.by = (enum mayfly_by)by;
		query.metric = (enum mayfly_metric)(by % 5);
		if (mayfly_query_run(t, &query, &result) == 0)
			mayfly_result_free(result);
		if (mayfly_survival_run(t, &query, &survival) == 0)
			mayfly_survival_free(survival);
	}
	for (int by = MAYFLY_BY_FUNCTION; by < GROUPING_COUNT; by++) {
		mayfly_query_defaults(&query);
		query.by = (enum mayfly_by)by;
		query.metric = MAYFLY_IN_PICTURE;
		query.holding = (enum mayfly_holding)(by % 3);
		if (mayfly_query_run(t, &query, &result) == 0)
			mayfly_result_free(result);
	}
	mayfly_query_defaults(&query);
	if (mayfly_spans_run(t, &query, &spans) == 0)
		mayfly_spans_free(spans);
	if (mayfly_track_sums_run(t, &query, &sums) == 0)
		mayfly_track_sums_free(sums);
}

static void compare(const struct mayfly_trace *t)
{
	static const enum mayfly_by by[] = {MAYFLY_BY_FUNCTION, MAYFLY_BY_STACK, MAYFLY_BY_THREAD};
	struct mayfly_query query;
	struct trace_diff *diff;

	for (size_t i = 0; i < sizeof(by) / sizeof(*by); i++) {
		mayfly_query_defaults(&query);
		query.by = by[i];
		query.metric = MAYFLY_ALLOCATED;
		if (trace_diff_run(t, t, &query, (struct diff_per){1, 1}, &diff))
			continue;
		/* A trace is equal to itself. */
		if (diff->bytes.change != 0)
			abort();
		trace_diff_free(diff);
	}
}

static int count_bytes(void *context, const void *bytes, size_t size)
{
	(void)bytes;
	*(size_t *)context += size;
	return 0;
}

static void merge(const struct mayfly_trace *t)
{
	struct trace_merge *m = trace_merge_new(MERGE_BY_CLOCK);
	size_t written = 0;
	bool stay;

	if (m && trace_merge_add(m, t, &stay) == 0 && trace_merge_add(m, t, &stay) == 0)
		trace_merge_write(m, "", count_bytes, &written);
	trace_merge_free(m);
}

/* A copy with another name for every third frame must be a sound trace, and equal but for these. */
static void rename_frames(const struct mayfly_trace *t)
{
	static const struct mayfly_location place = {
	    .function = "a name", .file = "a file", .line = 7};
	struct trace_buffer copy = {0};
	struct new_names names = {.location = &place};
	struct late_name *name = calloc(t->info.frames + 1, sizeof(*name));
	struct mayfly_trace *other;

	for (size_t i = 0; name && i < t->info.frames; i += 3)
		if (t->frame[i].kind == MAYFLY_FRAME_CODE)
			name[names.names++] = (struct late_name){i, 0, 1};
	names.name = name;
	if (name && trace_replace_names(t, &names, trace_buffer_sink, &copy) == 0) {
		int error = mayfly_trace_open(copy.bytes, copy.used, &other);

		if (error == MAYFLY_E_MEMORY) {
			free(copy.bytes);
			free(name);
			return;
		}
		if (error)
			abort();
		if (other->info.frames != t->info.frames || other->info.nodes != t->info.nodes ||
		    other->info.samples != t->info.samples || other->info.frees != t->info.frees ||
		    other->info.modules != t->info.modules ||
		    other->info.threads != t->info.threads)
			abort();
		for (size_t i = 0; i < t->info.modules; i++)
			if (strcmp(other->module[i].path, t->module[i].path) != 0)
				abort();
		for (size_t i = 0; i < t->info.threads; i++)
			if (strcmp(other->thread[i].name, t->thread[i].name) != 0)
				abort();
		for (size_t i = 0; i < names.names; i++)
			if (strcmp(other->frame[name[i].frame].location->function, "a name") != 0)
				abort();
		mayfly_trace_close(other);
	}
	free(copy.bytes);
	free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mayfly_trace *t;
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	repair(copy, size);
	if (mayfly_trace_open(copy, size, &t) == 0) {
		look(t);
		look_at_tracks(t);
		walk(t);
		walk_tracks(t);
		walk_sums(t);
		rename_frames(t);
		if (mayfly_trace_info(t)->samples < 20000) {
			ask(t);
			compare(t);
			merge(t);
		}
		mayfly_trace_close(t);
	}
	free(copy);
	return 0;
}
