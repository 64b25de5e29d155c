/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_trace KIND FILE: writes a trace with known contents, for the tests of the commands.
 *
 *	sampled	 a run of 2 s at 64 KiB with rows of every confidence: see tell()
 *	exact	 the same blocks, each recorded with weight 1
 *	strange	 names that are long, broken or hostile
 *	quotes	 names with all that formats of text take for something else
 *	none	 a run without a sample
 *	deep	 one stack of 500 frames
 *	groups	 the blocks of `sampled`, in several groups
 *	snapshots the blocks of `exact`, as counters of each half second
 *	lossy	 the blocks of `exact`, with others said to be lost
 *	thinned	 the blocks of `sampled`, some of them at twice the interval
 *	inherited, inherited-exact, inherited-snapshots	 of a forked child: see tell_inherited()
 *	events	 the blocks of `sampled`, with track events, labels and pools: see tell_events()
 *	exact-events, snapshot-events	 likewise
 *	picture, exact-picture	 the blocks of `sampled` and `exact`, with a picture of the heap
 */
#include "history.h"

#include <stdio.h>

#define MS	      1000000ll
#define INTERVAL_LOG2 16u

static struct history history;
static struct recording *r;
static uint32_t demo, stripped, library;
static bool exact;

static uint32_t string(const char *text)
{
	return recording_string(r, text, strlen(text));
}

static uint32_t module(const char *path, const char *problem, uint64_t start)
{
	struct recording_module m = {.path = string(path),
				     .problem = string(problem),
				     .build_id = {0xab, 0xcd, 1, 2},
				     .build_id_length = 20,
				     .start = start,
				     .end = start + 0x100000,
				     .bias = start,
				     .to_ns = INT64_MAX};

	return recording_module(r, &m);
}

/* A frame with one function, or with none (function ""). */
static uint32_t frame(uint32_t in, uint64_t address, const char *function, const char *file,
		      uint32_t line)
{
	struct recording_location l = {string(function), string(file), line, false};
	uint32_t f = recording_frame(r, MAYFLY_FRAME_CODE, in, address);

	r->frame[f].first_location = recording_location(r, &l);
	r->frame[f].locations = 1;
	return f;
}

/* A frame with a function that was inlined into another. */
static uint32_t frame_of_two(uint32_t in, uint64_t address, const char *inner, const char *outer)
{
	struct recording_location l[2] = {
	    {string(inner), string("/src/demo/lib/inline.h"), 7, true},
	    {string(outer), string("/src/demo/lib/outer.c"), 70, false}};
	uint32_t f = recording_frame(r, MAYFLY_FRAME_CODE, in, address);

	r->frame[f].first_location = recording_location(r, &l[0]);
	recording_location(r, &l[1]);
	r->frame[f].locations = 2;
	return f;
}

static uint32_t below(uint32_t parent, uint32_t f)
{
	return recording_node(r, parent, f);
}

struct blocks {
	unsigned count;
	uint64_t size;
	uint32_t hits;
	int64_t life_ms; /* 0: never freed */
	uint8_t free_flags;
	uint32_t thread;
};

/* The blocks of one stack, 10 ms apart. */
static void allocate(uint32_t node, int64_t start_ms, struct blocks b)
{
	for (unsigned i = 0; i < b.count; i++) {
		int64_t time = (start_ms + 10 * (int64_t)i) * MS;
		struct history_block h = {
		    .time_ns = time,
		    .free_ns = b.life_ms ? time + b.life_ms * MS : INT64_MAX,
		    .block = {.size = b.size,
			      .node = node,
			      .thread = b.thread,
			      .hits = exact ? 0 : b.hits,
			      .interval_log2 = exact ? 0 : INTERVAL_LOG2},
		    .free_thread = b.thread,
		    .free_flags = b.free_flags,
		};

		history_add(&history, &h);
	}
}

