/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the file that a command was given. */
#include "cli/input/open_trace.h"

#include "answer/bad_chunks.h"
#include "terminal/message.h"
#include "cli/input/decode_threads.h"
#include "cli/input/file_kind.h"
#include "cli/fleet/fleet_trace.h"
#include "fleet/http/server_url.h"
#include "record/finalise.h"
#include "record/live_trace.h"
#include "record/spool_watch.h"
#include "symbols/symbols.h"
#include "trace/write/recording.h"
#include "spool/spool_packets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A mapped file that somebody makes shorter while it is read raises SIGBUS. */
static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
	static const char text[] = "mayfly: the file became shorter while it was read; try again\n";
	ssize_t written;

	if (spool_watch_lost_at(info->si_addr))
		return;
	written = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)signal_number, (void)context;
	(void)written;
	_exit(CLI_FAILED);
}

/* Bytes that are read from a pipe or device to see whether its format is known. */
#define LOOKED_AT ((size_t)1 << 20)

static bool is_known(const uint8_t *data, size_t size)
{
	const struct loaded_file begin = {.data = (uint8_t *)data, .size = size};

	return is_trace(&begin) || import_recognise(data, size);
}

/* Devices such as /dev/zero have no end: if the data is not a trace, only the beginning is read. */
static bool read_all(int fd, struct loaded_file *file)
{
	size_t room = 0;
	uint8_t *data = NULL;

	for (;;) {
		ssize_t got;

		if (file->size == room) {
			uint8_t *grown;

			if (room == LOOKED_AT && !is_known(data, room))
				break;
			room = room ? room * 2 : LOOKED_AT;
			grown = room ? realloc(data, room) : NULL;
			if (!grown) {
				free(data);
				errno = ENOMEM;
				return false;
			}
			data = grown;
		}
		got = read(fd, data + file->size, room - file->size);
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
		file->size += (size_t)got;
	}
	file->data = data;
	return true;
}

void guard_mapped_files(void)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

	sigaction(SIGBUS, &action, NULL);
}

static bool map_file(int fd, size_t size, struct loaded_file *file)
{
	void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (data == MAP_FAILED)
		return false;
	guard_mapped_files();
	file->data = data;
	file->size = size;
	file->mapped = true;
	return true;
}

/* Fills data and size; false with errno. */
static bool load(const char *path, struct loaded_file *file)
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
			loaded = map_file(fd, (size_t)status.st_size, file) || read_all(fd, file);
		else
			loaded = read_all(fd, file);
	}
	error = errno;
	if (!standard_input)
		close(fd);
	errno = error;
	return loaded;
}

void unload_file(struct loaded_file *file)
{
	if (file->mapped)
		munmap(file->data, file->size);
	else
		free(file->data);
	free(file->beside);
	free(file->spool);
	*file = (struct loaded_file){0};
}

static void say_unreadable(const char *path, int error)
{
	if (error == EISDIR)
		cli_error("%s: is a folder; name the trace in it", path);
	else if (error == ENOENT)
		cli_error("%s: no such file; 'mayfly record -o FILE -- PROGRAM' makes one", path);
	else if (error == EACCES)
		cli_error("%s: permission denied; read it as the user who recorded it", path);
	else
		cli_error("%s: %s", path, strerror(error));
}

