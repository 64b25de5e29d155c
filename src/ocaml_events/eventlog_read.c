/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an eventlog, event by event in order of time. See eventlog.h.
 *
 * Times ascend, with one exception: a forked child continues in the same file with its parent's
 * pid, and each process writes its buffer when it is full or the process ends; a flush event comes
 * last. So the file is scanned first: after a flush, and where times go back, a new run begins;
 * then the runs are merged:
 *
 *	file	| 0 ..... 57 | 5 ..... 80 | 58 ... 90 |
 *	lane	      0             1            0
 *
 * A run is assigned to the process whose last event is the latest before it. This is a guess, but
 * it avoids a process in two phases at once.
 *
 * Two processes that write at the same time write into each other's events. Bytes that make no
 * sense are skipped, up to the next place with several plausible events in a row.
 */
#include "ocaml_events/eventlog.h"

#include "base/array.h"

#include <byteswap.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC	       0xc1fc1fc1u
#define HEADER_BYTES   8u
#define EVENT_BYTES    16u /* without its payload */
#define VERSION	       1
#define BELOW_MEMTRACE 528	  /* bits; Memtrace has the length of the first packet there */
#define CHAIN	       4	  /* events in a row needed to trust them */
#define PID_LARGEST    (1u << 22) /* on Linux */
#define NUMBER_LIKELY  1024	  /* limit for phases, counters, buckets; there are some 30 */
#define RUNS_MAX       ((size_t)1 << 20)
#define LANES_MAX      64
#define PAYLOADS       (sizeof(payload_bytes) / sizeof(*payload_bytes))

static const uint8_t payload_bytes[] = {
    [EVENTLOG_ENTRY] = 2, [EVENTLOG_EXIT] = 2,	[EVENTLOG_COUNTER] = 10,
    [EVENTLOG_ALLOC] = 9, [EVENTLOG_FLUSH] = 8,
};

struct eventlog_read_run {
	size_t at, end;	  /* offsets */
	uint64_t time_ns; /* of the event at `at` */
	uint32_t lane;
};

struct eventlog {
	const uint8_t *data;
	size_t size;
	bool swapped;
	uint32_t pid; /* of the latest event */
	uint64_t events, skipped;
	const char *problem;

	struct eventlog_read_run *run;
	size_t runs, run_room;
	uint64_t lane_time_ns[LANES_MAX]; /* of each lane's latest event */
	uint32_t lanes;
	uint32_t *heap; /* runs with events left, ordered by time */
	size_t heap_used;
};

/* ---- bytes ---- */

static inline uint64_t get_number(const uint8_t *at, unsigned bytes, bool swapped)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return swapped ? bswap_64(value) >> (64 - 8 * bytes) : value;
}

/* The size of the event in bytes; 0: the file ends inside it, or its kind is unknown. */
static inline size_t event_bytes(const struct eventlog *l, size_t at)
{
	uint32_t kind;

	if (l->size - at < EVENT_BYTES)
		return 0;
	kind = get_number(l->data + at + 12, 4, l->swapped);
	if (kind >= PAYLOADS || l->size - at - EVENT_BYTES < payload_bytes[kind])
		return 0;
	return EVENT_BYTES + payload_bytes[kind];
}

/* Reads an event that is complete. Returns its size in bytes. */
static inline size_t get_event(const struct eventlog *l, size_t at, struct eventlog_event *e)
{
	const uint8_t *p = l->data + at;
	bool swapped = l->swapped;

	e->time_ns = get_number(p, 8, swapped);
	e->pid = get_number(p + 8, 4, swapped);
	e->kind = (uint8_t)get_number(p + 12, 4, swapped);
	e->number = 0;
	e->value = 0;
	p += EVENT_BYTES;
	switch (e->kind) {
	case EVENTLOG_ENTRY:
	case EVENTLOG_EXIT:
		e->number = get_number(p, 2, swapped);
		break;
	case EVENTLOG_COUNTER:
		e->value = get_number(p, 8, swapped);
		e->number = get_number(p + 8, 2, swapped);
		break;
	case EVENTLOG_ALLOC:
		e->value = get_number(p, 8, swapped);
		e->number = p[8];
		break;
	case EVENTLOG_FLUSH:
		e->value = get_number(p, 8, swapped);
		break;
	default:
		return EVENT_BYTES;
	}
	return EVENT_BYTES + payload_bytes[e->kind];
}

/* ---- runs ---- */

