/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing and reading: what goes in comes out, as events and as sums; and what is cut off or
 * damaged does no harm. With --measure: sizes and times for a recording shaped like a compiler run.
 */
#include <mayfly/trace.h>

#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "trace/read/cursor.h"
#include "query/estimate.h"
#include "format/columns.h"
#include "format/events.h"
#include "format/format.h"
#include "trace/read/sums.h"
#include "trace/rewrite/names_replace.h"

#include "history.h"
#include "test.h"

/* ---- random histories ---- */

static uint64_t random_state;

static uint64_t random64(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint64_t below(uint64_t limit)
{
	return random64() % limit;
}

static double uniform(void)
{
	return ((double)(random64() >> 11) + 0.5) / 9007199254740992.0;
}

/* Now and then the largest, often small, of any size. */
static uint64_t any64(void)
{
	switch (below(8)) {
	case 0:
		return UINT64_MAX;
	case 1:
		return 0;
	default:
		return random64() >> below(64);
	}
}

static uint32_t random_string(struct recording *r, const char *prefix)
{
	char text[80];
	int length =
	    snprintf(text, sizeof(text), "%s_%llu\xff::<>", prefix, (unsigned long long)below(30));

	return below(6) ? recording_string(r, text, (size_t)length) : 0;
}

static void add_modules(struct recording *r, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct recording_module m = {
		    .path = random_string(r, "/usr/lib/lib"),
		    .problem = below(5) ? 0 : random_string(r, "no symbols"),
		    .build_id_length = (uint32_t)below(33),
		    .start = any64(),
		    .end = any64(),
		    .bias = any64(),
		    .from_ns = (int64_t)below(1000000000),
		    .to_ns = below(2) ? INT64_MAX : (int64_t)below(4000000000),
		};

		for (uint32_t k = 0; k < m.build_id_length; k++)
			m.build_id[k] = (uint8_t)random64();
		recording_module(r, &m);
	}
}

static void add_frames(struct recording *r, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t module =
		    r->modules && below(9) ? (uint32_t)below(r->modules) : RECORDING_NONE;
		uint32_t kind = below(20) ? MAYFLY_FRAME_CODE : (uint32_t)below(3);
		uint32_t index = recording_frame(r, kind, module, any64());
		size_t locations = below(4);

		if (r->frame[index].locations)
			continue;
		r->frame[index].first_location = (uint32_t)r->locations;
		r->frame[index].locations = (uint32_t)locations;
		for (size_t k = 0; k < locations; k++) {
			struct recording_location l = {
			    .function = random_string(r, "function"),
			    .file = random_string(r, "file.c"),
			    .line = (uint32_t)any64(),
			    .inlined = below(2),
			};

			recording_location(r, &l);
		}
	}
}

static void add_nodes(struct recording *r, size_t count)
{
	/* Some are children of the one before, so that there are deep stacks. */
	uint32_t last = 0;

	for (size_t i = 0; r->frames && i < count; i++) {
		uint32_t parent = below(4) ? last : (uint32_t)below(r->nodes);

		if (below(100) == 0)
			parent = 0;
		last = recording_node(r, parent, (uint32_t)below(r->frames));
	}
}

static struct trace_block random_block(const struct recording *r, bool exact)
{
	struct trace_block b = {
	    .size = any64(),
	    .node = (uint32_t)below(r->nodes),
	    .thread = (uint32_t)below(r->threads),
	    .hits = below(3) ? 1 : (uint32_t)(any64() & TRACE_MAX_HITS),
	    .interval_log2 = (uint8_t)(below(10) ? 19 : below(41)),
	    .flags = (uint8_t)(below(10) ? 0 : below(16)),
	};

	if (exact) {
		b.size >>= 8 + below(40); /* so that sums do not overflow */
		b.hits = b.interval_log2 = 0;
	}
	return b;
}

static void add_blocks(struct history *h, bool exact, size_t count)
{
	struct recording *r = h->r;
	int64_t now = below(4) ? (int64_t)below(1000000) : -(int64_t)below(1000000000);

	if (h->blocks)
		now = h->block[h->blocks - 1].time_ns;
	for (size_t i = 0; i < count; i++) {
		struct history_block b = {
		    .time_ns = now, .free_ns = INT64_MAX, .block = random_block(r, exact)};

		if (below(3)) {
			b.free_ns = now + (int64_t)(random64() >> (24 + below(40)));
			if (below(50) == 0)
				b.free_ns = now - (int64_t)below(1000);
			b.free_thread = below(3) ? b.block.thread : (uint32_t)below(r->threads);
			b.free_flags = (uint32_t)(below(5) ? 0 : below(4));
		}
		history_add(h, &b);
		now += below(8) ? (int64_t)(random64() >> (30 + below(34))) : 0;
	}
}

static void random_info(struct recording *r)
{
	struct mayfly_info *info = &r->info;

	info->mode = (uint32_t)below(2);
	info->sampler = (uint32_t)below(2);
	info->pid = (uint32_t)random64();
	info->parent_pid = (uint32_t)any64();
	info->interval_bytes = (uint64_t)1 << below(41);
	info->start_real_ns = (int64_t)(random64() >> 1);
	info->duration_ns = (int64_t)(random64() >> below(30) >> 4);
	info->ending = (uint32_t)below(6);
	info->ending_code = (int32_t)any64();
	info->seed = any64();
	info->truncated_stacks = any64();
	info->dropped_samples = any64();
	info->dropped_frees = any64();
	info->missed_frees = any64();
	info->mapped_peak_bytes = any64();
	info->mapped_bytes = any64();
	info->mapped_blocks = any64();
	info->nested_blocks = any64();
	info->nested_bytes = any64();
	info->complete = below(2);
	info->spool = below(2);
	r->command_count = below(4);
	r->command = calloc(r->command_count + 1, sizeof(*r->command));
	for (size_t i = 0; i < r->command_count; i++)
		r->command[i] = random_string(r, "argument");
	r->program = random_string(r, "/usr/bin/program");
	r->off_text = random_string(r, "off");
	r->note = random_string(r, "note");
	r->title = random_string(r, "title");
}

static struct history random_history(uint64_t seed, size_t scale)
{
	struct history h = {.r = recording_new()};
	struct recording *r = h.r;

	random_state = seed;
	random_info(r);
	add_modules(r, below(scale / 4 + 2));
	for (size_t i = below(scale / 4 + 2) + 1; i; i--)
		recording_thread(r, (uint32_t)any64(), random_string(r, "thread"));
	add_frames(r, below(scale * 2 + 1));
	add_nodes(r, below(scale * 6 + 1));
	add_blocks(&h, r->info.mode == MAYFLY_EXACT, below(scale * 4 + 1));
	return h;
}

static struct trace_writer_options options_of(const struct history *h, int level)
{
	return (struct trace_writer_options){
	    .mode = h->r->info.mode, .sampler = h->r->info.sampler, .level = level};
}

/* Times of events in an exact trace are off by up to this. */
#define EXACT_ERROR_NS 1000000

/* ---- equality ---- */

