/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrays of a recording and their growth. Strings, frames and nodes are distinct: each has a
 * hash table beside its array, open addressing with linear probing, whose slots hold index + 1:
 *
 *	hash of (parent, frame) -> | 0 | 7 | 0 | 3 | ... |     0: free slot
 *	                                 |       +-> node[2]
 *	                                 +---------> node[6]
 */
#include "trace/recording.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for one more item; false when out of memory. */
static bool grow(void **array, size_t used, size_t *size, size_t item)
{
	size_t want = *size ? *size + *size / 2 + 8 : 16;
	void *bigger;

	if (used < *size)
		return true;
	if (want > SIZE_MAX / item || want >= RECORDING_NONE)
		return false;
	bigger = realloc(*array, want * item);
	if (!bigger)
		return false;
	*array = bigger;
	*size = want;
	return true;
}

static uint64_t mix(uint64_t h)
{
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	h ^= h >> 29;
	h *= 0xa0761d6478bd642fu;
	return h ^ h >> 32;
}

static uint64_t hash_text(const char *text, size_t length)
{
	uint64_t h = length;

	while (length >= 8) {
		uint64_t word;

		memcpy(&word, text, 8);
		h = mix(h ^ word);
		text += 8;
		length -= 8;
	}
	while (length--)
		h = h * 0x100000001b3u + (unsigned char)*text++;
	return mix(h);
}

static uint64_t hash_string_at(const struct recording *r, uint32_t index)
{
	const char *text = recording_text(r, index);

	return hash_text(text, strlen(text));
}

static uint64_t hash_node(uint32_t parent, uint32_t frame)
{
	return mix((uint64_t)parent << 32 | frame);
}

static uint64_t hash_node_at(const struct recording *r, uint32_t index)
{
	return hash_node(r->node[index].parent, r->node[index].frame);
}

static uint64_t hash_frame(uint32_t kind, uint32_t module, uint64_t address)
{
	return mix(address ^ mix((uint64_t)kind << 32 | module));
}

static uint64_t hash_frame_at(const struct recording *r, uint32_t index)
{
	const struct recording_frame *f = &r->frame[index];

	return hash_frame(f->kind, f->module, f->address);
}

/* Doubles a hash table when more than half of it would be used by `items`. */
static bool rehash(const struct recording *r, uint32_t **table, size_t *size, size_t items,
		   uint64_t (*hash_at)(const struct recording *, uint32_t))
{
	size_t bigger = *size ? *size * 2 : 64;
	uint32_t *fresh;

	if (items < *size / 2)
		return true;
	fresh = calloc(bigger, sizeof(*fresh));
	if (!fresh)
		return false;
	for (size_t i = 0; i < *size; i++) {
		size_t slot;

		if (!(*table)[i])
			continue;
		slot = hash_at(r, (*table)[i] - 1) & (bigger - 1);
		while (fresh[slot])
			slot = (slot + 1) & (bigger - 1);
		fresh[slot] = (*table)[i];
	}
	free(*table);
	*table = fresh;
	*size = bigger;
	return true;
}

struct recording *recording_new(void)
{
	struct recording *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	if (recording_string(r, "", 0) != 0 ||
	    !grow((void **)&r->node, 0, &r->node_size, sizeof(*r->node))) {
		recording_free(r);
		return NULL;
	}
	r->node[0].parent = RECORDING_NONE;
	r->node[0].frame = RECORDING_NONE;
	r->nodes = 1;
	return r;
}

void recording_free(struct recording *r)
{
	if (!r)
		return;
	free(r->command);
	free(r->module);
	free(r->thread);
	free(r->frame);
	free(r->location);
	free(r->node);
	free(r->sample);
	free(r->clock);
	free(r->string_bytes);
	free(r->string_start);
	free(r->string_hash);
	free(r->node_hash);
	free(r->frame_hash);
	free(r);
}

static bool string_room(struct recording *r, size_t bytes)
{
	size_t size = r->string_bytes_size ? r->string_bytes_size : 256;
	char *bigger;

	if (bytes > UINT32_MAX - r->string_bytes_used)
		return false;
	while (size - r->string_bytes_used < bytes)
		size *= 2;
	if (size == r->string_bytes_size)
		return true;
	bigger = realloc(r->string_bytes, size);
	if (!bigger)
		return false;
	r->string_bytes = bigger;
	r->string_bytes_size = size;
	return true;
}

