/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events and labels: what goes in comes out, in one order with the blocks; and what is cut
 * off or damaged does no harm.
 */
#include <mayfly/trace.h>

#include "format/columns.h"
#include "format/format.h"

#include "fuzz_repair.h"
#include "random_tracks.h"

/* ---- writing ---- */

struct written {
	struct source source;
	struct track_story story;
	struct opened opened;
	uint32_t *labels; /* of each block, in the order in which they are written */
	uint64_t blocks;
};

static void free_written(struct written *w)
{
	close_opened(&w->opened);
	free_source(&w->source);
	free(w->story.item);
	free(w->labels);
}

struct shape {
	uint32_t types, tracks; /* of each event of a block: below */
	uint32_t labels; /* one block in so many has other labels than the one before; 0: none */
	uint32_t flush;	 /* one event in so many; 0: never */
	int64_t snapshot_ns;
	bool finish;
	int level;
};

static void write_blocks(struct trace_writer *w, struct written *to, const struct shape *shape)
{
	struct source *s = &to->source;
	uint64_t *serial = calloc(s->samples + 1, sizeof(*serial)), events = 0;
	uint32_t labels[5] = {0}, style = below(4);
	size_t count;
	struct happening *h = list_happenings(s, &count);

	to->labels = calloc(s->samples + 1, sizeof(*to->labels));
	for (size_t i = 0; i <= count; i++) {
		int64_t now = i < count ? h[i].time_ns : s->r->info.duration_ns;
		uint32_t tracks = shape->tracks ? below(shape->tracks) : 0;

		while (tracks--)
			write_track(w, s->r, &to->story, now - below(100000),
				    shape->snapshot_ns ? 0 : events, style);
		if (shape->flush && below(shape->flush) == 0)
			CHECK(trace_writer_flush(w) == 0);
		if (i == count)
			break;
		if (!h[i].is_free) {
			struct trace_block *b = &s->sample[h[i].sample].block;

			if (shape->labels && below(shape->labels) == 0)
				labels[b->thread] = random_labels(s->r);
			to->labels[to->blocks++] = b->labels = labels[b->thread];
		}
		write_happening(w, s, &h[i], serial);
		events++;
	}
	free(serial);
	free(h);
}

static struct written write_random(uint64_t seed, const struct shape *shape)
{
	struct written to = {.source = random_source(seed)};
	struct source *s = &to.source;
	const struct trace_writer_options options = {
	    .mode = s->mode,
	    .sampler = s->sampler,
	    .interval_log2 = s->interval_log2,
	    .snapshot_ns = s->mode == MAYFLY_EXACT ? shape->snapshot_ns : 0,
	    .level = shape->level};
	struct shape mine = *shape;
	struct trace_writer *w =
	    trace_writer_new(&options, s->r, trace_buffer_sink, &to.opened.buffer);
	int error;

	mine.snapshot_ns = options.snapshot_ns;
	add_track_types(s->r, shape->types);
	s->r->info.dropped_events = seed;
	write_blocks(w, &to, &mine);
	s->r->info.complete = true;
	error = shape->finish ? trace_writer_finish(w) : trace_writer_flush(w);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	trace_writer_free_all(w);
	return to;
}

static bool open_written(struct written *w)
{
	int error =
	    mayfly_trace_open(w->opened.buffer.bytes, w->opened.buffer.used, &w->opened.trace);

	CHECK(error == 0, "%s", mayfly_error_text(error));
	return error == 0;
}

/* ---- comparing ---- */

static void compare_type(const struct recording *r, uint32_t index, const struct mayfly_trace *t)
{
	const struct recording_track_type *a = &r->track_type[index];
	const struct mayfly_track_type *b = mayfly_trace_track_type(t, index);

	CHECK(b != NULL);
	if (!b)
		return;
	CHECK(strcmp(recording_text(r, a->name), b->name) == 0);
	CHECK(strcmp(recording_text(r, a->category), b->category) == 0);
	CHECK(strcmp(recording_text(r, a->unit), b->unit) == 0);
	CHECK(a->kind == b->kind && a->fields == b->fields);
	for (uint32_t i = 0; i < a->fields; i++) {
		CHECK(a->field[i].type == b->field[i].type);
		CHECK(strcmp(recording_text(r, a->field[i].name), b->field[i].name) == 0);
	}
}

