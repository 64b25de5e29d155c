/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_random SEED FILE: writes a random trace in several groups, with track events of all types.
 * Traces of every allocation with an odd seed are written as snapshots.
 */
#include "random_tracks.h"
#include "trace/write/residency.h"

static struct source source;
static struct track_story story;
static uint64_t seed, happened;
static int64_t snapshot_ns;
static const char *path;

static void add_mappings(struct trace_writer *w, uint32_t moment)
{
	static const char *const names[] = {"", "/bin/x", "[heap]", "/lib/y.so (deleted)"};
	struct residency r = {.time_ns = 1000 * (int64_t)below(1000000),
			      .resident = random_bits() >> 20};
	uint64_t at = 0;

	for (uint32_t i = below(40); i > 0; i--) {
		struct residency_row row = {.start = at += below(3) * 4096ull,
					    .size = below(3) * 8192ull,
					    .resident = below(5000) * 4096ull,
					    .kind = below(MAYFLY_MAPPING_KINDS)};

		CHECK(residency_add(&r, &row, names[below(4)]));
	}
	trace_writer_residency(w, moment, &r);
}

static void add_tracks(struct trace_writer *w, int64_t now_ns)
{
	for (uint32_t i = below(3); i > 0; i--)
		write_track(w, source.r, &story, now_ns, snapshot_ns ? 0 : happened, below(4));
	if (below(50) == 0)
		add_mappings(w, below(RESIDENCY_MOMENTS));
	happened++;
}

static void write_random(void)
{
	struct opened opened;
	FILE *file;

	source = random_source(seed);
	add_track_types(source.r, 1 + below(12));
	snapshot_ns = source.mode == MAYFLY_EXACT && seed % 2 ? 50000000 : 0;
	opened = open_source_with(&source, snapshot_ns, 1 + below(100), add_tracks);
	file = fopen(path, "wb");
	CHECK(file &&
	      fwrite(opened.buffer.bytes, 1, opened.buffer.used, file) == opened.buffer.used);
	CHECK(file && fclose(file) == 0);
	close_opened(&opened);
	free_source(&source);
	free(story.item);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: make_random SEED FILE\n");
		return 2;
	}
	seed = strtoull(argv[1], NULL, 10);
	path = argv[2];
	RUN(write_random);
	DONE();
}
