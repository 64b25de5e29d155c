/* SPDX-License-Identifier: Apache-2.0 */
/* Memtrace's files: what is written is read, real files are written again bit by bit, and files
 * that are cut off, damaged or hostile do no harm. Real files: see corpus_folder(). */
#include "convert/export/memtrace_write.h"
#include "convert/import/memtrace_read.h"

#include <dirent.h>
#include <string.h>

#include "test.h"

#define HEADER 66 /* bytes, of version 2 */

/* ---- files in memory ---- */

struct buffer {
	uint8_t *bytes;
	size_t used, size;
};

static int to_buffer(void *context, const void *bytes, size_t count)
{
	struct buffer *b = context;

	if (b->used + count > b->size) {
		b->size = (b->used + count) * 2;
		b->bytes = realloc(b->bytes, b->size);
	}
	memcpy(b->bytes + b->used, bytes, count);
	b->used += count;
	return 0;
}

/* Reads what it gets, so that a sanitizer notices wrong bytes. */
static int to_sum(void *context, const void *bytes, size_t count)
{
	uint64_t *sum = context;

	for (size_t i = 0; i < count; i++)
		*sum = *sum * 31 + ((const uint8_t *)bytes)[i];
	return 0;
}

static struct buffer read_file(const char *path)
{
	struct buffer b = {0};
	FILE *f = fopen(path, "rb");
	uint8_t piece[4096];
	size_t count;

	while (f && (count = fread(piece, 1, sizeof(piece), f)) > 0)
		to_buffer(&b, piece, count);
	if (f)
		fclose(f);
	return b;
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return value;
}

static void set(uint8_t *at, uint64_t value, unsigned bytes)
{
	memcpy(at, &value, bytes);
}

static void put(struct buffer *b, uint64_t value, unsigned bytes)
{
	to_buffer(b, &value, bytes);
}

/* Folder with real files, or NULL: MAYFLY_DATA, or beside the sources. */
static const char *corpus_folder(void)
{
	static char path[4096];
	const char *data = getenv("MAYFLY_DATA"), *source = getenv("MAYFLY_SOURCE");
	DIR *folder;

	if (data)
		snprintf(path, sizeof(path), "%s/memtrace-corpus", data);
	else
		snprintf(path, sizeof(path), "%s/../shared/data/memtrace-corpus",
			 source ? source : ".");
	folder = opendir(path);
	if (!folder)
		return NULL;
	closedir(folder);
	return path;
}

/* ---- random events ---- */

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % below;
}

#define CODES 30000

static struct memtrace_location places[5];
static char place_text[10][64];

/* What a code means follows from the code: none to five places, some with many names. */
static const struct memtrace_location *place_of(void *context, int64_t code, size_t *count)
{
	(void)context;
	*count = (size_t)(code % 7 < 5 ? code % 7 : 1);
	for (unsigned i = 0; i < *count; i++) {
		snprintf(place_text[2 * i], 64, "Module.function_%d", (int)((code + i) % 83));
		snprintf(place_text[2 * i + 1], 64, "src/file_%d.ml", (int)(code / (i + 2) % 47));
		places[i] = (struct memtrace_location){.function = place_text[2 * i],
						       .file = place_text[2 * i + 1],
						       .line = (uint32_t)(code * 37 % 0x100000),
						       .start_char = (uint32_t)(code % 256),
						       .end_char = (uint32_t)(code % 1024)};
	}
	return places;
}

#define DEPTH_MAX 3000
#define EVENTS	  20000

struct model {
	struct memtrace_event event[EVENTS];
	size_t events;
	int64_t ids;
};

static int64_t draw_number(void)
{
	static const int64_t edges[] = {0,     1,     16,	 17,	     252,	253,
					65535, 65536, INT32_MAX, 2147483648, 1ll << 40, -1};

	return draw(4) ? (int64_t)(1 + draw(20)) : edges[draw(sizeof(edges) / sizeof(*edges))];
}

static int64_t draw_code(void)
{
	int64_t code = (int64_t)(draw(4) ? 1 + draw(60) : 1 + draw(CODES));

	return code * 0x10007 % 0x3fffffffffff;
}

/* Keeps some frames of the stack and adds others: runs of one, loops of two, and strangers. */
static size_t change_stack(int64_t *stack, size_t depth)
{
	size_t add = draw(12) ? draw(12) : draw(380), keep = draw(3) ? depth - depth / 4 : 0;
	int64_t a = draw_code(), b = draw_code();

	if (draw(40) == 0)
		add = 700; /* of one code: more than a run of predictions holds */
	if (keep + add > DEPTH_MAX)
		keep = 0;
	for (size_t i = 0; i < add; i++)
		stack[keep + i] = add == 700		  ? a
				  : add > 50 && add < 200 ? (i & 1 ? a : b)
							  : draw_code();
	return keep + add;
}

static int64_t draw_step(void)
{
	if (draw(500) == 0)
		return (int64_t)draw(80000000);
	return (int64_t)draw(200);
}

static struct memtrace_info info_for_test(void)
{
	return (struct memtrace_info){.sample_rate = 0x1p-10,
				      .word_size = 64,
				      .executable = "/bin/test",
				      .host = "host",
				      .runtime_parameters = "b=t",
				      .context = "why",
				      .pid = 4711,
				      .start_us = 1700000000000000 + (1 << 25) - 5};
}

static struct memtrace_writer *begin_writing(struct buffer *b, memtrace_locator *locator)
{
	struct memtrace_info info = info_for_test();
	struct memtrace_writer *w;

	return memtrace_writer_new(&info, locator, NULL, to_buffer, b, &w) ? NULL : w;
}

static void free_model(struct model *m)
{
	for (size_t i = 0; i < m->events; i++)
		free((void *)m->event[i].stack);
	free(m);
}