static void set_command(const char *const *words, size_t count)
{
	r->command = calloc(count ? count : 1, sizeof(*r->command));
	for (size_t i = 0; i < count; i++)
		r->command[i] = string(words[i]);
	r->command_count = count;
}

static void begin(void)
{
	static const char *const words[] = {"/opt/demo/bin/demo", "--input", "two words.txt"};

	r->info.pid = 4242;
	r->info.parent_pid = 4241;
	r->info.interval_bytes = exact ? 1 : 1u << INTERVAL_LOG2;
	r->info.start_real_ns = 1700000000123456789;
	r->info.duration_ns = 2000 * MS;
	r->info.ending = MAYFLY_END_EXITED;
	r->info.ending_code = 3;
	r->info.complete = true;
	r->program = string("/opt/demo/bin/demo");
	set_command(words, 3);
	recording_thread(r, 4242, string("demo"));
	recording_thread(r, 4250, string("worker"));
	demo = module("/opt/demo/bin/demo", "", 0x400000);
	stripped = module("/opt/demo/lib/libstripped.so", "no symbols in the file", 0x7f0000000000);
	library = module("/opt/demo/lib/libcxx_demo.so", "", 0x7f1000000000);
}

static void tell(void)
{
	static const char template_name[] =
	    "std::vector<std::pair<int, std::map<std::string, std::vector<long>>>, "
	    "my::pool_allocator<std::pair<int, int>>>::_M_realloc_insert<std::pair<int, int>>("
	    "__gnu_cxx::__normal_iterator<int*, std::vector<int>>, std::pair<int, int>&&)";
	uint32_t main_node = below(0, frame(demo, 0x1000, "main", "/src/demo/main.c", 10));
	uint32_t parse = below(main_node, frame(demo, 0x1100, "parse", "/src/demo/parse.c", 20));
	uint32_t node, cut;

	/* good, freed after 300 ms; range; few; seen once */
	allocate(below(parse, frame(demo, 0x1200, "grow_table", "/src/demo/parse.c", 31)), 0,
		 (struct blocks){.count = 60, .size = 4000, .hits = 1, .life_ms = 300});
	allocate(below(parse, frame(demo, 0x1300, "medium_row", "/src/demo/parse.c", 41)), 100,
		 (struct blocks){.count = 6, .size = 1000, .hits = 1});
	allocate(below(parse, frame(demo, 0x1400, "rare_row", "/src/demo/parse.c", 51)), 100,
		 (struct blocks){.count = 2, .size = 500, .hits = 1});
	allocate(below(parse, frame(demo, 0x1500, "rarest_row", "/src/demo/parse.c", 61)), 100,
		 (struct blocks){.count = 1, .size = 500, .hits = 1});
	/* large: recorded exactly */
	allocate(below(main_node, frame(demo, 0x1600, "load_file", "/src/demo/main.c", 12)), 50,
		 (struct blocks){.count = 1, .size = 3 << 20, .hits = 0, .thread = 1});
	/* no name; C++ below operator new; a long name; inlined; cut; temporary */
	allocate(below(main_node, frame(stripped, 0x1230, "", "", 0)), 100,
		 (struct blocks){.count = 12, .size = 64, .hits = 1});
	node = below(main_node, frame(library, 0x2000, "make_node(int)", "/src/cxx/node.cc", 5));
	node = below(node, frame(library, 0x2100, "operator new(unsigned long)", "", 0));
	allocate(node, 200, (struct blocks){.count = 15, .size = 48, .hits = 1, .thread = 1});
	allocate(below(parse, frame(library, 0x2200, template_name, "/src/cxx/table.cc", 99)), 150,
		 (struct blocks){.count = 20, .size = 20000, .hits = 1});
	node = below(main_node, frame_of_two(demo, 0x1700, "inline_push", "outer_push"));
	allocate(node, 300, (struct blocks){.count = 14, .size = 256, .hits = 1});
	cut = below(0, recording_frame(r, MAYFLY_FRAME_TRUNCATED, RECORDING_NONE, 0));
	node = below(cut, frame(demo, 0x1800, "rootless", "/src/demo/rootless.c", 1));
	allocate(node, 400, (struct blocks){.count = 11, .size = 128, .hits = 1});
	r->info.truncated_stacks = 11;
	allocate(below(parse, frame(demo, 0x1900, "scratch", "/src/demo/parse.c", 71)), 500,
		 (struct blocks){.count = 30,
				 .size = 100,
				 .hits = 1,
				 .life_ms = 1,
				 .free_flags = MAYFLY_FLAG_TEMPORARY});
}

