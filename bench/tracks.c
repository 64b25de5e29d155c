/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events in a trace: bytes for each, and nanoseconds of CPU time to write and to read it,
 * from memory to memory.
 *
 *	bench_tracks EVENTS ROUNDS	of each kind of sequence below, as JSON; the fastest round
 *	bench_tracks EVENTS FILE	a trace of a server's events
 *
 *	spans	  a span without fields begins and ends
 *	counter	  a number that goes up and down
 *	texts	  an instant with one of 50 texts
 *	server	  four threads handle requests (a number and a size), in which they parse, ask
 *		  (a text) and count
 *
 * Times between events are random, as they are: much of the bytes is for them.
 */
#include <math.h>
#include <mayfly/trace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trace/write/recording.h"
#include "trace/write/writer.h"

enum { SPANS, COUNTER, TEXTS, SERVER, SEQUENCES };
static const char *const names[SEQUENCES] = {"spans", "counter", "texts", "server"};

#define THREADS	    4
#define TEXTS_COUNT 50
#define PART	    1000000 /* events that are made at once */
#define MOST_ROUNDS 100
#define MOST_EVENTS 100000000

struct item {
	struct trace_track track;
	uint64_t value[2];
};

/* What happens: the state of one sequence. */
struct story {
	struct recording *tables;
	unsigned sequence;
	uint32_t request, parse, ask, cache, queue, thing, length;
	uint32_t thread[THREADS], text[TEXTS_COUNT];
	unsigned step[THREADS];
	uint64_t random, requests, count;
	int64_t now;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_tracks: %s\n", what);
	exit(1);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- what happens ---- */

/* xorshift64*, by Vigna */
static uint32_t below(struct story *s, uint32_t limit)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return (uint32_t)((s->random * 0x2545f4914f6cdd1du >> 32) * limit >> 32);
}

static uint32_t string(struct recording *r, const char *text)
{
	return recording_string(r, text, strlen(text));
}

static uint32_t add_type(struct recording *r, uint32_t kind, const char *name, uint32_t fields,
			 uint32_t first, uint32_t second)
{
	struct recording_track_type type = {
	    .kind = kind,
	    .name = string(r, name),
	    .fields = fields,
	    .field = {{first, string(r, "value")}, {second, string(r, "size")}}};

	return recording_track_type(r, &type);
}

static struct story new_story(unsigned sequence)
{
	struct story s = {.sequence = sequence, .tables = recording_new(), .random = 1};
	struct recording *r = s.tables;
	char text[64];

	if (!r)
		die("out of memory");
	s.request =
	    add_type(r, MAYFLY_TYPE_SPAN, "request", 2, MAYFLY_FIELD_FLOW, MAYFLY_FIELD_UINT);
	s.parse = add_type(r, MAYFLY_TYPE_SPAN, "parse", 0, 0, 0);
	s.ask = add_type(r, MAYFLY_TYPE_SPAN, "ask", 1, MAYFLY_FIELD_TEXT, 0);
	s.cache = add_type(r, MAYFLY_TYPE_INSTANT, "cache", 1, MAYFLY_FIELD_INT, 0);
	s.queue = add_type(r, MAYFLY_TYPE_COUNTER, "queue", 1, MAYFLY_FIELD_FLOAT, 0);
	s.thing = add_type(r, MAYFLY_TYPE_INSTANT, "thing", 1, MAYFLY_FIELD_TEXT, 0);
	s.length = add_type(r, MAYFLY_TYPE_COUNTER, "length", 1, MAYFLY_FIELD_INT, 0);
	for (uint32_t i = 0; i < THREADS; i++)
		s.thread[i] = recording_thread(r, 100 + i, 0);
	for (uint32_t i = 0; i < TEXTS_COUNT; i++) {
		snprintf(text, sizeof(text), "select %u", below(&s, 1000000));
		s.text[i] = string(r, text);
	}
	return s;
}

static void set(struct item *i, uint32_t kind, uint32_t type, uint64_t first, uint64_t second)
{
	i->track.kind = kind;
	i->track.type = type;
	i->value[0] = first;
	i->value[1] = second;
}

static void serve(struct story *s, struct item *i)
{
	uint32_t thread = below(s, THREADS);
	double depth = (double)(s->requests % 17);
	uint64_t bits;

	i->track.thread = s->thread[thread];
	switch (s->step[thread]++ % 8) {
	case 0:
		set(i, MAYFLY_TRACK_BEGIN, s->request, ++s->requests, 100 + below(s, 2000));
		break;
	case 1:
		set(i, MAYFLY_TRACK_BEGIN, s->parse, 0, 0);
		break;
	case 2:
		set(i, MAYFLY_TRACK_END, s->parse, 0, 0);
		break;
	case 3:
		set(i, MAYFLY_TRACK_BEGIN, s->ask, s->text[below(s, TEXTS_COUNT)], 0);
		break;
	case 4:
		set(i, MAYFLY_TRACK_INSTANT, s->cache, below(s, 2), 0);
		break;
	case 5:
		set(i, MAYFLY_TRACK_END, s->ask, 0, 0);
		break;
	case 6:
		memcpy(&bits, &depth, sizeof(bits));
		set(i, MAYFLY_TRACK_COUNT, s->queue, bits, 0);
		break;
	default:
		set(i, MAYFLY_TRACK_END, s->request, 0, 0);
	}
}