static int64_t floored(int64_t ns, int64_t unit)
{
	return (ns / unit - (ns % unit < 0)) * unit;
}

static bool same_time(uint32_t mode, int64_t want, int64_t got)
{
	if (mode == MAYFLY_EXACT)
		return got - want <= EXACT_ERROR_NS && want - got <= EXACT_ERROR_NS;
	return got == floored(want, TRACE_UNIT_NS);
}

static bool same_text(const struct recording *r, uint32_t string, const char *text)
{
	return strcmp(recording_text(r, string), text) == 0;
}

static bool same_locations(const struct recording *r, const struct recording_frame *want,
			   const struct mayfly_frame *got)
{
	if (!want->locations && want->kind == MAYFLY_FRAME_CODE)
		return got->locations == 1 && !*got->location->function && !*got->location->file &&
		       !got->location->line && !got->location->inlined;
	if (got->locations != want->locations)
		return false;
	for (size_t i = 0; i < got->locations; i++) {
		const struct recording_location *l = &r->location[want->first_location + i];

		if (!same_text(r, l->function, got->location[i].function) ||
		    !same_text(r, l->file, got->location[i].file) ||
		    l->line != got->location[i].line || l->inlined != got->location[i].inlined)
			return false;
	}
	return true;
}

static bool same_frame(const struct recording *r, uint32_t frame, const struct mayfly_frame *got)
{
	const struct recording_frame *want = &r->frame[frame];

	return got && want->kind == got->kind && want->module == got->module &&
	       want->address == got->address && same_locations(r, want, got);
}

static bool same_stack(const struct recording *r, uint32_t node, const struct mayfly_trace *t,
		       uint32_t got)
{
	while (node && got) {
		struct mayfly_node here = mayfly_trace_node(t, got);

		if (!same_frame(r, r->node[node].frame, mayfly_trace_frame(t, here.frame)))
			return false;
		if (here.parent >= got)
			return false;
		node = r->node[node].parent;
		got = here.parent;
	}
	return !node && !got;
}

/* How many nodes and frames the blocks' stacks have. */
static void count_needed(const struct history *h, size_t *nodes, size_t *frames)
{
	const struct recording *r = h->r;
	bool *node = calloc(r->nodes, 1), *frame = calloc(r->frames + 1, 1);

	*nodes = 1;
	*frames = 0;
	for (size_t i = 0; i < h->blocks; i++)
		for (uint32_t n = h->block[i].block.node; n && !node[n]; n = r->node[n].parent) {
			node[n] = true;
			++*nodes;
			*frames += !frame[r->node[n].frame];
			frame[r->node[n].frame] = true;
		}
	free(node);
	free(frame);
}

static void compare_info(const struct history *h, const struct mayfly_info *got)
{
	const struct recording *r = h->r;
	const struct mayfly_info *want = &r->info;
	size_t nodes, frames;
	bool thinned = false;

	CHECK(got->mode == want->mode && got->sampler == want->sampler);
	CHECK(got->pid == want->pid && got->parent_pid == want->parent_pid);
	CHECK(got->interval_bytes == want->interval_bytes && got->seed == want->seed);
	CHECK(got->start_real_ns == want->start_real_ns);
	CHECK(got->duration_ns >= want->duration_ns);
	CHECK(got->ending == want->ending && got->ending_code == want->ending_code);
	CHECK(got->truncated_stacks == want->truncated_stacks);
	CHECK(got->dropped_samples == want->dropped_samples);
	CHECK(got->dropped_frees == want->dropped_frees);
	CHECK(got->missed_frees == want->missed_frees);
	CHECK(got->mapped_peak_bytes == want->mapped_peak_bytes);
	CHECK(got->mapped_bytes == want->mapped_bytes && got->mapped_blocks == want->mapped_blocks);
	CHECK(got->nested_blocks == want->nested_blocks);
	CHECK(got->nested_bytes == want->nested_bytes);
	CHECK(got->complete == want->complete && got->spool == want->spool);
	CHECK(got->command_count == r->command_count);
	for (size_t i = 0; i < got->command_count; i++)
		CHECK(same_text(r, r->command[i], got->command[i]));
	CHECK(same_text(r, r->program, got->program));
	CHECK(same_text(r, r->off_text, got->off_text));
	CHECK(same_text(r, r->note, got->note));
	CHECK(same_text(r, r->title, got->title));
	CHECK(strcmp(got->version, MAYFLY_VERSION) == 0);
	CHECK(got->samples == h->blocks && got->modules == r->modules);
	count_needed(h, &nodes, &frames);
	CHECK(got->threads == r->threads && got->nodes == nodes && got->frames == frames);
	for (size_t i = 0; i < h->blocks; i++)
		thinned |= (h->block[i].block.flags & MAYFLY_FLAG_THINNED) != 0;
	CHECK(got->thinned == thinned && got->snapshot_ns == 0);
}

static void compare_modules(const struct recording *r, const struct mayfly_trace *t)
{
	for (size_t i = 0; i < r->modules; i++) {
		const struct recording_module *want = &r->module[i];
		const struct mayfly_module *got = mayfly_trace_module(t, i);

		CHECK(same_text(r, want->path, got->path));
		CHECK(same_text(r, want->problem, got->problem));
		CHECK(want->start == got->start && want->end == got->end);
		CHECK(want->bias == got->bias);
		CHECK(want->build_id_length == got->build_id_length &&
		      !memcmp(want->build_id, got->build_id, got->build_id_length));
		CHECK(got->from_ns == floored(want->from_ns, TRACE_UNIT_NS));
		CHECK(got->to_ns ==
		      (want->to_ns == INT64_MAX ? INT64_MAX : floored(want->to_ns, TRACE_UNIT_NS)));
	}
	CHECK(!mayfly_trace_module(t, r->modules));
	for (size_t i = 0; i < r->threads; i++) {
		CHECK(mayfly_trace_thread(t, i)->tid == r->thread[i].tid);
		CHECK(same_text(r, r->thread[i].name, mayfly_trace_thread(t, i)->name));
	}
	CHECK(!mayfly_trace_thread(t, r->threads));
}

static void compare_block(const struct history *h, const struct mayfly_trace *t,
			  const struct mayfly_event *e)
{
	const struct history_block *want = &h->block[e->sample];
	const struct trace_block *b = &want->block;
	double bytes, blocks;

	CHECK(e->size == b->size && e->hits == b->hits && e->alloc_thread == b->thread);
	CHECK(e->interval == (uint64_t)1 << b->interval_log2);
	CHECK(same_time(h->r->info.mode, want->time_ns, e->alloc_time_ns));
	CHECK(same_stack(h->r, b->node, t, e->node));
	sample_weight((enum mayfly_sampler)h->r->info.sampler, e->interval, e->size, e->hits,
		      &bytes, &blocks);
	CHECK(bytes == e->weight_bytes && blocks == e->weight_blocks);
}