uint32_t recording_string(struct recording *r, const char *text, size_t length)
{
	const char *zero = length ? memchr(text, 0, length) : NULL;
	size_t slot, mask;

	if (!length)
		text = "";
	if (zero)
		length = (size_t)(zero - text);
	if (!rehash(r, &r->string_hash, &r->string_hash_size, r->strings, hash_string_at))
		return RECORDING_NONE;
	mask = r->string_hash_size - 1;
	slot = hash_text(text, length) & mask;
	for (; r->string_hash[slot]; slot = (slot + 1) & mask) {
		uint32_t index = r->string_hash[slot] - 1;
		const char *present = recording_text(r, index);

		if (strncmp(present, text, length) == 0 && !present[length])
			return index;
	}
	if (!grow((void **)&r->string_start, r->strings, &r->strings_size,
		  sizeof(*r->string_start)) ||
	    !string_room(r, length + 1))
		return RECORDING_NONE;
	r->string_start[r->strings] = (uint32_t)r->string_bytes_used;
	if (length)
		memcpy(r->string_bytes + r->string_bytes_used, text, length);
	r->string_bytes[r->string_bytes_used + length] = 0;
	r->string_bytes_used += length + 1;
	r->string_hash[slot] = (uint32_t)++r->strings;
	return (uint32_t)(r->strings - 1);
}

const char *recording_text(const struct recording *r, uint32_t string)
{
	return string < r->strings ? r->string_bytes + r->string_start[string] : "";
}

uint32_t recording_frame(struct recording *r, uint32_t kind, uint32_t module, uint64_t address)
{
	size_t slot, mask;

	if (!rehash(r, &r->frame_hash, &r->frame_hash_size, r->frames, hash_frame_at))
		return RECORDING_NONE;
	mask = r->frame_hash_size - 1;
	slot = hash_frame(kind, module, address) & mask;
	for (; r->frame_hash[slot]; slot = (slot + 1) & mask) {
		uint32_t index = r->frame_hash[slot] - 1;
		const struct recording_frame *f = &r->frame[index];

		if (f->kind == kind && f->module == module && f->address == address)
			return index;
	}
	if (!grow((void **)&r->frame, r->frames, &r->frame_size, sizeof(*r->frame)))
		return RECORDING_NONE;
	r->frame[r->frames] = (struct recording_frame){
	    .kind = kind,
	    .module = module,
	    .address = address,
	};
	r->frame_hash[slot] = (uint32_t)++r->frames;
	return (uint32_t)(r->frames - 1);
}

uint32_t recording_node(struct recording *r, uint32_t parent, uint32_t frame)
{
	size_t slot, mask;

	if (!rehash(r, &r->node_hash, &r->node_hash_size, r->nodes, hash_node_at))
		return RECORDING_NONE;
	mask = r->node_hash_size - 1;
	slot = hash_node(parent, frame) & mask;
	for (; r->node_hash[slot]; slot = (slot + 1) & mask) {
		uint32_t index = r->node_hash[slot] - 1;

		if (r->node[index].parent == parent && r->node[index].frame == frame)
			return index;
	}
	if (!grow((void **)&r->node, r->nodes, &r->node_size, sizeof(*r->node)))
		return RECORDING_NONE;
	r->node[r->nodes].parent = parent;
	r->node[r->nodes].frame = frame;
	r->node_hash[slot] = (uint32_t)++r->nodes;
	return (uint32_t)(r->nodes - 1);
}

uint32_t recording_module(struct recording *r, const struct recording_module *m)
{
	if (!grow((void **)&r->module, r->modules, &r->module_size, sizeof(*r->module)))
		return RECORDING_NONE;
	r->module[r->modules] = *m;
	return (uint32_t)r->modules++;
}

uint32_t recording_thread(struct recording *r, uint32_t tid, uint32_t name)
{
	if (!grow((void **)&r->thread, r->threads, &r->thread_size, sizeof(*r->thread)))
		return RECORDING_NONE;
	r->thread[r->threads].tid = tid;
	r->thread[r->threads].name = name;
	return (uint32_t)r->threads++;
}

uint32_t recording_location(struct recording *r, const struct recording_location *l)
{
	if (!grow((void **)&r->location, r->locations, &r->location_size, sizeof(*r->location)))
		return RECORDING_NONE;
	r->location[r->locations] = *l;
	return (uint32_t)r->locations++;
}

bool recording_sample(struct recording *r, const struct recording_sample *s)
{
	if (!grow((void **)&r->sample, r->samples, &r->sample_size, sizeof(*r->sample)))
		return false;
	r->sample[r->samples++] = *s;
	return true;
}