static void tell_strange(void)
{
	static const char *const words[] = {"/bin/\033[31mred", "two\nlines", "", "\xff\xfe"};
	char *long_name = malloc(60001);
	uint32_t node;

	free(r->command);
	set_command(words, 4);
	r->note = string("a note\nof two lines \033[2J");
	r->thread[0].name = string("\033]0;title\a");
	node = below(0, frame(demo, 1, "escape\033[2J\rname", "/a/b\033[1m.c", 1));
	allocate(node, 0, (struct blocks){.count = 20, .size = 100, .hits = 1});
	allocate(below(node, frame(demo, 2, "broken\xff\xc0\x80utf8", "\xfe", 2)), 1,
		 (struct blocks){.count = 20, .size = 100, .hits = 1});
	allocate(below(node, frame(demo, 3, "<[u8; 4] as Größe>::maß", "/ü/ß.rs", 3)), 2,
		 (struct blocks){.count = 20, .size = 100, .hits = 1});
	memset(long_name, 'x', 60000);
	long_name[60000] = 0;
	allocate(below(node, frame(demo, 4, long_name, long_name, 4)), 3,
		 (struct blocks){.count = 20, .size = 100, .hits = 1});
	memset(long_name, '<', 60000);
	allocate(below(node, frame(demo, 5, long_name, "(", 4)), 4,
		 (struct blocks){.count = 20, .size = 100, .hits = 1});
	allocate(below(node, frame(RECORDING_NONE, 6, "", "", 0)), 5,
		 (struct blocks){.count = 20, .size = 100, .hits = 1});
	allocate(0, 6, (struct blocks){.count = 20, .size = UINT64_MAX, .hits = 0});
	free(long_name);
}

static void tell_quotes(void)
{
	static const char *const names[] = {"comma, \"quoted\"; semicolon",
					    "two\nlines\r",
					    "<&>'\\ ]]>",
					    "\xff;\t\x7f broken",
					    "=1+1",
					    " 42",
					    "\\u0041 \\n"};
	static const char *const words[] = {"/bin/\"x\"", "<&>", "]]>", "\xff"};
	uint32_t node = below(0, frame(demo, 0x100, "main", "a \"b\",c;d.c", 1));

	free(r->command);
	set_command(words, 4);
	r->thread[0].name = string("thread, \"0\"");
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		node = below(node, frame(demo, 0x200 + i, names[i], names[i], i));
		allocate(node, i, (struct blocks){.count = 20, .size = 100 + i, .hits = 1});
	}
}

static void tell_deep(void)
{
	uint32_t node = 0;

	for (unsigned i = 0; i < 500; i++) {
		char name[32];

		snprintf(name, sizeof(name), "level_%u", i);
		node = below(node, frame(demo, 0x1000 + i, name, "/src/deep.c", i + 1));
		if (i == 250)
			node = below(node,
				     recording_frame(r, MAYFLY_FRAME_ELIDED, RECORDING_NONE, 12));
	}
	allocate(node, 0, (struct blocks){.count = 40, .size = 100, .hits = 1});
}

/* Blocks are numbered in the order of their times. */
static int compare_times(const void *a, const void *b)
{
	const struct history_block *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->block.node > y->block.node) - (x->block.node < y->block.node);
}

