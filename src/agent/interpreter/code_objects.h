/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of an interpreted program as addresses: see code_objects.c.
 *
 * All functions run in a thread that has the code object on its own stack of frames, so that the
 * object is alive.
 */
#ifndef MAYFLY_CODE_OBJECTS_H
#define MAYFLY_CODE_OBJECTS_H

#include "agent/spool.h"

/* What tells a code object from a later one in the same memory. */
struct code_seen {
	const void *object;
	uintptr_t part[3]; /* addresses of what it consists of */
	uint64_t hash;	   /* of names and lines */
	uint64_t units;	   /* instructions */
};

/* A code object as it was when it got its number. */
struct code {
	struct code_seen seen;
	uint64_t number;
	_Atomic uint32_t compared; /* in which version; 0: freed since */
	_Atomic uint8_t known[];   /* bits: the place of this instruction is in the spool */
};
#define CODES_INSTRUCTION_BITS 24

static inline uint64_t codes_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

/* Addresses that were found lately: of one writer, zero-initialised by its owner. They are good for one
 * version, which the language chooses, and until codes_changes changes. */
#define CODES_LATEST 256u
struct codes_latest {
	uint32_t version, changes;
	struct {
		const void *object;
		uintptr_t instruction;
		uint64_t address;
	} of[CODES_LATEST];
};

/* Changes when a known code object is freed, by codes_see_frees() and codes_forget(). */
HIDDEN extern _Atomic uint32_t codes_changes;

void codes_forget_latest(struct codes_latest *latest, uint32_t version);

/* To be called before the addresses of each stack. */
static inline void codes_begin(struct codes_latest *latest, uint32_t version)
{
	if (UNLIKELY(latest->changes !=
			 atomic_load_explicit(&codes_changes, memory_order_acquire) ||
		     latest->version != version))
		codes_forget_latest(latest, version);
}

/* 0: it is not among them. */
static inline uint64_t codes_latest_address(const struct codes_latest *latest, const void *object,
					    uintptr_t instruction)
{
	size_t k = instruction / 2 % CODES_LATEST;

	if (LIKELY(latest->of[k].object == object && latest->of[k].instruction == instruction))
		return latest->of[k].address;
	return 0;
}

static inline void codes_keep_latest(struct codes_latest *latest, const void *object,
				     uintptr_t instruction, uint64_t address)
{
	size_t k = instruction / 2 % CODES_LATEST;

	latest->of[k].object = object;
	latest->of[k].instruction = instruction;
	latest->of[k].address = address;
}

/* By the object's address: open addressing, about half full at most. Only code_objects.c puts something
 * there. */
struct codes {
	uint64_t mask;
	_Atomic(struct code *) slot[];
};
HIDDEN extern _Atomic(struct codes *) codes_table;

/* The slot of the object, or the free one for it. */
static inline _Atomic(struct code *) *codes_slot(struct codes *t, const void *object)
{
	for (uint64_t i = (uintptr_t)object * 0x9e3779b97f4a7c15u >> 32;; i++) {
		_Atomic(struct code *) *slot = &t->slot[i & t->mask];
		struct code *there = atomic_load_explicit(slot, memory_order_acquire);

		if (!there || there->seen.object == object)
			return slot;
	}
}

static inline struct code *codes_find(const void *object)
{
	struct codes *t = atomic_load_explicit(&codes_table, memory_order_acquire);

	return t ? atomic_load(codes_slot(t, object)) : NULL;
}

/* The object's code if it was compared in this version, and not freed since; NULL: it must be compared.
 * version 0: always. */
static inline struct code *codes_known(const void *object, uint32_t version)
{
	struct code *there = version ? codes_find(object) : NULL;

	if (there && atomic_load_explicit(&there->compared, memory_order_relaxed) == version)
		return there;
	return NULL;
}

static inline bool codes_same(const struct code_seen *a, const struct code_seen *b)
{
	return a->part[0] == b->part[0] && a->part[1] == b->part[1] && a->part[2] == b->part[2] &&
	       a->hash == b->hash && a->units == b->units;
}

struct code *codes_add(const struct code_seen *seen);

/* The code of an object that has been looked at in this version. NULL: there is no memory. */
static inline struct code *codes_compared(const struct code_seen *seen, uint32_t version)
{
	struct code *there = codes_find(seen->object);

	if (UNLIKELY(!there || !codes_same(&there->seen, seen)))
		return codes_add(seen);
	atomic_store_explicit(&there->compared, version, memory_order_relaxed);
	return there;
}

/* The address that stands for an instruction; *unit is changed to 0 if the code has no such. *is_new: its
 * place must be written to the spool. */
static inline uint64_t codes_address(struct code *code, uint64_t *unit, bool *is_new)
{
	uint64_t at = *unit < code->seen.units ? *unit : 0; /* before the first one */
	uint8_t bit;

	if (at >> CODES_INSTRUCTION_BITS)
		at = (1u << CODES_INSTRUCTION_BITS) - 1;
	bit = (uint8_t)(1u << (at & 7));
	*is_new = !(atomic_load_explicit(&code->known[at / 8], memory_order_relaxed) & bit);
	if (UNLIKELY(*is_new))
		atomic_fetch_or(&code->known[at / 8], bit);
	*unit = at;
	return (SPOOL_CODE_INTERPRETED | code->number << CODES_INSTRUCTION_BITS | at) + 1;
}

/* For a language that tells of each free of an object by codes_freed(). number: another one each time
 * that this begins, and the version to compare in; 0: it ends. */
void codes_see_frees(uint32_t number);
HIDDEN extern _Atomic uint32_t codes_frees_number;

static inline uint32_t codes_frees_seen(void)
{
	return atomic_load_explicit(&codes_frees_number, memory_order_relaxed);
}

/* By bits of the address: there may be a known code object. */
#define CODES_FILTER 4096u
HIDDEN extern _Atomic uint8_t codes_filter[CODES_FILTER];

static inline uint32_t codes_filtered(const void *block)
{
	return (uint32_t)(uintptr_t)block >> 4 & (CODES_FILTER - 1);
}

void codes_maybe_freed(const void *block);

/* An object is about to be freed. */
static inline void codes_freed(const void *block)
{
	if (UNLIKELY(!cpu_is_zero(&codes_filter[codes_filtered(block)])))
		codes_maybe_freed(block);
}

/* In a forked child: the thread that had the lock may not be there. */
void codes_forked(void);
/* The spool is another one, which has no places yet. */
void codes_forget(void);

#endif
