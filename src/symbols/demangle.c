/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned strings and demangling.
 *
 *   slot[hash] -> entry -> text (in a block)     blocks: one list, freed together
 *                       -> readable: the interned demangled text, once asked for
 */
#include "symbols/demangle.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "symbols/ocaml_names.h"

#define BLOCK_SIZE ((size_t)64 << 10)

/* libiberty refuses names longer than 1 KiB unless its limit is switched off; then it needs some
 * 300 bytes of stack for each byte of the name. */
#define UNLIMITED_FROM ((size_t)1000)
#define LONGEST_NAME   ((size_t)8 << 10)

struct block {
	struct block *next;
	size_t used, size;
	char bytes[];
};

struct entry {
	const char *text;
	const char *readable; /* NULL: not asked for yet */
	uint32_t length;
	uint32_t hash;
};

struct demangle {
	struct block *blocks;
	struct entry *slot; /* text NULL: empty */
	size_t slots, used;
};

struct demangle *demangle_new(void)
{
	struct demangle *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->slots = 1024;
	d->slot = calloc(d->slots, sizeof(*d->slot));
	if (!d->slot) {
		free(d);
		return NULL;
	}
	return d;
}

void demangle_free(struct demangle *d)
{
	struct block *next;

	if (!d)
		return;
	for (struct block *b = d->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(d->slot);
	free(d);
}

static char *arena_copy(struct demangle *d, const char *text, size_t length)
{
	struct block *b = d->blocks;
	char *copy;

	if (!b || b->size - b->used <= length) {
		size_t size = length < BLOCK_SIZE / 4 ? BLOCK_SIZE : length + 1;

		b = malloc(sizeof(*b) + size);
		if (!b)
			return NULL;
		b->size = size;
		b->used = 0;
		/* A block for one long string goes after the current one, which has room left. */
		if (size != BLOCK_SIZE && d->blocks) {
			b->next = d->blocks->next;
			d->blocks->next = b;
		} else {
			b->next = d->blocks;
			d->blocks = b;
		}
	}
	copy = b->bytes + b->used;
	memcpy(copy, text, length);
	copy[length] = 0;
	b->used += length + 1;
	return copy;
}

/* Eight bytes at a time: C++ names are long. */
static uint32_t hash_bytes(const char *text, size_t length)
{
	uint64_t h = length * 0x9e3779b97f4a7c15u, word;

	while (length) {
		size_t size = length < sizeof(word) ? length : sizeof(word);

		word = 0;
		memcpy(&word, text, size);
		h = (h ^ word) * 0x9fb21c651e98df25u;
		h ^= h >> 32;
		text += size;
		length -= size;
	}
	return (uint32_t)h;
}

static bool demangle_grow(struct demangle *d)
{
	size_t slots = d->slots * 2;
	struct entry *slot = calloc(slots, sizeof(*slot));

	if (!slot)
		return false;
	for (size_t i = 0; i < d->slots; i++) {
		size_t at;

		if (!d->slot[i].text)
			continue;
		for (at = d->slot[i].hash & (slots - 1); slot[at].text; at = (at + 1) & (slots - 1))
			;
		slot[at] = d->slot[i];
	}
	free(d->slot);
	d->slot = slot;
	d->slots = slots;
	return true;
}

/* The entry is valid until the next call. */
static struct entry *find_or_add(struct demangle *d, const char *text, size_t length)
{
	uint32_t hash = hash_bytes(text, length);
	struct entry *e;

	if (length >= UINT32_MAX)
		return NULL;
	if (d->used >= d->slots / 4 * 3 && !demangle_grow(d))
		return NULL;
	for (size_t at = hash & (d->slots - 1);; at = (at + 1) & (d->slots - 1)) {
		e = &d->slot[at];
		if (!e->text)
			break;
		if (e->hash == hash && e->length == length && !memcmp(e->text, text, length))
			return e;
	}
	e->text = arena_copy(d, text, length);
	if (!e->text)
		return NULL;
	e->length = (uint32_t)length;
	e->hash = hash;
	d->used++;
	return e;
}

const char *demangle_intern(struct demangle *d, const char *text, size_t length)
{
	struct entry *e = find_or_add(d, text, length);

	return e ? e->text : NULL;
}

/* A procedure of a module, "__stuff_MOD_grow", as "stuff::grow". NULL: it is none. */
static char *fortran_copy(const char *name, size_t length)
{
	static const char mark[] = "_MOD_";
	const char *module = name + 2, *found = strstr(module, mark);
	char *out;

	if (!found || found == module || !found[sizeof(mark) - 1])
		return NULL;
	out = malloc(length);
	if (out)
		sprintf(out, "%.*s::%s", (int)(found - module), module, found + sizeof(mark) - 1);
	return out;
}

static char *readable_copy(const char *name, size_t length)
{
	int options = DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO | DMGL_RET_DROP;

	if (!strncmp(name, "caml", 4)) {
		char *out = malloc(length + 8);

		if (out && ocaml_demangle(name, length, out, length + 8))
			return out;
		free(out);
		return NULL;
	}
	if (!strncmp(name, "_D", 2) && length <= LONGEST_NAME)
		return dlang_demangle(name, options);
	if (!strncmp(name, "__", 2) && name[2] != '_' && length <= LONGEST_NAME)
		return fortran_copy(name, length);
	/* Any other name is plain C, which decoders of old mangling styles would misread. */
	if (strncmp(name, "_Z", 2) && strncmp(name, "_R", 2) && strncmp(name, "___Z", 4))
		return NULL;
	if (length > LONGEST_NAME)
		return NULL;
	if (length > UNLIMITED_FROM)
		options |= DMGL_NO_RECURSE_LIMIT;
	return cplus_demangle(name, options);
}

const char *demangle_name(struct demangle *d, const char *name)
{
	size_t length = strlen(name);
	struct entry *e = find_or_add(d, name, length);
	const char *readable;
	char *copy;

	if (!e)
		return NULL;
	if (e->readable)
		return e->readable;
	copy = readable_copy(name, length);
	readable = copy ? demangle_intern(d, copy, strlen(copy)) : e->text;
	free(copy);
	/* Interning may have moved the entry. */
	e = find_or_add(d, name, length);
	if (e && readable)
		e->readable = readable;
	return readable;
}