static void compare_labels(const struct recording *r, uint32_t set, const struct mayfly_trace *t)
{
	const struct recording_labels *a = &r->label_set[set];
	size_t count;
	const struct mayfly_label *b = mayfly_trace_labels(t, set, &count);

	CHECK(count == a->count);
	CHECK((b == NULL) == (count == 0));
	for (size_t i = 0; i < count && i < a->count; i++) {
		const struct recording_label *l = &r->label[a->first + i];

		CHECK(strcmp(recording_text(r, l->key), b[i].key) == 0);
		CHECK(strcmp(recording_text(r, l->value), b[i].value) == 0);
	}
}

/* Nodes have other numbers in the file: their stacks are compared. */
static bool same_stack(const struct recording *r, uint32_t a, const struct mayfly_trace *t,
		       uint32_t b)
{
	while (a && b) {
		const struct mayfly_frame *f = mayfly_trace_frame(t, mayfly_trace_node(t, b).frame);
		const struct recording_frame *g = &r->frame[r->node[a].frame];

		if (f->kind != g->kind || f->module != g->module || f->address != g->address)
			return false;
		a = r->node[a].parent;
		b = mayfly_trace_node(t, b).parent;
	}
	return a == b;
}

static void compare_event(const struct recording *r, const struct track_item *a,
			  const struct mayfly_trace *t, const struct mayfly_track_event *b)
{
	const struct recording_track_type *type = &r->track_type[a->track.type];

	CHECK(a->track.kind == b->kind && a->track.type == b->type);
	CHECK(a->track.thread == b->thread);
	CHECK(a->track.time_ns == b->time_ns, "%lld %lld", (long long)a->track.time_ns,
	      (long long)b->time_ns);
	CHECK(a->before == b->events_before);
	CHECK(same_stack(r, a->track.node, t, b->node));
	CHECK(b->values == (b->kind == MAYFLY_TRACK_END ? 0 : type->fields));
	for (size_t i = 0; i < b->values; i++)
		if (type->field[i].type == MAYFLY_FIELD_TEXT)
			CHECK(strcmp(recording_text(r, (uint32_t)a->value[i]), b->value[i].text) ==
			      0);
		else
			CHECK(a->value[i] == b->value[i].u);
}

static void compare_tracks(const struct written *w)
{
	const struct mayfly_trace *t = w->opened.trace;
	struct mayfly_track_cursor *c;
	struct mayfly_track_event e;
	size_t events = 0;

	CHECK(mayfly_trace_info(t)->track_events == w->story.items);
	CHECK(mayfly_track_cursor_open(t, &c) == 0);
	while (mayfly_track_cursor_next(c, &e) == 1 && events < w->story.items)
		compare_event(w->source.r, &w->story.item[events++], t, &e);
	CHECK(events == w->story.items);
	CHECK(mayfly_track_cursor_next(c, &e) == 0);
	mayfly_track_cursor_close(c);
}

static void compare_block_labels(const struct written *w)
{
	struct mayfly_cursor *c;
	struct mayfly_event e;

	if (mayfly_cursor_open(w->opened.trace, &c))
		return;
	while (mayfly_cursor_next(c, &e) == 1)
		CHECK(e.labels == w->labels[e.sample]);
	mayfly_cursor_close(c);
}

static void compare(const struct written *w)
{
	const struct mayfly_trace *t = w->opened.trace;
	const struct mayfly_info *info = mayfly_trace_info(t);
	const struct recording *r = w->source.r;
	size_t count;

	CHECK(info->track_types == r->track_types);
	CHECK(info->label_sets == r->label_sets);
	for (uint32_t i = 0; i < r->track_types; i++)
		compare_type(r, i, t);
	for (uint32_t i = 0; i < r->label_sets; i++)
		compare_labels(r, i, t);
	CHECK(mayfly_trace_track_type(t, r->track_types) == NULL);
	CHECK(mayfly_trace_labels(t, r->label_sets, &count) == NULL && count == 0);
	compare_tracks(w);
	compare_block_labels(w);
}

