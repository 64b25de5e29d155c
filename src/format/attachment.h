/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mayfly attach` calls in the library that it has loaded into a running program
 * (libmayfly-attach.so). Both are called by a thread of the program that is inside neither the allocator
 * nor the loader, while its other threads run.
 *
 *	void mayfly_attach(struct attachment_call *)
 *	void mayfly_detach(struct attachment_call *)
 */
#ifndef MAYFLY_ATTACHMENT_H
#define MAYFLY_ATTACHMENT_H

#include <stdint.h>

#define ATTACH_FUNCTION "mayfly_attach"
#define DETACH_FUNCTION "mayfly_detach"

struct attachment_call {
	int64_t result;
	char settings[]; /* as in the variable MAYFLY; of mayfly_detach(): not read */
};

/* The result; an errno, or 0, stands in the bits above the lowest 8. */
enum attachment {
	ATTACHMENT_DONE = 0,
	ATTACHMENT_THERE = 1, /* the agent records already; or, detach: it does not */
	ATTACHMENT_OWN_MALLOC =
	    2, /* the program's malloc is its own: its calls cannot be redirected */
	ATTACHMENT_NO_SPOOL = 3, /* the spool cannot be opened */
	ATTACHMENT_OFF = 4,	 /* the agent cannot work here: the spool says why */
	ATTACHMENT_FORK = 5,	 /* a child of vfork, or another process's memory */
	ATTACHMENT_LOST = 6,	 /* the spool was emptied, or its disk failed, meanwhile */
	ATTACHMENT_GUARDED = 7, /* not returned yet; a SIGBUS of the spool's pages is the agent's */
};
#define ATTACHMENT_ERROR_SHIFT 8

#endif