static int write_file(const char *path, int64_t snapshot_ns, size_t flush)
{
	const struct trace_writer_options options = {
	    .mode = exact ? MAYFLY_EXACT : MAYFLY_SAMPLED,
	    .interval_log2 = exact ? 0 : INTERVAL_LOG2,
	    .snapshot_ns = snapshot_ns,
	};
	uint8_t *bytes;
	size_t size;
	FILE *file;
	int error = history_write(&history, &options, flush, &bytes, &size);

	if (error) {
		fprintf(stderr, "make_trace: %s\n", mayfly_error_text(error));
		return 1;
	}
	file = fopen(path, "wb");
	if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
		perror(path);
		return 1;
	}
	free(bytes);
	return 0;
}

static void tell_lossy(void)
{
	tell();
	r->info.dropped_samples = 5;
	r->info.dropped_frees = 2;
}

static void tell_thinned(void)
{
	tell();
	for (size_t i = 0; i < history.blocks; i += 3)
		if (history.block[i].block.hits) {
			history.block[i].block.interval_log2++;
			history.block[i].block.flags |= MAYFLY_FLAG_THINNED;
		}
	r->info.thinned = true;
}

/* ---- track events ---- */

struct types {
	uint32_t request, parse, cache, queue, temperature;
};

static struct types add_types(void)
{
	const uint32_t value = string("value");
	const struct recording_track_type type[] = {
	    {.kind = MAYFLY_TYPE_SPAN,
	     .name = string("request"),
	     .fields = 3,
	     .field = {{MAYFLY_FIELD_FLOW, string("id")},
		       {MAYFLY_FIELD_TEXT, string("path")},
		       {MAYFLY_FIELD_INT, string("priority")}}},
	    {.kind = MAYFLY_TYPE_SPAN, .name = string("parse \"body\"")},
	    {.kind = MAYFLY_TYPE_INSTANT,
	     .name = string("cache miss"),
	     .category = string("memory"),
	     .fields = 2,
	     .field = {{MAYFLY_FIELD_TEXT, string("key")}, {MAYFLY_FIELD_UINT, string("bytes")}}},
	    {.kind = MAYFLY_TYPE_COUNTER,
	     .name = string("queue"),
	     .unit = string("bytes"),
	     .fields = 1,
	     .field = {{MAYFLY_FIELD_UINT, value}}},
	    {.kind = MAYFLY_TYPE_COUNTER,
	     .name = string("temperature"),
	     .fields = 1,
	     .field = {{MAYFLY_FIELD_FLOAT, value}}},
	};
	struct types t = {recording_track_type(r, &type[0]), recording_track_type(r, &type[1]),
			  recording_track_type(r, &type[2]), recording_track_type(r, &type[3]),
			  recording_track_type(r, &type[4])};

	return t;
}

static void track(int64_t us, uint32_t kind, uint32_t type, uint32_t thread, uint32_t node,
		  uint64_t first, uint64_t second, uint64_t third)
{
	const struct history_track t = {{us * 1000, kind, type, thread, node, NULL},
					{first, second, third}};

	history_add_track(&history, &t);
}

/* A request of 80 ms, in which its thread parses twice. */
static void tell_request(const struct types *t, int64_t us, unsigned number, uint32_t thread,
			 uint32_t node)
{
	static const char *const paths[] = {"/index.html", "/search?q=a,\"b\"", "/größe", ""};
	double temperature = 20.5 + number % 3;
	uint64_t bits;

	memcpy(&bits, &temperature, sizeof(bits));
	track(us, MAYFLY_TRACK_BEGIN, t->request, thread, node, 100 + number,
	      string(paths[number % 4]), (uint64_t) - (int64_t)(number % 5));
	track(us + 1, MAYFLY_TRACK_COUNT, t->queue, thread, 0, 4096ull * number, 0, 0);
	track(us + 10000, MAYFLY_TRACK_BEGIN, t->parse, thread, 0, 0, 0, 0);
	track(us + 30000, MAYFLY_TRACK_END, t->parse, thread, 0, 0, 0, 0);
	track(us + 40000, MAYFLY_TRACK_BEGIN, t->parse, thread, 0, 0, 0, 0);
	track(us + 50000, MAYFLY_TRACK_INSTANT, t->cache, thread, node,
	      string(number % 2 ? "user:1" : "user:2"), 10ull * number, 0);
	track(us + 55000, MAYFLY_TRACK_COUNT, t->temperature, 1, 0, bits, 0, 0);
	track(us + 60000, MAYFLY_TRACK_END, t->parse, thread, 0, 0, 0, 0);
	track(us + 80000, MAYFLY_TRACK_END, t->request, thread, 0, 0, 0, 0);
}

