/* SPDX-License-Identifier: Apache-2.0 */
/* A spool becomes a trace: see finalise.h. */
#include "record/finalise.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/rejoin.h"
#include "symbols/symbols.h"
#include "format/spool_format.h"
#include "spool/spool_stream.h"

/* A child of a child of ...: each level's spool is read for the samples that were inherited. Deeper
 * than this, or in a circle that a hostile file describes, the inherited samples stay unknown. */
#define MAX_ANCESTORS 64
#define ATTEMPTS      4 /* to read a spool and its part at one moment */

/* ---- symbols ---- */

struct adding { /* filled by symbols_resolve(), for one module */
	struct recording *r;
	const uint32_t *frame; /* frame of each address that was asked for */
};

static uint32_t intern(struct adding *a, const char *text)
{
	return text ? recording_name(a->r, text) : 0;
}

static void found(void *context, size_t index, const struct symbol *list, size_t count)
{
	struct adding *a = context;
	struct recording_frame *frame = &a->r->frame[a->frame[index]];

	if (frame->locations)
		return;
	/* A frame about which nothing is known gets no location, so that named frames can be
	 * counted. */
	if (count == 1 && !list[0].function && !list[0].file)
		return;
	frame->first_location = (uint32_t)a->r->locations;
	for (size_t i = 0; i < count; i++) {
		struct recording_location location = {
		    .function = intern(a, list[i].function),
		    .file = intern(a, list[i].file),
		    .line = list[i].line,
		    .inlined = list[i].inlined && i + 1 < count,
		};

		recording_location(a->r, &location);
	}
	frame->locations = a->r->failed ? 0 : (uint32_t)count;
}

/* The frames of each module, next to one another: order[begin[m] .. begin[m + 1]). */
static bool group_frames(const struct recording *r, uint32_t **order, size_t **begin)
{
	size_t *start = calloc(r->modules + 2, sizeof(*start));
	uint32_t *list = malloc((r->frames + 1) * sizeof(*list));

	if (!start || !list) {
		free(start);
		free(list);
		return false;
	}
	/* A counting sort. Counts are kept two places ahead, so that filling ends with start[m] at
	 * the first frame of m. */
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_frame *f = &r->frame[i];

		if (f->kind == MAYFLY_FRAME_CODE && f->module < r->modules && !f->locations)
			start[f->module + 2]++;
	}
	for (size_t m = 2; m <= r->modules + 1; m++)
		start[m] += start[m - 1];
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_frame *f = &r->frame[i];

		if (f->kind == MAYFLY_FRAME_CODE && f->module < r->modules && !f->locations)
			list[start[f->module + 1]++] = (uint32_t)i;
	}
	*order = list;
	*begin = start;
	return true;
}

static int resolve_module(struct symbols *session, struct recording *r, size_t index,
			  const uint32_t *frame, size_t count)
{
	const struct recording_module *m = &r->module[index];
	struct adding adding = {.r = r, .frame = frame};
	const char *why = NULL;
	uint64_t *address;
	char *path;

	/* A copy: interning moves the strings. */
	path = strdup(recording_text(r, m->path));
	address = malloc(count * sizeof(*address));
	if (!path || !address) {
		free(path);
		free(address);
		return MAYFLY_E_MEMORY;
	}
	for (size_t i = 0; i < count; i++)
		address[i] = r->frame[frame[i]].address;
	symbols_resolve(session, path, m->build_id_length ? m->build_id : NULL, m->build_id_length,
			address, count, found, &adding, &why);
	if (why)
		r->module[index].problem = intern(&adding, why);
	free(address);
	free(path);
	return r->failed ? MAYFLY_E_MEMORY : 0;
}

int finalise_symbols(struct recording *r, struct symbols *session)
{
	uint32_t *order;
	size_t *begin;
	int error = 0;

	if (!group_frames(r, &order, &begin))
		return MAYFLY_E_MEMORY;
	for (size_t m = 0; m < r->modules && !error; m++)
		if (begin[m + 1] > begin[m])
			error = resolve_module(session, r, m, order + begin[m],
					       begin[m + 1] - begin[m]);
	free(order);
	free(begin);
	return error;
}

/* ---- spools ---- */

