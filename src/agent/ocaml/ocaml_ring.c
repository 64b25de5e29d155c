/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder asks OCaml 5's runtime for its events by two variables of the environment. Unless
 * children are followed, these are removed after the runtime has read them: the program's children
 * must find the environment that they would have without us, and an OCaml program that starts when
 * the recorder's folder is gone would not run.
 *
 * A child that Unix.fork has made opens a file of its own in any case, and the runtime ends it when it cannot: the
 * program has another user or root by then, or the disk is full. So the runtime's open() is led here, which gives it
 * memory without a name instead.
 */
#include "agent/ocaml/ocaml_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"
#include "agent/life.h"
#include "agent/real.h"
#include "agent/slots.h"
#include "base/ocaml_rings.h"

#define START  OCAML_RINGS_START
#define FOLDER OCAML_RINGS_FOLDER

static char folder[1024]; /* of the recorder; "": it reads no events */
static uint64_t file_bytes;
static long first; /* the process that was started with the variables */

/* Only this process's file is opened to be written in the folder: FOLDER/PID.events. */
static bool is_ring(const char *path, int flags)
{
	size_t length = strlen(folder);

	return length && path && flags == (O_RDWR | O_CREAT) && !strncmp(path, folder, length) &&
	       path[length] == '/' && !strchr(path + length + 1, '/');
}

static int without_name(void)
{
	long fd = sys_call6(SYS_memfd_create, (long)"events", MFD_CLOEXEC, 0, 0, 0, 0);

	return sys_failed(fd) ? -1 : (int)fd;
}

/* Its blocks are on the disk: a full one would mean SIGBUS later. */
static int with_blocks(const char *path, int fd)
{
	if (!sys_failed(sys_call6(SYS_fallocate, fd, 0, 0, (long)file_bytes, 0, 0)))
		return fd;
	sys_close(fd);
	unlink(path);
	return -1;
}

static int open_ring(const char *path, int flags, mode_t mode, int (*under)(const char *, int, ...))
{
	bool shown = sys_getpid() == first || agent_config.follow;
	int fd = shown ? under(path, flags, mode) : -1;

	if (fd >= 0 && sys_getpid() != first)
		fd = with_blocks(path, fd);
	return fd >= 0 ? fd : without_name();
}

/* As open() is called: the mode is there with O_CREAT and O_TMPFILE. */
#define OPEN(name)                                                                                 \
	static int our_##name(const char *path, int flags, ...)                                    \
	{                                                                                          \
		mode_t mode = 0;                                                                   \
		va_list more;                                                                      \
                                                                                                   \
		va_start(more, flags);                                                             \
		if (flags & (O_CREAT | O_TMPFILE))                                                 \
			mode = va_arg(more, mode_t);                                               \
		va_end(more);                                                                      \
		return is_ring(path, flags) ? open_ring(path, flags, mode, name)                   \
					    : name(path, flags, mode);                             \
	}
OPEN(open)
OPEN(open64)

static void change_slot(const struct image *o, void **slot, const char *name, uint32_t type,
			void *unused)
{
	void *ours = !strcmp(name, "open")     ? (void *)our_open
		     : !strcmp(name, "open64") ? (void *)our_open64
					       : NULL;

	(void)type, (void)unused;
	if (ours)
		slots_change(o, slot, __atomic_load_n(slot, __ATOMIC_ACQUIRE), ours);
}

/* The first is the program, which has the runtime in it. */
static int look_at_program(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct image o;

	(void)size, (void)unused;
	if (slots_image(info, &o))
		slots_each(&o, change_slot, NULL);
	return 1;
}

static bool is_variable(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(entry, name, length) && entry[length] == '=';
}

/* In place, as in environment.c: nothing is allocated. The program has one thread. */
static void hide(void)
{
	char **out = environ;

	if (!environ)
		return;
	for (char **in = environ; *in; in++)
		if (!is_variable(*in, START) && !is_variable(*in, FOLDER))
			*out++ = *in;
	*out = NULL;
}

bool ocaml_ring_is_read(void)
{
	return agent_config.runtime_events && getenv(START);
}

void ocaml_ring_hide(void)
{
	if (agent_config.runtime_events && !agent_config.follow)
		hide();
}

/* Before main: the runtime has not started. */
__attribute__((constructor)) static void start(void)
{
	int (*each_library)(int (*)(struct dl_phdr_info *, size_t, void *), void *) = NULL;
	const char *theirs = life_start() && ocaml_ring_is_read() ? getenv(FOLDER) : NULL;
	int error = errno;

	if (!theirs || strlen(theirs) >= sizeof(folder))
		return;
	/* A program may start others with other parameters. */
	if (ocaml_rings_size(&file_bytes) != OCAML_RINGS_GOOD) {
		hide();
		return;
	}
	strcpy(folder, theirs);
	first = sys_getpid();
	REAL_LOOK_UP(each_library, dl_iterate_phdr);
	if (each_library)
		each_library(look_at_program, NULL);
	errno = error;
}
