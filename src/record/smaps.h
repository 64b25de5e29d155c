/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of a process, from /proc/PID/smaps, sorted by kind:
 *
 *	/usr/bin/x r-xp ─┐					FILE
 *	/usr/bin/x rw-p ─┴─ changed pages			DATA
 *	(no name)  rw-p ─── follows: .bss, as long as		DATA, the rest ANONYMOUS
 *			    the ELF file says that it is
 *
 * The kernel does not mark stacks of threads or arenas, but glibc has a layout for them: a stack
 * has a small inaccessible range below it; an arena begins at a multiple of its largest size, and
 * its unused part is inaccessible.
 */
#ifndef MAYFLY_SMAPS_H
#define MAYFLY_SMAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/write/residency.h"

/* How much memory the .bss of an ELF file has beyond its last page of .data. */
struct module_bss {
	char *path;
	uint64_t bytes;
};

/* The modules that were looked at so far. */
struct module_cache {
	struct module_bss *module;
	size_t modules, room;
};

struct smaps {
	struct residency rows;
	uint64_t count, proportional, resident;
	uint64_t kind_size[MAYFLY_MAPPING_KINDS], kind_resident[MAYFLY_MAPPING_KINDS];
	uint64_t kind_count[MAYFLY_MAPPING_KINDS];
};

/* spool: the base name of the file that the agent has mapped. False: it could not be read; s is to
 * be freed in both cases, with residency_free(&s->rows). */
bool smaps_read(struct smaps *s, pid_t pid, const char *spool, struct module_cache *cache);

void module_cache_free(struct module_cache *cache);

#endif