/* ---- tests ---- */

static struct shape random_shape(void)
{
	return (struct shape){
	    .types = 1 + below(30),
	    .tracks = below(3) ? 1 + below(20) : 0,
	    .labels = below(3) ? 1 + below(10) : 0,
	    .flush = below(2) ? 1 + below(100) : 0,
	    .snapshot_ns = below(2) ? 100 * TICK : 0,
	    .finish = true,
	    .level = below(2) ? 1 : 0,
	};
}

static void random_tracks_survive(void)
{
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct shape shape;
		struct written w;

		random_state = seed + 1000;
		shape = random_shape();
		w = write_random(seed, &shape);
		if (open_written(&w)) {
			compare(&w);
			CHECK(mayfly_trace_info(w.opened.trace)->complete);
			CHECK(mayfly_trace_info(w.opened.trace)->dropped_events == seed);
		}
		free_written(&w);
	}
}

/* What was flushed is there without an index. */
static void unfinished_traces_are_read(void)
{
	for (uint64_t seed = 0; seed < 30; seed++) {
		struct shape shape = {.types = 9, .tracks = 6, .labels = 5, .flush = 50};
		struct written w = write_random(seed, &shape);

		if ((w.blocks || w.story.items) && open_written(&w)) {
			compare(&w);
			CHECK(!mayfly_trace_info(w.opened.trace)->complete);
		}
		free_written(&w);
	}
}

/* Goes through everything; returns how many track events there are before an error. */
static size_t walk(const struct mayfly_trace *t)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	struct mayfly_track_cursor *c;
	struct mayfly_track_event e;
	struct mayfly_cursor *blocks;
	struct mayfly_event b;
	size_t events = 0, letters = 0, count;
	int64_t last = INT64_MIN;

	for (size_t i = 0; i < info->track_types; i++)
		letters += strlen(mayfly_trace_track_type(t, i)->name);
	for (size_t i = 0; i < info->label_sets; i++) {
		const struct mayfly_label *label = mayfly_trace_labels(t, i, &count);

		for (size_t k = 0; k < count; k++)
			letters += strlen(label[k].key) + strlen(label[k].value);
	}
	CHECK(mayfly_track_cursor_open(t, &c) == 0);
	while (mayfly_track_cursor_next(c, &e) == 1) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(t, e.type);

		CHECK(type && e.thread < info->threads && e.node < info->nodes);
		CHECK(e.time_ns >= last && e.values <= type->fields);
		last = e.time_ns;
		for (size_t i = 0; i < e.values; i++)
			if (type->field[i].type == MAYFLY_FIELD_TEXT)
				letters += strlen(e.value[i].text);
		events++;
	}
	mayfly_track_cursor_close(c);
	if (mayfly_cursor_open(t, &blocks) == 0) {
		while (mayfly_cursor_next(blocks, &b) == 1)
			CHECK(b.labels < info->label_sets);
		mayfly_cursor_close(blocks);
	}
	return letters == SIZE_MAX ? 0 : events;
}

/* Copies of exactly that size, so that a sanitizer sees reads behind the end. */
static size_t open_bytes(const struct written *w, size_t size, size_t flip, uint8_t change,
			 bool mend, bool *complete)
{
	uint8_t *copy = malloc(size ? size : 1);
	struct mayfly_trace *t;
	size_t events = 0;

	memcpy(copy, w->opened.buffer.bytes, size);
	if (flip < size)
		copy[flip] ^= change;
	if (mend)
		repair(copy, size);
	*complete = false;
	if (mayfly_trace_open(copy, size, &t) == 0) {
		events = walk(t);
		*complete = mayfly_trace_info(t)->complete;
		mayfly_trace_close(t);
	}
	free(copy);
	return events;
}

static struct written write_small(uint64_t seed, bool finish)
{
	struct shape shape = {
	    .types = 6, .tracks = 4, .labels = 4, .flush = 60, .finish = finish, .level = 1};

	for (;; seed += 1000) {
		struct written w = write_random(seed, &shape);

		if (w.story.items > 30 && w.opened.buffer.used < 6000)
			return w;
		free_written(&w);
	}
}

