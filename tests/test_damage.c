/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage of single chunks. Each chunk of the stored traces, and of some made here, is damaged in many
 * ways, alone:
 *
 *	FLIPPED	bytes in the file, so that the checksum is wrong
 *	SUMMED	the same, with a checksum that is right again
 *	CONTENT	bytes of what the chunk holds, which is stored plainly then; the index follows
 *
 * If a trace can be used without a chunk of this type, it opens, says which chunk is bad, and gives
 * the figures that it gives otherwise. Else it is refused, or opens as incomplete.
 */
#include <mayfly/trace.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "format/columns.h"
#include "format/format.h"
#include "trace/write/errors_write.h"
#include "trace/write/fragments.h"
#include "trace/write/residency.h"
#include "trace/write/writer.h"

#include "test.h"

#define MUTATIONS   24
#define MOST_CHUNKS 64
#define MOST_FILES  64

static uint64_t random_state;

static uint64_t below(uint64_t limit)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % limit;
}

struct file {
	char name[300];
	uint8_t *bytes;
	size_t size;
	size_t at[MOST_CHUNKS + 1]; /* of each chunk; the last one is that of the trailer */
	size_t chunks;
	bool snapshots, overlaps;
};

static struct file files[MOST_FILES];
static size_t file_count;

static uint32_t type_at(const struct file *f, size_t chunk)
{
	struct chunk_header h;

	CHECK(chunk_find(f->bytes + f->at[chunk], f->size - f->at[chunk], false, &h) == 0);
	return h.type;
}

/* Files that are whole, and of today's version. */
static void add_file(const char *name, uint8_t *bytes, size_t size)
{
	struct file *f = &files[file_count];
	struct mayfly_trace *t;
	const struct mayfly_info *info;
	struct chunk_header h;

	if (mayfly_trace_open(bytes, size, &t)) {
		free(bytes);
		return;
	}
	info = mayfly_trace_info(t);
	*f = (struct file){.bytes = bytes, .size = size, .snapshots = info->snapshot_ns != 0};
	f->overlaps = info->ocaml_interval_bytes && info->heaps & 1u << MAYFLY_HEAP_MALLOC &&
		      info->heaps & MAYFLY_HEAPS_OCAML;
	snprintf(f->name, sizeof(f->name), "%s", name);
	for (size_t at = TRACE_HEADER_BYTES;
	     f->chunks < MOST_CHUNKS && !chunk_find(bytes + at, size - at, true, &h) &&
	     size - at > TRACE_TRAILER_BYTES;
	     at += TRACE_CHUNK_BYTES + h.stored) {
		f->at[f->chunks++] = at;
		f->at[f->chunks] = at + TRACE_CHUNK_BYTES + h.stored;
	}
	if (info->complete)
		file_count++;
	else
		free(bytes);
	mayfly_trace_close(t);
}

static void load_file(const char *folder, const char *name)
{
	char path[600];
	uint8_t *bytes = malloc(1 << 20);
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	CHECK(file && bytes, "%s", path);
	add_file(name, bytes, file ? fread(bytes, 1, 1 << 20, file) : 0);
	if (file)
		fclose(file);
}

static void load_stored(void)
{
	const char *source = getenv("MAYFLY_SOURCE");
	struct dirent *entry;
	char folder[300];
	DIR *d;

	snprintf(folder, sizeof(folder), "%s/tests/golden", source ? source : "../..");
	d = opendir(folder);
	CHECK(d, "%s", folder);
	while (d && (entry = readdir(d))) {
		const char *end = strrchr(entry->d_name, '.');

		if (end && !strcmp(end, ".mayfly") && file_count < MOST_FILES - 4)
			load_file(folder, entry->d_name);
	}
	if (d)
		closedir(d);
}

/* ---- traces that are made here ---- */

struct making {
	struct recording *tables;
	struct trace_writer *writer;
	struct trace_buffer buffer;
	uint32_t node[4];
};

