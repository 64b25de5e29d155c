/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of loaded objects.
 *
 *	recent[hash of start] --+
 *	                        v
 *	nodes[0 .. count) --> node: range, bias, link map, fingerprint, path, build-id; live or not
 *
 * Readers compare a node's words with what the loader says and take no lock. One writer at a time
 * holds `busy`; who finds it taken leaves the object's address in pending[], which the holder
 * empties before and after it lets go, so that nothing is missed. Nodes are never given back, but
 * one of an unloaded object is used again: a reader who meets it half written sees a difference
 * and becomes a writer, which is right in any case.
 *
 * Memory is a fixed arena in .bss (untouched pages cost nothing): no system call, so that new
 * objects can be noted inside a sandbox as well.
 */
#include "agent/modules.h"

#include "agent/cpu.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#define NODES_MAX     4096
#define RECENT_BITS   8
#define PENDING_MAX   16
#define ARENA_BYTES   (1u << 20)
#define BUILD_ID_MAX  64
#define PATH_BYTES    4096
#define FIRST_PAGE    4096u
#define NOTE_MAX      65536u
#define PATH_ROUNDING 64u

extern __typeof(_dl_find_object) _dl_find_object __attribute__((weak));

/* All words are atomic because a reader may look while the node is used again. */
struct node {
	_Atomic uint64_t start, end;
	_Atomic(const struct link_map *) map;
	_Atomic uint64_t fingerprint; /* of what the loader and the object's own bytes say */
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
static _Atomic uint64_t pending[PENDING_MAX];
static _Atomic bool busy;

static _Alignas(64) char arena[ARENA_BYTES];
static size_t arena_used;
static char program_path[PATH_BYTES];

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
}

/* ---- the object's own bytes ---- */

static bool inside(const struct dl_find_object *found, uint64_t address, uint64_t length)
{
	uint64_t start = (uintptr_t)found->dlfo_map_start, end = (uintptr_t)found->dlfo_map_end;

	return address >= start && address <= end && length <= end - address;
}

/* Is this range of addresses in a readable segment? */
static bool is_loaded(const Elf64_Phdr *headers, unsigned n, uint64_t vaddr, uint64_t length)
{
	for (unsigned i = 0; i < n; i++) {
		const Elf64_Phdr *h = &headers[i];

		if (h->p_type == PT_LOAD && h->p_flags & PF_R && vaddr >= h->p_vaddr &&
		    vaddr - h->p_vaddr <= h->p_filesz &&
		    length <= h->p_filesz - (vaddr - h->p_vaddr))
			return true;
	}
	return false;
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

/* The ELF header, where there is one, is the first thing of the first page that is mapped. */
static void find_build_id(struct description *d)
{
	const struct dl_find_object *found = d->found;
	const uint8_t *base = found->dlfo_map_start;
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)base;
	const Elf64_Phdr *headers;
	uint64_t bias = found->dlfo_link_map->l_addr;

	if (!inside(found, (uintptr_t)base, FIRST_PAGE) ||
	    __builtin_memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_phentsize != sizeof(*headers) ||
	    elf->e_phoff > FIRST_PAGE || elf->e_phoff % 8 != 0 ||
	    elf->e_phnum > (FIRST_PAGE - elf->e_phoff) / sizeof(*headers))
		return;
	headers = (const Elf64_Phdr *)(base + elf->e_phoff);
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		const Elf64_Phdr *h = &headers[i];

		if (h->p_type != PT_NOTE || h->p_filesz > NOTE_MAX ||
		    !is_loaded(headers, elf->e_phnum, h->p_vaddr, h->p_filesz) ||
		    !inside(found, bias + h->p_vaddr, h->p_filesz))
			continue;
		if (find_in_notes((const uint8_t *)(bias + h->p_vaddr), h->p_filesz, d))
			return;
	}
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	uint64_t word;

	for (; length >= 8; length -= 8, at += 8) {
		__builtin_memcpy(&word, at, 8);
		hash = mix(hash, word);
	}
	for (word = length; length; length--)
		word = word << 8 | *at++;
	return mix(hash, word);
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
	d->fingerprint = mix((uintptr_t)map->l_ld, (uintptr_t)found->dlfo_eh_frame);
	d->fingerprint = mix_bytes(d->fingerprint, d->path, d->path_length);
	d->fingerprint = mix_bytes(d->fingerprint, d->build_id, d->build_id_length);
}

