/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mark from outside: see spool_mark.h.
 *
 * This is one more writer of the spool. It takes a packet as the agent does, fills it, and sets the
 * magic last, so that readers see the whole of it or nothing. A lock on the file keeps two such
 * writers apart; the agent does not wait for it.
 */
#include "record/spool_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "record/recorder.h"
#include "record/spool_control.h"
#include "record/spool_watch.h"

#define MARKS_WRITER  UINT32_MAX /* the agent counts its writers from 1 */
#define MARK_TYPE     1u	 /* a packet's types are its own */
#define MARK_CATEGORY "mark"

static bool claim_given_back(struct spool_header *h, uint64_t *index)
{
	uint64_t tail = atomic_load(&h->recycled_tail);

	while (tail != atomic_load(&h->recycled_head)) {
		*index = atomic_load(&h->recycled[tail % SPOOL_RECYCLED]);
		if (atomic_compare_exchange_weak(&h->recycled_tail, &tail, tail + 1))
			return *index < atomic_load(&h->packets_reserved);
	}
	return false;
}

static int claim(struct spool_header *h, int fd, uint64_t *index)
{
	uint64_t most = atomic_load(&h->control_max_packets);
	int error;

	if (claim_given_back(h, index))
		return 0;
	*index = atomic_load(&h->packets_claimed);
	do {
		if (most && *index >= most)
			return ENOSPC;
		error = spool_extend(fd, h, *index + 1);
		if (error)
			return error;
	} while (!atomic_compare_exchange_weak(&h->packets_claimed, index, *index + 1));
	return 0;
}

static uint8_t *put_number(uint8_t *at, size_t number)
{
	for (; number >= 0x80; number >>= 7)
		*at++ = (uint8_t)(number | 0x80);
	*at++ = (uint8_t)number;
	return at;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
	size_t length = strlen(text);

	at = put_number(at, length);
	memcpy(at, text, length);
	return at + length;
}

static void fill(struct spool_header *h, struct spool_packet *p, const char *text)
{
	uint8_t *at = (uint8_t *)(p + 1), *begin = at;

	*at++ = SPOOL_TYPE;
	at = put_number(at, MARK_TYPE);
	*at++ = SPOOL_TYPE_INSTANT;
	at = put_text(at, text);
	at = put_text(at, MARK_CATEGORY);
	at = put_text(at, "");
	at = put_number(at, 0); /* fields */
	*at++ = SPOOL_TRACK | SPOOL_INSTANT;
	*at++ = 0; /* the time is the packet's */
	*at++ = MARK_TYPE;
	*at++ = 0;
	p->writer = MARKS_WRITER;
	p->tid = h->pid;
	p->interval_log2 = h->interval_log2;
	p->pad0 = 0;
	atomic_store(&p->late_ticks, 0);
	atomic_store(&p->late_mono_ns, 0);
	atomic_store(&p->used, (uint32_t)(at - begin));
	recorder_clock(h, &p->ticks, &p->mono_ns);
	p->sequence = 1 + atomic_fetch_add(&h->claims, 1);
	__atomic_store_n(&p->magic, SPOOL_PACKET_MAGIC, __ATOMIC_RELEASE);
}

static int put_mark(struct spool_header *h, int fd, const char *text)
{
	struct spool_packet *p;
	uint64_t index;
	int error;

	if (atomic_load(&h->state) != SPOOL_RUNNING)
		return ESRCH;
	error = claim(h, fd, &index);
	if (error)
		return error;
	p = mmap(NULL, SPOOL_PACKET_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 (off_t)(SPOOL_HEADER_BYTES + index * SPOOL_PACKET_BYTES));
	if (p == MAP_FAILED)
		return errno;
	fill(h, p, text);
	munmap(p, SPOOL_PACKET_BYTES);
	return 0;
}

int spool_mark(const char *spool, const char *text)
{
	struct spool_control c;
	int fd, error;

	if (strlen(text) > SPOOL_TEXT_BYTES)
		return ENAMETOOLONG;
	error = spool_control_open(&c, spool, true);
	if (error)
		return error;
	fd = open(spool, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || flock(fd, LOCK_EX))
		error = errno;
	else
		error = put_mark(c.header, fd, text);
	if (fd >= 0)
		close(fd);
	spool_control_close(&c);
	return error;
}
