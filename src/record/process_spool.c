/* SPDX-License-Identifier: Apache-2.0 */
/* The spool that a process writes now: see process_spool.h. */
#include "record/process_spool.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/process_file.h"

#define DELETED " (deleted)"

/* A line of /proc/PID/maps that may be of a spool's header. */
struct place {
	unsigned long long start, inode;
	char *path;
};

static bool read_line(char *line, struct place *p)
{
	unsigned long long end, offset;
	char rights[8];
	int at = 0;

	if (sscanf(line, "%llx-%llx %7s %llx %*x:%*x %llu %n", &p->start, &end, rights, &offset,
		   &p->inode, &at) != 5 ||
	    !at)
		return false;
	line[strcspn(line, "\n")] = 0;
	p->path = line + at;
	return p->inode && *p->path == '/' && !offset && !strcmp(rights, "rw-s") &&
	       end - p->start >= SPOOL_HEADER_BYTES;
}

/* Where the process's memory may not be read, the file has the same. */
static bool read_header(pid_t pid, const struct place *p, struct spool_header *h)
{
	int fd = process_file_open(pid, "mem");
	bool good = fd >= 0 && pread(fd, h, sizeof(*h), (off_t)p->start) == (ssize_t)sizeof(*h);

	if (fd >= 0)
		close(fd);
	if (!good) {
		fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		good = fd >= 0 && pread(fd, h, sizeof(*h), 0) == (ssize_t)sizeof(*h);
		if (fd >= 0)
			close(fd);
	}
	return good && !memcmp(h->magic, SPOOL_MAGIC, sizeof(h->magic)) &&
	       h->version == SPOOL_VERSION;
}

/* A forked child has that of its parent until it has its own, and a recorder has many. */
static bool is_its_own(pid_t pid, const struct spool_header *h)
{
	uint32_t own = process_file_own_namespace();

	return !own || h->pid_namespace != own || h->pid == (uint32_t)pid;
}

static void take_path(struct process_spool *s, const struct place *p)
{
	size_t length = strlen(p->path), ending = strlen(DELETED);
	struct stat st;

	s->gone = length > ending && !strcmp(p->path + length - ending, DELETED);
	if (s->gone)
		length -= ending;
	snprintf(s->path, sizeof(s->path), "%.*s", (int)length, p->path);
	s->gone |= stat(s->path, &st) != 0;
}

bool process_spool_find(pid_t pid, struct process_spool *s)
{
	char name[64], line[PATH_MAX + 128];
	bool found = false;
	struct place p;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = fopen(name, "re");
	while (maps && !found && fgets(line, sizeof(line), maps)) {
		found = read_line(line, &p) && read_header(pid, &p, &s->header) &&
			is_its_own(pid, &s->header);
		if (found)
			take_path(s, &p);
	}
	if (maps)
		fclose(maps);
	return found;
}
