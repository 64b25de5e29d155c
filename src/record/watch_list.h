/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that the processes of a recording are looked at by, from outside: the recorder's readings, and
 * files of /proc. What is done when one comes true is the caller's. */
#ifndef MAYFLY_WATCH_LIST_H
#define MAYFLY_WATCH_LIST_H

#include "record/recorder.h"
#include "record/watch_rules.h"

struct watched_rule {
	const char *text; /* as the user wrote it */
	struct watch_rule rule;
	int action; /* the caller's */
};

struct watch_list {
	struct watched_rule *rule;
	size_t count, room;
	/* Rule `number` has come true for this process. */
	void (*came_true)(void *context, struct recorder *one, size_t number);
	/* All processes have been looked at; may be NULL. */
	void (*looked)(void *context);
	void *context;
};

/* The text must stay. False: out of memory. */
bool watch_list_add(struct watch_list *l, const char *text, const struct watch_rule *rule);
/* After each round of the recorder. */
void watch_list_look(const struct watch_list *l, struct recorder *one);
void watch_list_free(struct watch_list *l);

#endif
