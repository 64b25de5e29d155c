/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a process: see memory_source.h. Core files are in core_file.c. */
#include "picture/memory_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"
#include "base/system/process_file.h"

#define PAGES_LOOK  512u
#define PAGES_FIRST 64u		 /* of a first look */
#define PAGE_FILLED (3ull << 62) /* in memory, or swapped out */
#define COPY_BYTES  (256u << 10)

/* ---- reading ---- */

static const struct source_piece *piece_at(const struct memory_source *s, uint64_t address)
{
	size_t low = FIRST_THAT(i, 0, s->pieces, s->piece[i].start + s->piece[i].bytes > address);

	return low < s->pieces && s->piece[low].start <= address ? &s->piece[low] : NULL;
}

static bool read_pieces(const struct memory_source *s, uint64_t address, uint8_t *to, size_t bytes)
{
	while (bytes) {
		const struct source_piece *p = piece_at(s, address);
		uint64_t left = p ? p->start + p->bytes - address : 0;
		size_t now = left < bytes ? (size_t)left : bytes;

		if (!p)
			return false;
		memcpy(to, p->at + (address - p->start), now);
		to += now;
		address += now;
		bytes -= now;
	}
	return true;
}

static bool read_file(int fd, uint64_t address, uint8_t *to, size_t bytes)
{
	while (bytes) {
		ssize_t n = pread(fd, to, bytes, (off_t)address);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		address += (size_t)n;
		bytes -= (size_t)n;
	}
	return true;
}

/* ---- pages that nobody has written to ---- */

/* The kernel has an entry for each page, of whatever size pages have here. If they cannot be read, all may
 * be filled. */
static uint64_t first_filled(int pages, uint64_t address, uint64_t end)
{
	const uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t entry[PAGES_LOOK], at = address;
	size_t most = PAGES_FIRST;

	while (at < end) {
		uint64_t page = at / size, left = (end - 1) / size - page + 1;
		size_t wanted = left < most ? (size_t)left : most, i = 0;
		ssize_t n =
		    pread(pages, entry, wanted * sizeof(*entry), (off_t)(page * sizeof(*entry)));
		size_t count = n > 0 ? (size_t)n / sizeof(*entry) : 0;

		while (i < count && !(entry[i] & PAGE_FILLED))
			i++;
		if (i)
			at = (page + i) * size;
		if (!count || i < count)
			break;
		most = PAGES_LOOK;
	}
	return at < end ? at : end;
}

/* Shared memory is read only where the process has touched it, so that no other pages come into being. */
static bool read_shared(int fd, int touched, uint64_t address, uint8_t *to, size_t bytes)
{
	const uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t at = address, end = address + bytes;

	while (at < end) {
		uint64_t filled = first_filled(touched, at, end), rest;

		memset(to + (at - address), 0, filled - at);
		at = filled;
		rest = size - at % size < end - at ? size - at % size : end - at;
		if (!read_file(fd, at, to + (at - address), rest))
			return false;
		at += rest;
	}
	return true;
}

bool memory_source_read(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct memory_source *s = context;
	const struct process_map *m = s->touched >= 0 ? process_maps_at(&s->maps, address) : NULL;

	if (m && m->shared && s->fd >= 0 && !piece_at(s, address))
		return read_shared(s->fd, s->touched, address, to, bytes);
	return s->fd >= 0 && !piece_at(s, address) ? read_file(s->fd, address, to, bytes)
						   : read_pieces(s, address, to, bytes);
}

uint64_t memory_source_word(struct memory_source *s, uint64_t address)
{
	uint64_t word;

	return memory_source_read(s, address, &word, sizeof(word)) ? word : 0;
}

/* Pages that are not in memory are zeros if a process has them for itself. What is not in memory of a file has
 * contents nevertheless. */
static bool may_skip(const struct process_map *m)
{
	return m->shared || process_map_is_anonymous(m) || !strcmp(m->path, "[heap]");
}

uint64_t memory_source_skip_zeros(void *context, uint64_t address, uint64_t end)
{
	const struct memory_source *s = context;
	const struct process_map *m = process_maps_at(&s->maps, address);
	const struct source_piece *p = piece_at(s, address);
	int pages = p ? s->image_pages : m && m->shared ? s->touched : s->pages;
	uint64_t here = p ? (uintptr_t)p->at + (address - p->start) : address;

	if (!m || !may_skip(m) || pages < 0 || (!p && s->fd < 0))
		return address;
	end = end < m->end ? end : m->end;
	return address + (first_filled(pages, here, here + (end - address)) - here);
}

/* ---- a process ---- */

static void read_name(pid_t pid, pid_t tid, char *name, size_t size)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	file = fopen(path, "re");
	if (!file || !fgets(name, (int)size, file))
		*name = 0;
	name[strcspn(name, "\n")] = 0;
	if (file)
		fclose(file);
}

/* Where memory is copied from while the process is stopped. */
struct copying {
	struct memory_source *s;
	int memory, pages;
	size_t capacity; /* of pieces */
};

