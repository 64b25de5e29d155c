/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoded frame codes: a hash table with chains. Its lock is not held while the host decodes, which
 * may wait for a thread that asks for another code.
 *
 *	bucket ──> code, count, places[] ──> code, ...
 *	                          └ texts follow the places in the same memory
 */
#include "memprof/codes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct code {
	struct code *chain;
	uint64_t code;
	uint64_t address, generation; /* codes_address() */
	uint32_t count;
	struct mayfly_memprof_place places[];
};

struct codes {
	pthread_mutex_t lock;
	uint64_t decoded;
	size_t used, buckets; /* buckets: a power of two */
	struct code **table;
};

#define BUCKETS_FIRST 256u

struct codes *codes_new(void)
{
	struct codes *codes = calloc(1, sizeof(*codes));

	if (!codes)
		return NULL;
	codes->table = calloc(BUCKETS_FIRST, sizeof(struct code *));
	if (!codes->table) {
		free(codes);
		return NULL;
	}
	codes->buckets = BUCKETS_FIRST;
	pthread_mutex_init(&codes->lock, NULL);
	return codes;
}

void codes_free(struct codes *codes)
{
	for (size_t i = 0; i < codes->buckets; i++) {
		for (struct code *c = codes->table[i], *next; c; c = next) {
			next = c->chain;
			free(c);
		}
	}
	free(codes->table);
	pthread_mutex_destroy(&codes->lock);
	free(codes);
}

static struct code **find(const struct codes *codes, uint64_t code)
{
	struct code **at = &codes->table[(code * 0x9e3779b97f4a7c15u >> 32) & (codes->buckets - 1)];

	while (*at && (*at)->code != code)
		at = &(*at)->chain;
	return at;
}

/* Without memory the chains get longer. */
static void grow(struct codes *codes)
{
	size_t before = codes->buckets;
	struct code **old = codes->table, **more;

	more = codes->used < before ? NULL : calloc(2 * before, sizeof(*more));
	if (!more)
		return;
	codes->table = more;
	codes->buckets = 2 * before;
	for (size_t i = 0; i < before; i++) {
		for (struct code *c = old[i], *next; c; c = next) {
			struct code **at = find(codes, c->code);

			next = c->chain;
			c->chain = NULL;
			*at = c;
		}
	}
	free(old);
}

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *copy_text(char **room, const char *text)
{
	size_t bytes = text_bytes(text);
	char *at = *room;

	if (!text)
		return NULL;
	memcpy(at, text, bytes);
	*room += bytes;
	return at;
}

static struct code *copy(uint64_t code, const struct mayfly_memprof_place *places, uint32_t count)
{
	size_t bytes = sizeof(struct code) + count * sizeof(*places);
	struct code *c;
	char *room;

	for (uint32_t i = 0; i < count; i++)
		bytes += text_bytes(places[i].function) + text_bytes(places[i].file);
	c = calloc(1, bytes);
	if (!c)
		return NULL;
	c->code = code;
	c->count = count;
	room = (char *)&c->places[count];
	for (uint32_t i = 0; i < count; i++) {
		c->places[i] = places[i];
		c->places[i].function = copy_text(&room, places[i].function);
		c->places[i].file = copy_text(&room, places[i].file);
	}
	return c;
}

static struct code *decode(const struct mayfly_memprof_host *host, uint64_t code)
{
	struct mayfly_memprof_place places[MAYFLY_MEMPROF_PLACES] = {{0}};
	uint32_t n = 0;

	if (host->decode)
		n = host->decode(host->host, code, places, MAYFLY_MEMPROF_PLACES);
	return copy(code, places, n < MAYFLY_MEMPROF_PLACES ? n : MAYFLY_MEMPROF_PLACES);
}

/* The lock is held, but not while the host decodes. NULL: no memory. */
static struct code *get(struct codes *codes, const struct mayfly_memprof_host *host, uint64_t code)
{
	struct code *c = *find(codes, code), *decoded;

	if (c)
		return c;
	pthread_mutex_unlock(&codes->lock);
	decoded = decode(host, code);
	pthread_mutex_lock(&codes->lock);
	codes->decoded += host->decode != NULL;
	c = *find(codes, code);
	if (c || !decoded) { /* another thread was faster, or there is no memory */
		free(decoded);
		return c;
	}
	grow(codes);
	*find(codes, code) = decoded;
	codes->used++;
	return decoded;
}

const struct mayfly_memprof_place *codes_places(struct codes *codes,
						const struct mayfly_memprof_host *host,
						uint64_t code, uint32_t *count)
{
	struct code *c;

	pthread_mutex_lock(&codes->lock);
	c = get(codes, host, code);
	pthread_mutex_unlock(&codes->lock);
	*count = c ? c->count : 0;
	return c ? c->places : NULL;
}

uint64_t codes_address(struct codes *codes, const struct mayfly_memprof_host *host, uint64_t code,
		       const struct mayfly_agent_heaps *agent)
{
	uint64_t generation = agent->generation(), address = 0;
	struct code *c;

	pthread_mutex_lock(&codes->lock);
	c = get(codes, host, code);
	if (c && (!c->address || c->generation != generation)) {
		c->address = agent->place(c->places, c->count);
		c->generation = generation;
	}
	if (c)
		address = c->address;
	pthread_mutex_unlock(&codes->lock);
	return address;
}

void codes_forget(struct codes *codes, uint64_t code)
{
	struct code **at, *c;

	pthread_mutex_lock(&codes->lock);
	at = find(codes, code);
	c = *at;
	if (c) {
		*at = c->chain;
		codes->used--;
		free(c);
	}
	pthread_mutex_unlock(&codes->lock);
}

uint64_t codes_decoded(struct codes *codes)
{
	uint64_t decoded;

	pthread_mutex_lock(&codes->lock);
	decoded = codes->decoded;
	pthread_mutex_unlock(&codes->lock);
	return decoded;
}
