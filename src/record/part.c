/* SPDX-License-Identifier: Apache-2.0 */
/* A trace file while it is made: see part.h. */
#include "record/part.h"

#include <errno.h>
#include <fcntl.h>
#include <mayfly/trace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stream/sender.h"

/* Writes are of this size or more, but for the last of a piece. */
#define WRITE_BYTES   (1u << 20)
#define RESERVE_BYTES (2u << 20)
#define COPY_BYTES    (1u << 20)

/* Reserves blocks after the end for future writes. A failure here is not an error: writing will
 * report it. */
static void part_reserve(struct part *p)
{
	if (p->reserved > p->written && p->reserved - p->written >= RESERVE_BYTES / 2)
		return;
	if (!fallocate(p->fd, FALLOC_FL_KEEP_SIZE, (off_t)p->written, RESERVE_BYTES))
		p->reserved = p->written + RESERVE_BYTES;
}

static void free_reserve(struct part *p)
{
	if (p->reserved <= p->written)
		return;
	/* One of the two works, depending on the file system. */
	if (fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)p->written,
		      (off_t)(p->reserved - p->written)) |
	    ftruncate(p->fd, (off_t)p->written))
		errno = 0;
	p->reserved = p->written;
}

int part_open(struct part *p, const char *path)
{
	int error;

	memset(p, 0, sizeof(*p));
	p->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (p->fd < 0)
		return errno;
	p->path = strdup(path);
	if (!p->path) {
		error = ENOMEM;
		close(p->fd);
		unlink(path);
		return error;
	}
	part_reserve(p);
	return 0;
}

int part_reopen(struct part *p, const char *path)
{
	struct stat st;

	memset(p, 0, sizeof(*p));
	p->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (p->fd < 0)
		return errno;
	p->path = strdup(path);
	if (p->path && !fstat(p->fd, &st) && S_ISREG(st.st_mode)) {
		p->written = (uint64_t)st.st_size;
		return 0;
	}
	close(p->fd);
	p->fd = -1;
	errno = p->path ? EINVAL : ENOMEM;
	free(p->path);
	p->path = NULL;
	return errno;
}

void part_open_stream(struct part *p, struct stream_sender *sender)
{
	memset(p, 0, sizeof(*p));
	p->fd = -1;
	p->sender = sender;
}

int part_stream(struct part *p, struct stream_sender *sender)
{
	int error = stream_sender_file(sender, p->fd);

	if (!error)
		p->sender = sender;
	return error;
}

static void went(struct part *p, size_t done)
{
	if (!done)
		return;
	memmove(p->buffer, p->buffer + done, p->used - done);
	p->used -= done;
}

/* To the receiver only. */
static int hand_over(struct part *p)
{
	size_t done = p->used ? stream_sender_put(p->sender, p->buffer, p->used) : 0;

	p->written += done;
	went(p, done);
	p->error = 0;
	if (p->used)
		p->error = stream_sender_gave_up(p->sender) ? ETIMEDOUT : EAGAIN;
	return p->error;
}

int part_flush(struct part *p)
{
	size_t done = 0;

	if (p->fd < 0)
		return hand_over(p);
	p->error = 0;
	while (done < p->used && !p->error) {
		ssize_t n = pwrite(p->fd, p->buffer + done, p->used - done, (off_t)p->written);

		if (n > 0) {
			done += (size_t)n;
			p->written += (uint64_t)n;
		} else if (n < 0 && errno != EINTR) {
			p->error = errno;
		} else if (!n) {
			p->error = ENOSPC;
		}
	}
	if (done) {
		went(p, done);
		part_reserve(p);
		if (p->sender)
			stream_sender_grown(p->sender, p->written);
	}
	return p->error;
}

static void keep_tail(struct part *p, const uint8_t *bytes, size_t size)
{
	size_t most = sizeof(p->tail), stays = p->tail_bytes;

	if (size > most) {
		bytes += size - most;
		size = most;
	}
	if (stays > most - size)
		stays = most - size;
	memmove(p->tail, p->tail + p->tail_bytes - stays, stays);
	memcpy(p->tail + stays, bytes, size);
	p->tail_bytes = (uint32_t)(stays + size);
}