static bool copy_map(const struct copying *c, const struct process_map *m, uint8_t *to)
{
	bool sparse = c->pages >= 0 && may_skip(m);
	uint64_t at = m->start;

	if (m->shared && c->pages >= 0)
		return read_shared(c->memory, c->pages, at, to, m->end - at);
	while (at < m->end) {
		size_t bytes;

		if (sparse)
			at = first_filled(c->pages, at, m->end);
		bytes = m->end - at < COPY_BYTES ? (size_t)(m->end - at) : COPY_BYTES;
		if (!read_file(c->memory, at, to + (at - m->start), bytes))
			return false;
		at += bytes;
	}
	return true;
}

/* Reservations that nobody can write to may have many TB: a mapping for all of them cannot be had where the
 * kernel does not overcommit. */
static uint64_t copied_bytes(const struct process_maps *maps, size_t i,
			     const struct process_maps *but)
{
	const struct process_map *m = &maps->map[i];

	return process_maps_has_pointers(maps, i) && !(but && process_maps_at(but, m->start))
		   ? m->end - m->start
		   : 0;
}

/* Its writable memory, without what `but` has, into one large mapping. */
static bool copy_maps(struct copying *c, const struct process_maps *but)
{
	struct memory_source *s = c->s;
	uint64_t bytes = 0, at = 0;

	for (size_t i = 0; i < s->maps.count; i++)
		bytes += copied_bytes(&s->maps, i, but);
	s->image = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->image == MAP_FAILED) {
		s->image = NULL;
		return false;
	}
	s->image_bytes = bytes + 1;
	s->image_is_mapped = true;
	s->image_pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < s->maps.count; i++) {
		const struct process_map *m = &s->maps.map[i];
		uint8_t *to = (uint8_t *)s->image + at;

		if (!copied_bytes(&s->maps, i, but))
			continue;
		at += m->end - m->start;
		if (!copy_map(c, m, to))
			continue;
		if (!ARRAY_ADD(s->piece, c->capacity, s->pieces,
			       (struct source_piece){m->start, m->end - m->start, to}))
			return false;
	}
	return true;
}

/* All of it. */
static bool copy_memory(void *context, const struct freeze *f)
{
	struct memory_source *s = context;
	struct copying c = {.s = s, .memory = f->memory, .pages = f->pages};

	return process_maps_read(&s->maps, f->maps) && copy_maps(&c, NULL);
}

/* What fork() leaves out. A mapping that is left out is not part of one that is not. */
static bool copy_missing(void *context, const struct freeze *f)
{
	struct memory_source *s = context;
	struct copying c = {
	    .s = s, .memory = process_file_open(s->pid, "mem"), .pages = s->touched};
	int maps = process_file_open(s->pid, "maps");
	struct process_maps copied = {0};
	bool good = maps >= 0 && c.memory >= 0 && process_maps_read(&s->maps, maps) &&
		    process_maps_read(&copied, f->maps) && copy_maps(&c, &copied);

	process_maps_free(&copied);
	if (maps >= 0)
		close(maps);
	if (c.memory >= 0)
		close(c.memory);
	return good;
}

static bool take_threads(struct memory_source *s)
{
	const struct freeze *f = &s->freeze;

	s->thread = calloc(f->threads + 1, sizeof(*s->thread));
	if (!s->thread)
		return false;
	for (size_t i = 0; i < f->threads; i++) {
		s->thread[i].frozen = f->thread[i];
		read_name(s->pid, f->thread[i].tid, s->thread[i].name, sizeof(s->thread[i].name));
	}
	s->threads = f->threads;
	return true;
}

bool memory_source_open_process(struct memory_source *s, pid_t pid,
				const struct source_wishes *wishes, char *why, size_t size)
{
	const struct freeze_wishes freeze = {.no_stop = wishes->no_stop,
					     .hold = wishes->hold,
					     .most_stop_ns = wishes->most_stop_ns,
					     .copy_memory = copy_memory,
					     .copy_missing = copy_missing,
					     .context = s};

	*s = (struct memory_source){.pid = pid, .fd = -1, .pages = -1, .image_pages = -1};
	s->touched = process_file_open(pid, "pagemap");
	snprintf(s->root, sizeof(s->root), "/proc/%d/root", (int)pid);
	read_name(pid, pid, s->program, sizeof(s->program));
	if (!freeze_begin(&s->freeze, pid, &freeze, why, size)) {
		memory_source_close(s);
		return false;
	}
	s->frozen = true;
	if (s->freeze.how != FROZEN_MEMORY) {
		s->fd = s->freeze.memory;
		s->pages = s->freeze.pages;
		if (!s->maps.count && !process_maps_read(&s->maps, s->freeze.maps)) {
			snprintf(why, size, "its memory map cannot be read");
			memory_source_close(s);
			return false;
		}
	}
	if (take_threads(s))
		return true;
	snprintf(why, size, "out of memory");
	memory_source_close(s);
	return false;
}

void memory_source_close(struct memory_source *s)
{
	if (s->frozen)
		freeze_end(&s->freeze);
	if (s->touched >= 0)
		close(s->touched);
	if (s->image_pages >= 0)
		close(s->image_pages);
	process_maps_free(&s->maps);
	free(s->thread);
	free(s->piece);
	if (s->image && s->image_is_mapped)
		munmap(s->image, s->image_bytes);
	*s = (struct memory_source){.fd = -1, .pages = -1, .touched = -1, .image_pages = -1};
}