static int compare_tracks(const void *a, const void *b)
{
	const struct history_track *x = a, *y = b;

	if (x->track.time_ns != y->track.time_ns)
		return x->track.time_ns < y->track.time_ns ? -1 : 1;
	return (x->track.thread > y->track.thread) - (x->track.thread < y->track.thread);
}

/* Each third block is of tenant a, each third of tenant b, in phase load. */
static void tell_labels(void)
{
	const struct recording_label a[] = {{string("tenant"), string("a")}};
	const struct recording_label b[] = {{string("tenant"), string("b")},
					    {string("phase"), string("load, first")}};
	const uint32_t set[3] = {0, recording_labels(r, a, 1), recording_labels(r, b, 2)};

	for (size_t i = 0; i < history.blocks; i++) {
		struct trace_block *block = &history.block[i].block;

		block->labels = set[i % 3];
	}
}

static void tell_pools(void)
{
	for (size_t i = 0; i < history.blocks; i++) {
		struct trace_block *block = &history.block[i].block;

		if (i % 10 == 4)
			block->flags |= MAYFLY_HEAP_POOL << MAYFLY_FLAG_HEAP_SHIFT;
		if (i % 10 == 7)
			block->flags |= MAYFLY_HEAP_POOL_MAPPED << MAYFLY_FLAG_HEAP_SHIFT;
	}
}

/* The child has inherited what is allocated in the first 120 ms; and, sampled, some blocks of
 * `scratch`, whose frees say "temporary", as older versions wrote it. */
static void tell_inherited(void)
{
	unsigned scratch = 0;

	tell();
	tell_labels();
	for (size_t i = 0; i < history.blocks; i++) {
		struct history_block *h = &history.block[i];
		bool temporary = !exact && h->free_flags & MAYFLY_FLAG_TEMPORARY;

		if (h->time_ns > 120 * MS && !(temporary && scratch++ < 5))
			continue;
		h->time_ns = 0;
		h->block.flags |= MAYFLY_FLAG_INHERITED;
	}
}

/* 20 requests of both threads, one after the other; before them the end of a span that began
 * earlier, behind them one that stays open. */
static void tell_events(void)
{
	struct types t;
	uint32_t node;

	tell();
	tell_labels();
	tell_pools();
	t = add_types();
	node = below(below(0, frame(demo, 0x1000, "main", "/src/demo/main.c", 10)),
		     frame(demo, 0x3000, "handle", "/src/demo/serve.c", 77));
	track(100, MAYFLY_TRACK_END, t.request, 0, 0, 0, 0, 0);
	for (unsigned i = 0; i < 20; i++)
		tell_request(&t, 1000 + 90000ll * (i / 2) + 1000 * (i % 2), i, i % 2, node);
	track(1950000, MAYFLY_TRACK_BEGIN, t.request, 1, node, 7, string("/last"), 0);
	qsort(history.track, history.tracks, sizeof(*history.track), compare_tracks);
	r->info.dropped_events = 3;
}

#define PICTURE_NS (1500 * MS)