static uint32_t choose_lane(struct eventlog *l, uint64_t time_ns)
{
	uint32_t best = l->lanes;

	for (uint32_t i = 0; i < l->lanes; i++)
		if (l->lane_time_ns[i] <= time_ns &&
		    (best == l->lanes || l->lane_time_ns[i] > l->lane_time_ns[best]))
			best = i;
	if (best == l->lanes && l->lanes < LANES_MAX)
		l->lanes++;
	return best < LANES_MAX ? best : LANES_MAX - 1;
}

static int begin_run(struct eventlog *l, size_t at, uint64_t time_ns)
{
	if (!ARRAY_ADD(l->run, l->run_room, l->runs,
		       (struct eventlog_read_run){
			   .at = at, .time_ns = time_ns, .lane = choose_lane(l, time_ns)}))
		return MAYFLY_E_MEMORY;
	return 0;
}

static void end_run(struct eventlog *l, size_t at, uint64_t last_ns)
{
	l->run[l->runs - 1].end = at;
	l->lane_time_ns[l->run[l->runs - 1].lane] = last_ns;
}

/* ---- damage ---- */

static inline uint32_t pid_at(const struct eventlog *l, size_t at)
{
	return get_number(l->data + at + 8, 4, l->swapped);
}

/* Most bytes of an event are zeros, so a shifted event often has a valid kind: check more. */
static bool is_likely(const struct eventlog *l, size_t at)
{
	struct eventlog_event e;

	get_event(l, at, &e);
	return e.pid > 0 && e.pid <= PID_LARGEST && e.number < NUMBER_LIKELY;
}

/* Whether there is an event of this process, followed by others up to the end or a flush, or by
 * enough of them. */
static bool has_chain(const struct eventlog *l, size_t at, uint32_t pid)
{
	for (int i = 0; i < CHAIN; i++) {
		size_t bytes = event_bytes(l, at);

		if (!bytes)
			return i > 0 && at == l->size;
		if (pid_at(l, at) != pid || !is_likely(l, at))
			return false;
		if (get_number(l->data + at + 12, 4, l->swapped) == EVENTLOG_FLUSH)
			return true;
		at += bytes;
	}
	return true;
}

/* The size of the event; 0: there is no plausible one. An event of another process counts only if
 * others follow it. */
static inline size_t sound_event(struct eventlog *l, size_t at)
{
	size_t bytes = event_bytes(l, at);

	if (!bytes || pid_at(l, at) == l->pid)
		return bytes;
	if (!has_chain(l, at, pid_at(l, at)))
		return 0;
	l->pid = pid_at(l, at);
	return bytes;
}

/* The place after a damaged one where events continue, or the file's size. */
static size_t find_events(const struct eventlog *l, size_t at)
{
	while (++at < l->size && l->size - at >= EVENT_BYTES)
		if (pid_at(l, at) == l->pid && has_chain(l, at, l->pid))
			return at;
	return l->size;
}

static void say_problem(struct eventlog *l, size_t at)
{
	if (at == l->size)
		return;
	l->problem =
	    l->size - at >= EVENT_BYTES && get_number(l->data + at + 12, 4, l->swapped) >= PAYLOADS
		? "an event of an unknown kind"
		: "cut off inside an event";
}

/* ---- scanning the file ---- */

struct look {
	size_t at, before; /* the current event, and the previous one; 0: no run is open */
	uint64_t last_ns, before_ns;
	bool begins; /* a run begins here */
};

/* Continues after damage. False: nothing follows. If the damaged place has the pid of no process,
 * the event before it is torn. */
static bool skip_damage(struct eventlog *l, struct look *k)
{
	size_t next = find_events(l, k->at);
	bool torn = k->before && l->size - k->at >= EVENT_BYTES && pid_at(l, k->at) != l->pid;
	size_t from = torn ? k->before : k->at;

	if (next == l->size)
		return false;
	if (k->before)
		end_run(l, from, torn ? k->before_ns : k->last_ns);
	if (torn && l->run[l->runs - 1].at == from)
		l->runs--;
	l->events -= torn;
	l->skipped += next - from;
	*k = (struct look){.at = next, .begins = true};
	return true;
}

static int eventlog_read_take_event(struct eventlog *l, struct look *k, size_t bytes)
{
	uint64_t time_ns = get_number(l->data + k->at, 8, l->swapped);
	int error = 0;

	if (k->begins || time_ns < k->last_ns) {
		if (k->before)
			end_run(l, k->at, k->last_ns);
		error = begin_run(l, k->at, time_ns);
	}
	k->before = k->at;
	k->before_ns = k->last_ns;
	k->last_ns = time_ns;
	k->begins = get_number(l->data + k->at + 12, 4, l->swapped) == EVENTLOG_FLUSH;
	k->at += bytes;
	l->events++;
	return error;
}

