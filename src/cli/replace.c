/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a new trace may take the place of a file. */
#include "cli/replace.h"

#include <fcntl.h>
#include <mayfly/trace.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/message.h"

/* Something that mayfly wrote, or empty as from mktemp: a new recording may take its place. */
static bool may_replace(const char *file, const struct stat *st)
{
	struct mayfly_trace *trace;
	void *data;
	int fd, error;

	if (!st->st_size)
		return true;
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	data = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return false;
	error = mayfly_trace_open(data, (size_t)st->st_size, &trace);
	if (!error)
		mayfly_trace_close(trace);
	munmap(data, (size_t)st->st_size);
	return error != MAYFLY_E_NOT_A_TRACE;
}

bool replace_allowed(const char *file, bool force)
{
	struct stat st;

	if (stat(file, &st))
		return true;
	if (S_ISDIR(st.st_mode)) {
		cli_error("'%s' is a folder; name a file with -o", file);
		return false;
	}
	if (!S_ISREG(st.st_mode)) {
		cli_error("'%s' is no ordinary file; the recording needs one", file);
		return false;
	}
	if (force || may_replace(file, &st))
		return true;
	cli_error("'%s' exists and is no trace; use another name or --force", file);
	return false;
}
