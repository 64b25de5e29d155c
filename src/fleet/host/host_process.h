/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spool in a watched folder, and its process:
 *
 *	found ── it is a spool that an agent without a recorder writes ──> known ──> done
 *	  └ looked at again from time to time                               │ ended, and pushed
 *	                                                                    │
 *	                      its rule: dormant <── turns ──> on            ┘
 */
#ifndef MAYFLY_HOST_PROCESS_H
#define MAYFLY_HOST_PROCESS_H

#include "fleet/host/host_rules.h"
#include "format/spool_format.h"
#include "record/process_watch.h"

#define HOST_OWN_LABELS 5u /* pod, namespace, node; container, pod_uid */

enum host_state { HOST_FOUND, HOST_KNOWN, HOST_DONE };

struct host_process {
	char *path;
	ino_t inode;
	uid_t owner;
	enum host_state state;
	bool seen;	 /* in its folder, by the latest look */
	bool complained; /* a line has said why it cannot be used */
	unsigned int looks;
	int64_t next_look_ns; /* CLOCK_MONOTONIC, as all times but those of 1970 */

	/* from here on of one that is known */
	struct process_watch watch;
	bool ended;
	uint64_t hash; /* of the process on this host */
	int64_t start_ns, start_real_ns;
	char *service, *program, *cgroup;	    /* service, cgroup: NULL: not known any more */
	struct mayfly_label label[HOST_OWN_LABELS]; /* of its surroundings; the values are owned */
	size_t labels;

	bool certain;		      /* it was started on: no rule is for it */
	const struct host_rule *rule; /* or NULL */
	bool ours;		      /* its rule may have switched it on */
	bool on;
	uint32_t interval_log2; /* for which it was switched on */
	/* The share that its recording since its last window stands for; 0: its last window's, if it has one. */
	double share;
	bool unpushed;	  /* it may have recorded something since its last window */
	bool live;	  /* its last window had live blocks */
	bool urgent;	  /* it must be pushed before it can be switched on with another share */
	int64_t begin_ns; /* since 1970: its next window's, when it was dormant before */
	int64_t pushed_ns;
};

/* NULL: out of memory. */
struct host_process *host_process_new(const char *path, ino_t inode, uid_t owner);
void host_process_free(struct host_process *p);

/* Looks whether a process that was found is known now. */
void host_process_look(struct host_process *p, int64_t now_ns);

/* After a new configuration, and when it gets known. */
void host_process_take_rule(struct host_process *p, const struct host_config *c);

/* Its labels and those of the configuration, which come first. The room is for all. */
#define HOST_LABELS_ROOM (HOST_LABELS_MOST + HOST_OWN_LABELS)
size_t host_process_labels(const struct host_process *p, const struct host_config *c,
			   struct mayfly_label label[HOST_LABELS_ROOM]);

/* The share with which it is to be recorded: its rule's, or 1. */
double host_process_share(const struct host_process *p);

/* Says once, on stderr, why it cannot be used. */
void host_process_error(struct host_process *p, const char *why);

/* It has recorded something. */
bool host_process_recorded(const struct spool_header *h);

#endif
