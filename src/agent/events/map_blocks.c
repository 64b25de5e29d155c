/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own mappings as blocks: see map_blocks.h.
 *
 *	mmap    ──> the real one ──> cut what was there, SAMPLE, add
 *	munmap  ──> before ──> the real one ──> cut what is not newer than before: SHRINK
 *	mremap  ──> before ──> the real one ──> cut the old place, SAMPLE, add the new one
 *
 * A SHRINK says how much a block has lost, not what is left: two threads may write such records about a block, one
 * that unmaps a part of it and one that has been given its addresses, and a reader may see them in either order.
 *
 * Records are written under the table's lock, so that a fork finds both in the same state. A signal handler that
 * interrupted the agent does not get in: what it maps is counted as nested, and what it unmaps ends when its
 * addresses are used again.
 */
#include "agent/events/map_blocks.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "agent/events/process.h"
#include "agent/image.h"
#include "agent/path.h"
#include "agent/ranges.h"
#include "agent/real.h"
#include "agent/records.h"

/* ---- the allocators' own ---- */

/* musl leaves the addresses as they are in the file. */
static bool read_module(struct image *o, const struct dl_find_object *found)
{
	const struct link_map *map = found->dlfo_link_map;

	*o = (struct image){.bias = map->l_addr,
			    .start = (uintptr_t)found->dlfo_map_start,
			    .end = (uintptr_t)found->dlfo_map_end};
	if (!map->l_ld)
		return false;
	if (image_read(o, map->l_ld) || !real_is_musl)
		return image_has(o, o->symbol);
	if (!o->symbol || !o->text || !o->hash)
		return false;
	o->symbol = (const Elf64_Sym *)((uintptr_t)o->symbol + o->bias);
	o->text += o->bias;
	o->hash = (const uint32_t *)((uintptr_t)o->hash + o->bias);
	return true;
}

/* OCaml's runtime, since its blocks can be recorded. */
static bool is_ocamls(const struct image *o, uintptr_t pc)
{
	static const char *const functions[] = {"caml_plat_mem_map", "caml_plat_mem_commit",
						"caml_mem_map", "caml_mem_commit"};

	if (real_is_musl || agent_config.ocaml_rate <= 0 ||
	    !image_find(o, "caml_memprof_sample_block"))
		return false;
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		const Elf64_Sym *symbol = image_symbol(o, functions[i]);

		if (symbol && pc - (o->bias + symbol->st_value) < symbol->st_size)
			return true;
	}
	return false;
}

/* The rings of OCaml 5's runtime events: the runtime, or a library with it, has mapped PID.events. Its
 * function has no name in the dynamic table. A program in a sandbox has begun long ago, and so have its rings. */
static bool is_ocamls_rings(const struct image *o, int file)
{
	static const char end[] = ".events";
	const size_t n = sizeof(end) - 1;
	char path[SPOOL_TEXT_BYTES + 1];
	size_t length;

	if (file < 0 || real_is_musl || !image_find(o, "caml_ev_lifecycle"))
		return false;
	length = process_file(path, file);
	return length >= n && !memcmp(path + length - n, end, n);
}

/* Whether an allocator whose blocks are recorded has made the call, or a runtime for itself. */
static bool is_allocators(uintptr_t pc, int file)
{
	struct dl_find_object found;
	struct image o;

	if (ranges_are_exempt(pc))
		return true;
	return !_dl_find_object((void *)(pc - 1), &found) && read_module(&o, &found) &&
	       (image_find(&o, "malloc") || is_ocamls(&o, pc - 1) || is_ocamls_rings(&o, file));
}

/* False: another thread forks, and the call is not recorded: see ranges_lock(). */
static bool lock_table(bool allocator)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	if (ranges_lock(allocator))
		return true;
	if (!allocator && !atomic_flag_test_and_set(&told))
		spool_note("mappings are missing that were made or given back while another thread "
			   "forked");
	return false;
}

/* ---- recording ---- */

static uintptr_t page_mask(void)
{
	static uintptr_t mask;

	if (UNLIKELY(!mask))
		mask = getauxval(AT_PAGESZ) - 1;
	return mask;
}

static uintptr_t end_of(const void *start, size_t length)
{
	return ((uintptr_t)start + length + page_mask()) & ~page_mask();
}

static bool enter(size_t size)
{
	int error = errno;

	if (!path_enter()) {
		path_count_nested(size);
		return false;
	}
	if (life_thread_ready())
		return true;
	path_leave();
	errno = error;
	return false;
}

struct ending {
	uint64_t ticks;
	uint32_t flags; /* of a SHRINK */
};

static void shrink_block(void *context, uint64_t id, uint64_t lost, uint64_t left)
{
	struct ending *e = context;
	struct writer *w = path_writer();

	if (!left)
		atomic_fetch_add_explicit(&spool_header->frees, 1, memory_order_relaxed);
	if (w)
		records_shrink(w, e->ticks, id, lost, e->flags);
	else
		atomic_fetch_add_explicit(&spool_header->dropped_frees, 1, memory_order_relaxed);
}

static bool capture(const struct walk_start *at)
{
	struct writer *w = path_writer();

	if (!w) {
		atomic_fetch_add_explicit(&spool_header->dropped_samples, 1, memory_order_relaxed);
		return false;
	}
	/* Do not walk the stack when there is no packet to write it to. */
	if (!w->packet && !spool_room(w, 1)) {
		spool_drop_sample(w);
		return false;
	}
	spool_capture(w, at);
	return true;
}

