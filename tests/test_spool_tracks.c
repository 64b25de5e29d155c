/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading spools: track events, labels, pools, what the recorder notes itself. The events go to the
 * imitation of writer_double.h.
 */
#include "spool_reading.h"

static const struct spool_writer_type span = {
    7, SPOOL_TYPE_SPAN, "request", "web", "", 2, {{SPOOL_UINT, "number"}, {SPOOL_TEXT, "path"}}};
static const struct spool_writer_type instant = {
    300,
    SPOOL_TYPE_INSTANT,
    "tick",
    "",
    "",
    4,
    {{SPOOL_INT, "int"}, {SPOOL_FLOAT, "float"}, {SPOOL_FLOW, "flow"}, {SPOOL_TEXT, "text"}}};
static const struct spool_writer_type counter = {4095, SPOOL_TYPE_COUNTER, "queue", "", "bytes",
						 1,    {{SPOOL_UINT, ""}}};
static const struct spool_writer_type bare = {1, SPOOL_TYPE_INSTANT, "bare", "", "", 0, {{0}}};

static uint64_t text_value(const char *text)
{
	return (uint64_t)(uintptr_t)text;
}

static const char *type_name(const struct reading *r, size_t track)
{
	return recording_text(r->t, r->t->track_type[r->w->track[track].type].name);
}

static const char *text_of(const struct reading *r, size_t track, size_t value)
{
	return recording_text(r->t, (uint32_t)r->w->track[track].value[value]);
}

static uint32_t tid_of(const struct reading *r, size_t track)
{
	return r->t->thread[r->w->track[track].thread].tid;
}

/* "key=value key=value" of a block. */
static const char *labels_of(const struct reading *r, size_t sample)
{
	static char text[4096];
	const struct recording_labels *set = &r->t->label_set[r->w->sample[sample].block.labels];
	size_t used = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < set->count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%s", i ? " " : "",
					 recording_text(r->t, r->t->label[set->first + i].key),
					 recording_text(r->t, r->t->label[set->first + i].value));
	return text;
}