int part_sink(void *part, const void *bytes, size_t size)
{
	struct part *p = part;

	if (size > p->size - p->used) {
		size_t room = p->used + size + WRITE_BYTES;
		uint8_t *grown;

		if (room < size)
			return ENOMEM;
		grown = realloc(p->buffer, room);
		if (!grown)
			return ENOMEM;
		p->buffer = grown;
		p->size = room;
	}
	memcpy(p->buffer + p->used, bytes, size);
	p->used += size;
	keep_tail(p, bytes, size);
	if (p->used >= WRITE_BYTES && !p->error)
		part_flush(p);
	return 0;
}

/* For a name on another file system: the file is written beside its name and then renamed. */
static int copy_to(int fd, const char *path)
{
	char *temporary = NULL, *buffer = malloc(COPY_BYTES);
	int to = -1, error = 0;
	off_t at = 0;

	if (!buffer || asprintf(&temporary, "%s.%ld.tmp", path, (long)getpid()) < 0) {
		free(buffer);
		return ENOMEM;
	}
	to = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (to < 0)
		error = errno;
	while (!error) {
		ssize_t got = pread(fd, buffer, COPY_BYTES, at), n;

		if (got == 0)
			break;
		n = got > 0 ? pwrite(to, buffer, (size_t)got, at) : -1;
		if (n < 0)
			error = errno == EINTR ? 0 : errno;
		else
			at += n;
	}
	if (to >= 0 && close(to) && !error)
		error = errno;
	if (!error && rename(temporary, path))
		error = errno;
	if (error && to >= 0)
		unlink(temporary);
	free(temporary);
	free(buffer);
	return error;
}

/* Gives the file at `path` a second name, which it keeps when another takes the first. */
static bool keep_old(const char *path, const char *old)
{
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return false;
	unlink(old);
	return !link(path, old) || !rename(path, old); /* some file systems have no links */
}

int part_become(struct part *p, const char *path, const char *old, bool *kept)
{
	char *real;
	int error = part_flush(p);

	if (error || !p->path)
		return error;
	free_reserve(p);
	real = realpath(path, NULL);
	if (old)
		*kept = keep_old(real ? real : path, old);
	if (rename(p->path, real ? real : path))
		error = errno;
	if (error == EXDEV) {
		error = copy_to(p->fd, real ? real : path);
		if (!error)
			unlink(p->path);
	}
	free(real);
	return error;
}

int part_clear(struct part *p)
{
	p->used = 0;
	p->written = p->reserved = 0;
	p->tail_bytes = 0;
	p->error = 0;
	return ftruncate(p->fd, 0) ? errno : 0;
}

void part_close(struct part *p, bool remove_it)
{
	if (remove_it && p->sender)
		stream_sender_restart(p->sender);
	if (p->path) {
		free_reserve(p);
		if (remove_it)
			unlink(p->path);
		close(p->fd);
		free(p->path);
	}
	free(p->buffer);
	memset(p, 0, sizeof(*p));
	p->fd = -1;
}

/* Something that mayfly wrote, or empty as from mktemp: a new recording may take its place. */
static bool may_replace(const char *file, const struct stat *st)
{
	struct mayfly_trace *trace;
	void *data;
	int fd, error;

	if (!st->st_size)
		return true;
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	data = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return false;
	error = mayfly_trace_open(data, (size_t)st->st_size, &trace);
	if (!error)
		mayfly_trace_close(trace);
	munmap(data, (size_t)st->st_size);
	return error != MAYFLY_E_NOT_A_TRACE;
}

const char *part_obstacle(const char *file, bool force)
{
	struct stat st;

	if (stat(file, &st))
		return NULL;
	if (S_ISDIR(st.st_mode))
		return "is a folder; use -o FILE";
	if (!S_ISREG(st.st_mode))
		return "is not a regular file, which the recording needs";
	if (force || may_replace(file, &st))
		return NULL;
	return "exists and is not a trace; use another name or --force";
}