static int find_runs(struct eventlog *l)
{
	struct look k = {.at = HEADER_BYTES, .begins = true};
	int error = 0;

	if (l->size - k.at >= EVENT_BYTES)
		l->pid = pid_at(l, k.at);
	while (!error) {
		size_t bytes = sound_event(l, k.at);

		if (bytes && l->runs == RUNS_MAX) {
			l->problem = "times go back too often";
			break;
		}
		if (bytes)
			error = eventlog_read_take_event(l, &k, bytes);
		else if (!skip_damage(l, &k))
			break;
	}
	if (error)
		return error;
	if (k.before)
		end_run(l, k.at, k.last_ns);
	if (!*l->problem)
		say_problem(l, k.at);
	return 0;
}

/* ---- merging the runs ---- */

static bool is_before(const struct eventlog *l, uint32_t a, uint32_t b)
{
	const struct eventlog_read_run *x = &l->run[a], *y = &l->run[b];

	return x->time_ns != y->time_ns ? x->time_ns < y->time_ns : a < b;
}

static void eventlog_read_sift_down(struct eventlog *l, size_t at)
{
	uint32_t moved = l->heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < l->heap_used && is_before(l, l->heap[child + 1], l->heap[child]))
			child++;
		if (child >= l->heap_used || is_before(l, moved, l->heap[child]))
			break;
		l->heap[at] = l->heap[child];
		at = child;
	}
	l->heap[at] = moved;
}

static bool build_heap(struct eventlog *l)
{
	l->heap = calloc(l->runs + 1, sizeof(*l->heap));
	if (!l->heap)
		return false;
	l->heap_used = l->runs;
	for (size_t i = 0; i < l->runs; i++)
		l->heap[i] = (uint32_t)i;
	for (size_t i = l->runs / 2; i-- > 0;)
		eventlog_read_sift_down(l, i);
	return true;
}

bool eventlog_next(struct eventlog *l, struct eventlog_event *event)
{
	struct eventlog_read_run *r;

	if (!l->heap_used)
		return false;
	r = &l->run[l->heap[0]];
	r->at += get_event(l, r->at, event);
	event->lane = r->lane;
	/* The file may have been written to since it was scanned. */
	if (r->at < r->end && event_bytes(l, r->at))
		r->time_ns = get_number(l->data + r->at, 8, l->swapped);
	else
		l->heap[0] = l->heap[--l->heap_used];
	if (l->heap_used > 1)
		eventlog_read_sift_down(l, 0);
	return true;
}

/* ---- opening ---- */

/* Like eventlog_recognise(); sets *swapped. */
static bool has_header(const uint8_t *data, size_t size, bool *swapped)
{
	if (size < HEADER_BYTES)
		return false;
	*swapped = get_number(data, 4, true) == MAGIC;
	return get_number(data, 4, *swapped) == MAGIC && get_number(data + 4, 2, *swapped) > 0 &&
	       get_number(data + 4, 2, *swapped) < BELOW_MEMTRACE &&
	       get_number(data + 6, 2, *swapped) == 0;
}

bool eventlog_recognise(const void *data, size_t size)
{
	bool swapped;

	return has_header(data, size, &swapped);
}

static int eventlog_read_start(struct eventlog *l)
{
	int error;

	if (!has_header(l->data, l->size, &l->swapped))
		return MAYFLY_E_NOT_A_TRACE;
	if (get_number(l->data + 4, 2, l->swapped) != VERSION)
		return MAYFLY_E_VERSION;
	error = find_runs(l);
	if (!error && !build_heap(l))
		error = MAYFLY_E_MEMORY;
	return error;
}

int eventlog_open(const void *data, size_t size, struct eventlog **log)
{
	struct eventlog *l = calloc(1, sizeof(*l));
	int error;

	*log = NULL;
	if (!l)
		return MAYFLY_E_MEMORY;
	l->data = data;
	l->size = size;
	l->problem = "";
	error = eventlog_read_start(l);
	if (error) {
		eventlog_close(l);
		return error;
	}
	*log = l;
	return 0;
}

uint64_t eventlog_events(const struct eventlog *l)
{
	return l->events;
}

uint64_t eventlog_skipped(const struct eventlog *l)
{
	return l->skipped;
}

const char *eventlog_problem(const struct eventlog *l)
{
	return l->problem;
}

void eventlog_close(struct eventlog *l)
{
	if (!l)
		return;
	free(l->run);
	free(l->heap);
	free(l);
}
