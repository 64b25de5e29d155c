/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of a stream's messages, by libsodium: see key.h. */
#include "stream/key.h"

#include <sodium.h>
#include <string.h>

static const char purpose[] = "mayfly stream 1";

bool stream_keys_supported(void)
{
	return sodium_init() >= 0;
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