/* ---- readers ---- */

static _Atomic(struct node *) *recent_of(uint64_t start)
{
	return &recent[(start >> 12) * 0x9e3779b97f4a7c15u >> (64 - RECENT_BITS)];
}

static bool is_node_of(struct node *node, const struct description *d)
{
	const struct dl_find_object *found = d->found;

	return atomic_load_explicit(&node->live, memory_order_acquire) &&
	       atomic_load_explicit(&node->start, memory_order_relaxed) ==
		   (uintptr_t)found->dlfo_map_start &&
	       atomic_load_explicit(&node->end, memory_order_relaxed) ==
		   (uintptr_t)found->dlfo_map_end &&
	       atomic_load_explicit(&node->map, memory_order_relaxed) == found->dlfo_link_map &&
	       atomic_load_explicit(&node->fingerprint, memory_order_relaxed) == d->fingerprint;
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

static void *carve(size_t bytes)
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
	node = carve(sizeof(*node) + capacity);
	if (!node)
		return NULL;
	node->path = (char *)(node + 1);
	node->path_capacity = (uint32_t)capacity;
	atomic_store_explicit(&nodes[n], node, memory_order_release);
	atomic_store_explicit(&count, n + 1, memory_order_release);
	return node;
}

static void tell(struct node *node, void (*seen)(const struct module *))
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

static void retire(struct node *node)
{
	atomic_store_explicit(&node->live, false, memory_order_release);
	agent_module_gone(atomic_load_explicit(&node->start, memory_order_relaxed));
}

/* Retires all that lies where the object lies now. */
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
		retire(node);
		any = true;
	}
	return any;
}

static bool enter(const struct description *d)
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
	atomic_store_explicit(&node->fingerprint, d->fingerprint, memory_order_relaxed);
	atomic_store_explicit(&node->live, true, memory_order_release);
	atomic_store_explicit(recent_of(start), node, memory_order_release);
	tell(node, agent_module_seen);
	return replaced;
}

/* ---- the lock ---- */

static void leave_pending(uint64_t start)
{
	for (unsigned i = 0; i < PENDING_MAX; i++) {
		uint64_t empty = 0;

		if (atomic_compare_exchange_strong(&pending[i], &empty, start) || empty == start)
			return;
	}
}

static bool try_lock(void)
{
	return !atomic_exchange_explicit(&busy, true, memory_order_acquire);
}

static bool drain_pending(void)
{
	bool replaced = false;

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		uint64_t start = atomic_exchange(&pending[i], 0);
		struct dl_find_object found;
		struct description d;

		if (start == 0 || _dl_find_object((void *)start, &found) != 0)
			continue;
		describe(&found, &d);
		if (!is_known(&d))
			replaced |= enter(&d);
	}
	return replaced;
}

static bool has_pending(void)
{
	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (atomic_load(&pending[i]) != 0)
			return true;
	}
	return false;
}

static bool unlock(void)
{
	bool replaced = false;

	do {
		replaced |= drain_pending();
		atomic_store(&busy, false);
	} while (has_pending() && try_lock());
	return replaced;
}

/* ---- interface ---- */

bool modules_note(const struct dl_find_object *found)
{
	struct description d;
	bool replaced = false;

	describe(found, &d);
	if (is_known(&d))
		return false;
	if (!try_lock()) {
		leave_pending((uintptr_t)found->dlfo_map_start);
		/* The holder may have gone without seeing it. */
		return try_lock() ? unlock() : false;
	}
	if (!is_known(&d))
		replaced = enter(&d);
	return unlock() || replaced;
}

/* Is the node's object still what the loader has there? */
static bool is_mapped(struct node *node)
{
	uint64_t start = atomic_load_explicit(&node->start, memory_order_relaxed);
	struct dl_find_object found;
	struct description d;

	if (_dl_find_object((void *)start, &found) != 0)
		return false;
	describe(&found, &d);
	return is_node_of(node, &d);
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
			retire(node);
	}
	unlock();
}

void modules_each(void (*seen)(const struct module *))
{
	uint32_t n = atomic_load_explicit(&count, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++) {
		struct node *node = atomic_load_explicit(&nodes[i], memory_order_acquire);

		if (atomic_load_explicit(&node->live, memory_order_acquire))
			tell(node, seen);
	}
}

void modules_forked(void)
{
	atomic_store(&busy, false);
}
