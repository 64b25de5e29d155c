/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects of CPython: see python_code.h.
 *
 * A code object gets a number when it is first seen on a stack. The address of a frame is
 *
 *	 63 62 61           24 23           0
 *	| 0| 1|  code's number | instruction |  + 1
 *
 * and its place (function, file, line) goes to the spool once. A code object may die and another one
 * take its memory: what identifies it (its names, first line, table of lines) is compared each time,
 * and a difference makes a new number. In exact mode each free is seen, so that an object which has
 * been compared need not be again until its memory is freed: python_code_freed().
 *
 * All functions run in a thread that has the code object on its own stack of frames, so that the
 * object and its strings are alive.
 */
#include "agent/python/python_code.h"

#include "agent/cpu/sys.h"
#include "agent/records.h"

#define INSTRUCTION_BITS 24
#define NUMBER_MOST	 ((1ull << (62 - INSTRUCTION_BITS)) - 1)
#define CODES_FIRST	 4096u
#define CHUNK_BYTES	 (1u << 20)
#define NAME_BYTES	 512u
#define LINES_MOST	 (16u << 20) /* bytes of a table of lines */

struct python_layout python_layout;
const void *python_code_type;

/* A code object as it was when it got its number. */
struct code {
	const char *object;
	uintptr_t file, name, lines;
	uint64_t hash; /* of the table of lines, the name, the first line */
	uint64_t number;
	uint64_t units;		   /* instructions */
	_Atomic uint32_t compared; /* frees_number then; 0: freed since */
	_Atomic uint8_t known[];   /* bits: the place of this instruction is in the spool */
};

/* By the object's address: open addressing, about half full at most. Only a thread with the lock
 * puts something there. */
struct codes {
	uint64_t mask;
	_Atomic(struct code *) slot[];
};

static _Atomic uint32_t frees_number; /* see python_code_see_frees() */
_Atomic uint32_t python_code_frees;
_Atomic uint8_t python_code_filter[PYTHON_CODE_FILTER];

static _Atomic(struct codes *) table;
static struct agent_lock lock;
static uint64_t codes_used, codes_numbered;
static char *chunk;
static size_t chunk_left;

static inline uint32_t frees_seen(void)
{
	return atomic_load_explicit(&frees_number, memory_order_relaxed);
}

static inline uintptr_t word_at(const char *object, size_t offset)
{
	return *(const uintptr_t *)(object + offset);
}

static inline uint64_t size_of(const char *object)
{
	return word_at(object, 16); /* ob_size, and the length of a string */
}

static inline uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

#define BYTES_DATA 32 /* in a bytes object */
#define TEXT_HASH  24 /* in a string */
#define TEXT_STATE 32

/* A long table of lines is represented by 16 words at equal distances and the last one. */
static uint64_t hash_of(const char *object)
{
	const char *lines = (const char *)word_at(object, python_layout.code_linetable);
	const char *at = lines + BYTES_DATA;
	uint64_t size = size_of(lines), step = 8 * (1 + size / 128), k = 0;
	uint64_t hash = mix(*(const uint32_t *)(object + python_layout.code_firstlineno), size);

	for (; k + 8 <= size; k += step)
		hash = mix(hash, word_at(at, k));
	if (size >= 8)
		hash = mix(hash, word_at(at, size - 8));
	for (k = 0; size < 8 && k < size; k++)
		hash = mix(hash, (uint8_t)at[k]);
	return mix(hash,
		   word_at((const char *)word_at(object, python_layout.code_qualname), TEXT_HASH));
}

/* Memory that is never given back. */
static void *take(size_t bytes)
{
	void *taken;

	bytes = (bytes + 7) & -(size_t)8;
	if (bytes > CHUNK_BYTES / 4)
		return agent_sandboxed ? NULL : sys_memory(bytes);
	if (bytes > chunk_left) {
		chunk = agent_sandboxed ? NULL : sys_memory(CHUNK_BYTES);
		chunk_left = chunk ? CHUNK_BYTES : 0;
		if (!chunk)
			return NULL;
	}
	taken = chunk;
	chunk += bytes;
	chunk_left -= bytes;
	return taken;
}

static uint64_t first_slot(const char *object)
{
	return (uintptr_t)object * 0x9e3779b97f4a7c15u >> 32;
}

/* The slot of the object, or the free one for it. */
static _Atomic(struct code *) *slot_of(struct codes *t, const char *object)
{
	for (uint64_t i = first_slot(object);; i++) {
		_Atomic(struct code *) *slot = &t->slot[i & t->mask];
		struct code *there = atomic_load_explicit(slot, memory_order_acquire);

		if (!there || there->object == object)
			return slot;
	}
}

