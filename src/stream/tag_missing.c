/* SPDX-License-Identifier: Apache-2.0 */
/* A build without libsodium has no keys, so only the first of these functions is called. */
#include "stream/key.h"

#include <string.h>

bool stream_keys_supported(void)
{
	return false;
}

void stream_keys_derive(struct stream_keys *keys, const struct stream_key *key, const void *hello,
			size_t hello_size, const void *welcome, size_t welcome_size)
{
	(void)key, (void)hello, (void)hello_size, (void)welcome, (void)welcome_size;
	memset(keys, 0, sizeof(*keys));
}

void stream_tag(uint8_t tag[STREAM_TAG], const uint8_t key[STREAM_TAG], uint64_t number,
		const void *head, size_t head_size, const void *payload, size_t size)
{
	(void)key, (void)number, (void)head, (void)head_size, (void)payload, (void)size;
	memset(tag, 0, STREAM_TAG);
}

bool stream_tags_equal(const uint8_t a[STREAM_TAG], const uint8_t b[STREAM_TAG])
{
	(void)a, (void)b;
	return false;
}