static void happen(struct story *s, struct item *i)
{
	s->now += 100 + (below(s, 5) ? below(s, 1000) : below(s, 20000));
	i->track =
	    (struct trace_track){.time_ns = s->now, .thread = s->thread[0], .value = i->value};
	switch (s->sequence) {
	case SPANS:
		set(i, s->step[0]++ % 2 ? MAYFLY_TRACK_END : MAYFLY_TRACK_BEGIN, s->parse, 0, 0);
		break;
	case COUNTER:
		s->count += below(s, 200) - 99u;
		set(i, MAYFLY_TRACK_COUNT, s->length, s->count, 0);
		break;
	case TEXTS:
		set(i, MAYFLY_TRACK_INSTANT, s->thing, s->text[below(s, TEXTS_COUNT)], 0);
		break;
	default:
		serve(s, i);
	}
}

/* ---- writing and reading ---- */

/* CPU time of the writer alone. */
static double write_events(unsigned sequence, size_t events, struct item *item,
			   struct trace_buffer *to)
{
	const struct trace_writer_options options = {.mode = MAYFLY_SAMPLED, .interval_log2 = 19};
	struct story s = new_story(sequence);
	struct trace_writer *w = trace_writer_new(&options, s.tables, trace_buffer_sink, to);
	double spent = 0, begin;

	if (!w)
		die("out of memory");
	for (size_t done = 0, part; done < events; done += part) {
		part = events - done < PART ? events - done : PART;
		for (size_t i = 0; i < part; i++)
			happen(&s, &item[i]);
		begin = seconds();
		for (size_t i = 0; i < part; i++)
			if (trace_writer_track(w, &item[i].track))
				die("writing failed");
		spent += seconds() - begin;
	}
	s.tables->info.duration_ns = s.now;
	begin = seconds();
	if (trace_writer_finish(w))
		die("writing failed");
	spent += seconds() - begin;
	trace_writer_free_all(w);
	return spent;
}

static double read_events(const struct trace_buffer *from, size_t events)
{
	double begin = seconds();
	struct mayfly_trace *trace;
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event e;
	size_t found = 0;

	if (mayfly_trace_open(from->bytes, from->used, &trace) ||
	    mayfly_track_cursor_open(trace, &cursor))
		die("reading failed");
	while (mayfly_track_cursor_next(cursor, &e) == 1)
		found++;
	mayfly_track_cursor_close(cursor);
	mayfly_trace_close(trace);
	if (found != events)
		die("events are missing");
	return seconds() - begin;
}

static void measure(unsigned sequence, size_t events, int rounds, struct item *item)
{
	double write_s = 1e9, read_s = 1e9;
	struct trace_buffer b = {0};

	for (int i = 0; i < rounds; i++) {
		b.used = 0;
		write_s = fmin(write_s, write_events(sequence, events, item, &b));
		read_s = fmin(read_s, read_events(&b, events));
	}
	printf("%s\"%s\": {\"bytes\": %zu, \"write_ns\": %.1f, \"read_ns\": %.1f}",
	       sequence ? ", " : "{", names[sequence], b.used, write_s * 1e9 / (double)events,
	       read_s * 1e9 / (double)events);
	free(b.bytes);
}

static void write_file(size_t events, const char *path, struct item *item)
{
	struct trace_buffer b = {0};
	FILE *f = fopen(path, "wb");

	if (!f)
		die("cannot write the file");
	write_events(SERVER, events, item, &b);
	if (fwrite(b.bytes, 1, b.used, f) != b.used || fclose(f))
		die("cannot write the file");
	free(b.bytes);
}

int main(int argc, char **argv)
{
	long events = argc == 3 ? atol(argv[1]) : 0;
	int rounds = argc == 3 ? atoi(argv[2]) : 0;
	struct item *item = calloc(PART, sizeof(*item));

	if (events < 1 || events > MOST_EVENTS || rounds > MOST_ROUNDS)
		die("usage: bench_tracks EVENTS ROUNDS|FILE");
	if (!item)
		die("out of memory");
	if (rounds < 1) {
		write_file((size_t)events, argv[2], item);
	} else {
		for (unsigned i = 0; i < SEQUENCES; i++)
			measure(i, (size_t)events, rounds, item);
		printf("}\n");
	}
	free(item);
	return 0;
}
