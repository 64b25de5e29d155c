/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory limit of a cgroup: see cgroup_limit.h.
 *
 *	/proc/PID/cgroup	files, for each folder from the deepest up to the root
 *	0::/a/b			ROOT/a/b/memory.max, ROOT/unified/a/b/memory.max
 *	4:memory:/a/b		ROOT/memory/a/b/memory.limit_in_bytes
 *
 * In a container the path is often that of the host, of which only the end is mounted: folders that
 * are not there are passed over.
 */
#include "record/cgroup_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/process_file.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
/* v1 says so where there is no limit: LONG_MAX, rounded down to a page. */
#define NO_LIMIT (UINT64_C(1) << 62)

static uint64_t least_of(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* 0: the file is not there, or says "max". */
static uint64_t read_limit(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char text[32];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	unsigned long long bytes;

	if (fd >= 0)
		close(fd);
	if (n <= 0 || text[0] < '0' || text[0] > '9')
		return 0;
	text[n] = 0;
	errno = 0;
	bytes = strtoull(text, NULL, 10);
	return errno || bytes >= NO_LIMIT ? 0 : bytes;
}

/* folder: below the root, "/" or "/a/b". */
static uint64_t limit_above(const char *root, const char *mount, const char *folder,
			    const char *file)
{
	char at[PATH_MAX], path[2 * PATH_MAX];
	uint64_t least = 0;
	char *slash;

	/* Outside of what is mounted: only the mount's own limit can be seen. */
	snprintf(at, sizeof(at), "%s", strstr(folder, "/..") ? "" : folder);
	for (;;) {
		snprintf(path, sizeof(path), "%s%s%s/%s", root, mount, at, file);
		least = least_of(least, read_limit(path));
		slash = strrchr(at, '/');
		if (!slash)
			return least;
		*slash = 0;
	}
}

static bool names_memory(const char *controllers)
{
	const char *end = strchr(controllers, ':');

	while (end && controllers < end) {
		size_t length = strcspn(controllers, ",:");

		if (length == strlen("memory") && !strncmp(controllers, "memory", length))
			return true;
		controllers += length + 1;
	}
	return false;
}

static uint64_t limit_of_line(const char *line, const char *root)
{
	const char *controllers = strchr(line, ':');
	const char *folder = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!folder)
		return 0;
	controllers++;
	folder++;
	if (names_memory(controllers))
		return limit_above(root, "/memory", folder, "memory.limit_in_bytes");
	if (*controllers != ':')
		return 0;
	return least_of(limit_above(root, "", folder, "memory.max"),
			limit_above(root, "/unified", folder, "memory.max"));
}

uint64_t cgroup_limit_of(const char *text, const char *root)
{
	char line[PATH_MAX];
	uint64_t least = 0;

	while (*text) {
		size_t length = strcspn(text, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)(length < PATH_MAX ? length : 0), text);
		least = least_of(least, limit_of_line(line, root));
		text += length + (text[length] == '\n');
	}
	return least;
}

uint64_t cgroup_memory_limit(pid_t pid)
{
	char text[8192];

	return process_file_read(pid, "cgroup", text, sizeof(text))
		   ? cgroup_limit_of(text, CGROUP_ROOT)
		   : 0;
}