static void begin_trace(struct making *m, const struct trace_writer_options *options)
{
	*m = (struct making){.tables = recording_new()};
	m->writer = trace_writer_new(options, m->tables, trace_buffer_sink, &m->buffer);
	recording_thread(m->tables, 1, 0);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t parent = i ? m->node[i - 1] : 0;

		m->node[i] = recording_node(m->tables, parent,
					    recording_frame(m->tables, MAYFLY_FRAME_CODE,
							    RECORDING_NONE, 0x1000 * (uint64_t)i));
	}
}

static void add_blocks(struct making *m, size_t count)
{
	uint64_t serial;

	for (size_t i = 0; i < count; i++) {
		struct trace_block block = {
		    .size = 100 + i, .node = m->node[i % 4], .hits = 1, .interval_log2 = 10};

		CHECK(!trace_writer_alloc(m->writer, (int64_t)i * 10000, &block, &serial));
		if (i % 3 == 0)
			CHECK(!trace_writer_free(m->writer, (int64_t)i * 10000, serial, &block, 0,
						 0));
	}
}

static void end_trace(struct making *m)
{
	m->tables->info.complete = true;
	m->tables->info.duration_ns = 1000000000;
	CHECK(trace_writer_finish(m->writer) == 0);
	trace_writer_free_all(m->writer);
	recording_free(m->tables);
}

static void add_row(struct residency *r, uint64_t start, uint64_t size, uint64_t resident,
		    const char *name)
{
	CHECK(residency_add(r,
			    &(struct residency_row){.start = start,
						    .size = size,
						    .resident = resident,
						    .kind = MAYFLY_MAPPING_ANONYMOUS},
			    name));
}

static void make_mapped(void)
{
	const struct trace_writer_options options = {.interval_log2 = 10, .level = 1};
	struct residency peak = {.resident = 70000}, end = {.resident = 50000};
	struct making m;

	begin_trace(&m, &options);
	add_blocks(&m, 50);
	for (uint64_t i = 1; i < 40; i++)
		add_row(i & 1 ? &peak : &end, i << 20, 8192, 4096, i % 5 ? "" : "/a/file");
	trace_writer_residency(m.writer, RESIDENCY_PEAK, &peak);
	trace_writer_residency(m.writer, RESIDENCY_END, &end);
	end_trace(&m);
	add_file("mapped", m.buffer.bytes, m.buffer.used);
}

static void make_estimated(void)
{
	const struct trace_writer_options options = {
	    .interval_log2 = 10, .level = 1, .snapshot_ns = 1000000};
	struct making m;

	begin_trace(&m, &options);
	m.tables->info.absent = MAYFLY_ABSENT_ERRORS;
	for (uint32_t i = 0; i < 4; i++) {
		struct trace_counts counts = {.allocs = 5 + i, .alloc_bytes = 4000 * (i + 1)};
		struct error_row row = {.node = m.node[i]};

		for (size_t k = 0; k < ERROR_SUMS; k++) {
			row.of[k].bytes_variance = 100 + i;
			row.of[k].blocks_variance = 2;
			row.of[k].samples = 9;
		}
		CHECK(!trace_writer_count(m.writer, i * 2000000, m.node[i], &counts));
		CHECK(!trace_writer_error(m.writer, &row));
	}
	end_trace(&m);
	add_file("estimated", m.buffer.bytes, m.buffer.used);
}

/* ---- damage ---- */

enum damage { FLIPPED, SUMMED, CONTENT, DAMAGES };

static void flip(uint8_t *bytes, size_t size)
{
	for (uint64_t flips = 1 + below(4); flips; flips--)
		bytes[below(size)] ^= (uint8_t)(1 + below(255));
}

/* The index, with places behind `at` moved by so many bytes. */
static void move_index(struct bytes *to, const uint8_t *from, size_t size, bool long_entries,
		       size_t at, int64_t by)
{
	struct varint_in in = varint_begin(from, size);
	uint64_t count = varint_u(&in), place = 0, last = 0;

	bytes_put_u(to, count);
	bytes_put_u(to, varint_u(&in));
	for (uint64_t i = 0; i < count; i++) {
		uint64_t moved;

		place += varint_u(&in);
		moved = place > at ? place + (uint64_t)by : place;
		bytes_put_u(to, moved - last);
		last = moved;
		for (int k = 0; k < (long_entries ? 7 : 5); k++)
			bytes_put_u(to, varint_u(&in));
	}
	CHECK(!in.bad && !varint_left(&in));
}

