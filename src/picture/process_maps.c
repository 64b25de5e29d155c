/* SPDX-License-Identifier: Apache-2.0 */
/* What is mapped in a process: see process_maps.h. */
#include "picture/process_maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"

#define DELETED " (deleted)"

bool process_maps_add(struct process_maps *m, struct process_map map, const char *path)
{
	size_t length = strlen(path), ending = strlen(DELETED);

	if (map.end <= map.start || (m->count && map.start < m->map[m->count - 1].end) ||
	    !array_reserve(&m->map, &m->capacity, m->count, sizeof(*m->map)))
		return false;
	map.deleted = length > ending && !strcmp(path + length - ending, DELETED);
	map.path = strndup(path, map.deleted ? length - ending : length);
	if (!map.path)
		return false;
	m->map[m->count++] = map;
	return true;
}

static bool read_line(struct process_maps *m, char *line)
{
	unsigned long long start, end, offset;
	char right[5];
	int path = 0;

	line[strcspn(line, "\n")] = 0;
	if (sscanf(line, "%llx-%llx %4s %llx %*s %*s %n", &start, &end, right, &offset, &path) < 4)
		return false;
	/* The kernel's page for old system calls is in no process's own part of the addresses. */
	if (start >> 47)
		return true;
	return process_maps_add(m,
				(struct process_map){.start = start,
						     .end = end,
						     .offset = offset,
						     .readable = right[0] == 'r',
						     .writable = right[1] == 'w',
						     .executable = right[2] == 'x',
						     .shared = right[3] == 's'},
				path ? line + path : "");
}

bool process_maps_read(struct process_maps *m, int fd)
{
	int copy = dup(fd);
	FILE *file = copy >= 0 ? fdopen(copy, "r") : NULL;
	size_t size = 0;
	char *line = NULL;
	bool good = file != NULL;

	if (!file && copy >= 0)
		close(copy);
	while (good && getline(&line, &size, file) > 0)
		good = read_line(m, line);
	free(line);
	if (file)
		fclose(file);
	return good && m->count;
}

void process_maps_free(struct process_maps *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->map[i].path);
	free(m->map);
	*m = (struct process_maps){0};
}

bool process_map_is_anonymous(const struct process_map *m)
{
	return !m->shared && (!*m->path || !strncmp(m->path, "[anon:", 6));
}

static bool is_device(const char *path)
{
	static const char *const memory[] = {"/dev/zero", "/dev/shm/", "/dev/hugepages/"};

	for (size_t i = 0; i < sizeof(memory) / sizeof(*memory); i++)
		if (!strncmp(path, memory[i], strlen(memory[i])))
			return false;
	return !strncmp(path, "/dev/", 5) || !strcmp(path, "[vvar]");
}

bool process_maps_has_pointers(const struct process_maps *m, size_t at)
{
	const struct process_map *map = &m->map[at], *next = map + 1;

	if (!map->readable || is_device(map->path))
		return false;
	return map->writable ||
	       (!map->shared && !map->executable && *map->path == '/' && at + 1 < m->count &&
		next->writable && next->start == map->end && !strcmp(next->path, map->path));
}

const struct process_map *process_maps_at(const struct process_maps *m, uint64_t address)
{
	size_t low = FIRST_THAT(i, 0, m->count, m->map[i].end > address);

	return low < m->count && m->map[low].start <= address ? &m->map[low] : NULL;
}
