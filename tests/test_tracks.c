/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events and labels: what goes in comes out, in one order with the blocks; and what is cut
 * off or damaged does no harm. With --measure: sizes and times.
 */
#include <mayfly/trace.h>

#include <time.h>

#include "trace/format.h"

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
	for (uint64_t seed = 0; seed < 150; seed++) {
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

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	RUN(random_tracks_survive);
	RUN(unfinished_traces_are_read);
	DONE();
}
