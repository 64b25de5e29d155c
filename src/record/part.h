/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace file while it is made: FILE.part, written only at its end, then renamed.
 *
 * Bytes that cannot be written because the disk is full wait in memory: nothing that was handed over
 * is lost while mayfly lives. Some blocks are always reserved ahead, so that on a full disk a piece
 * of the trace can still be written, after which the larger piece of the spool that it was made
 * from can go.
 *
 * A receiver elsewhere (stream/sender.h) can get the same bytes, or be the only one who does. Then
 * what it has no place for is what cannot be written: it waits in memory, and the error is EAGAIN,
 * or ETIMEDOUT once the receiver is given up.
 */
#ifndef MAYFLY_PART_H
#define MAYFLY_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream_sender;

struct part {
	char *path;		      /* NULL: no file, only a receiver */
	int fd;			      /* -1: likewise */
	struct stream_sender *sender; /* gets it, too; NULL: none */
	uint8_t *buffer;	      /* handed over, not in the file yet */
	size_t used, size;
	uint64_t written, reserved; /* bytes of the file */
	int error;		    /* of the last attempt to write; 0 when all was written */
	uint8_t tail[64];	    /* the last bytes that were handed over, at most so many */
	uint32_t tail_bytes;
};

/* 0 or an errno; EEXIST when there is a file of that name. */
int part_open(struct part *p, const char *path);

/* One that is kept, to go on at its end. 0 or an errno. */
int part_reopen(struct part *p, const char *path);

/* No file. The sender must live longer than the part. */
void part_open_stream(struct part *p, struct stream_sender *sender);

/* To be called before anything is written: the sender sends what is written to the file. 0 or an
 * errno. */
int part_stream(struct part *p, struct stream_sender *sender);

/* A trace_sink: 0, or ENOMEM. */
int part_sink(void *part, const void *bytes, size_t size);

/* Writes the waiting bytes. 0 or an errno. */
int part_flush(struct part *p);

/* The file is complete: it becomes `path`, through symbolic links. A file that was there gets the
 * name `old`, unless that is NULL; *kept is then whether there was one. 0 or an errno, and then it is still
 * there. */
int part_become(struct part *p, const char *path, const char *old, bool *kept);

/* Starts again with an empty part. 0 or an errno. */
int part_clear(struct part *p);

/* Discards the waiting bytes. The file stays, or is removed; then what a receiver got is void. */
void part_close(struct part *p, bool remove_it);

/* Why a new trace must not take the place of a file, to follow the file's name: "is a folder; ...".
 * NULL: nothing is there, or an empty file, or one that mayfly wrote, or `force` is set. */
const char *part_obstacle(const char *file, bool force);

#endif