/* What is left is the beginning of what was written. */
static void every_truncation_is_read(void)
{
	for (uint64_t seed = 0; seed < 4; seed++) {
		struct written w = write_small(seed, seed & 1);
		size_t last = 0;
		bool complete;

		for (size_t size = 0; size < w.opened.buffer.used; size++) {
			size_t events = open_bytes(&w, size, SIZE_MAX, 0, false, &complete);

			CHECK(!complete);
			CHECK(events >= last && events <= w.story.items);
			last = events;
		}
		CHECK(last > 0 || !(seed & 1)); /* else the only chunk may be the last */
		free_written(&w);
	}
}

static void every_damaged_byte_is_found(void)
{
	for (uint64_t seed = 10; seed < 12; seed++) {
		struct written w = write_small(seed, true);
		bool complete;

		for (size_t i = 0; i < w.opened.buffer.used; i++) {
			bool unused =
			    w.opened.buffer.used - 12 <= i && i < w.opened.buffer.used - 8;

			open_bytes(&w, w.opened.buffer.used, i, (uint8_t)(1u << below(8)), false,
				   &complete);
			CHECK(complete == unused);
		}
		free_written(&w);
	}
}

/* With checksums that are right again: nobody but the reader looks. */
static void hostile_bytes_are_read(void)
{
	for (uint64_t seed = 20; seed < 24; seed++) {
		struct written w = write_small(seed, seed & 1);
		bool complete;

		for (size_t i = 0; i < w.opened.buffer.used; i++)
			open_bytes(&w, w.opened.buffer.used, i, (uint8_t)(1 + below(255)), true,
				   &complete);
		free_written(&w);
	}
}

/* A trace without track events and labels is what it was before there were any. */
static void nothing_is_written_of_nothing(void)
{
	static const uint32_t types[] = {TRACE_TEXTS, TRACE_TRACK_TYPES, TRACE_LABELS, TRACE_TRACK};
	struct source s = random_source(5);
	struct opened o;
	const struct mayfly_info *info;
	size_t at = TRACE_HEADER_BYTES, labels;
	struct chunk_header h;

	s.r->label_sets = 1;
	for (size_t i = 0; i < s.samples; i++)
		s.sample[i].block.labels = 0;
	o = open_source(&s, 0, 20);
	info = mayfly_trace_info(o.trace);
	CHECK(info->track_types == 0 && info->label_sets == 1 && info->track_events == 0);
	CHECK(mayfly_trace_labels(o.trace, 0, &labels) == NULL && labels == 0);
	for (; chunk_find(o.buffer.bytes + at, o.buffer.used - at, true, &h) == 0;
	     at += TRACE_CHUNK_BYTES + h.stored)
		for (int i = 0; i < 4; i++)
			CHECK(h.type != types[i]);
	CHECK(o.buffer.used - at == TRACE_TRAILER_BYTES);
	close_opened(&o);
	free_source(&s);
}

/* More than a chunk holds, and nothing else. */
static void many_events_fill_chunks(void)
{
	const struct trace_writer_options options = {.interval_log2 = 13};
	struct written w = {.source = random_source(3)};
	struct trace_writer *to =
	    trace_writer_new(&options, w.source.r, trace_buffer_sink, &w.opened.buffer);

	add_track_types(w.source.r, 10);
	for (uint32_t i = 0; i < 2 * TRACE_CHUNK_EVENTS + 100; i++)
		write_track(to, w.source.r, &w.story, i * 10ll, 0, 1);
	CHECK(trace_writer_chunks(to) == 2);
	CHECK(trace_writer_finish(to) == 0);
	trace_writer_free_all(to);
	if (open_written(&w))
		compare(&w);
	free_written(&w);
}

