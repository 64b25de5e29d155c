/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets of a spool: which there are, in which order, and when they may be used again.
 *
 *	places in the file	0   1   2   3   4  ...
 *	unbegun			    x           x	looked at in each round until a packet
 *							begins there (or begins again)
 *	held			x       x   x		found: in its writer's queue, later consumed
 *
 * Once the events of a consumed packet are in the sink, it is given back with done(), and its place
 * is unbegun again.
 */
#ifndef MAYFLY_SPOOL_PACKETS_H
#define MAYFLY_SPOOL_PACKETS_H

#include "format/spool_format.h"
#include "spool/spool_stream.h"

struct spool_queued {
	struct spool_queued *next;
	uint64_t index, sequence;
	uint64_t chunks; /* of a consumed packet: chunks written by then */
	const struct spool_packet *packet;
	size_t readable; /* bytes of its body that the file has */
};

struct spool_packets {
	struct spool_source source;
	const struct spool_header *header; /* as mapped */
	uint32_t header_bytes, packet_bytes;
	uint64_t places;   /* of the file, seen so far */
	uint64_t *unbegun; /* places */
	size_t unbegun_count, unbegun_size;
	uint64_t *sequence; /* [places], of the packet that was last found there */
	size_t sequence_size;
	struct spool_queued *first_consumed, *last_consumed;
	uint64_t held;
	bool damaged;
};

/* True when data begins like a spool. */
bool spool_recognise(const void *data, size_t size);

/* The header at its place, and a copy that the program can no longer change. 0 or an enum
 * mayfly_error: it is no spool, of another version, still waiting, damaged. */
int spool_read_header(const struct spool_source *source, const struct spool_header **mapped,
		      struct spool_header *copy);
/* The number of bytes at `offset` that the file has, at most `most`. */
size_t spool_readable(const struct spool_source *source, uint64_t offset, size_t most);

void packets_begin(struct spool_packets *p, const struct spool_source *source,
		   const struct spool_header *mapped, const struct spool_header *copy);
void packets_free(struct spool_packets *p);

/* Finds packets that were begun since, in the order of their sequence. whole: the file no longer
 * grows. found() gets each one, and owns it until packets_consumed(); it returns 0 or an error,
 * which stops the search. */
int packets_find(struct spool_packets *p, bool whole,
		 int (*found)(void *context, struct spool_queued *q), void *context);

/* All of the packet is with the trace_writer, which had written `chunks` chunks by then. */
void packets_consumed(struct spool_packets *p, struct spool_queued *q, uint64_t chunks);
/* Gives back the packets whose events are in the sink, when `chunks` chunks are. */
int packets_release(struct spool_packets *p, uint64_t chunks);

#endif
