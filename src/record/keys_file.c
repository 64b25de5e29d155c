/* SPDX-License-Identifier: Apache-2.0 */
/* FILE.keys: see keys_file.h. */
#include "record/keys_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/part.h"
#include "spool/spool_resume.h"

/* A file of this size, and this many times that of the latest whole step, is made anew. */
#define LARGE_BYTES (64u << 20)
#define LARGE_TIMES 4

char *keys_file_name(const char *part)
{
	size_t length = strlen(part), ending = strlen(".part");
	char *name;

	if (length >= ending && !strcmp(part + length - ending, ".part"))
		length -= ending;
	return asprintf(&name, "%.*s.keys", (int)length, part) < 0 ? NULL : name;
}

bool keys_file_begin(struct keys_file *k, const char *part)
{
	*k = (struct keys_file){.path = keys_file_name(part), .fd = -1};
	return k->path;
}

void keys_file_close(struct keys_file *k, bool remove_it)
{
	if (!k->path)
		return;
	if (k->fd >= 0)
		close(k->fd);
	if (remove_it)
		unlink(k->path);
	free(k->path);
	*k = (struct keys_file){.fd = -1};
}

static bool put_at(int fd, const struct bytes *b, uint64_t at)
{
	size_t done = 0;

	while (done < b->used) {
		ssize_t n = pwrite(fd, b->at + done, b->used - done, (off_t)(at + done));

		if (n > 0)
			done += (size_t)n;
		else if (!n || errno != EINTR)
			return false;
	}
	return true;
}

/* Never through a link that somebody put there. */
static int make(const char *path)
{
	unlink(path);
	return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Another file takes its place, with a whole step as its first. */
static bool put_anew(struct keys_file *k, const struct bytes *b)
{
	char *fresh;
	int fd;

	if (asprintf(&fresh, "%s.new", k->path) < 0)
		return false;
	fd = make(fresh);
	if (fd < 0 || !put_at(fd, b, 0) || rename(fresh, k->path)) {
		if (fd >= 0)
			close(fd);
		unlink(fresh);
		free(fresh);
		return false;
	}
	free(fresh);
	if (k->fd >= 0)
		close(k->fd);
	k->fd = fd;
	k->begun = true;
	k->bytes = k->whole_bytes = b->used;
	return true;
}

static bool put_more(struct keys_file *k, const struct bytes *b)
{
	if (k->fd < 0)
		k->fd = make(k->path);
	if (k->fd < 0 || !put_at(k->fd, b, k->bytes))
		return false;
	k->begun = true;
	k->bytes += b->used;
	return true;
}

/* Older steps say where packets were that are about to be given back: they must not stay. */
static void drop_steps(struct keys_file *k)
{
	k->missed = true;
	k->begun = false;
	k->bytes = 0;
	if (k->fd >= 0 && ftruncate(k->fd, 0))
		unlink(k->path);
}

static void put_step(struct keys_file *k, struct spool_stream *s, const struct part *part,
		     bool whole, bool anew, uint64_t (*renumber)(void *context, uint64_t serial),
		     void *context)
{
	struct bytes b = {0};
	bool good;

	if (anew || !k->begun)
		spool_resume_begin(&b);
	spool_resume_step(s, whole, part->written + part->used,
			  trace_checksum(0, part->tail, part->tail_bytes), renumber, context, &b);
	good = !b.failed && (anew ? put_anew(k, &b) : put_more(k, &b));
	if (good && whole && !anew)
		k->whole_bytes = b.used;
	k->missed = false;
	if (!good)
		drop_steps(k);
	bytes_free(&b);
}

void keys_file_step(struct keys_file *k, struct spool_stream *s, const struct part *part)
{
	/* What was live at forks is not said again. */
	bool large =
	    k->bytes > LARGE_BYTES && k->bytes > LARGE_TIMES * k->whole_bytes && !k->forked;

	k->forked |= spool_stream_forks(s) != 0;
	if (k->path)
		put_step(k, s, part, k->missed || large, large, NULL, NULL);
}

void keys_file_renumber(struct keys_file *k, struct spool_stream *s, const struct part *part,
			uint64_t (*renumber)(void *context, uint64_t serial), void *context)
{
	if (k->path)
		put_step(k, s, part, true, false, renumber, context);
}