/* All that a record may hold arrives. */
static void values_arrive(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	double number = -1.5;
	uint64_t values[4] = {(uint64_t)INT64_MIN, 0, UINT64_MAX, text_value("")};
	const struct recording_track_type *t;
	const struct track *e;
	struct reading *r;
	char longest[256];

	memset(longest, 'x', 255);
	longest[255] = 0;
	memcpy(&values[1], &number, sizeof(number));
	spool_writer_thread(w, 1, 100, "first");
	spool_writer_thread(v, 1, 101, "silent");
	spool_writer_type(w, 10, &span);
	spool_writer_track(w, 10, SPOOL_BEGIN, &span, (uint64_t[]){42, text_value("/index")}, NULL,
			   0);
	spool_writer_type(w, 20, &instant);
	spool_writer_track(w, 20, SPOOL_INSTANT, &instant, values, NULL, 0);
	values[3] = text_value(longest);
	spool_writer_track(w, 20, SPOOL_INSTANT, &instant, values, NULL, 0);
	spool_writer_type(w, 30, &counter);
	spool_writer_track(w, 5000000000, SPOOL_COUNT, &counter, (uint64_t[]){1ull << 63}, NULL, 0);
	spool_writer_track(w, 5000000001, SPOOL_END, &span, NULL, NULL, 0);
	r = read_file(f, NULL);
	e = r->w->track;
	CHECK(r->t->info.complete && r->w->tracks == 5 && r->t->track_types == 3);
	CHECK(e[0].kind == MAYFLY_TRACK_BEGIN && e[0].time_ns == 10 && e[0].value[0] == 42);
	CHECK(!strcmp(text_of(r, 0, 1), "/index") && e[0].node == 0);
	CHECK(e[1].kind == MAYFLY_TRACK_INSTANT && e[1].time_ns == 20 && e[2].time_ns == 20);
	CHECK(e[1].value[0] == (uint64_t)INT64_MIN && e[1].value[1] == values[1] &&
	      e[1].value[2] == UINT64_MAX && e[1].value[3] == 0);
	CHECK(!strcmp(text_of(r, 2, 3), longest));
	CHECK(e[3].kind == MAYFLY_TRACK_COUNT && e[3].time_ns == 5000000000 &&
	      e[3].value[0] == 1ull << 63);
	CHECK(e[4].kind == MAYFLY_TRACK_END && e[4].type == e[0].type);
	CHECK(r->t->info.duration_ns == 5000000001);
	t = &r->t->track_type[e[0].type];
	CHECK(t->kind == MAYFLY_TYPE_SPAN && t->fields == 2 &&
	      t->field[1].type == MAYFLY_FIELD_TEXT);
	CHECK(!strcmp(recording_text(r->t, t->name), "request") &&
	      !strcmp(recording_text(r->t, t->category), "web") && !t->unit);
	CHECK(!strcmp(recording_text(r->t, t->field[0].name), "number"));
	t = &r->t->track_type[e[3].type];
	CHECK(t->kind == MAYFLY_TYPE_COUNTER && !strcmp(recording_text(r->t, t->unit), "bytes"));
	/* A thread without events is not listed. */
	CHECK(r->t->threads == 1 && tid_of(r, 0) == 100);
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

/* Events of several threads and packets come in the order of time, among the blocks. */
static void threads_are_merged(void)
{
	enum { EACH = 2000 };
	for (int exact = 0; exact < 2; exact++) {
		struct spool_file *f =
		    exact ? exact_file() : spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w[2] = {spool_writer_new(f, 100), spool_writer_new(f, 101)};
		struct reading *r;
		size_t wrong = 0;

		for (uint64_t i = 0; i < EACH; i++)
			for (unsigned k = 0; k < 2; k++) {
				int64_t now = (int64_t)(i * 1000 + k * 500);

				if (exact)
					spool_writer_alloc(w[k], now, (2 * i + k) * 16, i, 0, deep,
							   2);
				else
					spool_writer_sample(w[k], now, 2 * i + k, i, 1, 0, deep, 2);
				spool_writer_room(w[k], 2000, now);
				if (!w[k]->told)
					spool_writer_type(w[k], now, &counter);
				w[k]->told = true;
				spool_writer_track(w[k], now + 100, SPOOL_COUNT, &counter,
						   (uint64_t[]){2 * i + k}, NULL, 0);
			}
		r = read_file(f, NULL);
		CHECK(r->w->tracks == 2 * EACH && r->w->samples == 2 * EACH && r->t->info.complete);
		CHECK(r->t->track_types == 1);
		for (size_t i = 0; i < r->w->tracks; i++)
			wrong += r->w->track[i].value[0] != i || r->w->track[i].after != i + 1 ||
				 r->w->track[i].time_ns != (int64_t)i * 500 + 100 ||
				 tid_of(r, i) != 100 + i % 2;
		CHECK(!wrong, "%zu", wrong);
		reading_free(r);
		free(w[0]);
		free(w[1]);
		spool_file_free(f);
	}
}

/* A stack of an event is a change of the packet's, as of a block. */
static void stacks_of_events(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	const uint64_t cut[] = {SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0), 0x401000};
	struct reading *r;

	spool_writer_module(w, 1, "/bin/prg", 0x400000, 0x500000, 0x1000);
	spool_writer_type(w, 1, &bare);
	spool_writer_sample(w, 10, 0, 100, 1, 0, deep, 3);
	spool_writer_track(w, 20, SPOOL_INSTANT, &bare, NULL, deep, 4);
	spool_writer_sample(w, 30, 1, 100, 1, 0, deep, 4);
	spool_writer_track(w, 40, SPOOL_INSTANT, &bare, NULL, NULL, 0);
	spool_writer_track(w, 50, SPOOL_INSTANT, &bare, NULL, deep, 2);
	spool_writer_track(w, 60, SPOOL_INSTANT, &bare, NULL, cut, 2);
	spool_writer_sample(w, 70, 2, 100, 1, 0, deep, 3);
	r = read_file(f, NULL);
	CHECK(r->w->tracks == 4 && r->w->samples == 3 && r->t->info.complete);
	CHECK(r->w->track[0].node == r->w->sample[1].block.node && r->w->track[0].node);
	CHECK(r->w->track[1].node == 0 && depth_of(r->t, r->w->track[2].node) == 2);
	CHECK(depth_of(r->t, r->w->track[3].node) == 2);
	CHECK(r->w->sample[2].block.node == r->w->sample[0].block.node);
	/* Only stacks of blocks are counted. */
	CHECK(r->t->info.truncated_stacks == 0);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* Each packet tells its types and labels; the same id may mean something else in the next. */
static void packets_stand_alone(void)
{
	struct spool_writer_type other = bare;
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	struct reading *r;

	other.name = "other";
	spool_writer_type(w, 1, &bare);
	spool_writer_label(w, 1, 9, "tenant", "a");
	spool_writer_labels(w, 1, 1, (uint32_t[]){9});
	spool_writer_track(w, 10, SPOOL_INSTANT, &bare, NULL, NULL, 0);
	spool_writer_sample(w, 11, 0, 100, 1, 0, deep, 3);
	spool_writer_type(v, 12, &other);
	spool_writer_label(v, 12, 9, "tenant", "b");
	spool_writer_labels(v, 12, 1, (uint32_t[]){9});
	spool_writer_track(v, 20, SPOOL_INSTANT, &other, NULL, NULL, 0);
	spool_writer_track(w, 30, SPOOL_INSTANT, &bare, NULL, NULL, 0);
	spool_writer_sample(v, 31, 1, 100, 1, 0, deep, 3);
	spool_writer_sample(w, 32, 2, 100, 1, 0, deep, 3);
	spool_writer_begin(w, 40);
	spool_writer_sample(w, 41, 3, 100, 1, 0, deep, 3); /* no labels */
	spool_writer_type(w, 42, &other);
	spool_writer_track(w, 43, SPOOL_INSTANT, &other, NULL, NULL, 0);
	spool_writer_begin(w, 50);
	spool_writer_sample(w, 51, 4, 100, 1, 0, deep, 3);
	spool_writer_track(w, 52, SPOOL_INSTANT, &bare, NULL, NULL, 0); /* which type? */
	spool_writer_sample(w, 53, 5, 100, 1, 0, deep, 3);
	spool_writer_begin(w, 60);
	spool_writer_labels(w, 61, 1, (uint32_t[]){9}); /* which label? */
	spool_writer_sample(w, 62, 5, 100, 1, 0, deep, 3);
	spool_writer_begin(w, 70);
	spool_writer_sample(w, 72, 5, 100, 1, 0, deep, 3);
	r = read_file(f, NULL);
	CHECK(!r->t->info.complete && r->w->tracks == 4 && r->w->samples == 6);
	CHECK(!strcmp(type_name(r, 0), "bare") && !strcmp(type_name(r, 1), "other") &&
	      !strcmp(type_name(r, 2), "bare") && !strcmp(type_name(r, 3), "other"));
	CHECK(r->t->track_types == 2 && r->w->sample[5].time_ns == 72);
	CHECK(!strcmp(labels_of(r, 0), "tenant=a") && !strcmp(labels_of(r, 1), "tenant=b") &&
	      !strcmp(labels_of(r, 2), "tenant=a") && !strcmp(labels_of(r, 3), ""));
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

/* The labels in force are those of the packet's latest LABELS, of whatever thread. */
static void blocks_have_labels(void)
{
	for (int exact = 0; exact < 2; exact++) {
		static const char *const expected[] = {"",
						       "tenant=a",
						       "tenant=a",
						       "tenant=a phase=x",
						       "tenant=a phase=x",
						       "phase=x tenant=a",
						       "phase=x tenant=a",
						       "",
						       ""};
		static const uint32_t set[][2] = {{0, 0}, {5, 0}, {5, 65535}, {65535, 5}, {0, 0}};
		static const uint32_t count[] = {0, 1, 2, 2, 0};
		struct spool_file *f =
		    exact ? exact_file() : spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w = spool_writer_new(f, 100);
		struct reading *r;
		int64_t ns = 1;
		uint64_t block = 0;

		spool_writer_label(w, 1, 5, "tenant", "a");
		spool_writer_label(w, 1, 65535, "phase", "x");
		for (size_t i = 0; i < sizeof(count) / sizeof(*count); i++) {
			if (i)
				spool_writer_labels(w, ++ns, count[i], set[i]);
			for (size_t k = 0; k < 2 && block < 9; k++, block++) {
				/* The next thread has to say what its labels are. */
				if (k && i == 2)
					spool_writer_thread(w, ns, 101, "other");
				if (exact)
					spool_writer_alloc(w, ++ns, 16 * block, 8, 0, deep, 2);
				else
					spool_writer_sample(w, ++ns, block, 8, 1, 0, deep, 2);
				if (!i)
					k++;
			}
		}
		for (uint64_t i = 0; i < block; i++)
			if (exact)
				spool_writer_release(w, ++ns, 16 * i, 0);
			else
				spool_writer_free(w, ++ns, i, 0);
		r = read_file(f, NULL);
		CHECK(r->w->samples == 9 && r->w->frees == 9 && r->t->info.complete);
		for (size_t i = 0; i < r->w->samples; i++)
			CHECK(!strcmp(labels_of(r, i), expected[i]), "%d %zu: %s", exact, i,
			      labels_of(r, i));
		CHECK(r->t->label_sets == 4 && r->t->threads == 2);
		reading_free(r);
		free(w);
		spool_file_free(f);
	}
}

/* What a child inherits keeps its labels. */
static void labels_are_inherited(void)
{
	for (int exact = 0; exact < 2; exact++) {
		struct spool_file *f =
		    exact ? exact_file() : spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_file *g =
		    exact ? exact_file() : spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(g, 200);
		struct spool_header *h = spool_file_header(g);
		struct reading *parent, *child;

		spool_writer_label(w, 1, 5, "unused", "before");
		spool_writer_labels(w, 1, 1, (uint32_t[]){5});
		spool_writer_label(w, 1, 6, "tenant", "a");
		spool_writer_labels(w, 1, 1, (uint32_t[]){6});
		for (uint64_t i = 0; i < 4; i++) {
			if (i == 3)
				spool_writer_labels(w, 9, 0, NULL);
			if (exact)
				spool_writer_alloc(w, 10, 16 * i, 8, 0, deep, 2);
			else
				spool_writer_sample(w, 10, i, 8, 1, 0, deep, 2);
		}
		spool_writer_fork(w, 50);
		h->fork_ticks = spool_ticks(f, 50);
		h->start_ticks = h->start_mono_ns = h->fork_ticks + 10;
		h->fork_parent_pid = 100;
		h->first_sample_id = 4;
		spool_writer_label(v, 1, 6, "tenant", "a");
		spool_writer_labels(v, 1, 1, (uint32_t[]){6});
		if (exact)
			spool_writer_alloc(v, 10, 0x1000, 8, 0, deep, 2);
		else
			spool_writer_sample(v, 10, 4, 8, 1, 0, deep, 2);
		parent = read_file(f, NULL);
		child = read_child(g, NULL, parent);
		CHECK(child->w->samples == 5 && child->t->info.inherited == 4);
		for (size_t i = 0; i < child->w->samples; i++)
			CHECK(!strcmp(labels_of(child, i), i == 3 ? "" : "tenant=a"), "%s",
			      labels_of(child, i));
		CHECK(child->t->label_sets == 2);
		reading_free(child);
		reading_free(parent);
		free(w);
		free(v);
		spool_file_free(f);
		spool_file_free(g);
	}
}

/* Events keep their place among the blocks of an exact spool, which are applied many at a time. */
static void order_among_exact_blocks(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	struct reading *r;
	size_t blocks = 0, tracks = 0, after[200];

	for (uint64_t i = 0; i < 3000; i++) {
		int64_t now = 1000 + (int64_t)i * 10;

		spool_writer_room(w, 2000, now);
		if (!w->told)
			spool_writer_type(w, now, &bare);
		w->told = true;
		if (i % 100 < 50 && i % 10 == 3) {
			spool_writer_track(w, now, SPOOL_INSTANT, &bare, NULL, i % 3 ? deep : NULL,
					   4);
			if (tracks < 200)
				after[tracks++] = blocks;
		} else if (i % 2) {
			spool_writer_alloc(i % 7 ? w : v, now, 0x10000 + i * 16, i, 0, deep, 3);
			blocks++;
		} else if (i > 10) {
			uint64_t old = i / 2 * 2 - 5; /* may be an event's place */

			if (!(old % 100 < 50 && old % 10 == 3)) {
				spool_writer_release(i % 11 ? w : v, now, 0x10000 + old * 16, 0);
				blocks++;
			}
		}
	}
	r = read_file(f, NULL);
	CHECK(r->t->info.complete && unknown(r) == 0 && r->w->events == blocks);
	CHECK(tracks == 150 && r->w->tracks == tracks);
	for (size_t i = 0; i < tracks; i++)
		CHECK(r->w->track[i].after == after[i], "%zu: %zu, %zu", i, r->w->track[i].after,
		      after[i]);
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

/* What stands between a realloc's two records may be anything but another block's. */
static void events_inside_a_realloc(void)
{
	const uint64_t values[] = {1, 2, 3, text_value("between")};

	for (int undo = 0; undo < 2; undo++)
		for (int apart = 0; apart < 4; apart++) {
			struct spool_file *f = exact_file();
			struct spool_writer *w = spool_writer_new(f, 100);
			struct reading *r = open_online(f);

			spool_writer_type(w, 5, &counter);
			spool_writer_alloc(w, 10, 0x1000, 1, 0, deep, 1);
			spool_writer_release(w, 20, 0x1000, SPOOL_FLAG_REALLOC);
			if (apart == 1)
				spool_writer_begin(w, 21);
			if (apart)
				spool_writer_type(w, 21, &counter);
			spool_writer_track(w, 22, SPOOL_COUNT, &counter, values, deep, 4);
			if (apart == 2)
				spool_writer_begin(w, 22);
			spool_writer_type(w, 23, &instant);
			spool_writer_track(w, 24, SPOOL_INSTANT, &instant, values, NULL, 0);
			spool_writer_label(w, 25, 3, "key", "value");
			round_at(r, 100);
			CHECK(r->w->tracks == 0 && r->w->frees == 0);
			if (apart == 3)
				spool_writer_begin(w, 26);
			else
				spool_writer_labels(w, 26, 2, (uint32_t[]){3, 3});
			if (undo)
				spool_writer_undo(w, 120);
			else
				spool_writer_alloc(w, 120, 0x2000, 2, SPOOL_FLAG_REALLOC, deep, 1);
			finish(r, NULL);
			CHECK(r->t->info.complete && r->w->tracks == 2);
			CHECK(r->w->samples == 2 - (size_t)undo && r->w->frees == 1 - (size_t)undo,
			      "%d %d", undo, apart);
			CHECK(!strcmp(text_of(r, 1, 3), "between"));
			reading_free(r);
			free(w);
			spool_file_free(f);
		}
}

/* Blocks of pools: at the very addresses of blocks of malloc. */
static void exact_pools(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100);
	const uint64_t pool = 0x7000 | SPOOL_ADDRESS_POOL;
	const uint64_t mapped = 0x7000000 | SPOOL_ADDRESS_POOL_MAPPED;
	const struct sample *s;
	struct reading *r;
	struct spool_stream_status status;

	spool_writer_alloc(w, 10, 0x7000, 1000, 0, deep, 2);
	spool_writer_alloc(w, 20, pool, 100, 0, deep, 3);
	spool_writer_alloc(w, 30, mapped, 200, 0, deep, 4);
	spool_writer_alloc(w, 40, pool + 100, 50, SPOOL_FLAG_REALLOC, deep, 1);
	spool_writer_release(w, 50, pool + 100, 0);
	spool_writer_release(w, 60, 0x7000, 0);
	spool_writer_alloc(w, 70, 0x7000, 1000, 0, deep, 2);
	r = read_file(f, NULL);
	s = r->w->sample;
	CHECK(r->w->samples == 5 && r->w->frees == 2 && unknown(r) == 0);
	CHECK(s[0].block.flags == 0 && s[0].free_ns == 60);
	CHECK(MAYFLY_FLAG_HEAP(s[1].block.flags) == MAYFLY_HEAP_POOL && s[1].free_ns == INT64_MAX);
	CHECK(MAYFLY_FLAG_HEAP(s[2].block.flags) == MAYFLY_HEAP_POOL_MAPPED);
	CHECK(s[3].block.flags ==
	      (MAYFLY_HEAP_POOL << MAYFLY_FLAG_HEAP_SHIFT | MAYFLY_FLAG_REALLOC));
	CHECK(s[3].free_ns == 50 && s[3].free_flags == MAYFLY_FLAG_TEMPORARY);
	/* What lies in another block counts once. */
	spool_stream_status(r->s, &status);
	CHECK(status.live_bytes == 1200, "%llu", (unsigned long long)status.live_bytes);
	CHECK(r->w->pages == 2);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* Sampled pools: as blocks of malloc, not as those of OCaml. */
static void sampled_pools(void)
{
	for (unsigned heap = 4; heap < 8; heap++) {
		struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w = spool_writer_new(f, 100);
		struct spool_stream_status status;
		struct reading *r;

		atomic_store(&spool_file_header(f)->ocaml_interval_log2, 12);
		spool_writer_sample(w, 10, 0, 24, 1, SPOOL_HEAP_MAJOR << SPOOL_FLAG_HEAP_SHIFT,
				    deep, 2);
		spool_writer_sample(w, 20, 1, 24, 1, (uint8_t)(heap << SPOOL_FLAG_HEAP_SHIFT), deep,
				    2);
		spool_writer_heap_end(w, 30);
		r = read_file(f, NULL);
		CHECK(r->t->info.complete == (heap <= MAYFLY_HEAP_MAPPING));
		if (heap > MAYFLY_HEAP_MAPPING) {
			CHECK(r->w->samples == 1);
		} else {
			CHECK(r->w->samples == 2 && r->w->frees == 1 &&
			      r->w->sample[0].free_ns == 30);
			CHECK(MAYFLY_FLAG_HEAP(r->w->sample[1].block.flags) == heap &&
			      r->w->sample[1].block.interval_log2 == 19);
			spool_stream_status(r->s, &status);
			CHECK(status.live_bytes == (heap == MAYFLY_HEAP_POOL_MAPPED ? 1 << 19 : 0));
		}
		reading_free(r);
		free(w);
		spool_file_free(f);
	}
}

/* Dropped events: the records tell, and the header, of the last ones. */
static void dropped_events(void)
{
	for (uint64_t counted = 0; counted < 20; counted += 10) {
		struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 100);
		struct spool_stream_status status;
		struct reading *r;

		spool_writer_lost(w, 10, 0, 0, 3);
		spool_writer_lost(v, 20, 0, 0, 4);
		spool_writer_lost(v, 30, 0, 0, 1ull << 40); /* nonsense */
		atomic_store(&spool_file_header(f)->dropped_events, counted);
		r = read_file(f, NULL);
		CHECK(r->t->info.dropped_events == (counted ? 10 : 7) &&
		      !r->t->info.dropped_samples);
		spool_stream_status(r->s, &status);
		CHECK(status.dropped == counted);
		reading_free(r);
		free(w);
		free(v);
		spool_file_free(f);
	}
}

/* Which begins and ends there are, as letters: small ones begin. */
static const char *brackets(const struct reading *r, char *text)
{
	size_t used = 0;

	for (size_t i = 0; i < r->w->tracks; i++) {
		uint32_t kind = r->w->track[i].kind;
		const char *name = type_name(r, i);

		if (kind == MAYFLY_TRACK_BEGIN)
			text[used++] = *name;
		else if (kind == MAYFLY_TRACK_END)
			text[used++] = *name - 'a' + 'A';
	}
	text[used] = 0;
	return text;
}

/* Writes the spans of a text as above; "-" is 2 lost events, "~" those of a time that
 * was not recorded, "=" a lost block, "." an instant. */
static struct reading *read_brackets(const char *text, const struct spool_stream_options *options,
				     struct spool_stream_status *status)
{
	/* All in one packet: types are written once. */
	struct spool_file *f = spool_file_sized(SPOOL_CLOCK_MONOTONIC, 1, 1u << 16, 4u << 20);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r;
	int error;

	for (uint32_t i = 0; i < 3; i++) {
		char name[] = {(char)('a' + i), 0};
		struct spool_writer_type type = {20 + i, SPOOL_TYPE_SPAN, name, "", "", 0, {{0}}};

		spool_writer_type(w, 1, &type);
	}
	spool_writer_type(w, 1, &bare);
	for (int64_t ns = 10; *text; text++, ns++) {
		struct spool_writer_type type = {.id = 20 + (uint32_t)(*text | 32) - 'a'};

		if (*text == '-')
			spool_writer_lost(w, ns, 0, 0, 2);
		else if (*text == '~')
			spool_writer_lost(w, ns, 0, 0, 0);
		else if (*text == '=')
			spool_writer_lost(w, ns, 1, 0, 0);
		else if (*text == '.')
			spool_writer_track(w, ns, SPOOL_INSTANT, &bare, NULL, NULL, 0);
		else
			spool_writer_track(w, ns, *text & 32 ? SPOOL_BEGIN : SPOOL_END, &type, NULL,
					   NULL, 0);
	}
	r = open_file(f, options, 0, &error);
	finish(r, NULL);
	spool_stream_status(r->s, status);
	free(w);
	spool_file_free(f);
	return r;
}

/* Spans whose ends are lost do not stay open. */
static void lost_ends(void)
{
	static const struct {
		const char *written, *read;
	} all[] = {
	    {"aabBcACA", "aabBcACA"}, /* nothing lost: as it was */
	    {"ab-A", "abBA"},	      /* what was inside has ended, too */
	    {"ab-cCA", "abcCBA"},     /* then, and not before: it may have gone on */
	    {"ab-BA", "abBA"},	      {"ab-bBA", "abBbBA"}, /* the next one */
	    {"acab-a", "acabBAa"},    {"-Aa-bBA", "AabBA"}, {"ab~A", "abBA"}, {"aa=aA", "aaaA"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct spool_stream_status status;
		struct reading *r =
		    read_brackets(all[i].written, &(struct spool_stream_options){0}, &status);
		char text[64];

		CHECK(!strcmp(brackets(r, text), all[i].read), "%s: %s", all[i].written, text);
		CHECK(r->t->info.complete);
		reading_free(r);
	}
}

/* Hostile spools open any number of spans: only 1,024 of a thread are watched. */
static void watched_spans(void)
{
	for (size_t open = 1023; open <= 1024; open++) {
		struct spool_stream_status status;
		char written[1100], wanted[1100], text[1100];
		struct reading *r;

		memset(written, 'a', open);
		memset(wanted, 'a', open);
		strcpy(written + open, "b-A");
		strcpy(wanted + open, open < 1024 ? "bBA" : "bA");
		r = read_brackets(written, &(struct spool_stream_options){0}, &status);
		CHECK(!strcmp(brackets(r, text), wanted), "%zu: %s", open,
		      text + strspn(text, "a"));
		reading_free(r);
	}
}

/* Nor those whose ends come when there is no room any more. */
static void left_out_ends(void)
{
	struct spool_stream_status status;
	struct reading *r = read_brackets(
	    "abBb...aBcACbBAa.A", &(struct spool_stream_options){.event_bytes = 80}, &status);
	char text[64];

	CHECK(!strcmp(brackets(r, text), "abBbBA"), "%s", text);
	CHECK(status.left_out == 11, "%llu", (unsigned long long)status.left_out);
	reading_free(r);
}

/* ---- damage ---- */

/* One record that nobody may believe; TYPE bare, counter and instant are known. */
struct bad {
	const char *name;
	uint8_t bytes[24];
	size_t size;
};

#define BAD(name, ...)                                                                             \
	{                                                                                          \
		name, {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})                              \
	}

static const struct bad bad[] = {
    BAD("type 0", SPOOL_TYPE, 0, 1, 0, 0, 0, 0),
    BAD("type 4096", SPOOL_TYPE, 0x80, 0x20, 1, 0, 0, 0, 0),
    BAD("type 4096 + 1", SPOOL_TYPE, 0x81, 0x80, 0x80, 0x80, 0x80, 1, 1, 0, 0, 0, 0),
    BAD("kind of type", SPOOL_TYPE, 2, 3, 0, 0, 0, 0),
    BAD("name beyond the end", SPOOL_TYPE, 2, 1, 200, 1, 'x'),
    BAD("long name", SPOOL_TYPE, 2, 1, 0x80, 2),
    BAD("huge name", SPOOL_TYPE, 2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
    BAD("five fields", SPOOL_TYPE, 2, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    BAD("kind of field", SPOOL_TYPE, 2, 1, 0, 0, 0, 1, 5, 0),
    BAD("label 65536", SPOOL_LABEL, 0x80, 0x80, 4, 0, 0),
    BAD("long key", SPOOL_LABEL, 1, 0x80, 2),
    BAD("value beyond the end", SPOOL_LABEL, 1, 1, 'x', 200, 1),
    BAD("17 labels", SPOOL_LABELS, 17),
    BAD("labels beyond the end", SPOOL_LABELS, 1),
    BAD("unknown label", SPOOL_LABELS, 1, 77),
    BAD("type 0 of an event", SPOOL_TRACK | SPOOL_INSTANT, 0, 0, 0),
    BAD("unknown type", SPOOL_TRACK | SPOOL_INSTANT, 0, 5, 0),
    BAD("type beyond all", SPOOL_TRACK | SPOOL_INSTANT, 0, 0xff, 0xff),
    BAD("unknown bit", SPOOL_TRACK | 0x20 | SPOOL_INSTANT, 0, 1, 0),
    BAD("time beyond the end", SPOOL_TRACK | 0xc | SPOOL_INSTANT, 0, 1, 0),
    BAD("type beyond the end", SPOOL_TRACK | SPOOL_INSTANT, 0, 1),
    BAD("value beyond the end", SPOOL_TRACK | SPOOL_COUNT, 0, 0xff, 0x0f, 0, 0, 0, 0, 0, 0, 0),
    BAD("stack beyond the end", SPOOL_TRACK | SPOOL_TRACK_STACK | SPOOL_INSTANT, 0, 1, 0, 0),
    BAD("frames beyond the end", SPOOL_TRACK | SPOOL_TRACK_STACK | SPOOL_INSTANT, 0, 1, 0, 0, 9),
    BAD("pop of nothing", SPOOL_TRACK | SPOOL_TRACK_STACK | SPOOL_INSTANT, 0, 1, 0, 9, 0),
};

/* What is before the damage counts, what is behind it in the packet does not. */
static void damage(void)
{
	for (size_t i = 0; i < 2 * sizeof(bad) / sizeof(*bad); i++) {
		const struct bad *b = &bad[i / 2];
		bool exact = i % 2;
		struct spool_file *f =
		    exact ? exact_file() : spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w = spool_writer_new(f, 100);
		struct spool_record r = {.used = 0};
		struct reading *reading;

		spool_writer_type(w, 1, &bare);
		spool_writer_type(w, 1, &counter);
		spool_writer_type(w, 1, &instant);
		spool_writer_track(w, 10, SPOOL_INSTANT, &bare, NULL, NULL, 0);
		if (exact) /* looks ahead, into the damage */
			spool_writer_release(w, 10, 0x1000, SPOOL_FLAG_REALLOC);
		record_bytes(&r, b->bytes, b->size);
		spool_writer_put(w, &r);
		spool_writer_begin(w, 30);
		spool_writer_type(w, 30, &bare);
		spool_writer_track(w, 30, SPOOL_INSTANT, &bare, NULL, NULL, 0);
		reading = read_file(f, NULL);
		CHECK(!reading->t->info.complete, "%s", b->name);
		CHECK(reading->w->tracks == 2 && reading->w->track[1].time_ns == 30, "%s: %zu",
		      b->name, reading->w->tracks);
		reading_free(reading);
		free(w);
		spool_file_free(f);
	}
}

/* What can be read and makes no sense is left out and counted; the rest is read. */
static void senseless_events(void)
{
	static const struct spool_writer_type empty = {2,    SPOOL_TYPE_COUNTER, "e", "", "", 0,
						       {{0}}};
	static const struct spool_writer_type text = {
	    3, SPOOL_TYPE_COUNTER, "t", "", "", 2, {{SPOOL_TEXT, ""}, {SPOOL_INT, ""}}};
	const uint64_t values[] = {text_value("text"), 0, 0, text_value("text")};
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r;

	spool_writer_type(w, 1, &span);
	spool_writer_type(w, 1, &counter);
	spool_writer_type(w, 1, &instant);
	spool_writer_type(w, 1, &empty);
	spool_writer_type(w, 1, &text);
	spool_writer_track(w, 10, SPOOL_COUNT, &empty, values, NULL, 0);
	spool_writer_track(w, 10, SPOOL_COUNT, &text, values, NULL, 0);
	spool_writer_track(w, 10, SPOOL_BEGIN, &instant, values, NULL, 0);
	spool_writer_track(w, 10, SPOOL_END, &instant, values, deep, 3);
	spool_writer_track(w, 10, SPOOL_COUNT, &instant, values, NULL, 0);
	spool_writer_track(w, 10, SPOOL_INSTANT, &counter, values, NULL, 0);
	spool_writer_track(w, 10, SPOOL_END, &counter, values, deep, 3);
	spool_writer_track(w, 10, SPOOL_INSTANT, &span, (uint64_t[]){1, text_value("")}, NULL, 0);
	spool_writer_track(w, 20, SPOOL_INSTANT, &instant, values, deep, 3);
	r = read_file(f, NULL);
	CHECK(r->t->info.complete && r->t->info.dropped_events == 8);
	CHECK(r->w->tracks == 1 && r->w->track[0].time_ns == 20 &&
	      depth_of(r->t, r->w->track[0].node) == 3);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* As many types, fields and labels as there may be, in one packet. */
static void many_ids(void)
{
	struct spool_file *f = spool_file_sized(SPOOL_CLOCK_MONOTONIC, 1, 1u << 20, 4u << 20);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_writer_type t = bare;
	uint32_t set[16];
	struct reading *r;
	char text[16];

	for (uint32_t id = 1; id < SPOOL_EVENT_TYPES; id++) {
		snprintf(text, sizeof(text), "type %u", id);
		t.id = id;
		t.name = text;
		spool_writer_type(w, 1, &t);
	}
	for (uint32_t id = 0; id < SPOOL_LABEL_IDS; id++) {
		snprintf(text, sizeof(text), "%u", id);
		spool_writer_label(w, 1, id, "n", text);
	}
	spool_writer_commit(w);
	for (uint32_t i = 0; i < 16; i++)
		set[i] = i * 4369;
	spool_writer_labels(w, 2, 16, set);
	spool_writer_sample(w, 3, 0, 1, 1, 0, deep, 1);
	for (uint32_t id = SPOOL_EVENT_TYPES - 1; id; id--) {
		t.id = id;
		spool_writer_track(w, 4, SPOOL_INSTANT, &t, NULL, NULL, 0);
	}
	r = read_file(f, NULL);
	CHECK(r->t->info.complete && r->t->track_types == SPOOL_EVENT_TYPES - 1);
	CHECK(r->w->tracks == SPOOL_EVENT_TYPES - 1 && !strcmp(type_name(r, 0), "type 4095") &&
	      !strcmp(type_name(r, r->w->tracks - 1), "type 1"));
	CHECK(!strncmp(labels_of(r, 0), "n=0 n=4369 n=8738", 17) &&
	      !strcmp(strrchr(labels_of(r, 0), ' '), " n=65535"));
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* A spool that tells ever new types and labels, which no agent does. */
static void endless_names(void)
{
	enum { PACKETS = 17, LABELS = 30000 };
	struct spool_file *f = spool_file_sized(SPOOL_CLOCK_MONOTONIC, 1, 1u << 20, 20u << 20);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_writer_type t = bare;
	struct reading *r;
	char text[32];

	t.name = text;
	for (uint32_t packet = 0; packet < PACKETS; packet++) {
		spool_writer_begin(w, packet * 10);
		for (uint32_t id = 1; id < SPOOL_EVENT_TYPES; id++) {
			snprintf(text, sizeof(text), "t%u.%u", packet, id);
			t.id = id;
			spool_writer_type(w, packet * 10, &t);
		}
		spool_writer_track(w, packet * 10, SPOOL_INSTANT, &t, NULL, NULL, 0);
		for (uint32_t id = 0; id < LABELS; id++) {
			snprintf(text, sizeof(text), "v%u.%u", packet, id);
			spool_writer_label(w, packet * 10, id, "key", text);
		}
		spool_writer_labels(w, packet * 10, 1, (uint32_t[]){LABELS - 1});
		spool_writer_sample(w, packet * 10, packet, 1, 1, 0, deep, 1);
	}
	r = read_file(f, NULL);
	CHECK(r->t->info.complete && r->w->samples == PACKETS);
	CHECK(r->t->track_types == MAYFLY_TRACK_TYPES && r->w->tracks == PACKETS - 1 &&
	      r->t->info.dropped_events == 1);
	CHECK(!strcmp(labels_of(r, 0), "key=v0.29999") &&
	      !strcmp(labels_of(r, PACKETS - 1), "key=(more)"));
	CHECK(r->t->strings <
	      MAYFLY_TRACK_TYPES + 2 * SPOOL_LABEL_IDS + RECORDING_EVENT_TEXTS + 10);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* Events have a budget of bytes; what comes later is counted, and its texts are not kept. */
static void budget_of_events(void)
{
	struct spool_stream_options options = {.event_bytes = 10 * 16 + 5 * 100};
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_stream_status status;
	struct reading *r;
	char text[101] = "";
	int error;

	spool_writer_type(w, 1, &bare);
	spool_writer_type(w, 1, &span);
	for (int i = 0; i < 20; i++) {
		snprintf(text, sizeof(text), "%099d", i);
		if (i % 2)
			spool_writer_track(w, 10 + i, SPOOL_INSTANT, &bare, NULL, NULL, 0);
		else
			spool_writer_track(w, 10 + i, SPOOL_BEGIN, &span,
					   (uint64_t[]){1, text_value(text)}, NULL, 0);
		spool_writer_sample(w, 10 + i, (uint64_t)i, 8, 1, 0, deep, 2);
	}
	r = open_file(f, &options, 0, &error);
	finish(r, NULL);
	spool_stream_status(r->s, &status);
	CHECK(r->w->tracks == 10 && r->w->samples == 20 && r->t->info.complete, "%zu",
	      r->w->tracks);
	CHECK(r->t->info.dropped_events == 10 && status.left_out == 10);
	CHECK(!strcmp(text_of(r, 8, 1) + 90, "000000008"));
	CHECK(recording_string(r->t, text, 99) == r->t->strings - 1, "the last text was kept");
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* What they need is measured, not feared: 2 bytes each by the double of the writer. */
static void budget_is_measured(void)
{
	struct spool_stream_options options = {.event_bytes = 40000};
	struct spool_file *f = spool_file_sized(SPOOL_CLOCK_MONOTONIC, 1, 1u << 20, 4u << 20);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_stream_status status;
	struct reading *r;
	int error;

	spool_writer_type(w, 1, &bare);
	for (uint64_t i = 0; i < 21000; i++)
		spool_writer_track(w, 10 + i, SPOOL_INSTANT, &bare, NULL, NULL, 0);
	r = open_file(f, &options, 0, &error);
	finish(r, NULL);
	spool_stream_status(r->s, &status);
	CHECK(r->w->tracks > 17000 && r->w->tracks <= 20000, "%zu", r->w->tracks);
	CHECK(status.left_out == 21000 - r->w->tracks);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* ---- what the recorder notes ---- */

static const struct mayfly_track_type noted = {
    "thread", "thread",
    "",	      MAYFLY_TYPE_INSTANT,
    2,	      {{"name", MAYFLY_FIELD_TEXT}, {"number", MAYFLY_FIELD_UINT}}};

static void note(struct reading *r, int64_t ns, uint32_t tid, uint64_t number)
{
	char name[32];
	uint64_t value[2] = {text_value(name), number};

	snprintf(name, sizeof(name), "note %llu", (unsigned long long)number);
	CHECK(spool_stream_note(r->s,
				(uint64_t)((int64_t)spool_file_header(r->f)->start_mono_ns + ns),
				tid, MAYFLY_TRACK_INSTANT, &noted, value) == 0);
	memset(name, '!', sizeof(name));
}

/* Notes come between the records of the spool, by their time. */
static void notes_are_merged(void)
{
	for (unsigned variant = 0; variant < 4; variant++) {
		bool tsc = variant & 1, exact = variant & 2;
		struct spool_file *f =
		    spool_file_new(tsc ? SPOOL_CLOCK_TSC : SPOOL_CLOCK_MONOTONIC, tsc ? 2.5 : 1);
		struct spool_writer *w = spool_writer_new(f, 100);
		struct reading *r;
		size_t wrong = 0;

		spool_file_header(f)->mode = exact ? SPOOL_EXACT : SPOOL_SAMPLED;
		r = open_online(f);
		for (uint64_t i = 0; i < 1000; i++) {
			int64_t now = (int64_t)(i + 1) * MS;

			if (exact)
				spool_writer_alloc(w, now, 16 * i, 8, 0, deep, 2);
			else
				spool_writer_sample(w, now, i, 8, 1, 0, deep, 2);
			note(r, now + MS / 2, i % 2 ? 100 : 77, i);
			if (i % 100 == 50)
				round_at(r, now + MS / 4);
		}
		/* Those of 0 to 949 are older than the latest round. */
		CHECK(r->w->tracks == 950, "%zu", r->w->tracks);
		finish(r, NULL);
		CHECK(r->w->samples == 1000 && r->w->tracks == 1000 && r->t->track_types == 1);
		for (size_t i = 0; i < r->w->tracks; i++) {
			const struct track *e = &r->w->track[i];
			char name[32];

			snprintf(name, sizeof(name), "note %zu", i);
			wrong += e->after != i + 1 || e->value[1] != i ||
				 strcmp(text_of(r, i, 0), name) != 0 ||
				 e->time_ns != (int64_t)(i + 1) * MS + MS / 2 ||
				 tid_of(r, i) != (i % 2 ? 100 : 77);
		}
		CHECK(!wrong, "%zu", wrong);
		CHECK(r->t->info.duration_ns == 1000 * MS + MS / 2);
		reading_free(r);
		free(w);
		spool_file_free(f);
	}
}

/* A note of a moment that has been handed over already counts as of then; not in order, too. */
static void late_notes(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 2.5);
	struct spool_writer *w = spool_writer_new(f, 100);
	static const uint64_t order[] = {3, 2, 0, 1, 4};
	struct reading *r = open_online(f);

	spool_writer_sample(w, 10 * MS, 0, 8, 1, 0, deep, 2);
	note(r, 30 * MS, 9, 1);
	note(r, 20 * MS, 9, 0);
	round_at(r, 15 * MS);
	CHECK(r->w->tracks == 0);
	note(r, 5 * MS, 9, 2);
	note(r, -5 * MS, 9, 3);
	note(r, INT64_MAX / 2, 9, 4);
	round_at(r, 40 * MS);
	CHECK(r->w->tracks == 4);
	finish(r, NULL);
	CHECK(r->w->tracks == 5);
	for (size_t i = 0; i < 5; i++)
		CHECK(r->w->track[i].value[1] == order[i]);
	CHECK(r->w->track[0].time_ns == 15 * MS && r->w->track[1].time_ns == 15 * MS);
	CHECK(r->w->track[2].time_ns == 20 * MS && r->w->track[3].time_ns == 30 * MS);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* A whole spool: before anything is read. And what is no event is refused. */
static void notes_of_whole_spools(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 2.5);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_stream_options options = {0};
	struct mayfly_track_type five = noted;
	uint64_t value[5] = {0};
	struct reading *r;
	int error;

	for (uint64_t i = 0; i < 400; i++) {
		spool_writer_begin(w, (int64_t)i * 10 * MS); /* a clock pair each */
		spool_writer_sample(w, (int64_t)i * 10 * MS, i, 8, 1, 0, deep, 2);
	}
	r = open_file(f, &options, 0, &error);
	for (uint64_t i = 0; i < 400; i++)
		note(r, (int64_t)i * 10 * MS + 5 * MS, 9, i);
	five.fields = 5;
	CHECK(spool_stream_note(r->s, 1, 9, MAYFLY_TRACK_INSTANT, &five, value) == MAYFLY_E_RANGE);
	CHECK(spool_stream_note(r->s, 1, 9, 4, &noted, value) == MAYFLY_E_RANGE);
	/* A text may be absent. */
	CHECK(spool_stream_note(r->s, UINT64_MAX, 9, MAYFLY_TRACK_INSTANT, &noted, value) == 0);
	finish(r, NULL);
	CHECK(r->w->tracks == 401 && r->w->samples == 400);
	for (size_t i = 0; i < 400; i++)
		CHECK(r->w->track[i].after == i + 1);
	CHECK(!*text_of(r, 400, 0));
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* A thread that the spool does not name is called what the recorder says; the spool knows better.
 */
static void noted_names(void)
{
	static const char *const expected[] = {"silent", "told", "told", "latest"};
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 12);
	struct reading *r = open_online(f);

	CHECK(spool_stream_name(r->s, 9, "nobody") == 0); /* has no event */
	CHECK(spool_stream_name(r->s, 11, "silent") == 0 && spool_stream_name(r->s, 11, "") == 0);
	CHECK(spool_stream_name(r->s, 12, "before") == 0);
	note(r, 1, 11, 0);
	note(r, 2, 12, 0);
	spool_writer_thread(w, 3, 12, "told");
	spool_writer_thread(w, 3, 13, "told");
	round_at(r, 10);
	note(r, 11, 13, 0);
	CHECK(spool_stream_name(r->s, 13, "after") == 0);
	note(r, 12, 14, 0);
	CHECK(spool_stream_name(r->s, 14, "first") == 0);
	round_at(r, 20);
	CHECK(spool_stream_name(r->s, 14, "latest") == 0);
	finish(r, NULL);
	CHECK(r->t->threads == 4);
	for (size_t i = 0; i < r->t->threads && i < 4; i++)
		CHECK(r->t->thread[i].tid == 11 + i &&
			  !strcmp(recording_text(r->t, r->t->thread[i].name), expected[i]),
		      "%zu: %s", i, recording_text(r->t, r->t->thread[i].name));
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* A recorder that notes and never has a round does not take all memory. */
static void notes_are_bounded(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r = open_online(f);
	static const struct mayfly_track_type plain = {"plain", "",   "", MAYFLY_TYPE_INSTANT,
						       0,	{{0}}};

	spool_writer_sample(w, 1, 0, 8, 1, 0, deep, 2);
	for (uint64_t i = 0; i < 262144 + 10; i++)
		CHECK(spool_stream_note(r->s, 5000000000 + i, 9, MAYFLY_TRACK_INSTANT, &plain,
					NULL) == 0);
	round_at(r, 50000); /* takes those of 0 to 49999 */
	CHECK(r->w->tracks == 50000);
	for (uint64_t i = 0; i < 40000; i++)
		CHECK(spool_stream_note(r->s, 5000300000 + i, 9, MAYFLY_TRACK_INSTANT, &plain,
					NULL) == 0);
	finish(r, NULL);
	CHECK(r->w->tracks == 262144 + 40000 && r->t->info.dropped_events == 10);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

int main(void)
{
	RUN(values_arrive);
	RUN(threads_are_merged);
	RUN(stacks_of_events);
	RUN(packets_stand_alone);
	RUN(blocks_have_labels);
	RUN(labels_are_inherited);
	RUN(order_among_exact_blocks);
	RUN(events_inside_a_realloc);
	RUN(exact_pools);
	RUN(sampled_pools);
	RUN(dropped_events);
	RUN(lost_ends);
	RUN(watched_spans);
	RUN(left_out_ends);
	RUN(damage);
	RUN(senseless_events);
	RUN(many_ids);
	RUN(endless_names);
	RUN(budget_of_events);
	RUN(budget_is_measured);
	RUN(notes_are_merged);
	RUN(late_notes);
	RUN(notes_of_whole_spools);
	RUN(noted_names);
	RUN(notes_are_bounded);
	DONE();
}