/* Event after event, in their order. */
static void compare_events(const struct history *h, const struct mayfly_trace *t)
{
	struct mayfly_cursor *c;
	struct mayfly_event e;
	size_t count, i = 0;
	struct history_event *want = history_events(h, &count);
	int64_t last = INT64_MIN;
	int result;

	CHECK(mayfly_cursor_open(t, &c) == 0);
	while ((result = mayfly_cursor_next(c, &e)) == 1 && i < count) {
		const struct history_block *b = &h->block[want[i].block];

		compare_block(h, t, &e);
		CHECK(same_time(h->r->info.mode, want[i].time_ns, e.time_ns));
		CHECK(e.time_ns >= last);
		last = e.time_ns;
		CHECK(e.sample == want[i].block);
		CHECK(e.kind == (want[i].is_free ? MAYFLY_FREE : MAYFLY_ALLOC));
		CHECK(e.thread == (want[i].is_free ? b->free_thread : b->block.thread));
		CHECK(e.flags == (want[i].is_free ? b->free_flags : b->block.flags));
		i++;
	}
	CHECK(result == 0, "%s", mayfly_error_text(result));
	CHECK(i == count && count == mayfly_trace_info(t)->samples + mayfly_trace_info(t)->frees);
	mayfly_cursor_close(c);
	free(want);
}

/* ---- sums ---- */

struct counts {
	uint64_t allocs, alloc_bytes, frees, free_bytes, temps, temp_bytes;
};

/* Takes a part's counters from those that its events gave: nothing must be left. */
static void compare_part(const struct sums_part *part, struct counts *of, size_t nodes)
{
	for (size_t i = 0; i < part->nodes; i++) {
		struct counts *n = &of[part->node[i]];

		CHECK(part->node[i] < nodes && (!i || part->node[i] > part->node[i - 1]));
		CHECK(part->allocs[i] == n->allocs && part->alloc_bytes[i] == n->alloc_bytes);
		CHECK(part->frees[i] == n->frees && part->free_bytes[i] == n->free_bytes);
		CHECK(part->temps[i] == n->temps && part->temp_bytes[i] == n->temp_bytes);
		CHECK(n->allocs || n->frees);
		*n = (struct counts){0};
	}
	for (size_t i = 0; i < nodes; i++)
		CHECK(!of[i].allocs && !of[i].frees);
}

static void count_event(struct counts *n, const struct mayfly_event *e)
{
	bool temporary = e->flags & MAYFLY_FLAG_TEMPORARY;

	if (e->kind == MAYFLY_ALLOC) {
		n->allocs++;
		n->alloc_bytes += e->size;
		return;
	}
	n->frees++;
	n->free_bytes += e->size;
	n->temps += temporary;
	n->temp_bytes += temporary ? e->size : 0;
}

/* Each part against its events, and the largest of all at the end of one. */
static size_t compare_sums(const struct mayfly_trace *t)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	struct counts *of = calloc(info->nodes, sizeof(*of));
	uint64_t live = 0, events = 0, most = 0, most_event = 0;
	struct mayfly_cursor *c;
	struct sums_cursor *s;
	struct mayfly_event e;
	struct sums_part part;
	size_t parts = 0;
	bool ends_at_peak = false;
	int result;

	CHECK(mayfly_cursor_open(t, &c) == 0);
	CHECK(sums_cursor_open(t, &s) == 0);
	while ((result = sums_cursor_next(s, &part)) == 1) {
		uint64_t largest = 0;
		bool first = true;

		while (events < part.end_event && mayfly_cursor_next(c, &e) == 1) {
			CHECK(!first || same_time(MAYFLY_EXACT, part.from_ns, e.time_ns));
			first = false;
			events++;
			count_event(&of[e.node], &e);
			live += e.kind == MAYFLY_ALLOC ? e.size : -e.size;
			if (largest < live)
				largest = live;
			if (most < live) {
				most = live;
				most_event = events;
				ends_at_peak = false;
			}
		}
		CHECK(!first && events == part.end_event);
		CHECK(same_time(MAYFLY_EXACT, part.to_ns, e.time_ns));
		CHECK(part.largest_bytes == largest);
		ends_at_peak |= most_event == part.end_event;
		compare_part(&part, of, info->nodes);
		parts++;
	}
	CHECK(result == 0 && parts == trace_sums_parts(t), "%zu parts", parts);
	CHECK(mayfly_cursor_next(c, &e) == 0 && (ends_at_peak || !most));
	mayfly_cursor_close(c);
	sums_cursor_close(s);
	free(of);
	return parts;
}

static void compare_chunks(const struct mayfly_trace *t)
{
	struct mayfly_cursor *c;
	struct cursor_batch b;
	uint64_t live = 0, events = 0, allocs = 0;
	size_t i = 0;

	CHECK(mayfly_cursor_open(t, &c) == 0);
	for (; cursor_next_batch(c, &b) == 1; i++) {
		uint64_t largest = 0;
		size_t alloc = 0, freed = 0;

		CHECK(b.chunk == &t->chunk[i] && b.chunk->first_event == events);
		CHECK(b.chunk->first_alloc == allocs);
		for (size_t k = 0; k < b.e.events; k++) {
			live += b.e.is_free[k] ? -b.freed[freed++].size : b.e.size[alloc++];
			if (largest < live)
				largest = live;
		}
		if (mayfly_trace_info(t)->mode == MAYFLY_EXACT)
			CHECK(b.chunk->live_bytes == live && b.chunk->largest_bytes == largest);
		events += b.e.events;
		allocs += b.e.allocs;
	}
	CHECK(i == t->chunks);
	mayfly_cursor_close(c);
}

static struct mayfly_trace *write_and_open(const struct history *h, int level, size_t flush,
					   uint8_t **bytes)
{
	const struct trace_writer_options options = options_of(h, level);
	struct mayfly_trace *t = NULL;
	size_t size;
	int error = history_write(h, &options, flush, bytes, &size);

	CHECK(error == 0, "%s", mayfly_error_text(error));
	error = mayfly_trace_open(*bytes, size, &t);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	return t;
}

static void compare_trace(const struct history *h, struct mayfly_trace *t)
{
	struct sums_cursor *s;

	if (t) {
		compare_info(h, mayfly_trace_info(t));
		compare_modules(h->r, t);
		compare_events(h, t);
		compare_chunks(t);
		if (h->r->info.mode == MAYFLY_EXACT)
			compare_sums(t);
		else
			CHECK(sums_cursor_open(t, &s) == MAYFLY_E_ABSENT && !s);
	}
	mayfly_trace_close(t);
}

static void compare(const struct history *h, int level, size_t flush)
{
	uint8_t *bytes;

	compare_trace(h, write_and_open(h, level, flush, &bytes));
	free(bytes);
}

/* ---- tests ---- */

static void random_histories_survive(void)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct history h = random_history(seed, seed % 5 * 10);

		compare(&h, 1 + (int)(seed % 3), 0);
		compare(&h, 1, 1 + seed % 37);
		if (test_bad)
			printf("# seed %llu\n", (unsigned long long)seed);
		history_free(&h);
		if (test_bad)
			return;
	}
}

static void large_histories_survive(void)
{
	for (uint64_t seed = 1000; seed < 1004; seed++) {
		struct history h = random_history(seed, 2000);

		compare(&h, 0, 0);
		compare(&h, 0, 700);
		history_free(&h);
	}
}