/* Each holder, and none, has some of the blocks that were live; each type, and none, some of these. */
static void take_picture(struct mayfly_picture *p)
{
	static const struct mayfly_holder holder[] = {
	    {MAYFLY_HOLDER_LOST, "nothing: lost", "", 0, 4096, 3},
	    {MAYFLY_HOLDER_LOST_BY, "nothing: lost with others", "", 0, 160, 5},
	    {MAYFLY_HOLDER_VARIABLE, "g_sessions", "demo", 0, 1 << 20, 1000},
	    {MAYFLY_HOLDER_STACK, "stack of 'worker' 43", "drain()", 43, 77, 1},
	    {MAYFLY_HOLDER_TOGETHER, "g_a, g_b, together", "", 0, 500, 2},
	    {MAYFLY_HOLDER_VARIABLE, "unused\x01", "demo", 0, 0, 0},
	};
	static const char *const type[] = {"Session", "std::list<int>"};
	struct mayfly_held *held = calloc(history.blocks + 1, sizeof(*held));
	size_t holders = sizeof(holder) / sizeof(*holder), types = sizeof(type) / sizeof(*type);

	if (!held)
		abort();
	*p = (struct mayfly_picture){.time_ns = PICTURE_NS,
				     .stopped_ns = 21 * MS,
				     .how = MAYFLY_PICTURE_STOPPED,
				     .bytes = 123456789,
				     .blocks = 4321,
				     .holders = holders,
				     .holder = holder,
				     .types = types,
				     .type = type,
				     .held = held};
	for (size_t i = 0; i < history.blocks; i++) {
		const struct history_block *b = &history.block[i];
		size_t k = p->count;

		if (b->time_ns > PICTURE_NS || b->free_ns <= PICTURE_NS)
			continue;
		held[p->count++] = (struct mayfly_held){
		    i, k % holders ? (uint32_t)(k % holders - 1) : UINT32_MAX,
		    k % 3 ? (uint32_t)(k % 3 - 1) : UINT32_MAX, (uint32_t)(k % 7)};
	}
	history.picture = p;
}

static const struct kind {
	const char *name;
	void (*tell)(void);
	bool exact;
	int64_t snapshot_ns;
	size_t flush;
	bool picture;
} kinds[] = {
    {"sampled", tell, false, 0, 0},
    {"exact", tell, true, 0, 0},
    {"strange", tell_strange, false, 0, 0},
    {"none", NULL, false, 0, 0},
    {"quotes", tell_quotes, false, 0, 0},
    {"deep", tell_deep, false, 0, 0},
    {"groups", tell, false, 0, 40},
    {"snapshots", tell, true, 500 * MS, 0},
    {"lossy", tell_lossy, true, 0, 0},
    {"thinned", tell_thinned, false, 0, 0},
    {"inherited", tell_inherited, false, 0, 0},
    {"inherited-exact", tell_inherited, true, 0, 0},
    {"inherited-snapshots", tell_inherited, true, 500 * MS, 0},
    {"events", tell_events, false, 0, 0},
    {"exact-events", tell_events, true, 0, 0},
    {"snapshot-events", tell_events, true, 500 * MS, 0},
    {"picture", tell, false, 0, 0, .picture = true},
    {"exact-picture", tell, true, 0, 40, .picture = true},
};

int main(int argc, char **argv)
{
	const struct kind *kind = NULL;
	struct mayfly_picture picture = {0};
	int status;

	for (size_t i = 0; argc == 3 && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(argv[1], kinds[i].name) == 0)
			kind = &kinds[i];
	if (!kind) {
		fprintf(stderr, "usage: make_trace "
				"sampled|exact|strange|quotes|none|deep|groups|snapshots|"
				"lossy|thinned|inherited|inherited-exact|inherited-snapshots|"
				"events|exact-events|snapshot-events|picture|exact-picture FILE\n");
		return 2;
	}
	exact = kind->exact;
	r = history.r = recording_new();
	if (!r)
		return 1;
	begin();
	if (kind->tell)
		kind->tell();
	if (history.blocks)
		qsort(history.block, history.blocks, sizeof(*history.block), compare_times);
	if (kind->picture)
		take_picture(&picture);
	status = write_file(argv[2], kind->snapshot_ns, kind->flush);
	free((void *)(uintptr_t)picture.held);
	history_free(&history);
	return status;
}
