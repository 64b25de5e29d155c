/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings of a process: see smaps.h. */
#include "record/smaps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/module_bss.h"
#include "base/system/process_file.h"

#define ARENA_BYTES	(64ull << 20) /* glibc's arenas but the first begin at multiples of this */
#define MOST_GUARD	(1ull << 20)
#define TEXT_BYTES	65536
#define PATH_BYTES	4200
#define PAGE_BYTES	4096u
#define PAGEMAP_AT_ONCE 4096

struct memory_mapping {
	uint64_t start, end;
	char access[5];
	bool is_file; /* has a path */
	enum mayfly_mapping_kind kind;
	uint64_t resident, proportional, anonymous;
	char name[PATH_BYTES];
};

struct mappings {
	struct smaps *to;
	struct module_cache *cache;
	pid_t pid;
	const char *spool;
	struct memory_mapping slot[3], *before, *now, *next; /* their turns go round */
	char module[PATH_BYTES];			     /* the latest file with code */
	char file[PATH_BYTES];				     /* for name_of_file() */
	bool any, failed;
};

static bool memory_begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool is_own(const struct mappings *m, const char *base)
{
	return memory_begins(base, m->spool) || memory_begins(base, "libmayfly.so") ||
	       memory_begins(base, "libmayfly-musl.so");
}

static enum mayfly_mapping_kind kind_of_path(const struct mappings *m, const char *path,
					     char sharing)
{
	static const char *const shared[] = {"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero",
					     "[anon_shmem"};
	const char *base = strrchr(path, '/');

	for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++)
		if (memory_begins(path, shared[i]))
			return MAYFLY_MAPPING_SHARED;
	if (base)
		return is_own(m, base + 1) ? MAYFLY_MAPPING_OWN : MAYFLY_MAPPING_FILE;
	if (!strcmp(path, "[heap]"))
		return MAYFLY_MAPPING_HEAP;
	if (memory_begins(path, "[stack"))
		return MAYFLY_MAPPING_STACK;
	if (!*path)
		return sharing == 's' ? MAYFLY_MAPPING_SHARED : MAYFLY_MAPPING_ANONYMOUS;
	return memory_begins(path, "[anon") ? MAYFLY_MAPPING_ANONYMOUS : MAYFLY_MAPPING_OTHER;
}

static bool is_anonymous(const struct memory_mapping *p, const char *access)
{
	return p->kind == MAYFLY_MAPPING_ANONYMOUS && !p->is_file && !strcmp(p->access, access);
}

static void refine(struct mappings *m, const struct memory_mapping *after)
{
	struct memory_mapping *p = m->now;
	uint64_t end = p->start + ARENA_BYTES;

	if (!is_anonymous(p, "rw-p"))
		return;
	if (p->start % ARENA_BYTES == 0 &&
	    (p->end == end ||
	     (after && is_anonymous(after, "---p") && after->start == p->end && after->end >= end)))
		p->kind = MAYFLY_MAPPING_ARENA;
	else if (is_anonymous(m->before, "---p") && m->before->end == p->start &&
		 m->before->end - m->before->start <= MOST_GUARD)
		p->kind = MAYFLY_MAPPING_STACK;
}

/* A file that was removed while it is mapped stays the same row. */
static const char *name_of_file(struct mappings *m, const char *path)
{
	static const char removed[] = " (deleted)";
	size_t length = strlen(path), suffix = sizeof(removed) - 1;

	if (*path != '/' || length <= suffix || strcmp(path + length - suffix, removed) != 0)
		return path;
	snprintf(m->file, sizeof(m->file), "%.*s", (int)(length - suffix), path);
	return m->file;
}

static void put_row(struct mappings *m, uint64_t start, uint64_t size, uint64_t resident,
		    enum mayfly_mapping_kind kind, const char *name)
{
	struct smaps *to = m->to;

	to->kind_size[kind] += size;
	to->kind_resident[kind] += resident;
	to->kind_count[kind]++;
	to->resident += resident;
	if (resident && !m->failed)
		m->failed = !residency_add(
		    &to->rows,
		    &(struct residency_row){
			.start = start, .size = size, .resident = resident, .kind = kind},
		    name_of_file(m, name));
}

/* Bytes of the range whose pages are in memory; false: not known. */
static bool count_present(pid_t pid, uint64_t start, uint64_t end, uint64_t *bytes)
{
	static uint64_t entry[PAGEMAP_AT_ONCE];
	int fd = process_file_open(pid, "pagemap");
	uint64_t page = start / PAGE_BYTES, last = end / PAGE_BYTES;
	ssize_t n = 0;

	*bytes = 0;
	while (fd >= 0 && page < last) {
		size_t some = last - page < PAGEMAP_AT_ONCE ? last - page : PAGEMAP_AT_ONCE;

		n = pread(fd, entry, some * sizeof(*entry), (off_t)(page * sizeof(*entry)));
		if (n < (ssize_t)sizeof(*entry))
			break;
		for (size_t i = 0; i < (size_t)n / sizeof(*entry); i++)
			*bytes += (entry[i] >> 63) * PAGE_BYTES;
		page += (size_t)n / sizeof(*entry);
	}
	if (fd >= 0)
		close(fd);
	return page == last;
}

/* The part of an anonymous mapping (or of the heap) that is .bss of the module before it. The
 * kernel merges what a program maps right behind with it. */
