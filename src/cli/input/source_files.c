/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page asks for a file by its name. A trace may come from anybody, and so may a request that
 * got past the server's checks: only what the trace names is read, and only if it is text.
 */
#include "cli/input/source_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_SOURCE_BYTES ((off_t)16 << 20)
#define PIECE_BYTES	  ((size_t)64 << 10)

static bool is_named(const struct mayfly_trace *trace, const char *path)
{
	size_t frames = mayfly_trace_info(trace)->frames;

	for (size_t i = 0; i < frames; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, i);

		for (size_t j = 0; frame && j < frame->locations; j++)
			if (strcmp(frame->location[j].file, path) == 0)
				return true;
	}
	return false;
}

static bool is_source(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_size <= MOST_SOURCE_BYTES;
}

static bool read_text(int fd, struct bytes *text)
{
	for (;;) {
		uint8_t *room = bytes_extend(text, PIECE_BYTES);
		ssize_t got = room ? read(fd, room, PIECE_BYTES) : -1;

		if (got < 0 || (got && memchr(room, 0, (size_t)got)))
			return false;
		if (!got)
			return true;
		text->used += (size_t)got;
		if (text->used > (size_t)MOST_SOURCE_BYTES)
			return false;
	}
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	while (length && folder[length - 1] == '/')
		length--;
	return strncmp(path, folder, length) == 0 && path[length] == '/';
}

/* The file itself, whatever its name has come to mean meanwhile. */
static bool is_open_below(int fd, const char *folder)
{
	char link[32], path[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return false;
	path[length] = 0;
	return is_below(path, folder);
}

/* Devices are not even opened: that can have an effect. folder NULL: wherever it is. */
static bool read_file(const char *path, const char *folder, struct bytes *text)
{
	size_t before = text->used;
	struct stat status;
	bool good;
	int fd;

	if (stat(path, &status) || !is_source(&status))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	good = fstat(fd, &status) == 0 && is_source(&status) &&
	       (!folder || is_open_below(fd, folder)) && read_text(fd, text);
	if (!good)
		text->used = before;
	close(fd);
	return good;
}

/* A path with ".." in it could lead out of the current directory. */
static bool leads_up(const char *path)
{
	for (; *path; path += strcspn(path, "/"), path += strspn(path, "/"))
		if (path[0] == '.' && path[1] == '.' && (path[2] == '/' || !path[2]))
			return true;
	return false;
}

static bool read_below(const char *folder, const char *path, struct bytes *text,
		       char found[PATH_MAX])
{
	char joined[PATH_MAX];
	int length;

	if (!folder) {
		snprintf(found, PATH_MAX, "%s", path);
		return read_file(path, NULL, text);
	}
	length = snprintf(joined, sizeof(joined), "%s%s%s", *path == '/' ? "" : folder,
			  *path == '/' ? "" : "/", path);
	return length < (int)sizeof(joined) && realpath(joined, found) && is_below(found, folder) &&
	       read_file(found, folder, text);
}

bool source_file_read(const struct mayfly_trace *trace, const char *folder, const char *path,
		      struct bytes *text, char found[PATH_MAX])
{
	if (!*path || !is_named(trace, path))
		return false;
	if (read_below(folder, path, text, found))
		return true;
	if (leads_up(path))
		return false;
	/* Built elsewhere: /builds/42/src/main.c is perhaps src/main.c here. */
	while ((path = strchr(path, '/'))) {
		path += strspn(path, "/");
		if (*path && read_below(folder, path, text, found))
			return true;
	}
	return false;
}

bool view_read_source(void *trace, const char *path, struct bytes *text)
{
	char found[PATH_MAX];

	return source_file_read(trace, NULL, path, text, found);
}
