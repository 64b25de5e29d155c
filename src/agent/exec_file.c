/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that exec will run: see exec_file.h.
 *
 *	#! script  ──> its interpreter ──> ... ──> ELF: class, machine, name of the loader (PT_INTERP)
 *
 * Only what is certain to fail is refused: another class or machine, or a loader that is not ours.
 */
#include "agent/exec_file.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"
#include "agent/real.h"

#define HEAD_BYTES   1024 /* of the file: what Linux reads of a script, and more */
#define MOST_SCRIPTS 5	  /* interpreters of interpreters; the kernel follows fewer */

static long read_head(const char *path, char *head)
{
	long fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	long n;

	if (sys_failed(fd))
		return -1;
	n = sys_read((int)fd, head, HEAD_BYTES);
	sys_close((int)fd);
	return sys_failed(n) ? -1 : n;
}

/* Each C library has a loader of its own, and an agent. */
static bool loader_fits(const char *loader, size_t length)
{
	static const char musl[] = "ld-musl-";

	for (size_t i = 0; i + sizeof(musl) - 1 <= length; i++)
		if (!memcmp(loader + i, musl, sizeof(musl) - 1))
			return real_is_musl;
	return !real_is_musl;
}

static bool elf_fits(const char *head, size_t size)
{
	ElfW(Ehdr) e;
	ElfW(Phdr) p;

	if (head[EI_CLASS] != ELFCLASS64)
		return false;
	memcpy(&e, head, sizeof(e));
	if (e.e_machine != CPU_ELF_MACHINE)
		return false;
	if (e.e_phentsize != sizeof(p))
		return true;
	for (unsigned i = 0;
	     i < e.e_phnum && e.e_phoff < size && e.e_phoff + (i + 1) * sizeof(p) <= size; i++) {
		memcpy(&p, head + e.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_INTERP && p.p_offset < size && p.p_filesz <= size - p.p_offset)
			return loader_fits(head + p.p_offset, p.p_filesz);
	}
	return true;
}

/* "#! /bin/sh -e": cuts out the path. NULL: there is none. */
static const char *script_interpreter(char *head, size_t size)
{
	size_t begin = 2, end;

	while (begin < size && (head[begin] == ' ' || head[begin] == '\t'))
		begin++;
	for (end = begin; end < size && head[end] && !strchr(" \t\n", head[end]); end++)
		;
	if (end == begin || end == size)
		return NULL;
	head[end] = 0;
	return head + begin;
}

static bool path_fits(const char *path)
{
	char head[HEAD_BYTES], again[HEAD_BYTES];

	for (int i = 0; path && i < MOST_SCRIPTS; i++) {
		long n = read_head(path, head);

		if (n >= (long)sizeof(ElfW(Ehdr)) && !memcmp(head, ELFMAG, SELFMAG))
			return elf_fits(head, (size_t)n);
		if (n < 4 || head[0] != '#' || head[1] != '!')
			return true;
		path = script_interpreter(head, (size_t)n);
		if (path)
			path = strcpy(again, path);
	}
	return true;
}

static bool is_executable(const char *path)
{
	return !sys_failed(sys_call3(SYS_faccessat, AT_FDCWD, (long)path, X_OK));
}

/* As execvp looks for it. */
static bool search_fits(const char *name)
{
	const char *at = NULL;
	char path[PATH_MAX];

	for (char **e = environ; e && *e && !at; e++)
		if (!strncmp(*e, "PATH=", 5))
			at = *e + 5;
	while (at && *at) {
		size_t length = strcspn(at, ":"), more = strlen(name);

		if (length && length + 1 + more < sizeof(path)) {
			memcpy(path, at, length);
			path[length] = '/';
			memcpy(path + length + 1, name, more + 1);
			if (is_executable(path))
				return path_fits(path);
		}
		at += length + (at[length] != 0);
	}
	return true;
}

bool exec_file_fits(const char *name, bool search)
{
	/* An address that is wrong is the real function's to refuse. */
	if (agent_sandboxed || !name || !sys_readable((uintptr_t)name & ~(uintptr_t)7))
		return true;
	return search && !strchr(name, '/') ? search_fits(name) : path_fits(name);
}
