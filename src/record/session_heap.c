/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: pictures of the heaps of its processes, also of the last moment of each. */
#include "record/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "picture/picture.h"
#include "record/heap_request.h"

#define LOOK_MS 5 /* for a program that waits, at its exit */

bool record_offer_last_heap(struct record *r)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (!r->last_heap)
		return true;
	/* The lock belongs to the open file, which only this process has: it goes when this process ends,
	 * however it does. */
	r->serving = open(r->spool, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (r->serving >= 0 && !fcntl(r->serving, F_OFD_SETLK, &lock))
		return true;
	record_say(r, "--heap-at exit: '%s' cannot be locked: %s", r->spool, strerror(errno));
	return false;
}

void record_end_last_heap(struct record *r)
{
	if (r->serving > 0)
		close(r->serving);
	r->serving = 0;
}

void record_take_heap(const struct record *r, struct recorder *one)
{
	char why[HEAP_WHY];

	picture_tend();
	if (!heap_request_waits(one) || heap_request_answer(one, why))
		return;
	one->last_heap_told |= heap_request_is_last(one);
	record_say(r, "no picture of the heap of process %ld%s: %s", (long)one->pid,
		   one->last_heap_told ? " at its exit" : "", why);
}

static bool one_waits(const struct record *r)
{
	for (size_t i = 0; i < r->recorders; i++)
		if (heap_request_waits(r->recorder[i]) && heap_request_is_last(r->recorder[i]))
			return true;
	return false;
}

void record_wait_for_signal(const struct record *r, int milliseconds)
{
	struct pollfd poll_fd = {.fd = r->child.signals, .events = POLLIN};
	int64_t end = now_ns() + milliseconds * 1000000ll;
	int left = milliseconds;

	/* While a program waits, its other threads run on. */
	while (r->serving > 0 && left > LOOK_MS) {
		if (poll(&poll_fd, 1, LOOK_MS) > 0 || one_waits(r))
			return;
		left = (int)((end - now_ns()) / 1000000);
	}
	poll(&poll_fd, 1, left < 0 ? 0 : left);
}

/* NULL: nothing is missing. */
static const char *why_no_last_heap(const struct recorder *one, const struct spool_ending *ending)
{
	const struct spool_header *h = one->watch.header;

	if (ending->ending == MAYFLY_END_KILLED)
		return "a signal ended it";
	if (atomic_load(&h->state) == SPOOL_OFF)
		return "the agent was off";
	switch ((enum spool_last_heap)atomic_load(&h->last_heap)) {
	case SPOOL_LAST_NONE:
		break;
	case SPOOL_LAST_ASKED:
		return "it ended while the picture was taken";
	case SPOOL_LAST_SANDBOX:
		return "it ran in a sandbox (seccomp), where the agent makes no system calls";
	case SPOOL_LAST_NO_RECORDER:
		return "the agent could not open the first spool, or found no recorder by it";
	case SPOOL_LAST_LATE:
		return "mayfly was busy for 10 seconds, or stopped";
	}
	return "neither exit() nor _exit() of libc ended it";
}

void record_tell_last_heap(const struct record *r, struct recorder *one,
			   const struct spool_ending *ending)
{
	if (!r->last_heap || one->last_heap || one->last_heap_told || !one->watch.header ||
	    ending->ending == MAYFLY_END_EXEC)
		return;
	one->last_heap_told = true;
	record_say(r, "no picture of the heap of process %ld at its exit: %s", (long)one->pid,
		   why_no_last_heap(one, ending));
}