/* False: dropped. */
static bool begin_block(const struct walk_start *at, uint64_t size, uint32_t flags, uint64_t *id)
{
	if (!capture(at))
		return false;
	*id = atomic_fetch_add_explicit(&spool_header->next_sample_id, 1, memory_order_relaxed);
	return records_mapping(self.writer, agent_ticks(), *id, size, flags);
}

/* A block that the table has no room for would never end: it ends here. */
static void not_followed(bool added, uint64_t id, uint64_t bytes)
{
	if (!added)
		shrink_block(&(struct ending){.ticks = agent_ticks()}, id, bytes, 0);
}

/* Nothing else is there. */
static void add_block(uintptr_t start, uintptr_t end, uint32_t flags, const struct walk_start *at)
{
	uint64_t id;

	if (begin_block(at, end - start, flags, &id))
		not_followed(ranges_add(&ranges, start, end, id), id, end - start);
}

void map_blocks_mapped(void *start, size_t length, int file, bool accessible,
		       const struct walk_start *at)
{
	uintptr_t from = (uintptr_t)start, end = end_of(start, length);
	struct ending e = {.ticks = agent_ticks()};
	bool allocator = is_allocators(at->pc, file);
	int error = errno;
	uint64_t reserved;

	if (!enter(length))
		return;
	if (lock_table(allocator)) {
		reserved = ranges_cut(&ranges, from, end, RANGES_ALL, shrink_block, &e);
		if ((length >= AGENT_MAP_BLOCK_LEAST || reserved) && !allocator &&
		    spool_enabled()) {
			if (accessible)
				add_block(from, end, 0, at);
			else
				ranges_reserve(&ranges, from, end);
		}
		ranges_unlock();
	}
	path_leave();
	errno = error;
}

struct map_before map_blocks_before(const void *start, size_t length, const struct walk_start *at)
{
	struct map_before before = {.serial = atomic_load(&ranges.serial),
				    .ticks = agent_ticks(),
				    .allocator = is_allocators(at->pc, -1)};
	int error = errno;

	if (!enter(0))
		return before;
	if (ranges_lock(before.allocator)) {
		before.kind = ranges_kind(&ranges, (uintptr_t)start, end_of(start, length));
		ranges_unlock();
	}
	path_leave();
	errno = error;
	return before;
}

void map_blocks_unmapped(const void *start, size_t length, struct map_before before)
{
	uintptr_t from = (uintptr_t)start, end = end_of(start, length);
	struct ending e = {.ticks = before.ticks};
	int error = errno;

	if (!enter(0))
		return;
	if (lock_table(before.allocator)) {
		ranges_cut(&ranges, from, end, before.serial, shrink_block, &e);
		ranges_unlock();
	}
	path_leave();
	errno = error;
}

void map_blocks_taken(const void *start, size_t length)
{
	map_blocks_unmapped(
	    start, length,
	    (struct map_before){.serial = RANGES_ALL,
				.ticks = agent_ticks(),
				.allocator = true /* perhaps, so it does not wait */});
}

void map_blocks_moved(void *start, size_t length, const void *old, size_t old_length, bool kept,
		      struct map_before before, const struct walk_start *at)
{
	uintptr_t from = (uintptr_t)start, end = end_of(start, length);
	struct ending replaced = {.ticks = before.ticks};
	struct ending moved = {.ticks = before.ticks, .flags = SPOOL_FLAG_REALLOC};
	bool block = before.kind == RANGE_OF_BLOCK, reserved = before.kind == RANGE_IS_RESERVED;
	int error = errno;

	if (!enter(length))
		return;
	if (lock_table(before.allocator)) {
		if (!kept)
			ranges_cut(&ranges, (uintptr_t)old, end_of(old, old_length), before.serial,
				   shrink_block, &moved);
		ranges_cut(&ranges, from, end, RANGES_ALL, shrink_block, &replaced);
		if ((length >= AGENT_MAP_BLOCK_LEAST || block || reserved) && !before.allocator &&
		    spool_enabled()) {
			if (reserved)
				ranges_reserve(&ranges, from, end);
			else
				add_block(from, end, block && !kept ? SPOOL_FLAG_REALLOC : 0, at);
		}
		ranges_unlock();
	}
	path_leave();
	errno = error;
}

void map_blocks_accessible(const void *start, size_t length, const struct walk_start *at)
{
	uintptr_t from = (uintptr_t)start & ~page_mask(); /* as musl does */
	uintptr_t end = end_of(start, length);
	bool allocator = is_allocators(at->pc, -1);
	uint64_t bytes, id;
	int error = errno;

	if (!enter(length))
		return;
	if (lock_table(allocator)) {
		bytes = ranges_reserved(&ranges, from, end);
		if (bytes && !allocator && spool_enabled() && begin_block(at, bytes, 0, &id))
			not_followed(ranges_commit(&ranges, from, end, id), id, bytes);
		ranges_unlock();
	}
	path_leave();
	errno = error;
}

size_t map_blocks_length(const void *start)
{
	uintptr_t end = 0;
	int error = errno;

	if (!enter(0))
		return 0;
	if (ranges_lock(false)) {
		end = ranges_end(&ranges, (uintptr_t)start);
		ranges_unlock();
	}
	path_leave();
	errno = error;
	return end ? end - (uintptr_t)start : 0;
}