/* The path that a forked child's spool gives for its parent's, or NULL. */
static char *parent_path(const void *data, size_t size)
{
	struct spool_header h;
	uint64_t end;

	if (size < sizeof(h))
		return NULL;
	memcpy(&h, data, sizeof(h));
	end = (uint64_t)h.parent_spool_offset + h.parent_spool_length;
	if (!h.fork_parent_pid || !h.parent_spool_length || end > size || end > h.header_bytes ||
	    h.parent_spool_offset < sizeof(h))
		return NULL;
	return strndup((const char *)data + h.parent_spool_offset, h.parent_spool_length);
}

/* Maps the parent's spool: a file of that name beside the child's, or else the original path. *name
 * is the path that worked. */
static bool map_parent(const char *child, const char *parent, struct mapped_file *map, char **name)
{
	const char *slash = child ? strrchr(child, '/') : NULL;
	const char *base = strrchr(parent, '/');
	int folder = slash ? (int)(slash - child) + 1 : 0;

	*name = NULL;
	if (child && asprintf(name, "%.*s%s", folder, child, base ? base + 1 : parent) < 0)
		*name = NULL;
	if (*name && strcmp(*name, child) && map_whole_file(*name, map))
		return true;
	free(*name);
	*name = strdup(parent);
	if (*name && (!child || strcmp(parent, child)) && map_whole_file(parent, map))
		return true;
	free(*name);
	*name = NULL;
	return false;
}

/* A spool in memory and the trace made of it. */
struct conversion {
	struct mapped_file map;
	struct spool_source source;
	struct recording *tables;
	struct trace_writer *writer;
	struct spool_stream *stream;
	struct mapped_file parent_map;
	struct conversion *parent;
	struct rejoined rejoined;
	bool alone;
};

static const void *mapping_at(void *context, uint64_t offset, size_t bytes)
{
	const struct mapped_file *map = context;

	if (offset > map->size || bytes > map->size - offset)
		return NULL;
	return (const uint8_t *)map->data + offset;
}

static void conversion_free(struct conversion *c)
{
	if (!c)
		return;
	spool_stream_close(c->stream);
	trace_writer_free_all(c->writer);
	recording_free(c->tables);
	conversion_free(c->parent);
	rejoin_close(&c->rejoined);
	if (c->parent_map.data)
		munmap(c->parent_map.data, c->parent_map.size);
	free(c);
}

static int open_tables(struct conversion *c, const char *path);
static int finalise_open_stream(struct conversion *c, const char *path,
				const struct spool_ending *ending, unsigned int depth);

/* The parent's spool, read up to the fork. If it cannot be read, only the inherited blocks are
 * lost. */
static void open_parent(struct conversion *c, const char *path, unsigned int depth)
{
	struct spool_header h;
	char *wanted, *name;
	bool more = true;
	int error;

	wanted = depth < MAX_ANCESTORS ? parent_path(c->map.data, c->map.size) : NULL;
	if (!wanted || !map_parent(path, wanted, &c->parent_map, &name)) {
		free(wanted);
		return;
	}
	free(wanted);
	memcpy(&h, c->map.data, sizeof(h));
	c->parent = calloc(1, sizeof(*c->parent));
	if (c->parent) {
		c->parent->map = c->parent_map;
		error = open_tables(c->parent, name);
		if (!error)
			error = finalise_open_stream(c->parent, name, NULL, depth + 1);
		while (!error && more && h.fork_ticks < UINT64_MAX)
			error = spool_stream_advance(c->parent->stream, h.fork_ticks + 1, 0, &more);
		if (error) {
			conversion_free(c->parent);
			c->parent = NULL;
		}
	}
	free(name);
}

/* The tables; with those of the part, if the spool goes on from one. */
static int open_tables(struct conversion *c, const char *path)
{
	int error = c->alone ? 0 : rejoin_open(&c->rejoined, c->map.data, c->map.size, path);

	c->tables = recording_new();
	if (!error && !c->tables)
		error = MAYFLY_E_MEMORY;
	return error || !c->rejoined.goes_on ? error : rejoin_tables(&c->rejoined, c->tables);
}