static void empty_history_survives(void)
{
	struct history h = {.r = recording_new()};

	h.r->info.interval_bytes = 1;
	h.r->info.complete = true;
	compare(&h, 0, 0);
	history_free(&h);
}

/* Full chunks: blocks freed in later ones than they were allocated in. */
static void several_chunks_survive(void)
{
	for (uint32_t mode = MAYFLY_SAMPLED; mode <= MAYFLY_EXACT; mode++) {
		struct history h = random_history(77, 40);

		h.blocks = 0;
		h.r->info.mode = mode;
		add_blocks(&h, mode == MAYFLY_EXACT, 400000);
		compare(&h, 1, 0);
		history_free(&h);
	}
}

/* A recording of many processes writes all traces by one coder, which begins with what was best for
 * the one before, whether that was of the same program or of another. */
static void traces_share_a_coder(void)
{
	struct column_writer *columns = column_writer_new(COLUMNS_LEAN);
	struct event_coder *coder = event_coder_new(columns);
	struct history h[2] = {random_history(79, 40), random_history(80, 40)};
	size_t first[2] = {0};

	for (size_t i = 0; i < 2; i++) {
		h[i].r->info.mode = MAYFLY_EXACT;
		h[i].blocks = 0;
	}
	add_blocks(&h[0], true, 100000);
	for (int64_t i = 0; i < 100000; i++) {
		struct history_block b = {.time_ns = 1000 * i, .free_ns = 1000 * i + 500};

		b.block = (struct trace_block){.size = 32, .node = (uint32_t)(i % 3)};
		history_add(&h[1], &b);
	}
	for (size_t i = 0; i < 8; i++) {
		const size_t k = i / 2 % 2; /* each after its like, and after the other */
		struct trace_writer_options options = options_of(&h[k], 0);
		struct mayfly_trace *t = NULL;
		uint8_t *bytes;
		size_t size;

		options.quick = columns;
		options.quick_events = coder;
		CHECK(history_write(&h[k], &options, 0, &bytes, &size) == 0);
		CHECK(mayfly_trace_open(bytes, size, &t) == 0);
		compare_trace(&h[k], t);
		if (!first[k])
			first[k] = size;
		CHECK(i % 2 == 0 || size <= first[k] + first[k] / 50, "%zu: %zu, first %zu", i,
		      size, first[k]);
		free(bytes);
	}
	for (size_t i = 0; i < 2; i++)
		history_free(&h[i]);
	event_coder_free(coder);
	column_writer_free(columns);
}

/* So many events that SUMS comes several times. Live bytes go up and down, on the whole up. */
static void several_spans_survive(void)
{
	struct history h = random_history(78, 40);
	uint8_t *bytes;
	struct mayfly_trace *t;
	int64_t now = 0;

	h.blocks = 0;
	h.r->info.mode = MAYFLY_EXACT;
	for (uint32_t i = 0; i < 1300000; i++) {
		struct history_block b = {.time_ns = now, .free_ns = INT64_MAX};

		b.block = random_block(h.r, true);
		b.block.size %= 1000;
		if (below(100) < 90)
			b.free_ns = now + 1000 + (int64_t)below(1000) * (i / 300000 % 2 ? 10 : 900);
		history_add(&h, &b);
		now += (int64_t)below(2000);
	}
	t = write_and_open(&h, 1, 0, &bytes);
	CHECK(t && compare_sums(t) > 3);
	mayfly_trace_close(t);
	free(bytes);
	history_free(&h);
}

/* A thread gets its last name, a module its end and a problem, when they have been written. */
static void later_names_survive(void)
{
	struct history h = {0};
	const struct trace_writer_options options = {.level = 1};
	struct trace_buffer buffer = {0};
	struct trace_writer *w;
	struct mayfly_trace *t;
	uint32_t nothing;

	do {
		history_free(&h);
		h = random_history(random64(), 40);
	} while (!h.r->modules || h.blocks < 10);
	h.r->info.mode = h.r->info.sampler = 0;
	for (size_t i = 0; i < h.blocks; i++)
		h.block[i].block.hits = 1;
	w = trace_writer_new(&options, h.r, trace_buffer_sink, &buffer);
	CHECK(history_put(&h, w, 5) == 0 && trace_writer_flush(w) == 0 && buffer.used > 100);
	nothing = h.r->thread[0].name;
	h.r->thread[0].name = recording_string(h.r, "renamed", 7);
	h.r->module[0].problem = recording_string(h.r, "no file", 7);
	h.r->module[0].to_ns = h.r->module[0].from_ns + 777000;
	h.r->note = recording_string(h.r, "a later note", 12);
	h.r->info.seed++;
	h.r->info.pid = 0;
	h.r->off_text = 0;
	CHECK(nothing != h.r->thread[0].name);
	CHECK(trace_writer_finish(w) == 0 && trace_writer_bytes(w) == buffer.used);
	CHECK(trace_writer_allocs(w) == h.blocks && trace_writer_chunks(w) > 2);
	trace_writer_free_all(w);
	CHECK(mayfly_trace_open(buffer.bytes, buffer.used, &t) == 0);
	compare_info(&h, mayfly_trace_info(t));
	compare_modules(h.r, t);
	compare_events(&h, t);
	mayfly_trace_close(t);
	free(buffer.bytes);
	history_free(&h);
}

/* Whose index was not taken has no names replaced: the copy's would be taken, whatever it says. */
static void names_need_the_index(void)
{
	static const struct mayfly_location place = {.function = "a", .file = "b"};
	const struct late_name name = {0, 0, 1};
	const struct new_names names = {.name = &name, .names = 1, .location = &place};
	struct history h = random_history(78, 40);
	const struct trace_writer_options options = {
	    .mode = h.r->info.mode, .sampler = h.r->info.sampler, .level = 1};

	for (size_t i = 0; i <= TRACE_TRAILER_BYTES; i++) {
		struct trace_buffer buffer = {0}, copy = {0};
		bool unused = i > 8 && i <= 12; /* between checksum and magic */
		struct mayfly_trace *t;
		int error;

		CHECK(history_write(&h, &options, 5, &buffer.bytes, &buffer.used) == 0);
		if (i)
			buffer.bytes[buffer.used - i] ^= 1;
		CHECK(mayfly_trace_open(buffer.bytes, buffer.used, &t) == 0);
		error = trace_replace_names(t, &names, trace_buffer_sink, &copy);
		CHECK(error == (i && !unused ? MAYFLY_E_EMPTY : 0), "byte %zu: %d", i, error);
		mayfly_trace_close(t);
		free(buffer.bytes);
		free(copy.bytes);
	}
	history_free(&h);
}