static void write_alloc(struct memtrace_writer *w, struct memtrace_event *e, const int64_t *stack,
			size_t depth, int64_t expected)
{
	int64_t *copy = malloc((depth + 1) * sizeof(*copy)), id = -1;

	memcpy(copy, stack, depth * sizeof(*copy));
	e->kind = MEMTRACE_ALLOC;
	e->length = draw_number();
	e->samples = draw(5) ? 1 : draw_number();
	e->source = draw(3) ? MEMTRACE_MINOR : (enum memtrace_source)draw(3);
	e->stack = copy;
	e->depth = depth;
	e->id = expected;
	CHECK(memtrace_writer_alloc(w, e->time_us, e->length, e->samples, e->source, stack, depth,
				    &id) == 0);
	CHECK(id == expected);
}

static struct model *write_random(struct buffer *b, unsigned events)
{
	struct memtrace_writer *w = begin_writing(b, place_of);
	struct model *m = calloc(1, sizeof(*m));
	static int64_t stack[DEPTH_MAX];
	size_t depth = 0;
	int64_t now = 0;

	for (m->events = 0; m->events < events; m->events++) {
		struct memtrace_event *e = &m->event[m->events];

		now += draw_step();
		e->time_us = now;
		if (m->ids == 0 || draw(2)) {
			depth = change_stack(stack, depth);
			write_alloc(w, e, stack, depth, m->ids++);
			continue;
		}
		e->id = (int64_t)draw((uint64_t)m->ids);
		e->kind = draw(2) ? MEMTRACE_PROMOTE : MEMTRACE_COLLECT;
		CHECK((e->kind == MEMTRACE_PROMOTE ? memtrace_writer_promote(w, now, e->id)
						   : memtrace_writer_collect(w, now, e->id)) == 0);
	}
	CHECK(memtrace_writer_finish(w) == 0);
	memtrace_writer_free(w);
	return m;
}

static void check_places(const struct memtrace_reader *r, int64_t code)
{
	size_t count, expected;
	const struct memtrace_location *got = memtrace_locate(r, code, &count);
	const struct memtrace_location *want = place_of(NULL, code, &expected);

	CHECK(count == expected, "%zu places, not %zu", count, expected);
	for (size_t i = 0; i < count && count == expected; i++)
		CHECK(!strcmp(got[i].function, want[i].function) &&
		      !strcmp(got[i].file, want[i].file) && got[i].line == want[i].line &&
		      got[i].start_char == want[i].start_char &&
		      got[i].end_char == want[i].end_char);
}

static size_t prefix_of(const struct memtrace_event *a, const struct memtrace_event *b)
{
	size_t at = 0;

	while (a && at < a->depth && at < b->depth && a->stack[at] == b->stack[at])
		at++;
	return at;
}

static void check_event(const struct memtrace_reader *r, const struct memtrace_event *got,
			const struct memtrace_event *want, const struct memtrace_event *before)
{
	CHECK(got->kind == want->kind && got->time_us == want->time_us && got->id == want->id);
	if (want->kind != MEMTRACE_ALLOC || got->kind != MEMTRACE_ALLOC)
		return;
	CHECK(got->length == want->length && got->samples == want->samples &&
	      got->source == want->source);
	CHECK(got->depth == want->depth, "%zu frames, not %zu", got->depth, want->depth);
	CHECK(got->shared == prefix_of(before, want) &&
	      (uint64_t)got->common_prefix == got->shared);
	if (got->depth != want->depth)
		return;
	CHECK(memcmp(got->stack, want->stack, want->depth * sizeof(*want->stack)) == 0);
	for (size_t i = got->shared; i < got->depth; i++)
		check_places(r, got->stack[i]);
}

static void written_is_read(void)
{
	struct memtrace_event e = {0};
	struct memtrace_reader *r = NULL;
	const struct memtrace_event *before = NULL;
	const struct memtrace_info *info;
	struct buffer b = {0};
	struct model *m;

	random_state = 1;
	m = write_random(&b, EVENTS);
	CHECK(memtrace_open(b.bytes, b.used, &r) == 0);
	info = memtrace_info(r);
	CHECK(info->version == 2 && info->sample_rate == 0x1p-10 && info->word_size == 64 &&
	      !strcmp(info->executable, "/bin/test") && !strcmp(info->host, "host") &&
	      !strcmp(info->runtime_parameters, "b=t") && !strcmp(info->context, "why") &&
	      info->pid == 4711 && info->start_us == info_for_test().start_us);
	for (size_t i = 0; i < m->events && !test_bad; i++) {
		CHECK(memtrace_next(r, &e) == 1, "%s at event %zu", memtrace_problem(r), i);
		check_event(r, &e, &m->event[i], before);
		if (m->event[i].kind == MEMTRACE_ALLOC)
			before = &m->event[i];
	}
	CHECK(memtrace_next(r, &e) == 0 && memtrace_next(r, &e) == 0);
	memtrace_close(r);
	free_model(m);
	free(b.bytes);
}

/* ---- decoding and writing again ---- */

static const struct memtrace_location *as_read(void *reader, int64_t code, size_t *count)
{
	return memtrace_locate(reader, code, count);
}

static int copy_event(struct memtrace_writer *w, const struct memtrace_event *e)
{
	int error = memtrace_writer_domain(w, e->domain);
	int64_t id;

	if (error)
		return error;
	if (e->kind == MEMTRACE_ALLOC)
		return memtrace_writer_alloc(w, e->time_us, e->length, e->samples, e->source,
					     e->stack, e->depth, &id);
	if (e->kind == MEMTRACE_PROMOTE)
		return memtrace_writer_promote(w, e->time_us, e->id);
	return memtrace_writer_collect(w, e->time_us, e->id);
}

