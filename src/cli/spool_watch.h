/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's side of a spool while the program runs: it makes the file, keeps disk space
 * reserved ahead of the agent, reads the counters, and finds the spools of other images and
 * processes of the same recording.
 *
 *	FILE.spool		image 0 of the program that was started
 *	FILE.PID.K.spool	image K + 1 of that program after an exec, or, of a child process
 *that is followed, image K
 */
#ifndef MAYFLY_SPOOL_WATCH_H
#define MAYFLY_SPOOL_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/spool_format.h"

struct spool_watch {
	int fd;
	struct spool_header *header; /* mapped: shared with the agent */
	uint64_t claimed;	     /* at the last tick */
	uint64_t least_ahead;	     /* packets */
	bool busy;		     /* many packets were used in the last tick: come back soon */
	bool full;		     /* no more space can be had */
};

/* Makes the spool of a recording, empty and with some packets reserved. 0 or an errno; EEXIST when
 * there is a file of that name. */
int spool_watch_create(struct spool_watch *w, const char *path, uint32_t sampler,
		       uint32_t interval_log2);

/* Reserves space ahead of the agent. Returns 0, or the errno when that failed just now; it is not
 * tried again. */
int spool_watch_tick(struct spool_watch *w);

void spool_watch_close(struct spool_watch *w);

/* What the header of a spool says; for the recorder's messages. */
struct spool_glance {
	uint32_t state, image;
	pid_t pid;
	int64_t start_mono_ns;
	uint64_t samples, dropped; /* of this image */
	int64_t live_bytes;
	char off_text[sizeof(((struct spool_header *)0)->off_text)];
};

bool spool_glance(const char *path, struct spool_glance *g); /* false: not a spool */
void spool_glance_at(const struct spool_header *h, struct spool_glance *g);

/* A forked child's samples from before the fork are in its parent's spool: that one's file name,
 * without folder, or NULL. The caller frees it. */
char *spool_parent_name(const char *path);

struct spool_entry {
	char *path;
	pid_t pid;
	unsigned long number; /* K */
	struct spool_glance glance;
};

struct spool_list {
	struct spool_entry *entry; /* by pid, then number */
	size_t count;
};

/* All FILE.PID.K.spool there are. `file` is the trace's path without ".spool". False: no memory.
 * A folder that cannot be read has none. */
bool spool_list_read(struct spool_list *list, const char *file);
void spool_list_free(struct spool_list *list);

/* True while the process that writes this spool lives: it has the file mapped. */
bool spool_in_use(const struct spool_entry *e);

/* True when any process has any spool of this recording mapped: also a child that was forked a
 * moment ago and has not made its own yet. Slow: looks at all processes. */
bool spool_anybody(const char *file);

#endif