static void bad_events_are_refused(void)
{
	static const struct trace_block good = {.hits = 1, .interval_log2 = 19};
	struct trace_block bad[] = {
	    {.node = 1}, {.thread = 1}, {.interval_log2 = 41}, {.hits = 1}, {.interval_log2 = 1}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad) + 2; i++) {
		struct trace_writer_options options = {.mode = i >= 3 ? MAYFLY_EXACT : 0};
		struct trace_buffer buffer = {0};
		struct recording *r = recording_new();
		struct trace_writer *w;
		uint64_t serial;
		int error;

		recording_thread(r, 1, 0);
		if (i >= 5)
			options.mode = MAYFLY_SAMPLED;
		w = trace_writer_new(&options, r, trace_buffer_sink, &buffer);
		if (i < 5) {
			error = trace_writer_alloc(w, 0, &bad[i], &serial);
		} else {
			CHECK(trace_writer_alloc(w, 0, &good, &serial) == 0);
			error = trace_writer_free(w, 0, i == 5 ? 1 : 0, &good, i - 5, 0);
		}
		CHECK(error == MAYFLY_E_RANGE, "%zu", i);
		CHECK(trace_writer_finish(w) == MAYFLY_E_RANGE && !buffer.used);
		trace_writer_free_all(w);
		recording_free(r);
	}
}

/* What the sink says sticks. */
static int full_sink(void *context, const void *bytes, size_t size)
{
	(void)bytes;
	*(size_t *)context += size;
	return 28;
}

static void sinks_may_fail(void)
{
	static const struct trace_block block = {.hits = 1, .interval_log2 = 19};
	const struct trace_writer_options options = {0};
	struct recording *r = recording_new();
	size_t given = 0;
	uint64_t serial;
	struct trace_writer *w;

	recording_thread(r, 1, 0);
	w = trace_writer_new(&options, r, full_sink, &given);
	CHECK(trace_writer_alloc(w, 0, &block, &serial) == 0 && !given);
	CHECK(trace_writer_free(w, 0, TRACE_THINNED, &block, 0, 0) == 0);
	CHECK(trace_writer_flush(w) == 28 && given && !trace_writer_bytes(w));
	CHECK(trace_writer_alloc(w, 0, &block, &serial) == 28);
	CHECK(trace_writer_finish(w) == 28);
	trace_writer_free_all(w);
	recording_free(r);
}

/* A block that is freed twice is found out when its events are read. */
static void double_frees_are_found(void)
{
	static const struct trace_block block = {.hits = 1, .interval_log2 = 19};
	const struct trace_writer_options options = {0};

	for (int flush = 0; flush < 2; flush++) {
		struct trace_buffer buffer = {0};
		struct recording *r = recording_new();
		struct mayfly_trace *t = NULL;
		struct mayfly_cursor *c;
		struct mayfly_event e;
		struct trace_writer *w;
		uint64_t serial;

		recording_thread(r, 1, 0);
		w = trace_writer_new(&options, r, trace_buffer_sink, &buffer);
		trace_writer_alloc(w, 0, &block, &serial);
		trace_writer_free(w, 1, serial, &block, 0, 0);
		if (flush)
			trace_writer_flush(w);
		trace_writer_free(w, 2, serial, &block, 0, 0);
		CHECK(trace_writer_finish(w) == 0);
		trace_writer_free_all(w);
		CHECK(mayfly_trace_open(buffer.bytes, buffer.used, &t) == 0);
		CHECK(mayfly_cursor_open(t, &c) == 0);
		for (int i = 0; flush && i < 2; i++)
			CHECK(mayfly_cursor_next(c, &e) == 1);
		CHECK(mayfly_cursor_next(c, &e) == MAYFLY_E_DAMAGED);
		CHECK(mayfly_cursor_next(c, &e) == MAYFLY_E_DAMAGED);
		mayfly_cursor_close(c);
		mayfly_trace_close(t);
		free(buffer.bytes);
		recording_free(r);
	}
}

/* From any chunk on: the same events, but for blocks of before. */
static void cursors_start_anywhere(void)
{
	struct history h = random_history(4242, 60);
	uint8_t *bytes;
	struct mayfly_trace *t;
	size_t unknown = 0;

	h.r->info.mode = 0;
	add_blocks(&h, false, 300);
	t = write_and_open(&h, 1, 50, &bytes);
	for (size_t start = 0; t && start <= t->chunks; start++) {
		struct cursor_batch whole = {0}, part;
		struct mayfly_cursor *a, *b;

		CHECK(mayfly_cursor_open(t, &a) == 0);
		CHECK(mayfly_cursor_open(t, &b) == 0);
		CHECK(cursor_start_at(b, start) == 0);
		for (size_t i = 0; i < start; i++)
			CHECK(cursor_next_batch(a, &whole) == 1);
		for (size_t i = start; i < t->chunks; i++) {
			uint64_t first = t->chunk[start].first_alloc;

			CHECK(cursor_next_batch(a, &whole) == 1);
			CHECK(cursor_next_batch(b, &part) == 1 && part.e.events == whole.e.events);
			for (size_t k = 0; k < part.e.events - part.e.allocs; k++) {
				bool known = part.e.freed[k] >= first;

				CHECK(part.e.freed[k] == whole.e.freed[k]);
				CHECK(part.freed[k].node ==
				      (known ? whole.freed[k].node : UINT32_MAX));
				unknown += !known;
			}
		}
		CHECK(cursor_next_batch(b, &part) == 0);
		mayfly_cursor_close(a);
		mayfly_cursor_close(b);
	}
	CHECK(t && t->chunks > 5 && unknown > 0);
	mayfly_trace_close(t);
	free(bytes);
	history_free(&h);
}

/* ---- snapshots ---- */

struct snapshot_model {
	struct counts *of; /* of each node of the tables */
	uint64_t live, largest, events;
};

/* The tables' node with the stack of a node of the trace, which may have no names yet. */
static uint32_t find_node(struct recording *r, const struct mayfly_trace *t, uint32_t got)
{
	struct mayfly_node n = mayfly_trace_node(t, got);
	const struct mayfly_frame *f;

	if (!got)
		return 0;
	f = mayfly_trace_frame(t, n.frame);
	return recording_node(r, find_node(r, t, n.parent),
			      recording_frame(r, f->kind, f->module, f->address));
}

static void compare_snapshot(const struct history *h, const struct mayfly_trace *t,
			     const struct sums_part *part, struct snapshot_model *m)
{
	size_t nodes = h->r->nodes;

	CHECK(part->end_event == m->events && part->largest_bytes == m->largest);
	for (size_t i = 0; i < part->nodes; i++) {
		uint32_t node = find_node(h->r, t, part->node[i]);
		const struct counts *n = &m->of[node];

		CHECK(h->r->nodes == nodes); /* nothing was added */
		CHECK(part->allocs[i] == n->allocs && part->alloc_bytes[i] == n->alloc_bytes);
		CHECK(part->frees[i] == n->frees && part->free_bytes[i] == n->free_bytes);
		CHECK(part->temps[i] == n->temps && part->temp_bytes[i] == n->temp_bytes);
		m->of[node] = (struct counts){0};
	}
	for (size_t i = 0; i < h->r->nodes; i++)
		CHECK(!m->of[i].allocs && !m->of[i].frees);
	m->largest = 0;
}

