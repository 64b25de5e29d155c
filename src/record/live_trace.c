/* SPDX-License-Identifier: Apache-2.0 */
/* A recording that still goes on: see live_trace.h. */
#include "record/live_trace.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "record/finalise.h"
#include "record/late_names.h"
#include "record/part.h"
#include "record/spool_recorder.h"
#include "record/spool_watch.h"
#include "spool/spool_packets.h"
#include "base/system/clock.h"
#include "symbols/names_file.h"
#include "symbols/symbols.h"
#include "trace/read/reader.h"
#include "trace/rewrite/merge.h"

#define FOLLOWED_NS 10000000000ll
/* A recorder begins to read within a fifth of a second, and then writes every second. One that does not
 * has no place to write to. */
#define MOST_WAIT_NS 2000000000ll
#define WAIT_NS	     2000000

struct live_session {
	struct symbols *symbols;
};

struct live_session *live_session_new(void)
{
	char cache_folder[PATH_MAX];
	struct symbols_options options = {.cache_folder = names_cache_folder(cache_folder)};
	struct live_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->symbols = symbols_new(&options);
	if (s->symbols)
		return s;
	free(s);
	return NULL;
}

void live_session_free(struct live_session *s)
{
	if (s)
		symbols_free(s->symbols);
	free(s);
}

/* ---- names ---- */

int live_trace_name(struct live_session *s, struct live_trace *live)
{
	struct mayfly_trace *t = live->trace;
	struct late_names n;
	int error = late_names_find(&n, t, s->symbols, LATE_UNNAMED);

	if (!error) {
		error = trace_name_late(t, n.location, n.name, n.names);
		n.location = NULL; /* the trace's */
	}
	late_names_free(&n);
	return error;
}

/* ---- files ---- */