/* What a chunk holds, or NULL. */
static uint8_t *contents(const struct file *f, size_t chunk, size_t *size)
{
	struct compress *compress = compress_new(0);
	struct chunk_header h;
	uint8_t *plain = NULL;

	if (!chunk_find(f->bytes + f->at[chunk], f->size - f->at[chunk], false, &h)) {
		*size = h.plain ? h.plain : h.stored;
		plain = malloc(*size + 1);
		if (!h.plain)
			memcpy(plain, h.bytes, *size);
		else
			CHECK(compress_expand(compress, plain, *size, h.bytes, h.stored) == 0);
	}
	compress_free(compress);
	return plain;
}

static void put_plain(struct bytes *to, uint32_t type, const uint8_t *bytes, size_t size)
{
	size_t at = to->used;

	bytes_put_fixed(to, type, 4);
	bytes_put_fixed(to, size, 4);
	bytes_put_fixed(to, 0, 4);
	bytes_put_fixed(to, trace_checksum(trace_checksum(0, to->at + at, 12), bytes, size), 4);
	bytes_put(to, bytes, size);
}

/* The file with other contents of a chunk. */
static void replace(const struct file *f, size_t chunk, const uint8_t *with, size_t size,
		    struct bytes *to)
{
	struct mayfly_trace *t;
	bool long_entries;
	size_t index_at = 0;

	CHECK(!mayfly_trace_open(f->bytes, f->size, &t));
	long_entries = mayfly_trace_info(t)->mode == MAYFLY_EXACT || f->snapshots;
	mayfly_trace_close(t);
	bytes_put(to, f->bytes, TRACE_HEADER_BYTES);
	for (size_t i = 0; i < f->chunks; i++) {
		int64_t by = (int64_t)(size + TRACE_CHUNK_BYTES) -
			     (int64_t)(f->at[chunk + 1] - f->at[chunk]);

		if (type_at(f, i) == TRACE_INDEX)
			index_at = to->used;
		if (i == chunk) {
			put_plain(to, type_at(f, i), with, size);
		} else if (type_at(f, i) == TRACE_INDEX) {
			struct bytes moved = {0};
			size_t length;
			uint8_t *old = contents(f, i, &length);

			move_index(&moved, old, length, long_entries, f->at[chunk], by);
			put_plain(to, TRACE_INDEX, moved.at, moved.used);
			bytes_free(&moved);
			free(old);
		} else {
			bytes_put(to, f->bytes + f->at[i], f->at[i + 1] - f->at[i]);
		}
	}
	bytes_put_fixed(to, index_at, 8);
	bytes_put_fixed(to, trace_checksum(0, to->at + to->used - 8, 8), 4);
	bytes_put_fixed(to, 0, 4);
	bytes_put(to, TRACE_END_MAGIC, 8);
}

/* False: there is nothing in the chunk. */
static bool damage(const struct file *f, size_t chunk, enum damage how, struct bytes *to)
{
	size_t size, at = f->at[chunk] + TRACE_CHUNK_BYTES, length = f->at[chunk + 1] - at;
	uint8_t *content;
	uint32_t crc;

	if (!length)
		return false;
	if (how == CONTENT) {
		content = contents(f, chunk, &size);
		flip(content, size);
		replace(f, chunk, content, size, to);
		free(content);
		return true;
	}
	bytes_put(to, f->bytes, f->size);
	do
		flip(to->at + at, length);
	while (!memcmp(to->at + at, f->bytes + at, length));
	if (how == SUMMED) {
		crc = trace_checksum(0, to->at + f->at[chunk], 12);
		crc = trace_checksum(crc, to->at + at, length);
		memcpy(to->at + f->at[chunk] + 12, &crc, 4);
	}
	return true;
}

