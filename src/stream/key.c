/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and tags of a stream: see key.h. */
#include "stream/key.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char purpose[] = "mayfly stream 1";

bool stream_keys_start(void)
{
	return sodium_init() >= 0;
}

void stream_random(void *bytes, size_t size)
{
	randombytes_buf(bytes, size);
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
	sodium_memzero(key, sizeof(*key));
}

static void derive(uint8_t out[STREAM_TAG], const uint8_t session[STREAM_TAG], const char *whose)
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, session, STREAM_TAG);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)whose, strlen(whose));
	crypto_auth_hmacsha256_final(&state, out);
	sodium_memzero(&state, sizeof(state));
}

void stream_keys_derive(struct stream_keys *keys, const struct stream_key *key, const void *hello,
			size_t hello_size, const void *welcome, size_t welcome_size)
{
	crypto_auth_hmacsha256_state state;
	uint8_t session[STREAM_TAG];

	crypto_auth_hmacsha256_init(&state, key->bytes, key->size);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)purpose, sizeof(purpose) - 1);
	crypto_auth_hmacsha256_update(&state, hello, hello_size);
	crypto_auth_hmacsha256_update(&state, welcome, welcome_size);
	crypto_auth_hmacsha256_final(&state, session);
	derive(keys->sender, session, "sender");
	derive(keys->receiver, session, "receiver");
	sodium_memzero(session, sizeof(session));
	sodium_memzero(&state, sizeof(state));
}

void stream_tag(uint8_t tag[STREAM_TAG], const uint8_t key[STREAM_TAG], uint64_t number,
		const void *head, size_t head_size, const void *payload, size_t size)
{
	crypto_auth_hmacsha256_state state;
	uint8_t count[8];

	for (unsigned int i = 0; i < 8; i++)
		count[i] = (uint8_t)(number >> (8 * i));
	crypto_auth_hmacsha256_init(&state, key, STREAM_TAG);
	crypto_auth_hmacsha256_update(&state, count, sizeof(count));
	crypto_auth_hmacsha256_update(&state, head, head_size);
	crypto_auth_hmacsha256_update(&state, payload, size);
	crypto_auth_hmacsha256_final(&state, tag);
	sodium_memzero(&state, sizeof(state));
}

bool stream_tags_equal(const uint8_t a[STREAM_TAG], const uint8_t b[STREAM_TAG])
{
	return sodium_memcmp(a, b, STREAM_TAG) == 0;
}
