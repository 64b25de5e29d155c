/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of loaded objects.
 *
 *	recent[hash of start] --+
 *	                        v
 *	nodes[0 .. count) --> node: range, bias, link map, fingerprint, path, build-id; live or not
 *
 * Readers take no lock: they compare a node's words with what the loader says. One writer at a time
 * holds `busy`; others wait, and their objects stay mapped, as their code is on the stack. Nodes
 * are never given back, but the node of an unloaded object is used again: a reader that finds it
 * half written sees a difference and becomes a writer, which is always correct.
 *
 * Memory is a fixed arena in .bss (untouched pages cost nothing): no system call, so that new
 * objects can be noted inside a sandbox as well.
 */
#include "agent/unwind/modules.h"

#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

#define NODES_MAX     4096
#define RECENT_BITS   8
#define PATIENCE      1000000u /* looks at a taken lock: some 50 ms */
#define ARENA_BYTES   (1u << 20)
#define BUILD_ID_MAX  64
#define PATH_BYTES    4096
#define FIRST_PAGE    CPU_PAGE_LEAST
#define NOTE_MAX      65536u
#define PATH_ROUNDING 64u

extern __typeof(_dl_find_object) _dl_find_object __attribute__((weak));

/* All words are atomic because a reader may look while the node is used again. */
struct node {
	_Atomic uint64_t start, end;
	_Atomic(const struct link_map *) map;
	_Atomic uint64_t words;	      /* of what the loader says, quick to get */
	_Atomic uint64_t fingerprint; /* of that, the path and the build-id */
	_Atomic bool live;
	uint64_t bias;
	char *path;
	uint32_t path_capacity;
	uint32_t build_id_length;
	uint8_t build_id[BUILD_ID_MAX];
};

static _Atomic(struct node *) nodes[NODES_MAX];
static _Atomic uint32_t count;
static _Atomic(struct node *) recent[1u << RECENT_BITS];
static _Atomic bool busy;

static void (*watch_seen)(const struct module *);
static void (*watch_gone)(uint64_t start);

static _Alignas(64) char arena[ARENA_BYTES];
static size_t arena_used;
static char program_path[PATH_BYTES];

struct headers {
	const Elf64_Phdr *first;
	unsigned count;
};

static struct headers program_headers;

/* What is known of an object before it has a node. */
struct description {
	const struct dl_find_object *found;
	const char *path;
	size_t path_length;
	const uint8_t *build_id;
	size_t build_id_length;
	uint64_t fingerprint;
};

void modules_init(void)
{
	long length = sys_readlinkat(AT_FDCWD, "/proc/self/exe", program_path, PATH_BYTES - 1);

	program_path[sys_failed(length) ? 0 : length] = 0;
	program_headers.first = (const Elf64_Phdr *)getauxval(AT_PHDR);
	program_headers.count = (unsigned)getauxval(AT_PHNUM);
}

/* ---- the object's own bytes ---- */

/* The readable segment that holds this range of the file's addresses. */
static const Elf64_Phdr *segment_of(const struct headers *headers, uint64_t vaddr, uint64_t length)
{
	for (unsigned i = 0; i < headers->count; i++) {
		const Elf64_Phdr *h = &headers->first[i];

		if (h->p_type == PT_LOAD && h->p_flags & PF_R && vaddr >= h->p_vaddr &&
		    vaddr - h->p_vaddr <= h->p_filesz &&
		    length <= h->p_filesz - (vaddr - h->p_vaddr))
			return h;
	}
	return NULL;
}

static bool find_in_notes(const uint8_t *note, uint64_t left, struct description *d)
{
	Elf64_Nhdr head;

	while (left >= sizeof(head)) {
		uint64_t name, text;

		__builtin_memcpy(&head, note, sizeof(head));
		name = ((uint64_t)head.n_namesz + 3) & ~3ull;
		text = ((uint64_t)head.n_descsz + 3) & ~3ull;
		left -= sizeof(head);
		note += sizeof(head);
		if (name > left || head.n_descsz > left - name)
			return false;
		if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
		    !__builtin_memcmp(note, "GNU", 4) && head.n_descsz <= BUILD_ID_MAX) {
			d->build_id = note + name;
			d->build_id_length = head.n_descsz;
			return true;
		}
		if (text > left - name)
			return false;
		note += name + text;
		left -= name + text;
	}
	return false;
}