static struct buffer copy(const struct buffer *b)
{
	struct memtrace_reader *r = NULL;
	struct memtrace_writer *w = NULL;
	struct memtrace_event e;
	struct buffer out = {0};

	CHECK(memtrace_open(b->bytes, b->used, &r) == 0);
	CHECK(r && memtrace_writer_new(memtrace_info(r), as_read, r, to_buffer, &out, &w) == 0);
	while (w && memtrace_next(r, &e) == 1)
		CHECK(copy_event(w, &e) == 0);
	CHECK(w && memtrace_writer_finish(w) == 0);
	memtrace_writer_free(w);
	memtrace_close(r);
	return out;
}

static bool same_bytes(const struct buffer *a, const struct buffer *b)
{
	return a->used == b->used && memcmp(a->bytes, b->bytes, a->used) == 0;
}

static void copy_is_the_same(void)
{
	struct buffer b = {0}, again;

	random_state = 2;
	free_model(write_random(&b, EVENTS));
	again = copy(&b);
	CHECK(same_bytes(&b, &again));
	free(again.bytes);
	free(b.bytes);
}

static void corpus_copies_are_the_same(void)
{
	const char *folder = corpus_folder();
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char path[5000];
	unsigned files = 0;

	while ((entry = readdir(dir))) {
		struct buffer b, again;
		const char *end = strrchr(entry->d_name, '.');

		/* Stacks that Memtrace cut are not in the file as the writer had them. */
		if (!end || strcmp(end, ".ctf") != 0 || strstr(entry->d_name, "deepcut"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		b = read_file(path);
		if (b.used > 30 && get(b.bytes + 28, 2) == 2) {
			again = copy(&b);
			CHECK(same_bytes(&b, &again), "%s", entry->d_name);
			free(again.bytes);
			files++;
		}
		free(b.bytes);
	}
	closedir(dir);
	CHECK(files >= 3, "%u files", files);
}

/* ---- stacks that do not fit ---- */

static void long_stacks_are_cut(void)
{
	static int64_t stack[2000];
	struct memtrace_event e = {0};
	struct memtrace_reader *r = NULL;
	struct memtrace_writer *w;
	struct buffer b = {0};
	int64_t id;
	size_t cut;

	for (int i = 0; i < 2000; i++)
		stack[i] = (i + 1) * 1009;
	w = begin_writing(&b, place_of);
	memtrace_writer_alloc(w, 1, 2, 1, MEMTRACE_MINOR, stack, 2000, &id);
	stack[1500] = 5;
	memtrace_writer_alloc(w, 2, 2, 1, MEMTRACE_MINOR, stack, 1600, &id);
	stack[3] = 7;
	memtrace_writer_alloc(w, 3, 2, 1, MEMTRACE_MINOR, stack, 100, &id);
	memtrace_writer_finish(w);
	memtrace_writer_free(w);

	CHECK(memtrace_open(b.bytes, b.used, &r) == 0);
	stack[3] = 4 * 1009;
	CHECK(memtrace_next(r, &e) == 1 && e.depth >= 400 && e.depth < 420, "%zu", e.depth);
	CHECK(memcmp(e.stack, stack, e.depth * sizeof(*stack)) == 0);
	cut = e.depth;
	/* The second one's prefix is longer than what is known of the first. */
	CHECK(memtrace_next(r, &e) == 1 && e.common_prefix == 1500 && e.depth == cut &&
	      e.shared == cut);
	CHECK(memcmp(e.stack, stack, e.depth * sizeof(*stack)) == 0);
	stack[3] = 7;
	CHECK(memtrace_next(r, &e) == 1 && e.common_prefix == 3 && e.depth == 100);
	CHECK(memcmp(e.stack, stack, e.depth * sizeof(*stack)) == 0);
	CHECK(memtrace_next(r, &e) == 0);
	memtrace_close(r);
	free(b.bytes);
}

static const struct memtrace_location *too_large(void *context, int64_t code, size_t *count)
{
	static struct memtrace_location many[300];
	static char name[5000];

	(void)context;
	memset(name, 'x', sizeof(name) - 1);
	for (int i = 0; i < 300; i++)
		many[i] = (struct memtrace_location){.function = code == 1 ? name : "f",
						     .file = "g",
						     .line = 1u << 30,
						     .start_char = 4095,
						     .end_char = 4095};
	*count = code == 2 ? 300 : 1;
	return many;
}

static void large_locations_are_replaced(void)
{
	const int64_t stack[3] = {1, 2, 3};
	const struct memtrace_location *l;
	struct memtrace_event e = {0};
	struct memtrace_reader *r = NULL;
	struct memtrace_writer *w;
	struct buffer b = {0};
	int64_t id;
	size_t count;

	w = begin_writing(&b, too_large);
	memtrace_writer_alloc(w, 1, 2, 1, MEMTRACE_MINOR, stack, 3, &id);
	memtrace_writer_finish(w);
	memtrace_writer_free(w);
	CHECK(memtrace_open(b.bytes, b.used, &r) == 0 && memtrace_next(r, &e) == 1);
	for (int64_t code = 1; code <= 2; code++) {
		l = memtrace_locate(r, code, &count);
		CHECK(count == 1 && !strcmp(l->function, "??") && !strcmp(l->file, "<unknown>") &&
		      l->line == 1 && l->start_char == 1 && l->end_char == 1);
	}
	/* Numbers that do not fit become the largest ones, and do not run into others. */
	l = memtrace_locate(r, 3, &count);
	CHECK(count == 1 && !strcmp(l->function, "f") && l->line == 0xfffff &&
	      l->start_char == 0xff && l->end_char == 0x3ff);
	memtrace_close(r);
	free(b.bytes);
}

/* ---- packets that are skipped ---- */

static size_t packet_size(const struct buffer *b, size_t at)
{
	return get(b->bytes + at + 4, 4) / 8;
}

static uint64_t count_events(const struct buffer *b, int *result, struct memtrace_skipped *skipped)
{
	struct memtrace_reader *r;
	struct memtrace_event e;
	uint64_t events = 0;

	*skipped = (struct memtrace_skipped){0};
	*result = memtrace_open(b->bytes, b->used, &r);
	if (*result)
		return 0;
	while ((*result = memtrace_next(r, &e)) == 1)
		events++;
	*skipped = memtrace_skipped(r);
	memtrace_close(r);
	return events;
}

/* Each packet once more behind itself, with a field changed: must make no difference. */
static struct buffer insert_packets(const struct buffer *b, size_t field, uint64_t value)
{
	struct buffer out = {0};

	for (size_t at = 0; at < b->used; at += packet_size(b, at)) {
		to_buffer(&out, b->bytes + at, packet_size(b, at));
		to_buffer(&out, b->bytes + at, packet_size(b, at));
		set(out.bytes + out.used - packet_size(b, at) + field, value, 8);
	}
	return out;
}

static void others_packets_are_skipped(void)
{
	struct memtrace_skipped skipped;
	struct buffer b = {0}, other;
	uint64_t packets = 0;
	int result;

	random_state = 3;
	free_model(write_random(&b, 3000));
	for (size_t at = 0; at < b.used; at += packet_size(&b, at))
		packets++;
	CHECK(packets > 4);

	/* Packets of another process. Those with events that are not expected are counted as such. */
	other = insert_packets(&b, 30, 4712);
	CHECK(count_events(&other, &result, &skipped) == 3000 && result == 0);
	CHECK(skipped.wrong_pid + skipped.misplaced == packets && skipped.wrong_pid > 0);
	free(other.bytes);
	/* Packets of an earlier time. */
	other = insert_packets(&b, 8, 1000);
	CHECK(count_events(&other, &result, &skipped) == 3000 && result == 0);
	CHECK(skipped.misplaced == packets);
	free(other.bytes);
	free(b.bytes);
}

static void every_cut_is_read(void)
{
	struct memtrace_skipped skipped;
	struct buffer b = {0};
	uint64_t events, last = 0;
	int result;

	random_state = 4;
	free_model(write_random(&b, 60));
	for (size_t size = b.used; size-- > 0;) {
		struct buffer cut = {malloc(size ? size : 1), size, size};

		memcpy(cut.bytes, b.bytes, size);
		events = count_events(&cut, &result, &skipped);
		CHECK(result == 0 || result == MAYFLY_E_EMPTY || result == MAYFLY_E_NOT_A_TRACE);
		CHECK(size == b.used - 1 || events <= last);
		CHECK(skipped.truncated <= 1 &&
		      (events == 0 || skipped.truncated || events == last || size == b.used - 1 ||
		       events < last));
		last = events;
		free(cut.bytes);
	}
	CHECK(last == 0);
	free(b.bytes);
}

/* ---- other versions ---- */

/* Without the context string at the end of the first packet. */
static struct buffer to_version_1(const struct buffer *b)
{
	size_t first = packet_size(b, 0), cut = strlen("why") + 1;
	struct buffer out = {0};

	to_buffer(&out, b->bytes, first - cut);
	set(out.bytes + 4, (first - cut) * 8, 4);
	to_buffer(&out, b->bytes + first, b->used - first);
	for (size_t at = 0; at < out.used; at += packet_size(&out, at))
		set(out.bytes + at + 28, 1, 2);
	return out;
}

static void version_1(void)
{
	struct memtrace_skipped skipped;
	struct memtrace_reader *r = NULL;
	struct buffer b = {0}, old;
	int result;

	random_state = 5;
	free_model(write_random(&b, 3000));
	old = to_version_1(&b);
	CHECK(count_events(&old, &result, &skipped) == 3000 && result == 0);
	CHECK(memtrace_open(old.bytes, old.used, &r) == 0);
	CHECK(memtrace_info(r)->version == 1 && !*memtrace_info(r)->context);
	memtrace_close(r);
	free(old.bytes);
	free(b.bytes);
}

/* A packet as version 3 has it: with a domain, and other block ids. */
static void put_version_3(struct buffer *out, const uint8_t *packet, size_t size, unsigned domain,
			  uint64_t more_ids)
{
	size_t at = out->used;

	to_buffer(out, packet, 38);
	put(out, domain, 2);
	to_buffer(out, packet + 38, size - 38);
	set(out->bytes + at + 4, (size + 2) * 8, 4);
	set(out->bytes + at + 28, 3, 2);
	set(out->bytes + at + 52, get(packet + 50, 8) + more_ids, 8);
	set(out->bytes + at + 60, get(packet + 58, 8) + more_ids, 8);
}

/* Packets of two files by turns: each is a domain of its own. */
static struct buffer to_version_3(const struct buffer *a, const struct buffer *b)
{
	size_t at = packet_size(a, 0), bt = packet_size(b, 0);
	struct buffer out = {0};

	put_version_3(&out, a->bytes, at, 0, 0);
	while (at < a->used || bt < b->used) {
		if (at < a->used) {
			put_version_3(&out, a->bytes + at, packet_size(a, at), 0, 0);
			at += packet_size(a, at);
		}
		if (bt < b->used) {
			put_version_3(&out, b->bytes + bt, packet_size(b, bt), 9, 1000000);
			bt += packet_size(b, bt);
		}
	}
	return out;
}

static void version_3(void)
{
	struct memtrace_reader *r = NULL;
	const struct memtrace_event *before[2] = {NULL};
	struct buffer b[2] = {{0}}, both;
	size_t at[2] = {0};
	struct memtrace_event e = {0};
	struct model *m[2];
	int result;

	random_state = 6;
	for (int i = 0; i < 2; i++)
		m[i] = write_random(&b[i], 4000);
	both = to_version_3(&b[0], &b[1]);
	CHECK(memtrace_open(both.bytes, both.used, &r) == 0 && memtrace_info(r)->version == 3);
	while ((result = memtrace_next(r, &e)) == 1 && !test_bad) {
		unsigned d = e.domain_index;

		CHECK(d < 2 && e.domain == (d ? 9 : 0));
		e.id -= d ? 1000000 : 0;
		check_event(r, &e, &m[d]->event[at[d]], before[d]);
		if (e.kind == MEMTRACE_ALLOC)
			before[d] = &m[d]->event[at[d]];
		at[d]++;
	}
	CHECK(result == 0 && at[0] == 4000 && at[1] == 4000, "%s", memtrace_problem(r));
	memtrace_close(r);
	for (int i = 0; i < 2; i++) {
		free_model(m[i]);
		free(b[i].bytes);
	}
	set(both.bytes + 28, 4, 2);
	CHECK(memtrace_open(both.bytes, both.used, &r) == MAYFLY_E_VERSION && !r);
	free(both.bytes);
}

/* ---- a clock that is set back ---- */

/* The times of all events; their number. */
static size_t read_times(const struct buffer *b, int64_t *time_us, size_t room,
			 struct memtrace_skipped *skipped)
{
	struct memtrace_reader *r = NULL;
	struct memtrace_event e;
	size_t events = 0;
	int result;

	CHECK(memtrace_open(b->bytes, b->used, &r) == 0);
	while ((result = memtrace_next(r, &e)) == 1 && events < room)
		time_us[events++] = e.time_us;
	CHECK(result == 0, "%s after %zu events", memtrace_problem(r), events);
	*skipped = memtrace_skipped(r);
	CHECK(!skipped->misplaced && !skipped->wrong_pid && !skipped->truncated);
	memtrace_close(r);
	return events;
}

/* Sets the packets' times back, from the middle of the file on, by a multiple of what events state. */
static int64_t set_back(struct buffer *b)
{
	const int64_t step_us = 100ll << 25;

	for (size_t at = 0; at < b->used; at += packet_size(b, at))
		for (size_t field = 8; at > b->used / 2 && field <= 16; field += 8)
			set(b->bytes + at + field,
			    get(b->bytes + at + field, 8) - (uint64_t)step_us, 8);
	return step_us;
}

/* What is recorded after it is read, and its times differ by no more than the gap that is unknown. */
static void check_set_back(struct buffer *b)
{
	static int64_t before[2 * EVENTS], after[2 * EVENTS];
	struct memtrace_skipped skipped;
	size_t events = read_times(b, before, 2 * EVENTS, &skipped), kept;
	int64_t step_us;

	CHECK(skipped.set_back_us == 0);
	step_us = set_back(b);
	kept = read_times(b, after, 2 * EVENTS, &skipped);
	CHECK(kept == events && events > 1000, "%zu of %zu events", kept, events);
	CHECK(skipped.set_back_us > step_us - (1 << 26) && skipped.set_back_us <= step_us, "%lld",
	      (long long)skipped.set_back_us);
	for (size_t i = 0; i < events && i < kept; i++)
		CHECK(after[i] <= before[i] && after[i] > before[i] - (1 << 26), "event %zu", i);
}

static void clock_is_set_back_between_packets(void)
{
	struct buffer b[2] = {{0}}, both;

	random_state = 11;
	for (int i = 0; i < 2; i++)
		free_model(write_random(&b[i], 4000));
	both = to_version_3(&b[0], &b[1]);
	check_set_back(&both);
	check_set_back(&b[0]);
	free(both.bytes);
	for (int i = 0; i < 2; i++)
		free(b[i].bytes);
}

/* ---- packets made by hand ---- */

/* A file whose last packet has these bytes as its events; one allocation of the id 0 when `ids`. */
static struct buffer by_hand(unsigned version, uint64_t ids, const void *events, size_t size)
{
	struct memtrace_info info = info_for_test();
	struct memtrace_writer *w;
	struct buffer b = {0}, out = {0};
	size_t first;

	w = begin_writing(&b, place_of);
	memtrace_writer_finish(w);
	memtrace_writer_free(w);
	first = packet_size(&b, 0);
	to_buffer(&b, events, size);
	set(b.bytes + first + 4, (HEADER + size) * 8, 4);
	set(b.bytes + first + 16, (uint64_t)info.start_us + 1000, 8);
	set(b.bytes + first + 58, ids, 8);
	if (version < 3)
		return b;
	put_version_3(&out, b.bytes, first, 0, 0);
	put_version_3(&out, b.bytes + first, HEADER + size, 0, 0);
	free(b.bytes);
	return out;
}

static uint32_t event_word(unsigned code, int64_t time_us)
{
	return code << 25 | ((uint32_t)(info_for_test().start_us + time_us) & 0x1ffffff);
}

static int read_by_hand(unsigned version, uint64_t ids, const struct buffer *events,
			struct memtrace_event *e)
{
	struct buffer b = by_hand(version, ids, events->bytes, events->used);
	struct memtrace_reader *r;
	int result = memtrace_open(b.bytes, b.used, &r);

	while (!result && (result = memtrace_next(r, e)) == 1)
		result = 0;
	if (result < 0)
		CHECK(*memtrace_problem(r) && memtrace_next(r, e) == result);
	memtrace_close(r);
	free(b.bytes);
	return result;
}

struct by_hand {
	const char *what;
	unsigned version;
	uint64_t ids;
	unsigned bytes;
	uint8_t body[24]; /* behind the first event's word */
	unsigned code;
	int64_t time_us;
	int expected;
};

static void damage_is_found(void)
{
	static const struct by_hand cases[] = {
	    {"sound", 2, 1, 2, {0, 0}, 101, 5, 0},
	    {"fewer blocks than said", 2, 2, 2, {0, 0}, 101, 5, MAYFLY_E_DAMAGED},
	    {"kind 5", 2, 0, 1, {0}, 5, 5, MAYFLY_E_DAMAGED},
	    {"length 0 in the short form", 2, 1, 2, {0, 0}, 100, 5, MAYFLY_E_DAMAGED},
	    {"length 17 in the short form", 2, 1, 2, {0, 0}, 117, 5, MAYFLY_E_DAMAGED},
	    {"a second info", 2, 0, 1, {0}, 0, 5, MAYFLY_E_DAMAGED},
	    {"after the packet's end", 2, 1, 2, {0, 0}, 101, 1001, MAYFLY_E_DAMAGED},
	    {"before the packet", 2, 1, 2, {0, 0}, 101, -1, MAYFLY_E_DAMAGED},
	    {"source 3", 2, 1, 6, {1, 1, 3, 0, 0, 0}, 2, 5, MAYFLY_E_DAMAGED},
	    {"source 2", 2, 1, 6, {1, 1, 2, 0, 0, 0}, 2, 5, 0},
	    {"negative prefix", 2, 1, 6, {254, 255, 255, 255, 255, 0}, 101, 5, MAYFLY_E_DAMAGED},
	    {"a number cut off", 2, 0, 3, {254, 255, 255}, 4, 5, MAYFLY_E_DAMAGED},
	    {"codeword cut off", 2, 1, 3, {0, 1, 0}, 101, 5, MAYFLY_E_DAMAGED},
	    {"code cut off", 2, 1, 9, {0, 1, 3, 0, 1, 2, 3, 4, 5}, 101, 5, MAYFLY_E_DAMAGED},
	    {"predictions cut off", 2, 1, 4, {0, 1, 2, 0}, 101, 5, MAYFLY_E_DAMAGED},
	    {"a future block", 2, 0, 5, {254, 254, 255, 255, 255}, 4, 5, MAYFLY_E_DAMAGED},
	    {"another domain's future block", 3, 0, 5, {254, 254, 255, 255, 255}, 4, 5, 0},
	    {"promoting a future block",
	     3,
	     0,
	     5,
	     {254, 254, 255, 255, 255},
	     3,
	     5,
	     MAYFLY_E_DAMAGED},
	    {"file without a name",
	     2,
	     0,
	     17,
	     {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xc0, 7, 'x', 'y'},
	     1,
	     0,
	     MAYFLY_E_DAMAGED},
	    {"function of no name yet",
	     2,
	     0,
	     17,
	     {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xc0, 7, 'x', 0},
	     1,
	     0,
	     MAYFLY_E_DAMAGED},
	    {"a location",
	     2,
	     0,
	     19,
	     {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xc0, 0xff, 'x', 0, 'y', 0},
	     1,
	     0,
	     0},
	    {"places cut off", 2, 0, 9, {1, 0, 0, 0, 0, 0, 0, 0, 1}, 1, 0, MAYFLY_E_DAMAGED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct by_hand *c = &cases[i];
		struct memtrace_event e = {0};
		struct buffer b = {0};
		int result;

		put(&b, event_word(c->code, c->time_us), 4);
		to_buffer(&b, c->body, c->bytes);
		result = read_by_hand(c->version, c->ids, &b, &e);
		CHECK(result == c->expected, "%s: %d", c->what, result);
		if (c->code == 4 && !result)
			CHECK(e.kind == MEMTRACE_COLLECT && e.id == 1);
		free(b.bytes);
	}
}

static void put_location_event(struct buffer *b, int64_t code, uint32_t line)
{
	put(b, event_word(1, 0), 4);
	put(b, (uint64_t)code, 8);
	put(b, 1, 1);
	put(b, line | (uint64_t)31 << 38 | (uint64_t)31 << 43, 6);
	to_buffer(b, "f\0g", 4);
}

/* A packet of blocks of one word, allocated at these times of the file's clock. */
static struct buffer packet_of_times(const int64_t *time_us, size_t count)
{
	struct buffer events = {0}, b;
	size_t first;

	for (size_t i = 0; i < count; i++) {
		put(&events, event_word(101, time_us[i]), 4);
		put(&events, 0, 2); /* no frames */
	}
	b = by_hand(2, count, events.bytes, events.used);
	first = packet_size(&b, 0);
	set(b.bytes + first + 8, (uint64_t)(info_for_test().start_us + time_us[0]), 8);
	set(b.bytes + first + 16, (uint64_t)(info_for_test().start_us + time_us[count - 1]), 8);
	free(events.bytes);
	return b;
}

/* As when it is set while a packet is filled: that one and the next are read. */
static void clock_is_set_back_in_a_packet(void)
{
	/* The last one is more than the bits of an event tell: the next packet does, but for the gap. */
	static const int64_t steps[] = {1, 150, 9000000, 3600000000};

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		const int64_t step = steps[i];
		const int64_t time[] = {5, 200, 200 - step, 210 - step, 500 - step},
			      more[] = {600 - step, 900 - step};
		const int64_t wanted[] = {5, 200, 200, 210, 500, 600, 900};
		struct buffer b = packet_of_times(time, 5), next = packet_of_times(more, 2);
		size_t at = packet_size(&next, 0), events;
		struct memtrace_skipped skipped;
		int64_t got[16];

		set(next.bytes + at + 50, 5, 8);
		set(next.bytes + at + 58, 7, 8);
		to_buffer(&b, next.bytes + at, packet_size(&next, at));
		events = read_times(&b, got, 16, &skipped);
		CHECK(events == 7, "step %lld: %zu events", (long long)step, events);
		for (size_t k = 0; k < events && k < 5; k++)
			CHECK(got[k] == wanted[k], "step %lld, event %zu: %lld", (long long)step, k,
			      (long long)got[k]);
		for (size_t k = 5; k < events; k++)
			CHECK(got[k] == wanted[k] - (step > 1 << 25 ? 100 : 0),
			      "step %lld, event %zu: %lld", (long long)step, k, (long long)got[k]);
		CHECK(skipped.set_back_us == step - (step > 1 << 25 ? 100 : 0), "step %lld: %lld",
		      (long long)step, (long long)skipped.set_back_us);
		free(next.bytes);
		free(b.bytes);
	}
}

static void codes_have_one_meaning(void)
{
	struct memtrace_event e;
	struct buffer b = {0};

	put_location_event(&b, 77, 5);
	put_location_event(&b, 77, 5);
	CHECK(read_by_hand(2, 0, &b, &e) == 0);
	put_location_event(&b, 77, 6);
	CHECK(read_by_hand(2, 0, &b, &e) == MAYFLY_E_DAMAGED);
	free(b.bytes);
}

/* The check of the cache in the headers: one that is changed must be noticed. */
static void cache_is_checked(void)
{
	struct memtrace_skipped skipped;
	struct buffer b = {0};
	unsigned checks = 0;
	int result;

	random_state = 7;
	free_model(write_random(&b, 6000));
	for (size_t at = 0; at < b.used; at += packet_size(&b, at)) {
		if (get(b.bytes + at + 38, 2) == 0xffff)
			continue;
		checks++;
		b.bytes[at + 42] ^= 1;
		count_events(&b, &result, &skipped);
		CHECK(result == MAYFLY_E_DAMAGED);
		b.bytes[at + 42] ^= 1;
	}
	CHECK(checks > 2);
	free(b.bytes);
}

/* ---- bombs ---- */

static void stacks_are_bounded(void)
{
	struct memtrace_event e;
	struct buffer b = {0};
	unsigned words = 0;

	put(&b, event_word(2, 0), 4);
	to_buffer(&b, "\1\1\0\0", 4);
	put(&b, 20000, 2);
	for (; words < 20000; words++) { /* bucket 0 predicts itself: 256 frames each */
		put(&b, 2, 2);
		put(&b, 255, 1);
	}
	CHECK(read_by_hand(2, 1, &b, &e) == MAYFLY_E_TOO_LARGE);
	free(b.bytes);
}

static void domains_are_bounded(void)
{
	struct buffer b = by_hand(3, 0, "", 0);
	size_t first = packet_size(&b, 0);
	struct memtrace_skipped skipped;
	uint8_t packet[HEADER + 2];
	int result;

	memcpy(packet, b.bytes + first, sizeof(packet));
	for (unsigned i = 1; i < 10000; i++) {
		set(packet + 38, i, 2);
		to_buffer(&b, packet, sizeof(packet));
	}
	count_events(&b, &result, &skipped);
	CHECK(result == MAYFLY_E_TOO_LARGE);
	free(b.bytes);
}

/* ---- random damage ---- */

static size_t damage(uint8_t *bytes, size_t size)
{
	size_t from, to, length;

	switch (draw(4)) {
	case 0:
		return draw(size);
	case 1:
		from = draw(size);
		to = draw(size);
		length = draw(300);
		if (length < size - from && length < size - to)
			memmove(bytes + to, bytes + from, length);
		return size;
	default:
		for (uint64_t changes = 1 + draw(6); changes; changes--)
			bytes[draw(size)] = (uint8_t)draw(256);
		return size;
	}
}

/* Reads, and may print, all; what is handed out must be in itself sound. */
static void survive(const uint8_t *bytes, size_t size, bool print)
{
	struct memtrace_reader *r;
	struct memtrace_event e;
	uint64_t sum = 0;
	int result = memtrace_open(bytes, size, &r);

	CHECK(result <= 0 && (result == 0) == (r != NULL));
	while (!result && (result = memtrace_next(r, &e)) == 1) {
		result = 0;
		if (e.kind == MEMTRACE_ALLOC)
			CHECK(e.shared <= e.depth && e.common_prefix >= 0);
		if (print && (e.kind != MEMTRACE_ALLOC || e.depth < 2000))
			CHECK(memtrace_print(r, &e, to_sum, &sum) == 0);
	}
	CHECK(result <= 0 && result >= MAYFLY_E_ABSENT);
	memtrace_close(r);
}

static void survive_damage(const struct buffer *b, unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		uint8_t *bytes = malloc(b->used), *exact;
		size_t size;

		memcpy(bytes, b->bytes, b->used);
		size = damage(bytes, b->used);
		exact = malloc(size ? size : 1); /* so that reading too far is noticed */
		memcpy(exact, bytes, size);
		survive(exact, size, i % 8 == 0);
		free(exact);
		free(bytes);
	}
}

static void damage_does_no_harm(void)
{
	struct buffer b = {0};

	random_state = 8;
	free_model(write_random(&b, 400));
	survive_damage(&b, 3000);
	free(b.bytes);
}

static void damage_of_the_corpus_does_no_harm(void)
{
	static const char *const names[] = {"longrun.ctf", "external.ctf"};

	random_state = 9;
	for (unsigned i = 0; i < 2; i++) {
		struct buffer b;
		char path[5000];

		snprintf(path, sizeof(path), "%s/%s", corpus_folder(), names[i]);
		b = read_file(path);
		if (!b.used)
			continue;
		survive_damage(&b, 1500);
		for (size_t size = 0; size < b.used; size++) {
			uint8_t *cut = malloc(size ? size : 1);

			memcpy(cut, b.bytes, size);
			survive(cut, size, false);
			free(cut);
		}
		free(b.bytes);
	}
}

/* ---- arguments ---- */

static void wrong_arguments_are_refused(void)
{
	const int64_t zero[1] = {0}, large[1] = {INT64_MAX}, good[1] = {5};
	struct memtrace_writer *w;
	struct buffer b = {0};
	int64_t id;

	w = begin_writing(&b, place_of);
	CHECK(memtrace_writer_alloc(w, 1, 1, 1, MEMTRACE_MINOR, zero, 1, &id) == MAYFLY_E_RANGE);
	CHECK(memtrace_writer_alloc(w, 1, 1, 1, MEMTRACE_MINOR, large, 1, &id) == MAYFLY_E_RANGE);
	CHECK(memtrace_writer_collect(w, 1, 0) == MAYFLY_E_RANGE);
	CHECK(memtrace_writer_alloc(w, 9, 1, 1, MEMTRACE_MINOR, good, 1, &id) == 0 && id == 0);
	CHECK(memtrace_writer_promote(w, 1, 0) == 0); /* an earlier time is taken for 9 */
	CHECK(memtrace_writer_collect(w, 1, 1) == MAYFLY_E_RANGE);
	CHECK(memtrace_writer_finish(w) == 0);
	memtrace_writer_free(w);
	free(b.bytes);
}

/* Whatever ids the events have, what the writer takes the reader takes, in all versions. */
static void written_ids_are_read(void)
{
	for (unsigned version = 1; version <= 3; version++) {
		struct memtrace_info about = info_for_test();
		const int64_t stack[1] = {5};
		struct memtrace_reader *r;
		struct memtrace_writer *w;
		struct memtrace_event e;
		struct buffer b = {0};
		int64_t id;

		about.version = version;
		CHECK(memtrace_writer_new(&about, place_of, NULL, to_buffer, &b, &w) == 0);
		for (int64_t i = 0; i < 200; i++) {
			int64_t other = (int64_t)draw(300);

			memtrace_writer_domain(w, (unsigned)draw(3));
			if (draw(3) == 0)
				CHECK(memtrace_writer_alloc(w, i, 1, 1, MEMTRACE_MINOR, stack, 1,
							    &id) == 0);
			memtrace_writer_promote(w, i, other);
			memtrace_writer_collect(w, i, (int64_t)draw(300));
		}
		CHECK(memtrace_writer_finish(w) == 0);
		memtrace_writer_free(w);
		CHECK(memtrace_open(b.bytes, b.used, &r) == 0);
		while (memtrace_next(r, &e) == 1)
			;
		CHECK(!*memtrace_problem(r), "version %u: %s", version, memtrace_problem(r));
		memtrace_close(r);
		free(b.bytes);
	}
}

static int full(void *context, const void *bytes, size_t count)
{
	int *calls = context;

	(void)bytes;
	(void)count;
	return ++*calls > 1 ? 28 : 0;
}

static void sink_errors_stick(void)
{
	struct memtrace_info info = info_for_test();
	struct memtrace_writer *w = NULL;
	const int64_t stack[1] = {1};
	int calls = 0;
	int64_t id;

	CHECK(memtrace_writer_new(&info, place_of, NULL, full, &calls, &w) == 0);
	CHECK(memtrace_writer_alloc(w, 1, 1, 1, MEMTRACE_MINOR, stack, 1, &id) == 0);
	CHECK(memtrace_writer_flush(w) == 28 && memtrace_writer_finish(w) == 28);
	CHECK(memtrace_writer_alloc(w, 1, 1, 1, MEMTRACE_MINOR, stack, 1, &id) == 28);
	CHECK(calls == 2);
	memtrace_writer_free(w);
}

static void other_files_are_refused(void)
{
	struct memtrace_reader *r;

	CHECK(memtrace_open("MAYFLYTR", 8, &r) == MAYFLY_E_NOT_A_TRACE && !r);
	CHECK(memtrace_open("", 0, &r) == MAYFLY_E_EMPTY && !r);
	CHECK(memtrace_open("\xc1\x1f\xfc\xc1", 4, &r) == MAYFLY_E_EMPTY && !r);
	CHECK(memtrace_recognise("\xc1\x1f\xfc\xc1", 4) && !memtrace_recognise("\xc1\x1f\xfc", 3));
}

int main(void)
{
	RUN(written_is_read);
	RUN(copy_is_the_same);
	RUN(long_stacks_are_cut);
	RUN(large_locations_are_replaced);
	RUN(others_packets_are_skipped);
	RUN(every_cut_is_read);
	RUN(clock_is_set_back_between_packets);
	RUN(clock_is_set_back_in_a_packet);
	RUN(version_1);
	RUN(version_3);
	RUN(damage_is_found);
	RUN(codes_have_one_meaning);
	RUN(cache_is_checked);
	RUN(stacks_are_bounded);
	RUN(domains_are_bounded);
	RUN(damage_does_no_harm);
	RUN(wrong_arguments_are_refused);
	RUN(written_ids_are_read);
	RUN(sink_errors_stick);
	RUN(other_files_are_refused);
	if (corpus_folder()) {
		RUN(corpus_copies_are_the_same);
		RUN(damage_of_the_corpus_does_no_harm);
	} else {
		SKIP("corpus_copies_are_the_same", "the collection of real files is not here");
		SKIP("damage_of_the_corpus_does_no_harm",
		     "the collection of real files is not here");
	}
	DONE();
}