/* ---- figures ---- */

static void put_figure(struct bytes *to, const char *name, double value)
{
	char text[40];
	int length = snprintf(text, sizeof(text), " %.17g\n", value);

	bytes_put(to, name, strlen(name));
	bytes_put(to, text, (size_t)length);
}

static void put_rows(const struct mayfly_trace *t, enum mayfly_metric metric, struct bytes *to)
{
	struct mayfly_result *result;
	struct mayfly_query query;
	int error;

	mayfly_query_defaults(&query);
	query.by = MAYFLY_BY_FUNCTION;
	query.metric = metric;
	error = mayfly_query_run(t, &query, &result);
	put_figure(to, "rows", error); /* some imported traces do not know */
	if (error)
		return;
	for (size_t i = 0; i < result->rows; i++) {
		put_figure(to, result->row[i].function, result->row[i].self.bytes.estimate);
		put_figure(to, "", result->row[i].total.bytes.estimate);
	}
	mayfly_result_free(result);
}

/* Sums as text, with rows by function where names count. */
static void put_figures(const struct mayfly_trace *t, bool names, struct bytes *to)
{
	struct mayfly_summary s = {0};

	put_figure(to, "summary", mayfly_trace_summary(t, &s));
	put_figure(to, "allocated", s.allocated.bytes.estimate);
	put_figure(to, "blocks", s.allocated.blocks.estimate);
	put_figure(to, "peak", s.peak.bytes.estimate);
	put_figure(to, "live", s.live_at_end.bytes.estimate);
	put_figure(to, "temporary", s.temporary.bytes.estimate);
	if (names)
		put_rows(t, MAYFLY_ALLOCATED, to);
	if (names)
		put_rows(t, MAYFLY_PEAK, to);
	bytes_put(to, "", 1);
}

/* ---- what is expected ---- */

/* Whether a reader answers everything else without such a chunk: the list in doc/FORMAT.md, 3.18. */
static bool can_do_without(const struct file *f, uint32_t type)
{
	static const uint32_t types[] = {TRACE_COUNTERS,    TRACE_MAPPINGS,   TRACE_FRAGMENTS,
					 TRACE_ERRORS,	    TRACE_PROMOTIONS, TRACE_TEXTS,
					 TRACE_TRACK_TYPES, TRACE_LABELS,     TRACE_TRACK,
					 TRACE_INDEX,	    TRACE_PICTURE};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (types[i] == type)
			return true;
	return (type == TRACE_SUMS && !f->snapshots) || (type == TRACE_NAMES && !f->overlaps);
}

static bool is_told(const struct mayfly_trace *t, uint32_t type, uint64_t offset)
{
	for (size_t i = 0; i < mayfly_trace_info(t)->bad_chunks; i++) {
		const struct mayfly_bad_chunk *bad = mayfly_trace_bad_chunk(t, i);

		if (bad->offset == offset && !memcmp(bad->type, &type, 4) && !bad->type[4])
			return true;
	}
	return false;
}

static void check_side(const struct file *f, size_t chunk, enum damage how, int error,
		       const struct mayfly_trace *t)
{
	uint32_t type = type_at(f, chunk);
	struct bytes before = {0}, after = {0};
	struct mayfly_trace *sound;

	CHECK(!error, "%s, %.4s: %s", f->name, (char *)&type, mayfly_error_text(error));
	if (error)
		return;
	if (how == FLIPPED) {
		CHECK(is_told(t, type, f->at[chunk]), "%s, %.4s", f->name, (char *)&type);
		CHECK(mayfly_trace_info(t)->whole && !mayfly_trace_info(t)->complete);
	} else if (type == TRACE_INDEX || type == TRACE_SUMS) {
		return; /* what is sound is believed */
	}
	CHECK(!mayfly_trace_open(f->bytes, f->size, &sound));
	put_figures(sound, type != TRACE_NAMES, &before);
	put_figures(t, type != TRACE_NAMES, &after);
	CHECK(before.at && after.at && !strcmp((char *)before.at, (char *)after.at),
	      "%s, %.4s: %s instead of %s", f->name, (char *)&type, (char *)after.at,
	      (char *)before.at);
	mayfly_trace_close(sound);
	bytes_free(&before);
	bytes_free(&after);
}

