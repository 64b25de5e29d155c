/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's side of a spool while the program runs: it makes the file, keeps disk space
 * reserved ahead of the agent, reads what the agent writes, gives packets back, and finds the
 * spools of other images and processes of the same recording.
 *
 *	FILE.spool		image 0 of the program that was started
 *	FILE.PID.K.spool	image K + 1 of that program after an exec, or, of a child process
 *				that is followed, image K
 *
 * The way of a packet:
 *
 *	reserved ──agent──> written ──recorder──> given back ──> ring ──agent──> written again
 *	   ▲                                          │
 *	   └───────── disk blocks again ── hole <─────┘ when the ring has enough of them
 *
 * So the file stays about as large as what the recorder has not read yet.
 */
#ifndef MAYFLY_SPOOL_WATCH_H
#define MAYFLY_SPOOL_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "format/spool_format.h"

/* The fewest packets that a limit may leave: 1 MiB. */
#define SPOOL_LEAST_PACKETS 16u

struct spool_settings {
	uint32_t sampler, interval_log2;
	bool exact;
	bool attached;	      /* to a program that runs */
	uint32_t overhead;    /* 1/10000; 0: the interval is fixed */
	uint64_t max_packets; /* 0: no limit */
};

/* What the header of a spool says; for the recorder's messages. */
struct spool_glance {
	uint32_t state, image;
	pid_t pid;		/* as the process itself has it */
	uint32_t pid_namespace; /* inode of its PID namespace; 0: not known */
	int64_t start_mono_ns;
	uint64_t samples, dropped; /* of this image */
	uint64_t begun;		   /* packets */
	uint64_t fork_ticks;
	bool exact;
	int64_t live_bytes;
	bool child_lost; /* a forked child of it could not make a spool */
	bool executed;	 /* it has become the program that off_text names */
	char off_text[sizeof(((struct spool_header *)0)->off_text)];
};

struct spool_watch {
	int fd;
	struct spool_header *header; /* mapped: shared with the agent; NULL: not open */
	uint8_t **window;	     /* the packets, mapped piece by piece */
	size_t windows;
	uint64_t file_bytes; /* as far as known */
	uint64_t begun,
	    begun_at;	      /* packets that the agent had begun when last looked at, and when */
	uint64_t max_packets; /* limit set by the user; 0: none */
	uint64_t least_ahead; /* packets */
	unsigned int wait_ms; /* after which the next look is worth it */
	unsigned int pause;   /* ticks to go until space is asked for again */
	bool full;	      /* no more space can be had */
	uint64_t dropped;     /* when last looked at */
	bool short_of_space;  /* what was dropped was for the disk, not for the user's limit */
	bool kept;	      /* holes keep their blocks: this file system cannot free them */
	uint32_t *hole;	      /* numbers of the packets in holes, a stack */
	size_t holes, hole_room;
	uint8_t *in_hole; /* for each packet a bit */
	size_t in_hole_bytes;
	struct spool_glance last; /* what the header said when last looked at */
	/* The file was made shorter, or cannot be read: zeros are mapped in its place, and nothing more
	 * comes from it. */
	volatile bool lost;
	struct spool_watch *next; /* of all that are open */
};

/* For a handler of SIGBUS: the fault at this address was in a spool, and will not happen again. False: it
 * was none of ours. */
bool spool_watch_lost_at(const void *address);

/* What the header says; of a spool that is lost, what it said last. False: nothing. */
bool spool_watch_glance(const struct spool_watch *w, struct spool_glance *g);

/* Makes the spool of a recording, empty and with some packets reserved. 0 or an errno; EEXIST when
 * there is a file of that name. */
int spool_watch_create(struct spool_watch *w, const char *path, const struct spool_settings *s);

/* One that is there. 0 or an errno; EINVAL when it is none. */
int spool_watch_open(struct spool_watch *w, const char *path);

/* Reserves space ahead of the agent, and sets wait_ms. Returns 0, or the errno when that fails for
 * the first time. */
int spool_watch_tick(struct spool_watch *w);

/* Whether records were dropped while the disk allowed less than the user's limit. */
bool spool_watch_was_short(struct spool_watch *w);

/* As spool_source.at wants it. Not for packets in holes. */
const void *spool_watch_at(struct spool_watch *w, uint64_t offset, size_t bytes);

/* For another writer of the spool: the file has this number of packets, or more. 0 or an errno. */
int spool_extend(int fd, struct spool_header *h, uint64_t packets);

/* For a spool that an agent begins itself: its header and its first packets get disk blocks. 0 or an
 * errno. */
int spool_reserve_first(int fd);

/* What the packet held is elsewhere now. Unless reuse is false the agent may have it again. */
void spool_watch_give_back(struct spool_watch *w, uint64_t index, bool reuse);

/* Frees the disk blocks of a packet that was given back. */
void spool_watch_punch(struct spool_watch *w, uint64_t index);

void spool_watch_close(struct spool_watch *w);

/* samples and live_bytes are 0 in exact mode, where only the reader of the packets knows them. */
bool spool_glance(const char *path, struct spool_glance *g); /* false: not a spool */
void spool_glance_at(const struct spool_header *h, struct spool_glance *g);

/* Removes a spool, or what is left of one; a file of another kind that has its name stays. */
void spool_remove(const char *path);

#define SPOOL_ENDING ".spool"
const char *spool_base_name(const char *path);
/* FILE.part of FILE.spool: the trace that is made of it. NULL: this is no such name, or no memory. */
char *spool_part_name(const char *path);

/* K of FILE.PID.K.spool. */
unsigned long spool_image_number(const char *path);

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
	size_t count, room;
};

/* Lists all FILE.PID.K.spool. `file` is the trace's path without ".spool". False: out of memory. A
 * folder that cannot be read has none. */
bool spool_list_read(struct spool_list *list, const char *file);
void spool_list_free(struct spool_list *list);

#endif