static void model_event(struct snapshot_model *m, const struct history *h,
			const struct history_event *event)
{
	const struct history_block *b = &h->block[event->block];
	const struct mayfly_event e = {
	    .kind = event->is_free ? MAYFLY_FREE : MAYFLY_ALLOC,
	    .flags = event->is_free ? b->free_flags : b->block.flags,
	    .size = b->block.size,
	};

	count_event(&m->of[b->block.node], &e);
	m->live += event->is_free ? -b->block.size : b->block.size;
	m->events++;
	if (m->largest < m->live)
		m->largest = m->live;
}

/* The parts that `bytes` have, against the events in each interval. Returns their number. */
static size_t compare_snapshots(const struct history *h, int64_t step, const uint8_t *bytes,
				size_t size)
{
	struct snapshot_model m = {.of = calloc(h->r->nodes, sizeof(*m.of))};
	struct mayfly_trace *t = NULL;
	struct mayfly_cursor *c;
	struct sums_cursor *s;
	struct sums_part part;
	size_t parts = 0, count, i = 0;
	struct history_event *event = history_events(h, &count);
	int error = mayfly_trace_open(bytes, size, &t), result = 1;

	if (error) {
		CHECK(error == MAYFLY_E_EMPTY || (size < 8 && error == MAYFLY_E_NOT_A_TRACE));
		free(event);
		free(m.of);
		return 0;
	}
	CHECK(mayfly_cursor_open(t, &c) == MAYFLY_E_ABSENT && !c);
	CHECK(mayfly_trace_info(t)->snapshot_ns == step);
	CHECK(sums_cursor_open(t, &s) == 0);
	while ((result = sums_cursor_next(s, &part)) == 1) {
		CHECK(part.from_ns % step == 0 && part.to_ns <= part.from_ns + step);
		for (; i < count && (event[i].time_ns < part.from_ns + step); i++)
			model_event(&m, h, &event[i]);
		CHECK(!i || event[i - 1].time_ns >= part.from_ns || part.from_ns == 0);
		compare_snapshot(h, t, &part, &m);
		parts++;
	}
	CHECK(result == 0 && parts == trace_sums_parts(t));
	CHECK(mayfly_trace_info(t)->samples + mayfly_trace_info(t)->frees == i);
	if (mayfly_trace_info(t)->complete)
		CHECK(i == count && mayfly_trace_info(t)->samples == h->blocks);
	sums_cursor_close(s);
	mayfly_trace_close(t);
	free(event);
	free(m.of);
	return parts;
}

static void snapshots_survive(void)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct history h = random_history(seed, 30);
		struct trace_writer_options options = {.mode = MAYFLY_EXACT, .level = 1};
		uint8_t *bytes;
		size_t size;

		h.r->info.mode = MAYFLY_EXACT;
		h.r->info.complete = true;
		h.blocks = 0;
		add_blocks(&h, true, 150);
		options.snapshot_ns = 1 + h.block[149].time_ns / (int64_t)(1 + below(20));
		if (options.snapshot_ns < 1)
			options.snapshot_ns = 1000;
		CHECK(history_write(&h, &options, 0, &bytes, &size) == 0);
		CHECK(compare_snapshots(&h, options.snapshot_ns, bytes, size) > 0);
		if (seed <= 4) {
			size_t last = 0;

			for (size_t cut = 0; cut < size; cut += 1 + (seed > 1) * below(30)) {
				size_t parts =
				    compare_snapshots(&h, options.snapshot_ns, bytes, cut);

				CHECK(parts >= last);
				last = parts;
			}
		}
		free(bytes);
		history_free(&h);
		if (test_bad)
			printf("# seed %llu\n", (unsigned long long)seed);
	}
}

static void strings_and_nodes_are_distinct(void)
{
	struct recording *r = recording_new();

	CHECK(recording_string(r, "", 0) == 0);
	CHECK(recording_string(r, "ab", 2) == 1 && recording_string(r, "abc", 3) == 2);
	CHECK(recording_string(r, "abc", 2) == 1 && recording_string(r, "ab\0c", 4) == 1);
	CHECK(recording_string(r, "\0x", 2) == 0);
	for (unsigned i = 0; i < 1000; i++) {
		CHECK(recording_frame(r, 0, i % 7, i / 7) == i);
		CHECK(recording_node(r, i / 2, i) == i + 1);
	}
	for (unsigned i = 0; i < 1000; i++) {
		CHECK(recording_frame(r, 0, i % 7, i / 7) == i);
		CHECK(recording_node(r, i / 2, i) == i + 1);
	}
	recording_free(r);
}

/* Nodes with few children and with many, each child found again in changing order. */
static void children_keep_their_nodes(void)
{
	enum { PARENTS = 40, STEPS = 20000 };
	struct recording *r = recording_new();
	uint32_t *node = calloc(PARENTS * PARENTS, sizeof(*node));

	for (uint32_t i = 0; i < PARENTS; i++)
		CHECK(recording_node(r, 0, i) == i + 1);
	for (unsigned step = 0; step < STEPS; step++) {
		uint32_t parent = (uint32_t)below(PARENTS), frame = (uint32_t)below(parent + 1);
		size_t nodes = r->nodes;
		uint32_t got = recording_node(r, parent + 1, frame);

		CHECK(got == (node[parent * PARENTS + frame] ?: nodes));
		CHECK(r->node[got].parent == parent + 1 && r->node[got].frame == frame);
		node[parent * PARENTS + frame] = got;
	}
	CHECK(r->nodes == 1 + PARENTS + PARENTS * (PARENTS + 1) / 2);
	free(node);
	recording_free(r);
}

static void check_tables(const struct mayfly_trace *t, size_t size)
{
	const struct mayfly_info *info = mayfly_trace_info(t);

	for (size_t i = 0; i < info->frames; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(t, i);

		CHECK(f->kind != MAYFLY_FRAME_CODE || f->locations);
		for (size_t k = 0; k < f->locations; k++)
			CHECK(strlen(f->location[k].function) < size * 4096);
		CHECK(f->module == UINT32_MAX || f->module < info->modules);
	}
	for (size_t i = 1; i < info->nodes; i++)
		CHECK(mayfly_trace_node(t, i).parent < i &&
		      mayfly_trace_node(t, i).frame < info->frames);
}

/* What reading a trace gave. */
struct outcome {
	int error;	/* of opening */
	int walk, sums; /* how the walks ended */
	bool complete;
	uint64_t events;
	uint64_t hash[4096]; /* of the events up to each */
};

static void walk_events(const struct mayfly_trace *t, struct outcome *o)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	uint64_t hash = 1;
	struct mayfly_cursor *c;
	struct mayfly_event e;

	CHECK(mayfly_cursor_open(t, &c) == 0);
	while ((o->walk = mayfly_cursor_next(c, &e)) == 1) {
		CHECK(e.node < info->nodes && e.thread < info->threads);
		CHECK(e.time_ns <= info->duration_ns && e.sample < info->samples);
		hash ^= (uint64_t)e.time_ns << 30;
		hash = (hash ^ e.size ^ e.sample << 20 ^ e.kind ^ (uint64_t)e.node << 40) *
		       0x9e3779b97f4a7c15u;
		if (o->events < 4096)
			o->hash[o->events] = hash;
		o->events++;
	}
	CHECK(o->walk < 0 || o->events == info->samples + info->frees);
	mayfly_cursor_close(c);
}

