/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the file that a command was given. */
#include "open_trace.h"

#include "cli.h"
#include "finalise.h"
#include "trace/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A mapped file that somebody makes shorter while it is read raises SIGBUS. */
static void on_bus_error(int signal_number)
{
	static const char text[] = "mayfly: the file became shorter while it was read; try again\n";
	ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)signal_number;
	(void)written;
	_exit(CLI_FAILED);
}

static bool read_all(int fd, struct opened_trace *opened)
{
	size_t room = 0;
	uint8_t *data = NULL;

	for (;;) {
		ssize_t got;

		if (opened->size == room) {
			uint8_t *grown;

			room = room ? room * 2 : 1u << 20;
			grown = room ? realloc(data, room) : NULL;
			if (!grown) {
				free(data);
				errno = ENOMEM;
				return false;
			}
			data = grown;
		}
		got = read(fd, data + opened->size, room - opened->size);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int error = errno;

			free(data);
			errno = error;
			return false;
		}
		if (got == 0)
			break;
		opened->size += (size_t)got;
	}
	opened->data = data;
	return true;
}

static bool map_file(int fd, size_t size, struct opened_trace *opened)
{
	void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	struct sigaction action = {.sa_handler = on_bus_error};

	if (data == MAP_FAILED)
		return false;
	sigaction(SIGBUS, &action, NULL);
	opened->data = data;
	opened->size = size;
	opened->mapped = true;
	return true;
}

/* Fills data and size; false with errno. */
static bool load(const char *path, struct opened_trace *opened)
{
	bool standard_input = strcmp(path, "-") == 0;
	int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	bool loaded = false;
	int error;

	if (fd < 0)
		return false;
	if (fstat(fd, &status) == 0) {
		if (S_ISDIR(status.st_mode))
			errno = EISDIR;
		else if (S_ISREG(status.st_mode) && status.st_size > 0 && !standard_input)
			loaded =
			    map_file(fd, (size_t)status.st_size, opened) || read_all(fd, opened);
		else
			loaded = read_all(fd, opened);
	}
	error = errno;
	if (!standard_input)
		close(fd);
	errno = error;
	return loaded;
}

static void unload(struct opened_trace *opened)
{
	if (opened->mapped)
		munmap(opened->data, opened->size);
	else
		free(opened->data);
	*opened = (struct opened_trace){0};
}

static void say_unreadable(const char *path, int error)
{
	if (error == EISDIR)
		cli_error("%s: is a folder; name the trace file in it", path);
	else if (error == ENOENT)
		cli_error("%s: no such file; 'mayfly record -o FILE -- PROGRAM' makes one", path);
	else if (error == EACCES)
		cli_error("%s: permission denied; read it as the user who recorded it", path);
	else
		cli_error("%s: %s", path, strerror(error));
}

static void say_not_opened(const char *path, int error)
{
	const char *text = mayfly_error_text(error);

	switch (error) {
	case MAYFLY_E_NOT_A_TRACE:
		cli_error("%s: %s; 'mayfly record -o FILE -- PROGRAM' makes one", path, text);
		break;
	case MAYFLY_E_VERSION:
		cli_error("%s: %s; use the mayfly that made it, or a newer one", path, text);
		break;
	case MAYFLY_E_DAMAGED:
	case MAYFLY_E_EMPTY:
		cli_error("%s: %s; nothing of it can be used, record again", path, text);
		break;
	default:
		cli_error("%s: %s", path, text);
	}
}

/* Turns the loaded spool into the trace that the recorder would have made of it. */
static int finalise(const char *path, struct opened_trace *opened)
{
	/* Nobody keeps the result: no time for compressing it well. */
	struct finalise_options options = {.path = strcmp(path, "-") ? path : NULL, .level = 1};
	struct finalised made;
	int error = finalise_spool(opened->data, opened->size, &options, &made);

	if (error)
		return error;
	unload(opened);
	opened->data = made.bytes;
	opened->size = made.size;
	return MAYFLY_OK;
}

bool one_trace_named(int argc, char **argv)
{
	if (optind == argc)
		cli_usage("no trace named");
	else if (optind + 1 < argc)
		cli_usage("one trace at a time: '%s' is too many", argv[optind + 1]);
	return optind + 1 == argc;
}

bool open_trace(const char *path, struct opened_trace *opened)
{
	int error = MAYFLY_OK;

	*opened = (struct opened_trace){0};
	if (!load(path, opened)) {
		say_unreadable(path, errno);
		return false;
	}
	if (opened->size == 0) {
		cli_error("%s: empty file; record again", path);
		unload(opened);
		return false;
	}
	if (spool_recognise(opened->data, opened->size))
		error = finalise(path, opened);
	if (!error)
		error = mayfly_trace_open(opened->data, opened->size, &opened->trace);
	if (error) {
		say_not_opened(path, error);
		unload(opened);
		return false;
	}
	opened->info = mayfly_trace_info(opened->trace);
	/* Opening has read all of it once; hardly anything of that is read again. */
	if (opened->mapped)
		madvise(opened->data, opened->size, MADV_DONTNEED);
	return true;
}

void close_trace(struct opened_trace *opened)
{
	mayfly_trace_close(opened->trace);
	unload(opened);
}
