/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace file while it is made: FILE.part, written at its end only, which takes its name at last.
 *
 * What cannot be written, because the disk is full, waits in memory: nothing that was handed over
 * is lost while mayfly lives. Some blocks are always reserved ahead, so that on a full disk a piece
 * of the trace can still be written, after which the larger piece of the spool that it was made
 * from can go.
 */
#ifndef MAYFLY_PART_H
#define MAYFLY_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct part {
	char *path;
	int fd;
	uint8_t *buffer; /* handed over, not in the file yet */
	size_t used, size;
	uint64_t written, reserved; /* bytes of the file */
	int error;		    /* of the last attempt to write; 0 when all was written */
};

/* 0 or an errno; EEXIST when there is a file of that name. */
int part_open(struct part *p, const char *path);

/* A trace_sink: 0, or ENOMEM. */
int part_sink(void *part, const void *bytes, size_t size);

/* Writes what waits. 0 or an errno. */
int part_flush(struct part *p);

/* The file is complete: it becomes `path`, through symbolic links. 0 or an errno, and then it is
 * still there. */
int part_become(struct part *p, const char *path);

/* What waits is lost. The file stays, or is removed. */
void part_close(struct part *p, bool remove_it);

#endif
