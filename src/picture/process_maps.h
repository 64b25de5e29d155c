/* SPDX-License-Identifier: Apache-2.0 */
/* What is mapped in a process: the lines of /proc/PID/maps, or the same from a core file. */
#ifndef MAYFLY_PROCESS_MAPS_H
#define MAYFLY_PROCESS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process_map {
	uint64_t start, end, offset;
	bool readable, writable, executable, shared;
	char *path; /* "" : anonymous; "[heap]"; a path without " (deleted)" */
	bool deleted;
};

struct process_maps {
	struct process_map *map; /* in order of addresses */
	size_t count, capacity;
};

/* Reads the text from the file until its end. False: it is damaged, or out of memory. */
bool process_maps_read(struct process_maps *m, int fd);
/* Takes a copy of the path. */
bool process_maps_add(struct process_maps *m, struct process_map map, const char *path);
void process_maps_free(struct process_maps *m);

/* A process's own memory, without a file; not the break or a stack. Programs may name theirs. */
bool process_map_is_anonymous(const struct process_map *m);

/* Pointers of the program's can be in the map of that place: it is memory, not a device, that the program may read and
 * write, or could write until its loader was done with it (RELRO), in front of its other variables. */
bool process_maps_has_pointers(const struct process_maps *m, size_t at);

/* NULL: nothing is mapped there. */
const struct process_map *process_maps_at(const struct process_maps *m, uint64_t address);

#endif
