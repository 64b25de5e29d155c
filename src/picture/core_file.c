/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a process from a core file: see memory_source.h. Every byte of it is hostile. */
#include "picture/memory_source.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"

#define PARTS_MOST   (1u << 20)
#define THREADS_MOST (1u << 20)

struct core {
	const uint8_t *at;
	uint64_t bytes;
	Elf64_Phdr *part;
	size_t parts;
	/* Files: start, end, offset in pages; then names. */
	const uint8_t *files, *names;
	uint64_t file_count, names_bytes, page;
	uint64_t in_stack; /* an address in the first stack; 0: not known */
};

static bool says(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return false;
}

/* `bytes` bytes at the offset; NULL: the file does not have them. */
static const uint8_t *bytes_at(const struct core *c, uint64_t offset, uint64_t bytes)
{
	return offset <= c->bytes && bytes <= c->bytes - offset ? c->at + offset : NULL;
}

static bool read_parts(struct core *c, char *why, size_t size)
{
	const uint8_t *head = bytes_at(c, 0, sizeof(Elf64_Ehdr)), *table;
	uint64_t count;
	Elf64_Ehdr e;

	if (!head || memcmp(head, ELFMAG, SELFMAG) != 0)
		return says(why, size, "it is neither the number of a process nor a core file");
	memcpy(&e, head, sizeof(e));
	if (e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_ident[EI_DATA] != ELFDATA2LSB ||
	    e.e_machine != EM_X86_64)
		return says(why, size, "it is not of x86-64");
	if (e.e_type != ET_CORE)
		return says(why, size, "it is a program or a library, not a core file");
	count = e.e_phnum;
	if (count == PN_XNUM) {
		Elf64_Shdr first;
		const uint8_t *at = bytes_at(c, e.e_shoff, sizeof(first));

		if (!at)
			return says(why, size, "it is damaged: its table is missing");
		memcpy(&first, at, sizeof(first));
		count = first.sh_info;
	}
	if (count > PARTS_MOST || e.e_phentsize != sizeof(Elf64_Phdr))
		return says(why, size, "it is damaged: its table is wrong");
	table = bytes_at(c, e.e_phoff, count * sizeof(Elf64_Phdr));
	if (!table)
		return says(why, size, "it is cut off: its table is missing");
	c->part = malloc((count + 1) * sizeof(*c->part));
	if (!c->part)
		return says(why, size, "out of memory");
	memcpy(c->part, table, count * sizeof(*c->part));
	c->parts = count;
	return true;
}

/* ---- notes ---- */

/* struct elf_prstatus of x86-64. */
#define STATUS_TID	 32u
#define STATUS_REGISTERS 112u
#define STATUS_BYTES	 (STATUS_REGISTERS + 27 * 8)

static uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* user_regs_struct: r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss
 * fs_base ... */
static bool add_thread(struct memory_source *s, const uint8_t *note, size_t bytes, size_t *capacity)
{
	static const unsigned char order[FREEZE_REGISTERS] = {10, 12, 11, 5, 13, 14, 4, 19, 9,
							      8,  7,  6,  3, 2,	 1,  0, 16};
	struct frozen_thread t = {0};
	int32_t tid;

	if (bytes < STATUS_BYTES || s->threads >= THREADS_MOST)
		return true;
	memcpy(&tid, note + STATUS_TID, sizeof(tid));
	t.tid = tid;
	for (unsigned int i = 0; i < FREEZE_REGISTERS; i++)
		t.registers[i] = word_at(note + STATUS_REGISTERS + 8 * order[i]);
	t.thread_pointer = word_at(note + STATUS_REGISTERS + 8 * 21);
	if (!array_reserve(&s->thread, capacity, s->threads, sizeof(*s->thread)))
		return false;
	s->thread[s->threads++] = (struct source_thread){.frozen = t};
	return true;
}

/* struct elf_prpsinfo: the program's name is its 40th byte. */
static void take_program(struct memory_source *s, const uint8_t *note, size_t bytes)
{
	if (bytes >= 56)
		snprintf(s->program, sizeof(s->program), "%.16s", (const char *)note + 40);
}