static void bad_events_are_refused(void)
{
	const struct trace_writer_options options = {.interval_log2 = 13};
	static const uint64_t values[RECORDING_FIELDS] = {UINT32_MAX, UINT32_MAX, UINT32_MAX,
							  UINT32_MAX};

	for (int i = 0; i < 6; i++) {
		struct source s = random_source(3);
		struct trace_buffer buffer = {0};
		struct trace_writer *w =
		    trace_writer_new(&options, s.r, trace_buffer_sink, &buffer);
		struct recording_track_type type = {
		    .kind = MAYFLY_TYPE_INSTANT, .fields = 1, .field = {{MAYFLY_FIELD_TEXT, 0}}};
		struct trace_track e = {.kind = MAYFLY_TRACK_INSTANT, .value = values};
		uint64_t serial;
		struct trace_block block = {.size = 1, .interval_log2 = 13, .hits = 1, .labels = 1};

		e.type = recording_track_type(s.r, &type);
		e.type += i == 0;
		e.kind = i == 1 ? MAYFLY_TRACK_BEGIN : i == 2 ? 77 : MAYFLY_TRACK_INSTANT;
		e.thread = i == 3 ? (uint32_t)s.r->threads : 0;
		e.node = i == 4 ? (uint32_t)s.r->nodes : 0;
		CHECK(trace_writer_track(w, &e) == MAYFLY_E_RANGE, "%d", i);
		CHECK(trace_writer_finish(w) == MAYFLY_E_RANGE);
		trace_writer_free_all(w);
		w = trace_writer_new(&options, s.r, trace_buffer_sink, &buffer);
		CHECK(trace_writer_alloc(w, 0, &block, &serial) == MAYFLY_E_RANGE);
		trace_writer_free_all(w);
		free(buffer.bytes);
		free_source(&s);
	}
}

static void tables_have_limits(void)
{
	struct recording *r = recording_new();
	struct recording_track_type type = {.kind = MAYFLY_TYPE_COUNTER};
	struct recording_label label[RECORDING_LABELS + 1] = {0};
	uint32_t more, some;
	char text[32];

	CHECK(recording_track_type(r, &type) == RECORDING_NONE); /* without a value */
	type.fields = 1;
	type.field[0].type = MAYFLY_FIELD_TEXT;
	CHECK(recording_track_type(r, &type) == RECORDING_NONE);
	type.field[0].type = MAYFLY_FIELD_UINT;
	CHECK(recording_track_type(r, &type) == 0);
	CHECK(recording_track_type(r, &type) == 0);
	for (uint32_t i = 1; i <= MAYFLY_TRACK_TYPES; i++) {
		snprintf(text, sizeof(text), "type %u", i);
		type.name = intern(r, text);
		CHECK(recording_track_type(r, &type) ==
		      (i < MAYFLY_TRACK_TYPES ? i : RECORDING_NONE));
	}
	CHECK(recording_labels(r, label, 0) == 0);
	CHECK(recording_labels(r, label, RECORDING_LABELS + 1) == RECORDING_NONE);
	for (uint32_t i = 1; i <= MAYFLY_LABEL_SETS; i++) {
		label[0].key = i % 1024;
		label[1].key = i / 1024;
		CHECK(recording_labels(r, label, 2) ==
		      (i < MAYFLY_LABEL_SETS ? i : RECORDING_NONE));
	}
	label[0].key = label[1].key = 1;
	CHECK(recording_labels(r, label, 2) == 1025);
	some = recording_event_text(r, "type 7", 6);
	CHECK(some == intern(r, "type 7"));
	for (uint32_t i = 0; i < RECORDING_EVENT_TEXTS; i++) {
		snprintf(text, sizeof(text), "text %u", i);
		CHECK(recording_event_text(r, text, strlen(text)) == r->strings - 1);
	}
	more = recording_event_text(r, "one more", 8);
	CHECK(strcmp(recording_text(r, more), "(more)") == 0);
	CHECK(recording_event_text(r, "text 7", 6) == intern(r, "text 7"));
	CHECK(recording_event_text(r, "type 7", 6) == some);
	CHECK(recording_event_text(r, "", 0) == 0);
	CHECK(recording_event_text(r, "two more", 8) == more);
	recording_free(r);
}

static size_t count_bytes(const struct trace_buffer *b, const char *four)
{
	size_t count = 0;

	for (size_t i = 0; i + 4 <= b->used; i++)
		count += !memcmp(b->bytes + i, four, 4);
	return count;
}