static void walk_sums(const struct mayfly_trace *t, struct outcome *o)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	struct sums_cursor *s;
	struct sums_part part;
	size_t parts = 0;

	if (sums_cursor_open(t, &s))
		return;
	while ((o->sums = sums_cursor_next(s, &part)) == 1) {
		for (size_t i = 0; i < part.nodes; i++)
			CHECK(part.node[i] < info->nodes);
		parts++;
	}
	CHECK(o->sums < 0 || parts == trace_sums_parts(t));
	CHECK(o->sums < 0 || part.end_event == info->samples + info->frees || !parts);
	sums_cursor_close(s);
}

/* Reads all there is. */
static struct outcome *exercise(const uint8_t *bytes, size_t size)
{
	static struct outcome o;
	struct mayfly_trace *t;
	/* A copy, so that a read past the end is noticed by AddressSanitizer. */
	uint8_t *copy = malloc(size ? size : 1);

	memset(&o, 0, sizeof(o));
	if (size)
		memcpy(copy, bytes, size);
	o.error = mayfly_trace_open(copy, size, &t);
	if (!o.error) {
		o.complete = mayfly_trace_info(t)->complete;
		check_tables(t, size);
		walk_events(t, &o);
		walk_sums(t, &o);
		mayfly_trace_close(t);
	}
	free(copy);
	return &o;
}

/* A trace of a few chunks, some of them long after the first. */
static uint8_t *golden(uint32_t mode, size_t *size)
{
	struct history h = random_history(4242, 60);
	struct trace_writer_options options;
	uint8_t *bytes = NULL;

	h.blocks = 0;
	h.r->info.mode = mode;
	add_blocks(&h, mode == MAYFLY_EXACT, 200);
	h.r->info.complete = true;
	options = options_of(&h, 3);
	CHECK(history_write(&h, &options, 60, &bytes, size) == 0);
	history_free(&h);
	return bytes;
}

static void every_truncation_is_read(void)
{
	struct outcome *whole = malloc(sizeof(*whole)), *o;

	for (uint32_t mode = MAYFLY_SAMPLED; mode <= MAYFLY_EXACT; mode++) {
		size_t size, steps = 0;
		uint8_t *bytes = golden(mode, &size);
		uint64_t last = 0;

		*whole = *exercise(bytes, size);
		CHECK(!whole->error && !whole->walk && !whole->sums && whole->complete);
		CHECK(whole->events > 200);
		for (size_t cut = 0; cut < size; cut++) {
			o = exercise(bytes, cut);
			CHECK(!o->complete && !o->walk && !o->sums, "cut at %zu", cut);
			CHECK(o->error == 0 || o->error == MAYFLY_E_EMPTY ||
				  (cut < 8 && o->error == MAYFLY_E_NOT_A_TRACE),
			      "cut at %zu: %s", cut, mayfly_error_text(o->error));
			CHECK(o->events >= last && o->events <= whole->events);
			/* What there is, is the beginning of the whole. */
			CHECK(!o->events || o->hash[o->events - 1] == whole->hash[o->events - 1]);
			steps += o->events != last;
			last = o->events;
		}
		CHECK(last == whole->events && steps > 3);
		free(bytes);
	}
	free(whole);
}

/* Sets the checksums right again, so that damage reaches what is behind them. */
static void repair(uint8_t *bytes, size_t size)
{
	size_t at = TRACE_HEADER_BYTES;
	uint32_t crc;

	if (size < at)
		return;
	crc = trace_checksum(0, bytes, 20);
	memcpy(bytes + 20, &crc, 4);
	while (size - at > TRACE_TRAILER_BYTES) {
		uint32_t stored;

		memcpy(&stored, bytes + at + 4, 4);
		if (stored > size - at - TRACE_CHUNK_BYTES)
			return;
		crc = trace_checksum(0, bytes + at, 12);
		crc = trace_checksum(crc, bytes + at + TRACE_CHUNK_BYTES, stored);
		memcpy(bytes + at + 12, &crc, 4);
		at += TRACE_CHUNK_BYTES + stored;
	}
}

static void corruptions_are_read(void)
{
	size_t size;
	uint8_t *bytes = golden(MAYFLY_EXACT, &size), *copy = malloc(size);
	struct rlimit old, limit;
	uint64_t opened = 0, refused = 0, stopped = 0;

	/* The reader may use 64 MiB + 4096 times the size, twice. AddressSanitizer needs more. */
	getrlimit(RLIMIT_AS, &old);
	limit = old;
	limit.rlim_cur = ((rlim_t)300 << 20) + 2 * 4096 * size;
	(void)limit;
#if !defined(__SANITIZE_ADDRESS__)
#if defined(__has_feature)
#if !__has_feature(address_sanitizer)
	setrlimit(RLIMIT_AS, &limit);
#endif
#else
	setrlimit(RLIMIT_AS, &limit);
#endif
#endif
	for (unsigned round = 0; round < 10000; round++) {
		const struct outcome *o;

		random_state = 31337 + round;
		memcpy(copy, bytes, size);
		for (uint64_t flips = 1 + below(8); flips; flips--) {
			size_t at = below(size);

			copy[at] =
			    below(2) ? (uint8_t)random64() : copy[at] ^ (uint8_t)(1u << below(8));
		}
		if (round % 4)
			repair(copy, size);
		o = exercise(copy, size);
		opened += o->error == 0;
		refused += o->error != 0;
		stopped += o->walk < 0 || o->sums < 0;
	}
	setrlimit(RLIMIT_AS, &old);
	/* Neither may be all of them, or the test would test nothing. */
	CHECK(opened > 100 && refused > 100 && stopped > 100,
	      "%llu opened, %llu of them to some point, %llu refused", (unsigned long long)opened,
	      (unsigned long long)stopped, (unsigned long long)refused);
	free(copy);
	free(bytes);
}

static void other_files_are_refused(void)
{
	static const uint8_t nothing[64];

	CHECK(exercise(NULL, 0)->error == MAYFLY_E_NOT_A_TRACE);
	CHECK(exercise(nothing, sizeof(nothing))->error == MAYFLY_E_NOT_A_TRACE);
}

