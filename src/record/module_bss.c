/* SPDX-License-Identifier: Apache-2.0 */
/* The size of .bss: see module_bss.h. */
#include "record/module_bss.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

#define MOST_HEADERS 64
#define MOST_MODULES 4096
#define PAGE_BYTES   4096u

static uint64_t page_up(uint64_t address)
{
	return (address + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
}

/* The bytes of the segment that needs most. */
static uint64_t read_bss(int fd)
{
	Elf64_Ehdr header;
	Elf64_Phdr program[MOST_HEADERS];
	uint64_t most = 0;
	ssize_t bytes;

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(*program) ||
	    header.e_phnum > MOST_HEADERS)
		return 0;
	bytes = (ssize_t)(header.e_phnum * sizeof(*program));
	if (pread(fd, program, (size_t)bytes, (off_t)header.e_phoff) != bytes)
		return 0;
	for (size_t i = 0; i < header.e_phnum; i++) {
		uint64_t file = page_up(program[i].p_vaddr + program[i].p_filesz);
		uint64_t memory = page_up(program[i].p_vaddr + program[i].p_memsz);

		if (program[i].p_type == PT_LOAD && memory > file && memory - file > most)
			most = memory - file;
	}
	return most;
}

/* A program whose file was removed is still there by another name. */
static int open_module(pid_t pid, const char *path)
{
	char link[64], target[4200];
	int fd;
	ssize_t n;

	snprintf(target, sizeof(target), "/proc/%d/root%s", (int)pid, path);
	fd = open(target, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, target, sizeof(target) - 1);
	if (n <= 0)
		return -1;
	target[n] = 0;
	return strcmp(target, path) ? -1 : open(link, O_RDONLY | O_CLOEXEC);
}

uint64_t module_bss_bytes(struct module_cache *cache, pid_t pid, const char *path)
{
	struct module_bss *m;
	struct stat status;
	uint64_t bytes = 0;
	int fd;

	for (size_t i = 0; i < cache->modules; i++)
		if (!strcmp(cache->module[i].path, path))
			return cache->module[i].bytes;
	fd = open_module(pid, path);
	if (fd >= 0) {
		if (!fstat(fd, &status) && S_ISREG(status.st_mode))
			bytes = read_bss(fd);
		close(fd);
	}
	if (cache->modules == MOST_MODULES ||
	    !array_reserve(&cache->module, &cache->room, cache->modules, sizeof(*m)))
		return bytes;
	m = &cache->module[cache->modules];
	m->path = strdup(path);
	m->bytes = bytes;
	cache->modules += m->path != NULL;
	return bytes;
}

void module_cache_free(struct module_cache *cache)
{
	for (size_t i = 0; i < cache->modules; i++)
		free(cache->module[i].path);
	free(cache->module);
	*cache = (struct module_cache){0};
}