static uint64_t put_bss(struct mappings *m)
{
	const struct memory_mapping *p = m->now;
	uint64_t size = p->end - p->start, bss, resident = p->resident;
	enum mayfly_mapping_kind kind = MAYFLY_MAPPING_DATA;

	if ((p->kind != MAYFLY_MAPPING_ANONYMOUS && p->kind != MAYFLY_MAPPING_HEAP) ||
	    m->before->end != p->start || m->before->access[3] != 'p' || !*m->module ||
	    strcmp(m->before->name, m->module) != 0)
		return 0;
	bss = module_bss_bytes(m->cache, m->pid, m->module);
	if (!bss)
		return 0;
	if (bss > size)
		bss = size;
	if (bss < size && !count_present(m->pid, p->start, p->start + bss, &resident))
		return 0;
	if (resident > p->resident)
		resident = p->resident;
	if (m->before->kind == MAYFLY_MAPPING_OWN)
		kind = MAYFLY_MAPPING_OWN;
	put_row(m, p->start, bss, resident, kind, m->module);
	m->now->resident -= resident;
	return bss;
}

static void close_mapping(struct mappings *m, const struct memory_mapping *after)
{
	struct memory_mapping *p = m->now;
	uint64_t start = p->start, copies = 0;
	bool is_module;

	if (!m->any)
		return;
	if (p->resident > p->end - p->start) /* part of it is in rows before */
		p->resident = p->end - p->start;
	refine(m, after);
	if (p->is_file && p->access[2] == 'x')
		snprintf(m->module, sizeof(m->module), "%s", p->name);
	is_module = p->is_file && !strcmp(p->name, m->module);
	m->to->count++;
	m->to->proportional += p->proportional;
	start += put_bss(m);
	if (p->kind == MAYFLY_MAPPING_FILE && p->access[3] == 'p') {
		copies = p->anonymous < p->resident ? p->anonymous : p->resident;
		if (copies)
			put_row(m, start, 0, copies,
				is_module ? MAYFLY_MAPPING_DATA : MAYFLY_MAPPING_COPIES, p->name);
	}
	if (start < p->end)
		put_row(m, start, p->end - start, p->resident - copies, p->kind,
			p->is_file ? p->name : "");
}

static void take_number(uint64_t *bytes, const char *line, const char *name, size_t length)
{
	if (!strncmp(line, name, length))
		*bytes = strtoull(line + length, NULL, 10) * 1024;
}

/* "Rss:     12 kB". Each mapping has some 25 such lines. False: it is none. */
static bool take_amount(struct memory_mapping *now, const char *line)
{
	if (*line == 'R')
		take_number(&now->resident, line, "Rss:", 4);
	else if (*line == 'P')
		take_number(&now->proportional, line, "Pss:", 4);
	else if (*line == 'A')
		take_number(&now->anonymous, line, "Anonymous:", 10);
	return *line >= 'A' && *line <= 'Z';
}

/*
 * Between two pages of text the process goes on. The kernel then continues with the mapping that is
 * where the last one ended, and that may begin before:
 *
 *	now   |-----|			the last one, as it was
 *	next     |------|		its end is another mapping's now: it is shorter
 *	next |----------|		it has grown, or is part of this one: only this one counts
 *
 * False: the last one does not count.
 */
static bool follows(struct mappings *m, struct memory_mapping *next)
{
	struct memory_mapping *now = m->now;
	bool counts = !m->any || next->start > now->start;

	if (!m->any || next->start >= now->end)
		return true;
	if (counts) {
		now->end = next->start;
	} else if (next->start < m->before->end) {
		next->start = m->before->end;
	}
	if (next->end < next->start)
		next->end = next->start;
	return counts;
}

static void take_line(struct mappings *m, const char *line)
{
	struct memory_mapping *next = m->next;
	int at = 0;

	if (take_amount(m->now, line))
		return;
	if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %*u %n", &next->start, &next->end, next->access,
		   &at) != 3 ||
	    !at)
		return;
	next->resident = next->proportional = next->anonymous = 0;
	next->is_file = line[at] != 0;
	next->kind = kind_of_path(m, line + at, next->access[3]);
	snprintf(next->name, sizeof(next->name), "%s", line + at);
	if (follows(m, next)) {
		close_mapping(m, next);
		m->next = m->before;
		m->before = m->now;
	} else {
		m->next = m->now;
	}
	m->now = next;
	m->any = true;
}

/* Line after line; the kernel gives about a page at a time. */
static bool read_lines(struct mappings *m)
{
	static char text[TEXT_BYTES];
	int fd = process_file_open(m->pid, "smaps");
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return false;
	while ((n = read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
		char *line = text, *end;

		used += (size_t)n;
		text[used] = 0;
		while ((end = memchr(line, '\n', (size_t)(text + used - line)))) {
			*end = 0;
			take_line(m, line);
			line = end + 1;
		}
		used = (size_t)(text + used - line);
		if (used >= PATH_BYTES * 4) /* no line is so long */
			break;
		memmove(text, line, used);
	}
	close(fd);
	close_mapping(m, NULL);
	return n == 0 && m->to->count;
}

bool smaps_read(struct smaps *s, pid_t pid, const char *spool, struct module_cache *cache)
{
	static struct mappings m;

	*s = (struct smaps){0};
	m.to = s;
	m.cache = cache;
	m.pid = pid;
	m.spool = spool;
	m.before = &m.slot[0];
	m.now = &m.slot[1];
	m.next = &m.slot[2];
	m.slot[0] = m.slot[1] = (struct memory_mapping){.start = 0};
	*m.module = 0;
	m.any = m.failed = false;
	return read_lines(&m) && !m.failed && residency_shrink(&s->rows);
}