static void take_files(struct core *c, const uint8_t *note, size_t bytes)
{
	uint64_t count = bytes >= 16 ? word_at(note) : 0;

	if (!count || count > (bytes - 16) / 24)
		return;
	c->file_count = count;
	c->page = word_at(note + 8);
	c->files = note + 16;
	c->names = note + 16 + count * 24;
	c->names_bytes = bytes - 16 - count * 24;
}

/* The random bytes that the kernel gives a program are on its first stack. */
static void take_vector(struct core *c, const uint8_t *note, size_t bytes)
{
	for (size_t at = 0; at + 16 <= bytes; at += 16)
		if (word_at(note + at) == AT_RANDOM)
			c->in_stack = word_at(note + at + 8);
}

static bool read_notes(struct core *c, struct memory_source *s, const Elf64_Phdr *p,
		       size_t *capacity)
{
	const uint8_t *at = bytes_at(c, p->p_offset, p->p_filesz);
	uint64_t left = at ? p->p_filesz : 0;

	while (left >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		uint64_t name, data;

		memcpy(&n, at, sizeof(n));
		name = ((uint64_t)n.n_namesz + 3) & ~3ull;
		data = ((uint64_t)n.n_descsz + 3) & ~3ull;
		at += sizeof(n);
		left -= sizeof(n);
		if (name > left || data > left - name)
			return true;
		if (n.n_type == NT_PRSTATUS && !add_thread(s, at + name, n.n_descsz, capacity))
			return false;
		if (n.n_type == NT_PRPSINFO)
			take_program(s, at + name, n.n_descsz);
		if (n.n_type == NT_AUXV)
			take_vector(c, at + name, n.n_descsz);
		if (n.n_type == NT_FILE)
			take_files(c, at + name, n.n_descsz);
		at += name + data;
		left -= name + data;
	}
	return true;
}

/* ---- maps ---- */

static int compare_parts(const void *a, const void *b)
{
	const Elf64_Phdr *x = a, *y = b;

	return (x->p_vaddr > y->p_vaddr) - (x->p_vaddr < y->p_vaddr);
}

/* The file that was mapped at the address; "" : none. */
static const char *file_at(const struct core *c, uint64_t address, uint64_t *offset)
{
	const char *name = (const char *)c->names;
	uint64_t left = c->names_bytes;

	*offset = 0;
	for (uint64_t i = 0; i < c->file_count; i++) {
		const char *end = memchr(name, 0, left);
		uint64_t start = word_at(c->files + 24 * i);

		if (!end)
			break;
		if (address >= start && address < word_at(c->files + 24 * i + 8)) {
			*offset = word_at(c->files + 24 * i + 16) * c->page + (address - start);
			return name;
		}
		left -= (uint64_t)(end - name) + 1;
		name = end + 1;
	}
	return "";
}

/* A core file does not say where the break begins: it is a writable mapping of nothing behind the program's
 * variables, and the first block's size stands at its begin. */
static bool looks_like_break(const struct memory_source *s, uint64_t start, uint64_t end)
{
	const struct process_map *first = s->maps.count ? &s->maps.map[0] : NULL;
	uint64_t words[2];

	if (!first || start - first->start > 1ull << 40 ||
	    !memory_source_read((void *)(uintptr_t)s, start, words, sizeof(words)))
		return false;
	return words[0] == 0 && (words[1] & 7) == 1 && words[1] >= 32 && words[1] < end - start;
}

/* What is mapped, from the parts of the core file and from its list of files: what is not changed in them
 * may be left out of it. */
struct mapped_part {
	struct process_map map;
	const char *path;
};

static int compare_mapped(const void *a, const void *b)
{
	const struct mapped_part *x = a, *y = b;

	return (x->map.start > y->map.start) - (x->map.start < y->map.start);
}

static bool take_part(const struct core *c, struct memory_source *s, const Elf64_Phdr *p,
		      struct mapped_part *to, size_t *capacity)
{
	uint64_t bytes = p->p_filesz < p->p_memsz ? p->p_filesz : p->p_memsz;
	const uint8_t *at = bytes_at(c, p->p_offset, bytes);

