/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a program before it starts: see program.h. */
#include "record/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "record/machine.h"

/* Interpreters of interpreters, as deep as the kernel goes. */
#define MAX_SCRIPTS 5

struct image {
	const uint8_t *data;
	size_t size;
};

__attribute__((format(printf, 2, 3))) static void set_why(struct program *p, const char *format,
							  ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(p->why, sizeof(p->why), format, arguments);
	va_end(arguments);
	p->ordinary = false;
}

static const void *at(const struct image *i, uint64_t offset, uint64_t size)
{
	if (offset > i->size || size > i->size - offset)
		return NULL;
	return i->data + offset;
}

/* A string that ends inside the image, or NULL. */
static const char *string_at(const struct image *i, uint64_t offset)
{
	if (offset >= i->size || !memchr(i->data + offset, 0, i->size - offset))
		return NULL;
	return (const char *)i->data + offset;
}

static bool runnable(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* The file that execvp() would run, or NULL. */
static char *find_in_path(const char *command)
{
	const char *list = getenv("PATH");
	char *path = NULL;

	if (strchr(command, '/'))
		return strdup(command);
	if (!list)
		list = "/bin:/usr/bin";
	for (;;) {
		int length = (int)strcspn(list, ":");

		/* An empty part is the current folder. */
		if (asprintf(&path, "%.*s%s%s", length, list, length ? "/" : "./", command) < 0)
			return NULL;
		if (runnable(path))
			return path;
		free(path);
		if (!list[length])
			return NULL;
		list += length + 1;
	}
}

bool program_library_brings_new(const char *library)
{
	static const char *const names[] = {"libjemalloc", "libtcmalloc", "libmimalloc"};
	const char *slash = strrchr(library, '/');
	const char *base = slash ? slash + 1 : library;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return false;
}

/* The agent for programs that this loader (PT_INTERP) starts. Another one would keep them from
 * starting (musl), or would be a second agent (glibc). */
static const char *agent_for(const char *loader)
{
	const char *slash = strrchr(loader, '/');

	return strncmp(slash ? slash + 1 : loader, "ld-musl", 7) ? "libmayfly.so"
								 : "libmayfly-musl.so";
}

/* If starting the file changes the identity of the process, the kernel sets AT_SECURE, and the
 * loader then ignores LD_PRELOAD. */
static void check_privileges(struct program *p, const char *path)
{
	struct statvfs fs;
	struct stat st;

	if (stat(path, &st) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return;
	if (!statvfs(path, &fs) && (fs.f_flag & ST_NOSUID))
		return;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		set_why(p, "it is set-user-ID, and the loader preloads nothing into such programs");
	else if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
		set_why(p,
			"it is set-group-ID, and the loader preloads nothing into such programs");
	else if (getuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		set_why(p, "it has file capabilities, and the loader preloads nothing into such "
			   "programs");
}

static const Elf64_Phdr *segment(const struct image *i, const Elf64_Ehdr *e, uint32_t type)
{
	for (unsigned int n = 0; n < e->e_phnum; n++) {
		const Elf64_Phdr *ph = at(i, e->e_phoff + (uint64_t)n * sizeof(*ph), sizeof(*ph));

		if (!ph)
			return NULL;
		if (ph->p_type == type)
			return ph;
	}
	return NULL;
}

/* Where in the file the virtual address is, or UINT64_MAX. */
static uint64_t file_offset(const struct image *i, const Elf64_Ehdr *e, uint64_t address)
{
	for (unsigned int n = 0; n < e->e_phnum; n++) {
		const Elf64_Phdr *ph = at(i, e->e_phoff + (uint64_t)n * sizeof(*ph), sizeof(*ph));

		if (ph && ph->p_type == PT_LOAD && address >= ph->p_vaddr &&
		    address - ph->p_vaddr < ph->p_filesz)
			return address - ph->p_vaddr + ph->p_offset;
	}
	return UINT64_MAX;
}

static void check_libraries(struct program *p, const struct image *i, const Elf64_Ehdr *e)
{
	const Elf64_Phdr *ph = segment(i, e, PT_DYNAMIC);
	const Elf64_Dyn *dynamic = ph ? at(i, ph->p_offset, ph->p_filesz) : NULL;
	uint64_t strings = UINT64_MAX;
	size_t count;

	if (!dynamic || ph->p_offset % sizeof(uint64_t))
		return;
	for (count = 0; count < ph->p_filesz / sizeof(*dynamic); count++) {
		if (dynamic[count].d_tag == DT_NULL)
			break;
		if (dynamic[count].d_tag == DT_STRTAB)
			strings = file_offset(i, e, dynamic[count].d_un.d_ptr);
	}
	for (size_t n = 0; n < count && strings < i->size; n++) {
		uint64_t offset = dynamic[n].d_un.d_val;
		const char *name;

		if (dynamic[n].d_tag != DT_NEEDED || offset > i->size)
			continue;
		name = string_at(i, strings + offset);
		if (name && program_library_brings_new(name))
			p->brings_new = true;
		if (name &&
		    (!strncmp(name, "libasan.so", 10) || !strncmp(name, "libhwasan.so", 12))) {
			/* Its runtime ends the program when another library is loaded first. */
			set_why(p,
				"it is built with AddressSanitizer, which brings its own malloc");
			p->breaks = true;
		}
	}
}

/* ocamlopt exports the runtime's functions, also from stripped programs. The sampling of blocks came
 * with 5.3, as did the numbers of events that we know. */
static bool has_ocaml_events(const struct image *i, const Elf64_Ehdr *e)
{
	static const char sampling[] = "\0caml_memprof_sample_block";
	static const char events[] = "\0caml_runtime_events_post_fork";
	const Elf64_Phdr *ph = segment(i, e, PT_DYNAMIC);
	const Elf64_Dyn *dynamic = ph ? at(i, ph->p_offset, ph->p_filesz) : NULL;
	uint64_t strings = UINT64_MAX, bytes = 0;
	const void *names;

	for (size_t n = 0; dynamic && n < ph->p_filesz / sizeof(*dynamic); n++) {
		if (dynamic[n].d_tag == DT_STRTAB)
			strings = file_offset(i, e, dynamic[n].d_un.d_ptr);
		else if (dynamic[n].d_tag == DT_STRSZ)
			bytes = dynamic[n].d_un.d_val;
		else if (dynamic[n].d_tag == DT_NULL)
			break;
	}
	names = strings != UINT64_MAX ? at(i, strings, bytes) : NULL;
	return names && memmem(names, bytes, sampling, sizeof(sampling)) &&
	       memmem(names, bytes, events, sizeof(events));
}

/* Is libmayfly.a linked into the program? Its note is in agent/linked.c. */
static bool has_agent(const struct image *i, const Elf64_Ehdr *e)
{
	for (unsigned int n = 0; n < e->e_phnum; n++) {
		const Elf64_Phdr *ph = at(i, e->e_phoff + (uint64_t)n * sizeof(*ph), sizeof(*ph));
		const void *notes =
		    ph && ph->p_type == PT_NOTE ? at(i, ph->p_offset, ph->p_filesz) : NULL;

		if (notes && memmem(notes, ph->p_filesz, "mayfly", sizeof("mayfly")))
			return true;
	}
	return false;
}

/* The loader itself, which is run with the program as its argument: it preloads, too. */
static bool is_loader(const char *path)
{
	char *real = realpath(path, NULL);
	const char *slash = real ? strrchr(real, '/') : NULL;
	bool loader =
	    slash && (!strncmp(slash + 1, "ld-linux", 8) || !strncmp(slash + 1, "ld-musl", 7));

	free(real);
	return loader;
}

static void check_elf(struct program *p, const struct image *i, const char *path)
{
	const Elf64_Ehdr *e = at(i, 0, sizeof(*e));
	const Elf64_Phdr *ph;
	const char *loader;

	if (i->data[EI_CLASS] != ELFCLASS64) {
		set_why(p, "it is a 32-bit program, and the agent is for 64-bit programs");
		return;
	}
	if (!e)
		return;
	if (e->e_machine != MACHINE_ELF) {
		set_why(p, "it is for another kind of CPU");
		p->breaks = true; /* its loader would print errors */
		return;
	}
	if (e->e_phentsize != sizeof(*ph) || e->e_phoff % sizeof(uint64_t))
		return;
	ph = segment(i, e, PT_INTERP);
	if (!ph && is_loader(path)) {
		p->agent = agent_for(path);
		return;
	}
	if (!ph) {
		if (!has_agent(i, e))
			set_why(p, "it is linked statically, so no loader is there to preload the "
				   "agent; link libmayfly.a into it");
		return;
	}
	loader = string_at(i, ph->p_offset);
	if (loader)
		p->agent = agent_for(loader);
	check_libraries(p, i, e);
	p->ocaml_events = has_ocaml_events(i, e);
}

/* The interpreter of a script's first line; false when there is none. */
static bool script_interpreter(const struct image *i, char *interpreter, size_t size)
{
	size_t limit = i->size < 256 ? i->size : 256, from = 2, to;

	if (i->size < 3 || i->data[0] != '#' || i->data[1] != '!')
		return false;
	while (from < limit && (i->data[from] == ' ' || i->data[from] == '\t'))
		from++;
	for (to = from; to < limit; to++)
		if (strchr(" \t\n", i->data[to])) /* finds the zero too */
			break;
	if (to == from || to - from >= size)
		return false;
	memcpy(interpreter, i->data + from, to - from);
	interpreter[to - from] = 0;
	return true;
}

static bool map_image(const char *path, struct image *i)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	void *data = MAP_FAILED;

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= 4) {
		i->size = (size_t)st.st_size;
		data = mmap(NULL, i->size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	i->data = data;
	return data != MAP_FAILED;
}

static void inspect_file(struct program *p, const char *path, unsigned int depth)
{
	struct image i;

	if (!map_image(path, &i)) {
		check_privileges(p, path); /* it may be executable but not readable */
		return;
	}
	if (i.size > EI_CLASS && !memcmp(i.data, ELFMAG, SELFMAG)) {
		check_elf(p, &i, path);
		if (p->ordinary)
			check_privileges(p, path);
		munmap((void *)i.data, i.size);
		return;
	}
	/* execvp() hands a file that is neither a binary nor "#!" to the shell. */
	if (!script_interpreter(&i, p->interpreter, sizeof(p->interpreter)))
		strcpy(p->interpreter, "/bin/sh");
	munmap((void *)i.data, i.size);
	if (depth < MAX_SCRIPTS) {
		char next[sizeof(p->interpreter)];

		memcpy(next, p->interpreter, sizeof(next));
		inspect_file(p, next, depth + 1);
	}
}

void program_inspect(struct program *p, const char *command)
{
	memset(p, 0, sizeof(*p));
	p->ordinary = true;
	p->agent = "libmayfly.so";
	p->path = find_in_path(command);
	if (p->path && runnable(p->path))
		inspect_file(p, p->path, 0);
}

void program_free(struct program *p)
{
	free(p->path);
	p->path = NULL;
}
