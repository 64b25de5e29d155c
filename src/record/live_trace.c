/* SPDX-License-Identifier: Apache-2.0 */
/* A recording that still goes on: see live_trace.h. */
#include "record/live_trace.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/numbering.h"
#include "record/finalise.h"
#include "record/spool_watch.h"
#include "spool/spool_packets.h"
#include "stream/clock.h"
#include "symbols/symbols.h"
#include "trace/read/reader.h"

#define FOLLOWED_NS 10000000000ll

struct live_session {
	struct symbols *symbols;
};

struct live_session *live_session_new(void)
{
	struct symbols_options options = {0};
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

struct naming {
	const struct mayfly_trace *trace;
	const size_t *frame; /* of each address that was asked for */
	struct mayfly_location *location;
	struct late_name *name;
	size_t locations, location_room, names, name_room;
	bool failed;
};

static void take_names(void *context, size_t index, const struct symbol *list, size_t count)
{
	struct naming *n = context;

	if (n->failed || (count == 1 && !list->function && !list->file))
		return;
	if (!array_reserve(&n->name, &n->name_room, n->names, sizeof(*n->name))) {
		n->failed = true;
		return;
	}
	n->name[n->names++] = (struct late_name){n->frame[index], n->locations, count};
	for (size_t i = 0; i < count; i++) {
		if (!array_reserve(&n->location, &n->location_room, n->locations,
				   sizeof(*n->location))) {
			n->failed = true;
			return;
		}
		n->location[n->locations++] = (struct mayfly_location){
		    .function = list[i].function ? list[i].function : "",
		    .file = list[i].file ? list[i].file : "",
		    .line = list[i].line,
		    .inlined = list[i].inlined && i + 1 < count,
		};
	}
}

struct wanted {
	uint32_t module;
	uint64_t address;
	size_t frame;
};

static int compare_modules(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

static struct wanted *frames_without_names(const struct mayfly_trace *t, size_t *count)
{
	struct wanted *list = malloc((t->info.frames + 1) * sizeof(*list));

	*count = 0;
	for (size_t i = 0; list && i < t->info.frames; i++) {
		const struct mayfly_frame *f = &t->frame[i];

		if (f->kind == MAYFLY_FRAME_CODE && f->module < t->info.modules &&
		    !*f->location->function)
			list[(*count)++] = (struct wanted){f->module, f->address, i};
	}
	if (list)
		qsort(list, *count, sizeof(*list), compare_modules);
	return list;
}

static void name_module(struct live_session *s, struct naming *n, const struct wanted *list,
			size_t count)
{
	const struct mayfly_module *m = &n->trace->module[list->module];
	uint64_t *address = malloc(count * sizeof(*address));
	size_t *frame = malloc(count * sizeof(*frame));
	const char *why;

	for (size_t i = 0; address && frame && i < count; i++) {
		address[i] = list[i].address;
		frame[i] = list[i].frame;
	}
	n->frame = frame;
	n->failed |= !address || !frame;
	if (!n->failed)
		symbols_resolve(s->symbols, m->path, m->build_id_length ? m->build_id : NULL,
				m->build_id_length, address, count, take_names, n, &why);
	free(address);
	free(frame);
}

static int add_names(struct live_session *s, struct mayfly_trace *t)
{
	struct naming n = {.trace = t};
	struct wanted *list;
	size_t count, end;
	int error;

	list = frames_without_names(t, &count);
	if (!list)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < count; i = end) {
		for (end = i + 1; end < count && list[end].module == list[i].module;)
			end++;
		name_module(s, &n, list + i, end - i);
	}
	free(list);
	if (n.failed)
		free(n.location);
	error = n.failed ? MAYFLY_E_MEMORY : trace_name_late(t, n.location, n.name, n.names);
	free(n.name);
	return error;
}

/* ---- files ---- */

/* Empty when there is none. */
static void map_whole(const char *path, struct live_trace *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	void *data = MAP_FAILED;

	*out = (struct live_trace){0};
	if (fd < 0)
		return;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
		data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (data != MAP_FAILED)
		*out = (struct live_trace){
		    .data = data, .size = (size_t)status.st_size, .mapped = true};
}

static int live_open_part(const char *spool, struct live_trace *out)
{
	size_t stem = strlen(spool) - strlen(".spool");
	char *path = malloc(stem + sizeof(".part"));

	if (!path)
		return MAYFLY_E_MEMORY;
	memcpy(path, spool, stem);
	strcpy(path + stem, ".part");
	map_whole(path, out);
	free(path);
	return out->data ? mayfly_trace_open(out->data, out->size, &out->trace) : MAYFLY_E_EMPTY;
}

static int open_whole_spool(const struct live_trace *map, const char *spool, struct live_trace *out)
{
	struct finalise_options options = {.path = spool, .no_symbols = true, .level = 1};
	struct finalised made;
	int error = finalise_spool(map->data, map->size, &options, &made);

	if (error)
		return error;
	*out = (struct live_trace){.data = made.bytes, .size = made.size};
	return mayfly_trace_open(out->data, out->size, &out->trace);
}

/* Asks the recorder to write what it has, even if it is little. Who may only read the spool sees
 * less. */
static void ask_to_write(const char *spool)
{
	uint64_t until = (uint64_t)(now_ns() + FOLLOWED_NS);
	int fd = open(spool, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t written;

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

int live_trace_open(struct live_session *s, const char *spool, struct live_trace *out)
{
	struct live_trace map;
	const struct spool_header *h;
	bool consumed;
	int error;

	*out = (struct live_trace){0};
	map_whole(spool, &map);
	h = map.data;
	if (!h || map.size < sizeof(*h) || !spool_recognise(map.data, map.size) ||
	    strlen(spool) < sizeof(".spool")) {
		live_trace_close(&map);
		return MAYFLY_E_NOT_A_TRACE;
	}
	ask_to_write(spool);
	consumed = is_consumed(h);
	error = consumed ? live_open_part(spool, out) : open_whole_spool(&map, spool, out);
	/* Packets that the recorder took meanwhile were perhaps written again before they were
	 * read. */
	if (!error && !consumed && is_consumed(h))
		error = MAYFLY_E_EMPTY;
	live_trace_close(&map);
	if (!error)
		error = add_names(s, out->trace);
	if (error)
		live_trace_close(out);
	return error;
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