static void check_one(const struct file *f, size_t chunk, enum damage how)
{
	uint32_t type = type_at(f, chunk);
	struct bytes damaged = {0}, ignored = {0};
	struct mayfly_trace *t = NULL;
	int error;

	if (!damage(f, chunk, how, &damaged))
		return;
	error = mayfly_trace_open(damaged.at, damaged.used, &t);
	if (can_do_without(f, type))
		check_side(f, chunk, how, error, t);
	else if (how == FLIPPED)
		CHECK(error || !mayfly_trace_info(t)->whole, "%s, %.4s", f->name, (char *)&type);
	if (!error)
		put_figures(t, true, &ignored); /* must not crash */
	else
		CHECK(error != MAYFLY_E_MEMORY && error != MAYFLY_E_RANGE, "%d", error);
	mayfly_trace_close(t);
	bytes_free(&damaged);
	bytes_free(&ignored);
}

static void each_chunk_costs_itself(void)
{
	bool seen[14] = {false};
	static const uint32_t types[14] = {
	    TRACE_COUNTERS, TRACE_MAPPINGS,    TRACE_FRAGMENTS, TRACE_ERRORS, TRACE_PROMOTIONS,
	    TRACE_TEXTS,    TRACE_TRACK_TYPES, TRACE_LABELS,	TRACE_TRACK,  TRACE_INDEX,
	    TRACE_SUMS,	    TRACE_NAMES,       TRACE_EVENTS,	TRACE_PICTURE};

	random_state = 31;
	load_stored();
	make_mapped();
	make_estimated();
	for (size_t i = 0; i < file_count; i++)
		for (size_t chunk = 0; chunk < files[i].chunks; chunk++) {
			for (size_t k = 0; k < 14; k++)
				seen[k] |= types[k] == type_at(&files[i], chunk);
			for (int how = 0; how < DAMAGES; how++)
				for (size_t k = 0; k < MUTATIONS; k++)
					check_one(&files[i], chunk, (enum damage)how);
		}
	for (size_t k = 0; k < 14; k++)
		CHECK(seen[k], "no trace has %.4s", (const char *)&types[k]);
}

/* ---- lists from outside ---- */

/* Writes a trace with the rows, and opens it. */
static struct mayfly_trace *with_rows(struct residency *rows, struct making *m)
{
	const struct trace_writer_options options = {.interval_log2 = 10, .level = 1};
	struct mayfly_trace *t = NULL;

	begin_trace(m, &options);
	add_blocks(m, 3);
	trace_writer_residency(m->writer, RESIDENCY_END, rows);
	end_trace(m);
	CHECK(mayfly_trace_open(m->buffer.bytes, m->buffer.used, &t) == 0);
	return t;
}

static void rows_are_written_in_order(void)
{
	const struct mayfly_residency *r;
	struct mayfly_trace *t;
	struct making m;

	random_state = 5;
	for (int round = 0; round < 300; round++) {
		struct residency rows = {.resident = UINT64_MAX};
		uint64_t covered = 0, end = 0;

		for (uint64_t i = 0, count = below(12); i < count; i++)
			add_row(&rows, below(40) << 12, below(8) << 12,
				below(3) ? below(9) << 12 : UINT64_MAX, below(2) ? "" : "name");
		add_row(&rows, UINT64_MAX - 4096, 4096 + below(2), 4096, "last");
		t = with_rows(&rows, &m);
		r = t ? mayfly_trace_residency(t, true) : NULL;
		CHECK(r && !mayfly_trace_info(t)->bad_chunks && mayfly_trace_info(t)->complete);
		for (size_t i = 0; r && i < r->count; i++) {
			CHECK(r->mapping[i].start >= end);
			end = r->mapping[i].start + r->mapping[i].size;
			covered += r->mapping[i].size;
			CHECK(end >= r->mapping[i].start);
		}
		CHECK(covered <= (48 << 12) + 4097);
		mayfly_trace_close(t);
		free(m.buffer.bytes);
	}
}

