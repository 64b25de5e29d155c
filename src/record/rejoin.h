/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recorder that was killed has left, as one recording:
 *
 *	FILE.part	what it had taken out of the spool, as a trace without an end
 *	FILE.keys	how far that goes, and what the trace does not say (spool_resume.h)
 *	FILE.spool	the rest, which the program has gone on with
 */
#ifndef MAYFLY_REJOIN_H
#define MAYFLY_REJOIN_H

#include <stdbool.h>
#include <stddef.h>

#include "spool/spool_resume.h"

struct mapped_file {
	void *data;
	size_t size;
};

/* Maps a whole file, to be read. */
bool map_whole_file(const char *path, struct mapped_file *map);

struct rejoined {
	struct mapped_file part;
	struct mayfly_trace *trace; /* of the part; NULL: there is none */
	struct spool_resume resume;
	bool goes_on; /* the spool goes on where the trace ends, and `resume` is how */
};

/* path: FILE.spool, or NULL. j->trace stays NULL when the spool is whole. 0 or MAYFLY_E_MEMORY. */
int rejoin_open(struct rejoined *j, const void *spool, size_t size, const char *path);
void rejoin_close(struct rejoined *j);

/* The trace's tables, in the same order: `to` is empty. 0 or a negative enum mayfly_error. */
int rejoin_tables(const struct rejoined *j, struct recording *to);
/* The trace's events: `to` is new and has those tables. */
int rejoin_events(const struct rejoined *j, struct trace_writer *to);

#endif