/* Without a writer, only live blocks are followed, for a child. */
static int finalise_open_stream(struct conversion *c, const char *path,
				const struct spool_ending *ending, unsigned int depth)
{
	struct spool_stream_options options = {.keep_forks = !c->writer, .ending = ending};
	bool goes_on = c->rejoined.goes_on;
	int error;

	c->source = (struct spool_source){&c->map, mapping_at, NULL};
	/* A recording that goes on has its parent's blocks in the part already. */
	if (!c->alone && !goes_on)
		open_parent(c, path, depth);
	options.parent = c->parent ? c->parent->stream : NULL;
	options.before = goes_on ? NULL : c->rejoined.trace;
	options.resume = goes_on ? &c->rejoined.resume : NULL;
	error = goes_on && c->writer ? rejoin_events(&c->rejoined, c->writer) : 0;
	return error ? error
		     : spool_stream_open(&c->source, &options, c->tables, c->writer, &c->stream);
}

static int add_symbols(struct recording *r)
{
	struct symbols *session = symbols_new(NULL);
	int error = session ? finalise_symbols(r, session) : MAYFLY_E_MEMORY;

	symbols_free(session);
	return error;
}

/* Everything but the trace's end. */
static int finalise_convert(struct conversion *c, const struct finalise_options *options,
			    struct trace_buffer *buffer)
{
	struct trace_writer_options writer_options = {.level = options->level};
	int error;

	c->source = (struct spool_source){&c->map, mapping_at, NULL};
	error = spool_stream_writer_options(&c->source, &writer_options);
	if (error)
		return error;
	error = open_tables(c, options->path);
	if (error)
		return error;
	if (c->rejoined.goes_on) /* exact ones are no longer, once they are thinned */
		writer_options.mode = mayfly_trace_info(c->rejoined.trace)->mode;
	c->writer = trace_writer_new(&writer_options, c->tables, trace_buffer_sink, buffer);
	if (!c->writer)
		return MAYFLY_E_MEMORY;
	error = finalise_open_stream(c, options->path, options->ending, 0);
	if (!error)
		error = spool_stream_finish(c->stream, options->ending);
	if (!error && !options->no_symbols)
		error = add_symbols(c->tables);
	return error;
}

/* What `mayfly record` had taken out when it was cut off is in another file. */
static void note_consumed(struct recording *r, const void *data, size_t size)
{
	static const char text[] = "the recorder was cut off; the time before is in the .part file "
				   "beside this one";
	struct spool_header h;

	if (size < sizeof(h) || r->note)
		return;
	memcpy(&h, data, sizeof(h));
	if (!atomic_load(&h.consumed_packets))
		return;
	r->note = recording_name(r, text);
}

/* *goes_on: the spool goes on from a part. */
static int finalise_once(const void *data, size_t size, const struct finalise_options *options,
			 struct finalised *out, bool *goes_on)
{
	struct trace_buffer buffer = {0};
	struct conversion *c = calloc(1, sizeof(*c));
	int error;

	*goes_on = false;
	if (!c)
		return MAYFLY_E_MEMORY;
	c->map = (struct mapped_file){(void *)(uintptr_t)data, size};
	c->alone = options->alone;
	error = finalise_convert(c, options, &buffer);
	if (!error) {
		if (!c->rejoined.goes_on)
			note_consumed(c->tables, data, size);
		error = trace_writer_finish(c->writer);
	}
	*goes_on = c->rejoined.goes_on;
	conversion_free(c);
	if (error) {
		free(buffer.bytes);
		return error < 0 ? error : MAYFLY_E_MEMORY; /* the sink's only error */
	}
	out->bytes = buffer.bytes;
	out->size = buffer.used;
	return 0;
}

/* Changes while a recorder takes packets out. */
static uint64_t packets_taken(const void *data, size_t size)
{
	const struct spool_header *h = data;

	return size < sizeof(*h) ? 0 : atomic_load(&h->consumed_packets);
}

int finalise_spool(const void *data, size_t size, const struct finalise_options *options,
		   struct finalised *out)
{
	static const struct finalise_options defaults;
	bool goes_on = true;
	int error = 0;

	*out = (struct finalised){0};
	/* A recorder that is alive may take packets meanwhile, which are then neither in the spool nor
	 * in the part as it was. If it goes on doing so, what is in the part must do. */
	for (int attempt = 0; goes_on && attempt < ATTEMPTS; attempt++) {
		uint64_t taken = packets_taken(data, size);
		bool last = attempt == ATTEMPTS - 1 && size > SPOOL_HEADER_BYTES;

		free(out->bytes);
		*out = (struct finalised){0};
		error = finalise_once(data, last ? SPOOL_HEADER_BYTES : size,
				      options ? options : &defaults, out, &goes_on);
		if (packets_taken(data, size) == taken)
			break;
	}
	return error;
}
