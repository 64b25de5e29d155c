/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a stream, and random numbers: see key.h. */
#include "stream/key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

bool stream_keys_start(void)
{
	uint8_t byte;

	return getrandom(&byte, 1, 0) == 1;
}

/* Up to 256 bytes, which getrandom() gives whole once it works at all. */
void stream_random(void *bytes, size_t size)
{
	(void)!getrandom(bytes, size, 0);
}

static enum stream_key_fault read_open(struct stream_key *key, int fd)
{
	uint8_t more;
	struct stat st;
	ssize_t got = 0;

	if (fstat(fd, &st))
		return STREAM_KEY_UNREADABLE;
	if (!S_ISREG(st.st_mode))
		return STREAM_KEY_NO_FILE;
	if (st.st_mode & (S_IRWXO | S_IWGRP))
		return STREAM_KEY_OPEN;
	do {
		got = read(fd, key->bytes + key->size, sizeof(key->bytes) - key->size);
		if (got > 0)
			key->size += (size_t)got;
	} while (got > 0 && key->size < sizeof(key->bytes));
	if (got < 0)
		return STREAM_KEY_UNREADABLE;
	if (key->size == sizeof(key->bytes) && read(fd, &more, 1) == 1)
		return STREAM_KEY_LONG;
	if (key->size && key->bytes[key->size - 1] == '\n')
		key->size--;
	return key->size < STREAM_KEY_LEAST ? STREAM_KEY_SHORT : STREAM_KEY_GOOD;
}

enum stream_key_fault stream_key_read(struct stream_key *key, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error;
	enum stream_key_fault fault;

	memset(key, 0, sizeof(*key));
	if (fd < 0)
		return STREAM_KEY_UNREADABLE;
	fault = read_open(key, fd);
	error = errno;
	close(fd);
	errno = error;
	if (fault)
		stream_key_clear(key);
	return fault;
}

void stream_key_clear(struct stream_key *key)
{
	explicit_bzero(key, sizeof(*key));
}