/* As an earlier version wrote it: the second row begins below the end, and the start, of the first. */
static void rows_out_of_order_cost_themselves(void)
{
	struct column_writer *columns = column_writer_new(1);
	struct residency rows = {.resident = 8192};
	struct bytes chunk = {0}, whole = {0};
	struct chunk_maker c = {0};
	struct mayfly_trace *t;
	struct chunk_header h;
	struct making m;
	struct file *f;
	uint64_t *start, *size;

	add_row(&rows, 0x200000, 0x3000, 4096, "");
	mayfly_trace_close(with_rows(&rows, &m));
	add_file("rows", m.buffer.bytes, m.buffer.used);
	f = &files[--file_count];
	start = chunk_add(&c, COLUMN_MAPPING_START, 2);
	size = chunk_add(&c, COLUMN_MAPPING_SIZE, 2);
	start[0] = 0x200000;
	start[1] = (uint64_t)-0x1000;
	size[0] = 0x3000;
	size[1] = 0x5000;
	for (int i = 0; i < 6; i++)
		bytes_put_u(&c.head, (const uint64_t[]){RESIDENCY_END, 1000, 0, 8192, 0, 2}[i]);
	chunk_finish(&c, columns, TRACE_MAPPINGS, &chunk);
	CHECK(!chunk_find(chunk.at, chunk.used, true, &h) && !h.plain);
	for (size_t i = 0; i < f->chunks; i++)
		if (type_at(f, i) == TRACE_MAPPINGS)
			replace(f, i, h.bytes, h.stored, &whole);
	CHECK(!mayfly_trace_open(whole.at, whole.used, &t));
	CHECK(mayfly_trace_info(t)->bad_chunks == 1 && mayfly_trace_info(t)->samples == 3);
	CHECK(!strcmp(mayfly_trace_bad_chunk(t, 0)->type, "maps") && !mayfly_trace_bad_chunk(t, 1));
	CHECK(!mayfly_trace_residency(t, true) && !mayfly_trace_residency(t, false));
	mayfly_trace_close(t);
	bytes_free(&whole);
	bytes_free(&chunk);
	free(f->bytes);
	column_writer_free(columns);
}

/* A node comes once, also when it was given twice. */
static void fragments_are_joined(void)
{
	const struct trace_writer_options options = {.mode = MAYFLY_EXACT, .level = 1};
	struct fragments f = {.blocks = 3, .bytes = 30, .pages = 1, .entries = 3};
	const struct mayfly_fragmentation *read;
	struct mayfly_trace *t;
	struct making m;

	begin_trace(&m, &options);
	f.entry = calloc(3, sizeof(*f.entry));
	for (size_t i = 0; i < 3; i++)
		f.entry[i] = (struct mayfly_fragment){m.node[i % 2], 1, 10, 1, 100};
	CHECK(!trace_writer_fragments(m.writer, FRAGMENTS_END, &f));
	CHECK(!trace_writer_alloc(m.writer, 0, &(struct trace_block){.size = 8, .node = m.node[0]},
				  &(uint64_t){0}));
	end_trace(&m);
	CHECK(!mayfly_trace_open(m.buffer.bytes, m.buffer.used, &t));
	read = mayfly_trace_fragmentation(t, true);
	CHECK(!mayfly_trace_info(t)->bad_chunks && read && read->count == 2);
	CHECK(read && read->fragment[0].bytes + read->fragment[1].bytes == 30);
	mayfly_trace_close(t);
	free(m.buffer.bytes);
}

int main(void)
{
	RUN(each_chunk_costs_itself);
	RUN(rows_are_written_in_order);
	RUN(rows_out_of_order_cost_themselves);
	RUN(fragments_are_joined);
	for (size_t i = 0; i < file_count; i++)
		free(files[i].bytes);
	DONE();
}
