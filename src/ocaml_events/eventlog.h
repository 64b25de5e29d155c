/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eventlog of OCaml's runtime, 4.11 to 4.14 (programs linked with -runtime-variant i and run
 * with OCAML_EVENTLOG_ENABLED=1): phases of the collector, counters, and the time that the runtime
 * took to write them. It has no allocations: the trace has only track events.
 *
 *	caml-4711.eventlog:	header | event | event | ...
 *
 *	header	u32 magic, u16 version, u16 stream (0)
 *	event	u64 ns since the program's start, u32 pid, u32 kind, and by kind
 *		entry, exit	u16 phase
 *		counter		u64 count, u16 counter
 *		alloc		u64 blocks, u8 bucket of sizes
 *		flush		u64 ns that it took
 *
 * Everything is in the machine's byte order, without gaps. Names of phases, counters and buckets
 * are in a file `metadata` in the same folder (CTF's TSDL). The runtime does not write this file;
 * the user has to put it there.
 */
#ifndef MAYFLY_EVENTLOG_H
#define MAYFLY_EVENTLOG_H

#include <mayfly/trace.h>

#define EVENTLOG_METADATA "metadata"

/* ---- reading: eventlog_read.c ---- */

enum eventlog_kind {
	EVENTLOG_ENTRY = 0,
	EVENTLOG_EXIT = 1,
	EVENTLOG_COUNTER = 2,
	EVENTLOG_ALLOC = 3,
	EVENTLOG_FLUSH = 4,
};

struct eventlog_event {
	uint64_t time_ns;
	uint64_t value;	 /* unused for ENTRY and EXIT */
	uint32_t pid;	 /* of the process that began the file, also for forked children */
	uint32_t lane;	 /* the process: 0, and after forks 1 and so on */
	uint16_t number; /* of the phase, counter or bucket */
	uint8_t kind;	 /* enum eventlog_kind */
};

struct eventlog;

bool eventlog_recognise(const void *data, size_t size);

/* The file's `size` bytes at `data` must stay there until close. The whole file is scanned. */
int eventlog_open(const void *data, size_t size, struct eventlog **log);
/* The next event in order of time; false: there are no more. */
bool eventlog_next(struct eventlog *log, struct eventlog_event *event);
uint64_t eventlog_events(const struct eventlog *log);  /* in the usable part */
uint64_t eventlog_skipped(const struct eventlog *log); /* bytes in it that are not events */
/* What is wrong after the usable part; "" if nothing follows it. */
const char *eventlog_problem(const struct eventlog *log);
void eventlog_close(struct eventlog *log); /* NULL is allowed */

/* ---- names: eventlog_names.c ---- */

enum eventlog_list { EVENTLOG_PHASES, EVENTLOG_COUNTERS, EVENTLOG_BUCKETS, EVENTLOG_LISTS };

#define EVENTLOG_NUMBERS 65536u

/* Receives the name of the numbers `first` to `last` (below EVENTLOG_NUMBERS). */
typedef void eventlog_name(void *context, enum eventlog_list list, uint32_t first, uint32_t last,
			   const char *name, size_t length);

/* Calls tell() with the names in the metadata, or with those of OCaml 4.13 if it has none (size 0,
 * damaged, or something else). */
void eventlog_names(const void *metadata, size_t size, eventlog_name *tell, void *context);

#endif