static void newer_traces_are_refused(void)
{
	const struct outcome *o;
	size_t size;
	uint8_t *bytes = golden(MAYFLY_EXACT, &size);

	for (uint8_t version = 1; version <= 3; version += 2) {
		bytes[8] = version;
		repair(bytes, size);
		CHECK(exercise(bytes, size)->error == MAYFLY_E_VERSION);
	}
	bytes[8] = 2;
	bytes[16] = 1; /* a feature */
	repair(bytes, size);
	CHECK(exercise(bytes, size)->error == MAYFLY_E_VERSION);
	bytes[16] = 0;
	/* An unknown chunk in place of the index, which may be skipped, or not. */
	for (size_t at = TRACE_HEADER_BYTES; size - at > TRACE_TRAILER_BYTES;) {
		uint32_t stored;

		memcpy(&stored, bytes + at + 4, 4);
		if (memcmp(bytes + at, "indx", 4) == 0)
			memcpy(bytes + at, "zzzz", 4);
		at += TRACE_CHUNK_BYTES + stored;
	}
	repair(bytes, size);
	o = exercise(bytes, size);
	CHECK(!o->error && o->events > 200 && !o->walk && !o->sums && !o->complete);
	for (size_t at = 0; at + 4 < size; at++)
		if (memcmp(bytes + at, "zzzz", 4) == 0)
			bytes[at] = 'Z';
	repair(bytes, size);
	CHECK(exercise(bytes, size)->error == MAYFLY_E_VERSION);
	free(bytes);
}

static void errors_have_texts(void)
{
	CHECK(strcmp(mayfly_error_text(0), "no error") == 0);
	CHECK(strcmp(mayfly_error_text(MAYFLY_E_DAMAGED), "damaged") == 0);
	CHECK(strcmp(mayfly_error_text(-1000), "unknown error") == 0);
	CHECK(strcmp(mayfly_error_text(1), "unknown error") == 0);
}

/* ---- measuring ---- */

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A number below limit, small ones far more often. */
static uint64_t skewed(uint64_t limit)
{
	return (uint64_t)((double)limit * pow(uniform(), 2.5));
}

/*
 * What a compiler at 512 KiB gives: 6,057 samples, about 33,000 nodes over 4,068 call sites in
 * 1,373 functions. Stacks are walks through a random call graph, each going on from the one before.
 */
static struct history compiler_history(bool named)
{
	enum { SITES = 4068, FUNCTIONS = 1373, SAMPLES = 6057, DEPTH = 62 };
	struct history h = {.r = recording_new()};
	struct recording *r = h.r;
	struct recording_module m = {.start = 0x7f1200000000,
				     .end = 0x7f1208000000,
				     .bias = 0x7f1200000000,
				     .to_ns = INT64_MAX,
				     .build_id_length = 20};
	uint32_t name[FUNCTIONS], size_of[SITES], stack[DEPTH + 1] = {0};
	uint64_t address = 0x600000;
	int64_t now = 0;
	int depth = 0;

	random_state = 7;
	m.path = recording_string(r, "/usr/lib/llvm-14/lib/libLLVM-14.so.1", 36);
	recording_module(r, &m);
	recording_thread(r, 4711, recording_string(r, "clang", 5));
	for (size_t i = 0; i < FUNCTIONS; i++) {
		static const char *const word[] = {"clang::",  "llvm::", "Parse",    "Sema",  "Act",
						   "Decl",     "Expr",	 "Type",     "Build", "On",
						   "(clang::", "const",	 "unsigned", "Visit"};
		char text[200] = "";

		for (size_t k = 4 + below(9); k; k--)
			strcat(text, word[below(14)]);
		snprintf(text + strlen(text), 20, "%llu)", (unsigned long long)below(500));
		name[i] = recording_string(r, text, strlen(text));
	}
	for (size_t i = 0; i < SITES; i++) {
		struct recording_location l = {.function = name[i * FUNCTIONS / SITES]};
		uint32_t frame = recording_frame(r, 0, 0, address += 1 + skewed(60000));

		size_of[i] = (uint32_t)(8 + 8 * skewed(600));
		if (!named)
			continue;
		r->frame[frame].first_location = recording_location(r, &l);
		r->frame[frame].locations = 1;
	}
	for (size_t i = 0; i < SAMPLES; i++) {
		struct history_block b = {.free_ns = INT64_MAX,
					  .block = {.hits = 1, .interval_log2 = 19}};
		int keep = depth - (int)skewed((uint64_t)(depth ? depth : 1));
		int grow = (int)(below(100) < 85 ? 1 + skewed(18) : 1);
		uint32_t site = r->node[stack[keep]].frame;

		depth = keep;
		while (grow-- && depth < DEPTH) {
			/* Each site leads to few others. */
			uint64_t before = site == RECORDING_NONE ? 1 : site * 31ull + 7;

			site = (uint32_t)((before * 2654435761u + skewed(12) * 40503) % SITES);
			stack[depth + 1] = recording_node(r, stack[depth], site);
			depth++;
		}
		now += (int64_t)(-log(uniform()) * 830e3 * 2);
		b.time_ns = now;
		b.block.node = stack[depth];
		b.block.size = below(3) ? size_of[site] : 8 + 8 * skewed(3000);
		if (below(100) < 70)
			b.free_ns = now + (int64_t)(-log(uniform()) * pow(10, 3 + 7 * uniform()));
		history_add(&h, &b);
	}
	r->info.duration_ns = now;
	r->info.interval_bytes = 512 << 10;
	return h;
}

static void measure(const char *what, const struct history *h)
{
	const struct trace_writer_options options = {.interval_log2 = 19};
	const struct recording *r = h->r;
	struct mayfly_trace *t;
	uint8_t *bytes;
	size_t size;
	double start = now_ms(), encoded, opened;
	double samples = (double)h->blocks;

	if (history_write(h, &options, 0, &bytes, &size))
		return;
	encoded = now_ms();
	if (mayfly_trace_open(bytes, size, &t))
		return;
	opened = now_ms();
	printf("# %s: %zu samples, %zu nodes, %zu frames, %zu strings: %zu bytes, "
	       "%.2f per sample\n",
	       what, h->blocks, r->nodes, r->frames, r->strings, size, (double)size / samples);
	printf("#   encoded in %.1f ms, opened in %.2f ms\n", encoded - start, opened - encoded);
	for (size_t at = TRACE_HEADER_BYTES; size - at > TRACE_TRAILER_BYTES;) {
		uint32_t stored;

		memcpy(&stored, bytes + at + 4, 4);
		stored += TRACE_CHUNK_BYTES;
		printf("#   %.4s %7u bytes, %.2f per sample\n", bytes + at, stored,
		       stored / samples);
		at += stored;
	}
	mayfly_trace_close(t);
	free(bytes);
}

static void measure_all(void)
{
	for (int named = 0; named < 2; named++) {
		struct history h = compiler_history(named);

		measure(named ? "with functions" : "without names", &h);
		history_free(&h);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--measure") == 0) {
		measure_all();
		return 0;
	}
	RUN(strings_and_nodes_are_distinct);
	RUN(children_keep_their_nodes);
	RUN(empty_history_survives);
	RUN(random_histories_survive);
	RUN(large_histories_survive);
	RUN(several_chunks_survive);
	RUN(traces_share_a_coder);
	RUN(several_spans_survive);
	RUN(later_names_survive);
	RUN(names_need_the_index);
	RUN(bad_events_are_refused);
	RUN(sinks_may_fail);
	RUN(double_frees_are_found);
	RUN(cursors_start_anywhere);
	RUN(snapshots_survive);
	RUN(every_truncation_is_read);
	RUN(corruptions_are_read);
	RUN(other_files_are_refused);
	RUN(newer_traces_are_refused);
	RUN(errors_have_texts);
	DONE();
}