/* Blocks inside blocks: in BY_HEAP and where they are asked for, but not in what all sum up to. */
static void pools_count_once(void)
{
	static const struct trace_block blocks[] = {
	    {.size = 1000},
	    {.size = 300, .flags = MAYFLY_HEAP_POOL << MAYFLY_FLAG_HEAP_SHIFT},
	    {.size = 70, .flags = MAYFLY_HEAP_POOL_MAPPED << MAYFLY_FLAG_HEAP_SHIFT},
	};
	struct source s = random_source(3);

	for (int cut = 0; cut < 2; cut++) {
		const struct trace_writer_options options = {.mode = MAYFLY_EXACT};
		struct opened o = {0};
		struct trace_writer *w =
		    trace_writer_new(&options, s.r, trace_buffer_sink, &o.buffer);
		struct mayfly_summary summary;
		struct mayfly_query q;
		struct mayfly_result *result;
		uint64_t serial[3], extra;

		for (int i = 0; i < 3; i++)
			CHECK(trace_writer_alloc(w, i * 10000ll, &blocks[i], &serial[i]) == 0);
		CHECK(trace_writer_alloc(w, 30000, &blocks[1], &extra) == 0);
		CHECK(trace_writer_free(w, 40000, extra, &blocks[1], 0, 0) == 0);
		CHECK(trace_writer_free(w, 50000, serial[0], &blocks[0], 0, 0) == 0);
		CHECK((cut ? trace_writer_flush(w) : trace_writer_finish(w)) == 0);
		trace_writer_free_all(w);
		CHECK(mayfly_trace_open(o.buffer.bytes, o.buffer.used, &o.trace) == 0);
		CHECK(mayfly_trace_info(o.trace)->samples == 4);
		CHECK(count_bytes(&o.buffer, "POOL") == 1); /* older readers refuse it */
		CHECK(mayfly_trace_summary(o.trace, &summary) == 0);
		CHECK(summary.allocated.bytes.estimate == 1070);
		CHECK(summary.peak.bytes.estimate == 1070);
		CHECK(summary.live_at_end.bytes.estimate == 70);
		for (uint32_t heaps = 0; heaps < 3; heaps++) {
			static const double wanted[] = {1070, 600, 1670};
			static const uint32_t masks[] = {0, 1u << MAYFLY_HEAP_POOL,
							 (1u << MAYFLY_HEAPS) - 1};

			mayfly_query_defaults(&q);
			q.metric = MAYFLY_ALLOCATED;
			q.heaps = masks[heaps];
			CHECK(mayfly_query_run(o.trace, &q, &result) == 0);
			CHECK(result->total.bytes.estimate == wanted[heaps]);
			mayfly_result_free(result);
			q.by = MAYFLY_BY_THREAD; /* from events */
			CHECK(mayfly_query_run(o.trace, &q, &result) == 0);
			CHECK(result->total.bytes.estimate == wanted[heaps]);
			mayfly_result_free(result);
		}
		close_opened(&o);
	}
	free_source(&s);
}

/* A trace without pools is for all readers of its version. */
static void no_pools_no_chunk(void)
{
	const struct trace_writer_options options = {.mode = MAYFLY_EXACT};
	const struct trace_block block = {.size = 1000};
	struct source s = random_source(3);
	struct trace_buffer b = {0};
	struct trace_writer *w = trace_writer_new(&options, s.r, trace_buffer_sink, &b);
	uint64_t serial;

	CHECK(trace_writer_alloc(w, 0, &block, &serial) == 0 && trace_writer_finish(w) == 0);
	CHECK(b.used && count_bytes(&b, "POOL") == 0 && count_bytes(&b, "EVNT") == 1);
	trace_writer_free_all(w);
	free(b.bytes);
	free_source(&s);
}

int main(void)
{
	RUN(random_tracks_survive);
	RUN(unfinished_traces_are_read);
	RUN(nothing_is_written_of_nothing);
	RUN(many_events_fill_chunks);
	RUN(bad_events_are_refused);
	RUN(tables_have_limits);
	RUN(every_truncation_is_read);
	RUN(every_damaged_byte_is_found);
	RUN(hostile_bytes_are_read);
	RUN(pools_count_once);
	RUN(no_pools_no_chunk);
	DONE();
}
