/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memtrace's trace files: declarations shared by reading (import/memtrace_read.h) and writing
 * (export/memtrace_write.h).
 *
 * A file is a sequence of packets; each has a header and events:
 *
 *	packet: trace info | packet: locations | packet: events | packet: events | ...
 *
 * Events are the allocations of sampled blocks (with their stacks), their promotions and their
 * collections. Stacks consist of codes, which stand for places in the program; the meaning of a
 * code is written, as a location event, before the first allocation that uses it. Version 3 has
 * several domains, whose packets are independent of each other.
 *
 * Files are untrusted. Memory stays below a constant plus a small multiple of the file's size.
 * There is no input or output here: bytes come from memory and go to a sink.
 */
#ifndef MAYFLY_MEMTRACE_H
#define MAYFLY_MEMTRACE_H

#include <mayfly/trace.h>

#define MEMTRACE_NEWEST 3 /* version that can be read and written */

/* How traces call the threads that stand for domains other than 0. */
#define MEMTRACE_DOMAIN_NAME "domain "

enum memtrace_source { MEMTRACE_MINOR = 0, MEMTRACE_MAJOR = 1, MEMTRACE_EXTERNAL = 2 };

struct memtrace_info {
	unsigned version;
	double sample_rate; /* probability that a word is sampled; headers of blocks count too */
	unsigned word_size; /* bits */
	const char *executable, *host, *runtime_parameters;
	const char *context; /* "" when there is none */
	int64_t pid;
	int64_t start_us; /* since 1970 */
	unsigned domain;  /* that wrote this information; 0 up to version 2 */
};

struct memtrace_location {
	const char *function, *file;
	uint32_t line, start_char, end_char;
};

#endif
