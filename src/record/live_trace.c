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
#include <unistd.h>

#include "record/finalise.h"
#include "record/late_names.h"
#include "record/part.h"
#include "record/spool_watch.h"
#include "spool/spool_packets.h"
#include "stream/clock.h"
#include "symbols/names_file.h"
#include "symbols/symbols.h"
#include "trace/read/reader.h"
#include "trace/rewrite/merge.h"

#define FOLLOWED_NS 10000000000ll

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
	size_t stem = strlen(spool) - strlen(".spool");
	char *path = malloc(stem + sizeof(".part"));
	int fd;

	if (!path)
		return MAYFLY_E_MEMORY;
	memcpy(path, spool, stem);
	strcpy(path + stem, ".part");
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
 */
static void ask_to_write(int spool)
{
	uint64_t until = (uint64_t)(now_ns() + FOLLOWED_NS);
	char path[32];
	ssize_t written;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", spool);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	written =
	    pwrite(fd, &until, sizeof(until), offsetof(struct spool_header, followed_until_ns));
	(void)written;
	close(fd);
}

static bool is_consumed(const struct spool_header *h)
{
	return atomic_load(&h->consumed_packets) != 0;
}

int live_trace_open_unnamed(const char *spool, struct live_trace *out)
{
	struct live_trace map;
	const struct spool_header *h;
	int64_t opened = now_ns();
	bool consumed;
	int fd = open_file(spool), error;

	*out = (struct live_trace){0};
	if (fd < 0)
		return MAYFLY_E_NOT_A_TRACE;
	map_whole(fd, &map);
	h = map.data;
	if (!h || map.size < sizeof(*h) || !spool_recognise(map.data, map.size) ||
	    strlen(spool) < sizeof(".spool")) {
		live_trace_close(&map);
		close(fd);
		return MAYFLY_E_NOT_A_TRACE;
	}
	ask_to_write(fd);
	close(fd);
	consumed = is_consumed(h);
	error = consumed ? live_open_part(spool, out) : open_whole_spool(&map, spool, out);
	/* Packets that the recorder took meanwhile were perhaps written again before they were
	 * read. */
	if (!error && !consumed && is_consumed(h))
		error = MAYFLY_E_EMPTY;
	/* What the recorder has written ends where it says; what has come since is not in it. */
	if (!consumed)
		out->opened_ns = opened - (int64_t)h->start_mono_ns;
	live_trace_close(&map);
	if (error)
		live_trace_close(out);
	return error;
}

int live_trace_open(struct live_session *s, const char *spool, struct live_trace *out)
{
	int error = live_trace_open_unnamed(spool, out);

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
	if (h->start_mono_ns < (uint64_t)copied_ns)
		out->opened_ns = copied_ns - (int64_t)h->start_mono_ns;
	if (!error)
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