/* The table with room for one more. The old one stays for threads that are in it. */
static struct codes *room_for_one(void)
{
	struct codes *old = atomic_load(&table), *larger;
	uint64_t slots = old ? 2 * (old->mask + 1) : CODES_FIRST;

	if (old && 2 * (codes_used + 1) <= old->mask)
		return old;
	larger = agent_sandboxed ? NULL : sys_memory(sizeof(*larger) + slots * sizeof(void *));
	if (!larger)
		return NULL;
	larger->mask = slots - 1;
	for (uint64_t i = 0; old && i <= old->mask; i++) {
		struct code *c = atomic_load(&old->slot[i]);

		if (c)
			atomic_store(slot_of(larger, c->object), c);
	}
	atomic_store(&table, larger);
	return larger;
}

static struct code *add_code(const struct code *seen)
{
	struct codes *t = room_for_one();
	_Atomic(struct code *) *slot;
	struct code *added;

	if (!t || codes_numbered == NUMBER_MOST)
		return NULL;
	added = take(sizeof(*added) + seen->units / 8 + 1);
	if (!added)
		return NULL;
	added->object = seen->object;
	added->file = seen->file;
	added->name = seen->name;
	added->lines = seen->lines;
	added->hash = seen->hash;
	added->units = seen->units;
	added->number = codes_numbered++;
	slot = slot_of(t, seen->object);
	codes_used += !atomic_load(slot);
	atomic_store(&python_code_filter[python_code_filtered(seen->object)], 1);
	atomic_store_explicit(slot, added, memory_order_release);
	return added;
}

static bool same_code(const struct code *a, const struct code *b)
{
	return a->file == b->file && a->name == b->name && a->lines == b->lines &&
	       a->hash == b->hash && a->units == b->units;
}

/* NULL: there is no memory. `there` is what the table has for the object, or NULL. */
static __attribute__((noinline)) struct code *compare_code(struct code *there, const char *object)
{
	struct code seen = {
	    .object = object,
	    .file = word_at(object, python_layout.code_filename),
	    .name = word_at(object, python_layout.code_qualname),
	    .lines = word_at(object, python_layout.code_linetable),
	    .units = size_of(object),
	    .hash = hash_of(object),
	};

	if (LIKELY(there && same_code(there, &seen))) {
		atomic_store_explicit(&there->compared, frees_seen(), memory_order_relaxed);
		return there;
	}
	if (!agent_lock(&lock))
		return NULL;
	there = add_code(&seen);
	agent_unlock(&lock);
	return there;
}

static inline struct code *find_code(const char *object)
{
	struct codes *t = atomic_load_explicit(&table, memory_order_acquire);
	struct code *there = t ? atomic_load(slot_of(t, object)) : NULL;
	uint32_t seen = frees_seen();

	if (LIKELY(seen && there &&
		   atomic_load_explicit(&there->compared, memory_order_relaxed) == seen))
		return there;
	return compare_code(there, object);
}

COLD void python_code_maybe_freed(const void *block)
{
	struct codes *t = atomic_load_explicit(&table, memory_order_acquire);
	struct code *there = t ? atomic_load(slot_of(t, block)) : NULL;

	if (!there)
		return;
	atomic_store_explicit(&there->compared, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&python_code_frees, 1, memory_order_release);
}

void python_code_see_frees(uint32_t number)
{
	atomic_store(&frees_number, number);
	atomic_fetch_add(&python_code_frees, 1);
}

COLD void python_code_forget_latest(struct python_code_latest *latest)
{
	latest->frees = atomic_load_explicit(&python_code_frees, memory_order_acquire);
	for (size_t k = 0; k < PYTHON_CODE_LATEST; k++)
		latest->of[k].code = NULL;
}

void python_code_forked(void)
{
	atomic_store(&lock.held, 0);
}

void python_code_forget(void)
{
	struct codes *t = atomic_load(&table);

	atomic_fetch_add(&python_code_frees, 1);
	for (uint64_t i = 0; t && i <= t->mask; i++) {
		struct code *c = atomic_load(&t->slot[i]);

		for (uint64_t k = 0; c && k <= c->units / 8; k++)
			atomic_store_explicit(&c->known[k], 0, memory_order_relaxed);
	}
}

/* ---- texts ---- */

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 63));
		out[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | (c >> 18 & 7));
	out[1] = (char)(0x80 | (c >> 12 & 63));
	out[2] = (char)(0x80 | (c >> 6 & 63));
	out[3] = (char)(0x80 | (c & 63));
	return 4;
}

