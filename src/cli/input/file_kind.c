/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are no traces: see file_kind.h. */
#include "cli/input/file_kind.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer/text_format.h"
#include "answer/trace_names.h"

enum file_kind {
	KIND_UNKNOWN,
	KIND_PROGRAM,
	KIND_SCRIPT,
	KIND_LIBRARY,
	KIND_OBJECT,
	KIND_CORE,
	KIND_PERF
};

/* A position-independent program is a shared object, too; only libraries are called so. */
static enum file_kind elf_kind(const uint8_t *data, const char *path)
{
	bool big = data[EI_DATA] == ELFDATA2MSB;
	unsigned type = data[EI_NIDENT + !big] << 8 | data[EI_NIDENT + big];

	switch (type) {
	case ET_EXEC:
		return KIND_PROGRAM;
	case ET_DYN:
		return strstr(path_base(path), ".so") ? KIND_LIBRARY : KIND_PROGRAM;
	case ET_REL:
		return KIND_OBJECT;
	case ET_CORE:
		return KIND_CORE;
	default:
		return KIND_UNKNOWN;
	}
}

static enum file_kind kind_of(const void *data, size_t bytes, const char *path)
{
	if (bytes >= EI_NIDENT + 2 && memcmp(data, ELFMAG, SELFMAG) == 0)
		return elf_kind(data, path);
	if (bytes >= 2 && memcmp(data, "#!", 2) == 0)
		return KIND_SCRIPT;
	return bytes >= 8 && memcmp(data, "PERFILE2", 8) == 0 ? KIND_PERF : KIND_UNKNOWN;
}

char *file_kind_text(char *buffer, size_t size, const void *data, size_t bytes, const char *path)
{
	switch (kind_of(data, bytes, path)) {
	case KIND_PROGRAM:
		return text_format(buffer, size, "is a program; 'mayfly record -- %s' records it",
				   path);
	case KIND_SCRIPT:
		return text_format(buffer, size, "is a script; 'mayfly record -- %s' records it",
				   path);
	case KIND_LIBRARY:
		return text_format(buffer, size,
				   "is a shared library; record a program that uses it: 'mayfly "
				   "record -- PROGRAM'");
	case KIND_OBJECT:
		return text_format(buffer, size,
				   "is an object file; link it, and record the program");
	case KIND_CORE:
		return text_format(buffer, size,
				   "is a core file, which does not say what allocated its memory; "
				   "record the program: 'mayfly record -- PROGRAM'");
	case KIND_PERF:
		return text_format(buffer, size,
				   "is a file of perf; record the program: 'mayfly record -- "
				   "PROGRAM'");
	case KIND_UNKNOWN:
		break;
	}
	*buffer = 0;
	return buffer;
}

bool file_is_program(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint8_t begin[EI_NIDENT + 2];
	struct stat status;
	enum file_kind kind;
	ssize_t got = 0;

	if (fd < 0)
		return false;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		got = read(fd, begin, sizeof(begin));
	close(fd);
	kind = got > 0 ? kind_of(begin, (size_t)got, path) : KIND_UNKNOWN;
	return kind == KIND_PROGRAM || (kind == KIND_SCRIPT && access(path, X_OK) == 0);
}

bool file_in_path(const char *command)
{
	const char *folders = getenv("PATH");
	char path[PATH_MAX];
	struct stat status;

	for (const char *at = folders; at && *command; at = *at ? at + 1 : NULL) {
		size_t length = strcspn(at, ":");

		if (snprintf(path, sizeof(path), "%.*s/%s", (int)length, at, command) <
			(int)sizeof(path) &&
		    stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0)
			return true;
		at += length;
	}
	return false;
}
