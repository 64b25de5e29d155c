/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secret that both ends of a stream share, and how they prove to know it: HMAC-SHA-256, of libsodium.
 *
 *	key file ──┬─> session ──┬─> key of what the sender says
 *	HELLO ─────┤             └─> key of what the receiver says
 *	WELCOME ───┘
 *
 * Both messages hold a nonce, so each connection has keys of its own: a message cannot be
 * replayed in another connection or sent back to its sender.
 */
#ifndef MAYFLY_STREAM_KEY_H
#define MAYFLY_STREAM_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_TAG	 32u
#define STREAM_KEY_LEAST 16u
#define STREAM_KEY_MOST	 4096u

struct stream_key {
	uint8_t bytes[STREAM_KEY_MOST];
	size_t size;
};

/* The keys of one connection. */
struct stream_keys {
	uint8_t sender[STREAM_TAG], receiver[STREAM_TAG];
};

/* Must be called once before anything else here. False: no random numbers are available. */
bool stream_keys_start(void);
/* False: this build has no libsodium and therefore no keys. */
bool stream_keys_supported(void);

/* Up to 256 bytes. */
void stream_random(void *bytes, size_t size);

enum stream_key_fault {
	STREAM_KEY_GOOD,
	STREAM_KEY_UNREADABLE, /* errno */
	STREAM_KEY_NO_FILE,    /* a folder, a device, ... */
	STREAM_KEY_OPEN,       /* others may read or change it */
	STREAM_KEY_SHORT,
	STREAM_KEY_LONG,
};

/* The file's bytes without a line end after them. */
enum stream_key_fault stream_key_read(struct stream_key *key, const char *path);
void stream_key_clear(struct stream_key *key);

void stream_keys_derive(struct stream_keys *keys, const struct stream_key *key, const void *hello,
			size_t hello_size, const void *welcome, size_t welcome_size);

/* The tag of one message: made from its number among the tagged ones of its direction, then its
 * bytes in two parts. */
void stream_tag(uint8_t tag[STREAM_TAG], const uint8_t key[STREAM_TAG], uint64_t number,
		const void *head, size_t head_size, const void *payload, size_t size);

/* In a time that does not depend on where they differ. */
bool stream_tags_equal(const uint8_t a[STREAM_TAG], const uint8_t b[STREAM_TAG]);

#endif