static int open_file(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Empty when it is none that has anything. */
static void map_whole(int fd, struct live_trace *out)
{
	struct stat status;
	void *data = MAP_FAILED;

	*out = (struct live_trace){0};
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
		data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (data != MAP_FAILED)
		*out = (struct live_trace){
		    .data = data, .size = (size_t)status.st_size, .mapped = true};
}

static int live_open_part(const char *spool, struct live_trace *out)
{
	char *path = spool_part_name(spool);
	int fd;

	if (!path)
		return MAYFLY_E_MEMORY;
	fd = open_file(path);
	free(path);
	if (fd < 0)
		return MAYFLY_E_EMPTY;
	map_whole(fd, out);
	close(fd);
	return out->data ? mayfly_trace_open(out->data, out->size, &out->trace) : MAYFLY_E_EMPTY;
}

/* spool: its path, or NULL: without other files of the recording. */
static int open_whole_spool(const struct live_trace *map, const char *spool, struct live_trace *out)
{
	struct finalise_options options = {
	    .path = spool, .no_symbols = true, .level = 1, .alone = !spool};
	struct finalised made;
	int error = finalise_spool(map->data, map->size, &options, &made);

	if (error)
		return error;
	*out = (struct live_trace){.data = made.bytes, .size = made.size};
	return mayfly_trace_open(out->data, out->size, &out->trace);
}

/*
 * Asks the recorder to write what it has, even if it is little. Who may only read the spool sees less.
 * spool: open, and known to be one. It is not opened by its path again, as that may lead elsewhere now.
 * False: it cannot be asked.
 */
static bool ask_to_write(int spool)
{
	uint64_t until = (uint64_t)(now_ns() + FOLLOWED_NS);
	char path[32];
	ssize_t written;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", spool);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	written =
	    pwrite(fd, &until, sizeof(until), offsetof(struct spool_header, followed_until_ns));
	close(fd);
	return written == sizeof(until);
}

static bool is_consumed(const struct spool_header *h)
{
	return atomic_load(&h->consumed_packets) != 0;
}

static bool has_recorder(const struct spool_header *h)
{
	pid_t recorder;

	return spool_recorder_of(h, &recorder) == SPOOL_RECORDER_LIVES;
}

bool live_trace_recorded(const void *data, size_t size)
{
	return size >= sizeof(struct spool_header) && spool_recognise(data, size) &&
	       has_recorder(data);
}

static bool is_removed(int spool)
{
	struct stat status;

	return fstat(spool, &status) || !status.st_nlink;
}

/* Until the recorder, which was asked, has written something, or all up to now. */
static void wait_for_recorder(const struct spool_header *h, int spool, enum live_wait wait)
{
	const struct timespec pause = {.tv_nsec = WAIT_NS};
	int64_t from = now_ns();
	uint64_t until = wait == LIVE_WAIT_ALL ? (uint64_t)from : 1;

	while (atomic_load(&h->written_until_ns) < until && has_recorder(h) && !is_removed(spool) &&
	       now_ns() - from < MOST_WAIT_NS)
		nanosleep(&pause, NULL);
}

/* What the recorder has written. */
static int open_written(const struct spool_header *h, const char *spool, struct live_trace *out)
{
	int64_t until = (int64_t)atomic_load(&h->written_until_ns);
	int error = live_open_part(spool, out);

	out->start_ns = (int64_t)h->start_mono_ns;
	if (!error && until > out->start_ns)
		out->opened_ns = until - out->start_ns;
	return error;
}

/* map: of the spool, which is open. */
static int open_now(const struct live_trace *map, int fd, const char *spool, enum live_wait wait,
		    struct live_trace *out)
{
	const struct spool_header *h = map->data;
	int64_t opened = now_ns();
	bool asked = ask_to_write(fd) && has_recorder(h);
	int error = MAYFLY_E_EMPTY;

	if (asked && wait != LIVE_WAIT_NOT)
		wait_for_recorder(h, fd, wait);
	if (is_consumed(h) || atomic_load(&h->written_until_ns))
		error = open_written(h, spool, out);
	if (error != MAYFLY_E_EMPTY || is_consumed(h))
		return error;
	live_trace_close(out);
	error = open_whole_spool(map, spool, out);
	/* Packets that the recorder took meanwhile were perhaps written again before they were
	 * read. */
	if (!error && is_consumed(h))
		error = MAYFLY_E_EMPTY;
	out->start_ns = (int64_t)h->start_mono_ns;
	out->opened_ns = opened - out->start_ns;
	out->unsettled = asked;
	return error;
}

int live_trace_open_unnamed(const char *spool, enum live_wait wait, struct live_trace *out)
{
	struct live_trace map;
	int fd = open_file(spool), error;

	*out = (struct live_trace){0};
	if (fd < 0)
		return MAYFLY_E_NOT_A_TRACE;
	map_whole(fd, &map);
	if (!map.data || map.size < sizeof(struct spool_header) ||
	    !spool_recognise(map.data, map.size) || strlen(spool) < sizeof(".spool"))
		error = MAYFLY_E_NOT_A_TRACE;
	else
		error = open_now(&map, fd, spool, wait, out);
	live_trace_close(&map);
	close(fd);
	if (error)
		live_trace_close(out);
	return error;
}

int live_trace_open(struct live_session *s, const char *spool, enum live_wait wait,
		    struct live_trace *out)
{
	int error = live_trace_open_unnamed(spool, wait, out);

	if (!error)
		error = live_trace_name(s, out);
	if (error)
		live_trace_close(out);
	return error;
}

int live_trace_open_copy(struct live_session *s, const void *copy, size_t size, int64_t copied_ns,
			 struct live_trace *out)
{
	struct live_trace map = {.data = (void *)(uintptr_t)copy, .size = size};
	const struct spool_header *h = copy;
	int error;

	*out = (struct live_trace){0};
	if (size < sizeof(*h) || !spool_recognise(copy, size))
		return MAYFLY_E_NOT_A_TRACE;
	error = open_whole_spool(&map, NULL, out);
	if (h->start_mono_ns < (uint64_t)copied_ns) {
		out->start_ns = (int64_t)h->start_mono_ns;
		out->opened_ns = copied_ns - out->start_ns;
	}
	if (!error && s)
		error = live_trace_name(s, out);
	if (error)
		live_trace_close(out);
	return error;
}

static int write_merged(const struct live_trace *t, const char *note, struct part *part)
{
	struct trace_merge *merge = trace_merge_new(MERGE_FROM_START);
	bool stay;
	int error = merge ? trace_merge_add(merge, t->trace, &stay) : MAYFLY_E_MEMORY;

	if (!error)
		error = trace_merge_write(merge, note, part_sink, part);
	trace_merge_free(merge);
	return error;
}

int live_trace_save(const struct live_trace *t, const char *path, const char *note)
{
	struct part part;
	char *unfinished;
	int error;

	if (asprintf(&unfinished, "%s.part", path) < 0)
		return MAYFLY_E_MEMORY;
	unlink(unfinished);
	error = part_open(&part, unfinished);
	free(unfinished);
	if (error)
		return error;
	error = write_merged(t, note, &part);
	if (!error)
		error = part_become(&part, path, NULL, NULL);
	part_close(&part, error != 0);
	return error;
}

void live_trace_say_whole(struct live_trace *t)
{
	struct mayfly_info *info = &t->trace->info;

	info->complete = true;
	info->spool = false;
	if (info->ending != MAYFLY_END_UNKNOWN)
		return;
	info->ending = MAYFLY_END_RUNNING;
	if (info->duration_ns < t->opened_ns)
		info->duration_ns = t->opened_ns;
}

void live_trace_close(struct live_trace *t)
{
	mayfly_trace_close(t->trace);
	if (t->mapped)
		munmap(t->data, t->size);
	else
		free(t->data);
	*t = (struct live_trace){0};
}
