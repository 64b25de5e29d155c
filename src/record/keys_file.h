/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FILE.keys, beside FILE.part while a trace is made: what is needed to go on with the part after the
 * recorder was killed (spool_resume.h). It goes when the part becomes a trace.
 */
#ifndef MAYFLY_KEYS_FILE_H
#define MAYFLY_KEYS_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct part;
struct spool_stream;

struct keys_file {
	char *path; /* NULL: none is kept */
	int fd;
	uint64_t bytes, whole_bytes; /* of the file; of the latest step that was whole */
	bool begun, forked;
	bool missed; /* a step could not be written, so the next one must be whole */
};

/* The name of the file that belongs to FILE.part; NULL: out of memory. */
char *keys_file_name(const char *part);

/* Makes the file with the first step. False: out of memory. */
bool keys_file_begin(struct keys_file *k, const char *part);

/* A step, when all of the stream's events are with the part. What cannot be written makes the file
 * empty: the part can be read without it, but not gone on with. */
void keys_file_step(struct keys_file *k, struct spool_stream *s, const struct part *part);
/* The part will be replaced by this one, in which the blocks have other numbers: as of
 * spool_stream_renumber(). */
void keys_file_renumber(struct keys_file *k, struct spool_stream *s, const struct part *part,
			uint64_t (*renumber)(void *context, uint64_t serial), void *context);

/* The file stays, or is removed. */
void keys_file_close(struct keys_file *k, bool remove_it);

#endif