/* The program headers after the ELF header at base, all in one page, which is mapped. */
static bool headers_at(const uint8_t *base, struct headers *h)
{
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)base;

	if ((uintptr_t)base % FIRST_PAGE != 0 ||
	    __builtin_memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_phentsize != sizeof(*h->first) ||
	    elf->e_phoff > FIRST_PAGE || elf->e_phoff % 8 != 0 ||
	    elf->e_phnum > (FIRST_PAGE - elf->e_phoff) / sizeof(*h->first))
		return false;
	h->first = (const Elf64_Phdr *)(base + elf->e_phoff);
	h->count = elf->e_phnum;
	return true;
}

/* The loader's range is the whole object if its segments have no holes between them: then it begins
 * with the ELF header. Otherwise it is one segment. */
static bool find_headers(const struct dl_find_object *found, struct headers *h)
{
	const struct link_map *map = found->dlfo_link_map;
	struct dl_find_object first;

	if (map->l_name && map->l_name[0] == 0 && program_headers.first) {
		*h = program_headers;
		return true;
	}
	if (headers_at(found->dlfo_map_start, h))
		return true;
	return map->l_addr != 0 && _dl_find_object((void *)map->l_addr, &first) == 0 &&
	       first.dlfo_link_map == map && headers_at((const uint8_t *)map->l_addr, h);
}

static void find_build_id(struct description *d)
{
	uint64_t bias = d->found->dlfo_link_map->l_addr;
	struct headers headers;

	if (!find_headers(d->found, &headers))
		return;
	for (unsigned i = 0; i < headers.count; i++) {
		const Elf64_Phdr *h = &headers.first[i];

		if (h->p_type != PT_NOTE || h->p_filesz > NOTE_MAX ||
		    !segment_of(&headers, h->p_vaddr, h->p_filesz))
			continue;
		if (find_in_notes((const uint8_t *)(bias + h->p_vaddr), h->p_filesz, d))
			return;
	}
}

bool modules_segment(const struct dl_find_object *found, uint64_t address, uint64_t *start,
		     uint64_t *end)
{
	uint64_t bias = found->dlfo_link_map->l_addr;
	const Elf64_Phdr *segment = NULL;
	struct headers headers;

	if (find_headers(found, &headers))
		segment = segment_of(&headers, address - bias, 0);
	if (!segment)
		return false;
	*start = bias + segment->p_vaddr;
	*end = *start + segment->p_filesz;
	return true;
}

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	uint64_t word;

	for (; length >= 8; length -= 8, at += 8) {
		__builtin_memcpy(&word, at, 8);
		hash = hash_word(hash, word);
	}
	for (word = length; length; length--)
		word = word << 8 | *at++;
	return hash_word(hash, word);
}

static uint64_t words_of(const struct dl_find_object *found)
{
	const struct link_map *map = found->dlfo_link_map;
	uint64_t hash = hash_word((uintptr_t)map->l_ld, (uintptr_t)found->dlfo_eh_frame);

	return hash_word(hash, (uintptr_t)map->l_name);
}

static void describe(const struct dl_find_object *found, struct description *d)
{
	const struct link_map *map = found->dlfo_link_map;

	__builtin_memset(d, 0, sizeof(*d));
	d->found = found;
	d->path = map->l_name && map->l_name[0] ? map->l_name : program_path;
	while (d->path_length < PATH_BYTES - 1 && d->path[d->path_length])
		d->path_length++;
	find_build_id(d);
	d->fingerprint = hash_bytes(words_of(found), d->path, d->path_length);
	d->fingerprint = hash_bytes(d->fingerprint, d->build_id, d->build_id_length);
}

/* ---- readers ---- */

static _Atomic(struct node *) *recent_of(uint64_t start)
{
	return &recent[(start >> 12) * 0x9e3779b97f4a7c15u >> (64 - RECENT_BITS)];
}