	to->map = (struct process_map){.start = p->p_vaddr,
				       .end = p->p_vaddr + p->p_memsz,
				       .readable = p->p_flags & PF_R,
				       .writable = p->p_flags & PF_W,
				       .executable = p->p_flags & PF_X};
	to->path = file_at(c, p->p_vaddr, &to->map.offset);
	if (!bytes || !at)
		return true;
	if (!array_reserve(&s->piece, capacity, s->pieces, sizeof(*s->piece)))
		return false;
	s->piece[s->pieces++] = (struct source_piece){p->p_vaddr, bytes, at};
	return true;
}

/* Files that no part of the core file begins with. */
static size_t add_files(const struct core *c, struct mapped_part *part, size_t count)
{
	size_t all = count;

	for (uint64_t i = 0; i < c->file_count; i++) {
		uint64_t start = word_at(c->files + 24 * i);
		struct mapped_part m = {.map = {.start = start,
						.end = word_at(c->files + 24 * i + 8),
						.readable = true}};
		size_t low = FIRST_THAT(k, 0, count, part[k].map.end > start);

		if (m.map.end <= start || (low < count && part[low].map.start < m.map.end))
			continue;
		m.path = file_at(c, start, &m.map.offset);
		part[all++] = m;
	}
	return all;
}

static bool add_maps(struct core *c, struct memory_source *s)
{
	struct mapped_part *part = calloc(c->parts + c->file_count + 1, sizeof(*part));
	bool good = part != NULL, had_break = false;
	size_t count = 0, capacity = 0;

	qsort(c->part, c->parts, sizeof(*c->part), compare_parts);
	for (size_t i = 0; i < c->parts && good; i++) {
		const Elf64_Phdr *p = &c->part[i];

		if (p->p_type != PT_LOAD || p->p_vaddr >> 47 || p->p_memsz >> 47 || !p->p_memsz)
			continue;
		good = take_part(c, s, p, &part[count++], &capacity);
	}
	if (good) {
		count = add_files(c, part, count);
		qsort(part, count, sizeof(*part), compare_mapped);
	}
	for (size_t i = 0; i < count && good; i++) {
		const struct process_map *m = &part[i].map;

		if (!*part[i].path && m->writable && !had_break &&
		    looks_like_break(s, m->start, m->end)) {
			had_break = true;
			part[i].path = "[heap]";
		}
		if (c->in_stack >= m->start && c->in_stack < m->end)
			part[i].path = "[stack]";
		good = process_maps_add(&s->maps, *m, part[i].path);
	}
	free(part);
	return good && s->maps.count > 0;
}

static bool open_file(struct memory_source *s, const char *path, char *why, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		snprintf(why, size, "%s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return false;
	}
	if (S_ISREG(st.st_mode) && st.st_size > 0)
		s->image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (!s->image || s->image == MAP_FAILED) {
		s->image = NULL;
		return says(why, size, "it is neither the number of a process nor a core file");
	}
	s->image_bytes = (size_t)st.st_size;
	s->image_is_mapped = true;
	return true;
}

bool memory_source_open_core(struct memory_source *s, const char *path, char *why, size_t size)
{
	struct core c = {0};
	size_t capacity = 0;
	bool good;

	*s = (struct memory_source){.fd = -1, .pages = -1, .touched = -1, .image_pages = -1};
	good = open_file(s, path, why, size);
	if (good) {
		c.at = s->image;
		c.bytes = s->image_bytes;
		good = read_parts(&c, why, size);
	}
	for (size_t i = 0; i < c.parts && good; i++)
		if (c.part[i].p_type == PT_NOTE && !read_notes(&c, s, &c.part[i], &capacity))
			good = says(why, size, "out of memory");
	if (good && !add_maps(&c, s))
		good = says(why, size, "it is damaged: its memory is missing or overlaps");
	free(c.part);
	if (!good)
		memory_source_close(s);
	return good;
}