/* Copies a string object as UTF-8. Of a long one the end is kept if it is a path. */
static void copy_text(char *out, const char *text, bool keep_end)
{
	uint32_t state = *(const uint32_t *)(text + TEXT_STATE);
	uint32_t kind = state >> 2 & 7;
	bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
	uint64_t length = size_of(text), from = 0;
	const char *data = text + (ascii ? python_layout.text : python_layout.wide_text);
	size_t used = 0;

	if (!compact)
		length = 0;
	if (keep_end && length > NAME_BYTES / 4)
		from = ascii && length < NAME_BYTES ? 0 : length - NAME_BYTES / 4;
	for (uint64_t i = from; i < length && used + 5 < NAME_BYTES; i++) {
		uint32_t c = kind == 1	 ? ((const uint8_t *)data)[i]
			     : kind == 2 ? ((const uint16_t *)data)[i]
					 : ((const uint32_t *)data)[i];

		used += put_utf8(out + used, c);
	}
	out[used] = 0;
}

/* ---- lines ---- */

static uint32_t read_number(const uint8_t **at, const uint8_t *end)
{
	uint32_t number = 0, shift = 0;

	while (*at < end) {
		uint8_t byte = *(*at)++;

		number |= (uint32_t)(byte & 63) << shift;
		shift += 6;
		if (!(byte & 64) || shift > 30)
			break;
	}
	return number;
}

static int32_t read_signed(const uint8_t **at, const uint8_t *end)
{
	uint32_t number = read_number(at, end);

	return number & 1 ? -(int32_t)(number >> 1) : (int32_t)(number >> 1);
}

/*
 * The table has an entry for each run of 1 to 8 instructions. Its first byte is 1, 4 bits of kind, 3
 * bits of length; the columns that follow are skipped by the next byte whose top bit is set.
 */
enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NO_LINE = 15 };

static uint32_t line_of(const char *object, uint64_t unit)
{
	const char *lines = (const char *)word_at(object, python_layout.code_linetable);
	uint64_t length = size_of(lines), here = 0;
	const uint8_t *at = (const uint8_t *)lines + BYTES_DATA;
	const uint8_t *end = at + (length < LINES_MOST ? length : LINES_MOST);
	int32_t line = *(const int32_t *)(object + python_layout.code_firstlineno);

	while (at < end) {
		uint32_t kind = *at >> 3 & 15;

		here += (*at++ & 7) + 1;
		if (kind == LONG || kind == NO_COLUMNS)
			line += read_signed(&at, end);
		else if (kind >= ONE_LINE && kind < NO_COLUMNS)
			line += (int32_t)kind - ONE_LINE;
		if (here > unit)
			return kind == NO_LINE || line < 0 ? 0 : (uint32_t)line;
		while (at < end && !(*at & 0x80))
			at++;
	}
	return 0;
}

static COLD void write_place(struct writer *w, const char *object, uint64_t address, uint64_t unit)
{
	char function[NAME_BYTES], file[NAME_BYTES];
	struct records_place place = {function, file, line_of(object, unit), 0, 0};

	copy_text(function, (const char *)word_at(object, python_layout.code_qualname), false);
	copy_text(file, (const char *)word_at(object, python_layout.code_filename), true);
	records_place(w, agent_ticks(), address, &place, 1);
}

uint64_t python_code_find(struct writer *w, struct python_code_latest *latest, const char *object,
			  uintptr_t instruction)
{
	size_t k = instruction / 2 % PYTHON_CODE_LATEST;
	bool keep = frees_seen() != 0;
	uint64_t unit = (instruction - (uintptr_t)object - python_layout.code_bytecode) / 2;
	struct code *code;
	uint64_t address;
	uint8_t bit;

	/* Without references it is being taken apart, and its strings may be gone. */
	if (!object || (uintptr_t)object & 7 || word_at(object, 0) == 0 ||
	    word_at(object, 8) != (uintptr_t)python_code_type)
		return 0;
	code = find_code(object);
	if (!code)
		return 0;
	if (unit >= code->units) /* before the first one */
		unit = 0;
	if (unit >> INSTRUCTION_BITS)
		unit = (1u << INSTRUCTION_BITS) - 1;
	address = (SPOOL_CODE_PYTHON | code->number << INSTRUCTION_BITS | unit) + 1;
	bit = (uint8_t)(1u << (unit & 7));
	if (UNLIKELY(!(atomic_load_explicit(&code->known[unit / 8], memory_order_relaxed) & bit))) {
		atomic_fetch_or(&code->known[unit / 8], bit);
		write_place(w, object, address, unit);
	}
	if (keep) {
		latest->of[k].code = object;
		latest->of[k].instruction = instruction;
		latest->of[k].address = address;
	}
	return address;
}