static bool is_there(struct node *node, const struct dl_find_object *found)
{
	return atomic_load_explicit(&node->live, memory_order_acquire) &&
	       atomic_load_explicit(&node->start, memory_order_relaxed) ==
		   (uintptr_t)found->dlfo_map_start &&
	       atomic_load_explicit(&node->end, memory_order_relaxed) ==
		   (uintptr_t)found->dlfo_map_end &&
	       atomic_load_explicit(&node->map, memory_order_relaxed) == found->dlfo_link_map;
}

static bool is_node_of(struct node *node, const struct description *d)
{
	return is_there(node, d->found) &&
	       atomic_load_explicit(&node->fingerprint, memory_order_relaxed) == d->fingerprint;
}

/* The usual case, without a look at the object's own bytes, which may be in no cache. Two objects
 * that are alike in all this are told apart after a dlclose, by modules_check(). */
static bool is_recent(const struct dl_find_object *found)
{
	struct node *node =
	    atomic_load_explicit(recent_of((uintptr_t)found->dlfo_map_start), memory_order_acquire);

	return node && is_there(node, found) &&
	       atomic_load_explicit(&node->words, memory_order_relaxed) == words_of(found);
}

static bool is_known(const struct description *d)
{
	uint64_t start = (uintptr_t)d->found->dlfo_map_start;
	struct node *node = atomic_load_explicit(recent_of(start), memory_order_acquire);
	uint32_t n = atomic_load_explicit(&count, memory_order_acquire);

	if (node && is_node_of(node, d))
		return true;
	for (uint32_t i = 0; i < n; i++) {
		node = atomic_load_explicit(&nodes[i], memory_order_acquire);
		if (is_node_of(node, d)) {
			atomic_store_explicit(recent_of(start), node, memory_order_release);
			return true;
		}
	}
	return false;
}

/* ---- the writer ---- */

static void *carve_node(size_t bytes)
{
	void *piece;

	bytes = (bytes + 15) & ~(size_t)15;
	if (bytes > ARENA_BYTES - arena_used)
		return NULL;
	piece = arena + arena_used;
	arena_used += bytes;
	return piece;
}

/* A node that is not in use, with room for the path. */
static struct node *vacant_node(size_t path_bytes)
{
	uint32_t n = atomic_load_explicit(&count, memory_order_relaxed);
	size_t capacity = (path_bytes + PATH_ROUNDING - 1) / PATH_ROUNDING * PATH_ROUNDING;
	struct node *node;

	for (uint32_t i = 0; i < n; i++) {
		node = atomic_load_explicit(&nodes[i], memory_order_relaxed);
		if (!atomic_load_explicit(&node->live, memory_order_relaxed) &&
		    node->path_capacity >= path_bytes)
			return node;
	}
	if (n == NODES_MAX)
		return NULL;
	node = carve_node(sizeof(*node) + capacity);
	if (!node)
		return NULL;
	node->path = (char *)(node + 1);
	node->path_capacity = (uint32_t)capacity;
	atomic_store_explicit(&nodes[n], node, memory_order_release);
	atomic_store_explicit(&count, n + 1, memory_order_release);
	return node;
}

static void tell_node(struct node *node, void (*seen)(const struct module *))
{
	struct module m = {
	    .start = atomic_load_explicit(&node->start, memory_order_relaxed),
	    .end = atomic_load_explicit(&node->end, memory_order_relaxed),
	    .bias = node->bias,
	    .path = node->path,
	    .build_id = node->build_id,
	    .build_id_length = node->build_id_length,
	};

	seen(&m);
}

static void retire_node(struct node *node)
{
	atomic_store_explicit(&node->live, false, memory_order_release);
	if (watch_gone)
		watch_gone(atomic_load_explicit(&node->start, memory_order_relaxed));
}

/* Retires all nodes whose ranges overlap the object's. */
static bool retire_overlapping(const struct dl_find_object *found)
{
	uint64_t start = (uintptr_t)found->dlfo_map_start, end = (uintptr_t)found->dlfo_map_end;
	uint32_t n = atomic_load_explicit(&count, memory_order_relaxed);
	bool any = false;

	for (uint32_t i = 0; i < n; i++) {
		struct node *node = atomic_load_explicit(&nodes[i], memory_order_relaxed);

		if (!atomic_load_explicit(&node->live, memory_order_relaxed) ||
		    atomic_load_explicit(&node->start, memory_order_relaxed) >= end ||
		    atomic_load_explicit(&node->end, memory_order_relaxed) <= start)
			continue;
		retire_node(node);
		any = true;
	}
	return any;
}

