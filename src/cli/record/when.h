/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --when and --do: rules about memory, looked at by the recorder, and what is done when one comes true:
 *
 *	snapshot	the state is opened at once; a thread finds names and writes NAME.when-N.mayfly
 *	mark		an instant in the trace, with the rule as its name
 *	heap		a picture of the heap in the trace
 *
 * --heap-at RULE is --when RULE --do heap; peak is a rule that only it knows, and for exit the program asks.
 */
#ifndef MAYFLY_WHEN_H
#define MAYFLY_WHEN_H

#include "cli/option_table.h"
#include "record/session.h"

struct when_job;

struct when {
	struct watch_list list;
	struct record *record;
	bool may_do;		 /* the last rule is one of --when */
	bool heap_at, last_heap; /* --heap-at, --heap-at exit */
	bool peak, peak_seen;	 /* --heap-at peak; a picture was asked for by it */
	unsigned int snapshots;
	struct when_job *first, **end; /* the first is being written */
	bool writing;
};

/* The options; their struct is struct when. */
extern const struct option_row when_rows[];

/* When all options are known: the record looks at the rules from then on. */
void when_begin(struct when *w, struct record *r);
/* The program has ended: waits until all snapshots are written. */
void when_finish(struct when *w);
void when_free(struct when *w);

#endif