static void say_not_opened(const char *path, const struct loaded_file *file, int error)
{
	const char *text = mayfly_error_text(error);
	char kind[PATH_MAX + 128];

	switch (error) {
	case MAYFLY_E_NOT_A_TRACE:
		if (*file_kind_text(kind, sizeof(kind), file->data, file->size, path))
			cli_error("%s: %s", path, kind);
		else
			cli_error("%s: %s; 'mayfly record -o FILE -- PROGRAM' makes one", path,
				  text);
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
static int finalise(const char *path, struct loaded_file *file)
{
	/* The result is not kept, so no time is spent on compressing it well. */
	struct finalise_options options = {
	    .path = strcmp(path, "-") ? file->spool ? file->spool : path : NULL, .level = 1};
	struct finalised made;
	int error = finalise_spool(file->data, file->size, &options, &made);

	if (error)
		return error;
	unload_file(file);
	file->data = made.bytes;
	file->size = made.size;
	return MAYFLY_OK;
}

/*
 * A spool that a recorder reads: what this has written has the times of the trace to come, where a trace
 * of the spool would have others. False: it cannot be had; then the spool has to do.
 */
static bool open_ongoing(const char *path, struct opened_trace *opened)
{
	const char *spool = opened->file.spool ? opened->file.spool : path;
	struct live_trace live;

	if (strcmp(path, "-") == 0 || !live_trace_recorded(opened->file.data, opened->file.size))
		return false;
	opened->names = live_session_new();
	if (!opened->names || live_trace_open(opened->names, spool, LIVE_WAIT_ALL, &live)) {
		live_session_free(opened->names);
		opened->names = NULL;
		return false;
	}
	live_trace_say_whole(&live);
	unload_file(&opened->file);
	opened->trace = live.trace;
	opened->file =
	    (struct loaded_file){.data = live.data, .size = live.size, .mapped = live.mapped};
	return true;
}

/* ---- files of other tools ---- */

static void say_not_converted(const char *path, const struct import_format *format, int error,
			      const struct import_report *report)
{
	const char *article = strchr("AEIOaeio", *format->name) ? "an" : "a";

	if (*report->problem && error != MAYFLY_E_MEMORY)
		cli_error("%s: %s %s file, %s", path, article, format->name, report->problem);
	else
		cli_error("%s: %s %s file: %s", path, article, format->name,
			  mayfly_error_text(error));
}

/* Only addresses, so from the programs and libraries on this machine. */
static int symbolise(void *context, struct recording *tables)
{
	struct symbols_options none = {0};
	struct symbols *session = symbols_new(&none);
	int error = session ? finalise_symbols(tables, session) : MAYFLY_E_MEMORY;

	(void)context;
	symbols_free(session);
	return error;
}

int convert_foreign(const char *path, const struct import_format *format,
		    const struct loaded_file *file, trace_sink *sink, void *context)
{
	struct import in = {.data = file->data,
			    .size = file->size,
			    .options = {.symbolise = symbolise,
					.beside = file->beside,
					.beside_size = file->beside_size,
					.sample_type = file->sample_type},
			    .sink = sink,
			    .context = context};
	int error = import_file(&in, format);

	if (error > 0)
		return error;
	if (error) {
		say_not_converted(path, format, error, &in.report);
		return error;
	}
	if (*in.report.repaired)
		cli_error("%s: %s", path, in.report.repaired);
	if (*in.report.problem)
		cli_error("%s: damaged: %s; what comes before that is used", path,
			  in.report.problem);
	if (*in.report.left_out)
		cli_error("%s: left out: %s", path, in.report.left_out);
	return 0;
}

static bool open_foreign(const char *path, const struct import_format *format,
			 struct opened_trace *opened)
{
	struct trace_buffer buffer = {0};
	int error = convert_foreign(path, format, &opened->file, trace_buffer_sink, &buffer);

	if (error) {
		free(buffer.bytes);
		return false;
	}
	opened->foreign = format->name;
	opened->foreign_bytes = opened->file.size;
	unload_file(&opened->file);
	opened->file.data = buffer.bytes;
	opened->file.size = buffer.used;
	return true;
}

bool one_named(int argc, char **argv, const char *what)
{
	if (optind == argc)
		return cli_refuse("no %s given", what);
	if (optind + 1 < argc)
		return cli_refuse("only one %s can be given, not also '%s'", what,
				  argv[optind + 1]);
	return true;
}

bool is_trace(const struct loaded_file *file)
{
	struct mayfly_trace *trace;
	int error;

	if (spool_recognise(file->data, file->size))
		return true;
	error = mayfly_trace_open(file->data, file->size, &trace);
	if (!error)
		mayfly_trace_close(trace);
	return error != MAYFLY_E_NOT_A_TRACE && error != MAYFLY_E_MEMORY;
}

/* ---- files that belong together ---- */

#define BESIDE_MAX ((size_t)1 << 20) /* bytes: it is text by people, for a few names */

/* NULL: there is none, or no file that can be it. */
static void *read_beside(const char *folder, const char *name, size_t *size)
{
	char path[PATH_MAX];
	struct stat status;
	void *data = NULL;
	ssize_t got = 0;
	int fd;

	*size = 0;
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return NULL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
	    status.st_size <= (off_t)BESIDE_MAX)
		data = malloc((size_t)status.st_size);
	if (data)
		got = read(fd, data, (size_t)status.st_size);
	close(fd);
	if (got > 0)
		*size = (size_t)got;
	return data;
}

static const struct import_format *recognise_at(const char *path)
{
	uint8_t begin[4096];
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return NULL;
	got = read(fd, begin, sizeof(begin));
	close(fd);
	return got > 0 ? import_recognise(begin, (size_t)got) : NULL;
}

/* Looks for the file in the folder whose format has a second file beside it. Returns the number of
 * such files; `path` is one of them. */
static size_t find_in_folder(const char *folder, char *path, size_t size)
{
	char candidate[PATH_MAX];
	struct dirent *entry;
	DIR *d = opendir(folder);
	size_t found = 0;

	while (d && (entry = readdir(d))) {
		const struct import_format *format;

		if (entry->d_type == DT_DIR ||
		    snprintf(candidate, sizeof(candidate), "%s/%s", folder, entry->d_name) >=
			(int)sizeof(candidate))
			continue;
		format = recognise_at(candidate);
		if (!format || !format->beside || strcmp(entry->d_name, format->beside) == 0)
			continue;
		snprintf(path, size, "%s", candidate);
		found++;
	}
	if (d)
		closedir(d);
	return found;
}

static void load_beside(const char *path, struct loaded_file *file)
{
	const struct import_format *format = import_recognise(file->data, file->size);
	const char *end = strrchr(path, '/');
	char folder[PATH_MAX] = ".";

	if (!format || !format->beside || strcmp(path, "-") == 0)
		return;
	if (end && end - path < (ptrdiff_t)sizeof(folder))
		snprintf(folder, sizeof(folder), "%.*s", (int)(end - path + 1), path);
	file->beside = read_beside(folder, format->beside, &file->beside_size);
}

static bool is_folder(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

/* FILE and FILE.part are read with FILE.spool during a recording, and after one that was cut off. */
char *spool_of_recording(const char *path)
{
	static const char part[] = ".part";
	size_t length = strlen(path), ending = sizeof(part) - 1;
	bool of_part = length > ending && strcmp(path + length - ending, part) == 0;
	char *name;

	if (of_part)
		length -= ending;
	if ((!of_part && is_there(path)) || asprintf(&name, "%.*s.spool", (int)length, path) < 0)
		return NULL;
	if (is_there(name))
		return name;
	free(name);
	return NULL;
}

static bool load_spool_of(const char *path, struct loaded_file *file)
{
	char *name = spool_of_recording(path);
	struct loaded_file spool = {0};

	if (!name || !load(name, &spool)) {
		free(name);
		return false;
	}
	cli_error("%s is not complete; this is what %s holds so far", path, name);
	*file = spool;
	file->spool = name;
	return true;
}

bool load_file(const char *path, struct loaded_file *file)
{
	char inside[PATH_MAX];
	size_t found;

	*file = (struct loaded_file){0};
	if (server_url_is(path))
		return fleet_load(path, file);
	if (is_folder(path)) {
		found = find_in_folder(path, inside, sizeof(inside));
		if (found > 1)
			cli_error("%s: is a folder with %zu files that can be read; name one of "
				  "them",
				  path, found);
		else if (!found)
			say_unreadable(path, EISDIR);
		return found == 1 && load_file(inside, file);
	}
	if (!load_spool_of(path, file) && !load(path, file)) {
		say_unreadable(path, errno);
		return false;
	}
	if (file->size == 0) {
		cli_error("%s: empty file; record again", path);
		unload_file(file);
		return false;
	}
	load_beside(path, file);
	return true;
}

/* False after a line on stderr. */
static bool make_trace(const char *path, struct opened_trace *opened)
{
	struct loaded_file *file = &opened->file;
	const struct import_format *format = import_recognise(file->data, file->size);
	int error = MAYFLY_OK;

	if (format && !open_foreign(path, format, opened))
		return false;
	if (open_ongoing(path, opened))
		return true;
	if (spool_recognise(file->data, file->size))
		error = finalise(path, file);
	if (!error)
		error = mayfly_trace_open(file->data, file->size, &opened->trace);
	if (error)
		say_not_opened(path, file, error);
	return !error;
}

bool open_loaded(const char *path, struct loaded_file *file, struct opened_trace *opened)
{
	char bad[BAD_CHUNKS_BYTES];

	*opened = (struct opened_trace){.file = *file};
	*file = (struct loaded_file){0};
	if (!make_trace(path, opened)) {
		unload_file(&opened->file);
		return false;
	}
	opened->info = mayfly_trace_info(opened->trace);
	if (*bad_chunks_text(bad, sizeof(bad), opened->trace))
		cli_error("%s: %s", path, bad);
	opened->threads = decode_threads_lend(opened->trace);
	/* Opening has read the whole file once; little of it is read again. */
	if (opened->file.mapped)
		madvise(opened->file.data, opened->file.size, MADV_DONTNEED);
	return true;
}

bool open_trace(const char *path, struct opened_trace *opened)
{
	struct loaded_file file;

	return load_file(path, &file) && open_loaded(path, &file, opened);
}

void close_trace(struct opened_trace *opened)
{
	mayfly_trace_close(opened->trace);
	live_session_free(opened->names);
	decode_threads_free(opened->threads);
	unload_file(&opened->file);
}