static bool enter_node(const struct description *d)
{
	const struct dl_find_object *found = d->found;
	uint64_t start = (uintptr_t)found->dlfo_map_start;
	bool replaced = retire_overlapping(found);
	struct node *node = vacant_node(d->path_length + 1);

	if (!node)
		return replaced;
	__builtin_memcpy(node->path, d->path, d->path_length);
	node->path[d->path_length] = 0;
	__builtin_memcpy(node->build_id, d->build_id, d->build_id_length);
	node->build_id_length = (uint32_t)d->build_id_length;
	node->bias = found->dlfo_link_map->l_addr;
	atomic_store_explicit(&node->start, start, memory_order_relaxed);
	atomic_store_explicit(&node->end, (uintptr_t)found->dlfo_map_end, memory_order_relaxed);
	atomic_store_explicit(&node->map, found->dlfo_link_map, memory_order_relaxed);
	atomic_store_explicit(&node->words, words_of(found), memory_order_relaxed);
	atomic_store_explicit(&node->fingerprint, d->fingerprint, memory_order_relaxed);
	atomic_store_explicit(&node->live, true, memory_order_release);
	atomic_store_explicit(recent_of(start), node, memory_order_release);
	if (watch_seen)
		tell_node(node, watch_seen);
	return replaced;
}

/* ---- the lock ---- */

static bool try_lock(void)
{
	return !atomic_exchange_explicit(&busy, true, memory_order_acquire);
}

static void unlock(void)
{
	atomic_store(&busy, false);
}

/* ---- interface ---- */

bool modules_note(const struct dl_find_object *found)
{
	struct description d;
	bool replaced = false;

	if (is_recent(found))
		return false;
	describe(found, &d);
	if (is_known(&d))
		return false;
	/* The object has code on this thread's stack, so it stays mapped while we wait. */
	for (unsigned i = 0; !try_lock(); i++) {
		if (i == PATIENCE)
			return false;
		cpu_relax();
	}
	if (!is_known(&d))
		replaced = enter_node(&d);
	unlock();
	return replaced;
}

/* Is the node's object still what the loader has there? Only the loader's own words are compared:
 * another thread may be unmapping the object itself right now. One that has taken its place with
 * all the same words is found out when its code is first met. */
static bool is_mapped(struct node *node)
{
	uint64_t start = atomic_load_explicit(&node->start, memory_order_relaxed);
	struct dl_find_object found;

	return _dl_find_object((void *)start, &found) == 0 &&
	       (uintptr_t)found.dlfo_map_start == start &&
	       (uintptr_t)found.dlfo_map_end ==
		   atomic_load_explicit(&node->end, memory_order_relaxed) &&
	       found.dlfo_link_map == atomic_load_explicit(&node->map, memory_order_relaxed);
}

void modules_check(void)
{
	uint32_t n;

	if (!try_lock())
		return; /* the holder meets the replaced objects one by one */
	n = atomic_load_explicit(&count, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++) {
		struct node *node = atomic_load_explicit(&nodes[i], memory_order_relaxed);

		if (atomic_load_explicit(&node->live, memory_order_relaxed) && !is_mapped(node))
			retire_node(node);
	}
	unlock();
}

/* With the lock: a node that is used again meanwhile would be told half old, half new. */
bool modules_each(void (*seen)(const struct module *))
{
	uint32_t n;

	if (!try_lock())
		return false;
	n = atomic_load_explicit(&count, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++) {
		struct node *node = atomic_load_explicit(&nodes[i], memory_order_acquire);

		if (atomic_load_explicit(&node->live, memory_order_acquire))
			tell_node(node, seen);
	}
	unlock();
	return true;
}

void modules_watch(void (*seen)(const struct module *), void (*gone)(uint64_t start))
{
	watch_seen = seen;
	watch_gone = gone;
}

void modules_forked(void)
{
	atomic_store(&busy, false);
}
