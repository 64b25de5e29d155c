/* SPDX-License-Identifier: Apache-2.0 */
/* Whole spools in memory become traces: see spool_convert.h. */
#include "spool/spool_convert.h"

#include <stdlib.h>
#include <string.h>

#include "format/spool_format.h"
#include "spool/spool_packets.h"

struct memory_spool {
	const uint8_t *data;
	size_t size;
	uint8_t *copy; /* of data that was not aligned */
};

static const void *memory_at(void *context, uint64_t offset, size_t bytes)
{
	const struct memory_spool *m = context;

	return offset <= m->size && bytes <= m->size - offset ? m->data + offset : NULL;
}

static int memory_begin(struct memory_spool *m, const void *data, size_t size)
{
	size_t room_for = (size + 63) / 64 * 64;

	*m = (struct memory_spool){.data = data, .size = size};
	if ((uintptr_t)data % 64 == 0 || !size)
		return 0;
	m->copy = aligned_alloc(64, room_for);
	if (!m->copy)
		return MAYFLY_E_MEMORY;
	memcpy(m->copy, data, size);
	m->data = m->copy;
	return 0;
}

/* Reads the parent's spool up to the fork. *parent stays NULL when it cannot be read. */
static int open_parent_stream(const struct spool_source *source, const struct spool_header *child,
			      struct recording *tables, struct spool_stream **parent)
{
	struct spool_stream_options options = {.keep_forks = true, .only_fork = child->fork_ticks};
	struct spool_stream *s;
	bool more = true;
	int error = spool_stream_open(source, &options, tables, NULL, &s);

	if (error)
		return error == MAYFLY_E_MEMORY ? error : 0;
	while (!error && more)
		error = spool_stream_advance(s, 0, 0, &more);
	*parent = s;
	return error;
}

struct conversion {
	struct recording *tables, *parent_tables;
	struct spool_stream *stream, *parent;
	struct trace_writer *writer;
	struct trace_buffer out;
};

static int convert_streams(struct conversion *c, const struct spool_source *source,
			   const struct spool_source *parent_source,
			   const struct spool_ending *ending, int level,
			   void (*symbolise)(void *context, struct recording *tables),
			   void *context)
{
	struct trace_writer_options writer_options = {.level = level};
	struct spool_stream_options options = {0};
	const struct spool_header *mapped;
	struct spool_header header;
	int error = spool_read_header(source, &mapped, &header);

	if (!error && parent_source && header.fork_parent_pid)
		error = open_parent_stream(parent_source, &header, c->parent_tables, &c->parent);
	if (!error)
		error = spool_stream_writer_options(source, &writer_options);
	if (error)
		return error;
	c->writer = trace_writer_new(&writer_options, c->tables, trace_buffer_sink, &c->out);
	if (!c->writer)
		return MAYFLY_E_MEMORY;
	options.parent = c->parent;
	error = spool_stream_open(source, &options, c->tables, c->writer, &c->stream);
	if (!error)
		error = spool_stream_finish(c->stream, ending);
	if (!error && symbolise)
		symbolise(context, c->tables);
	return error ? error : trace_writer_finish(c->writer);
}

int spool_convert(const void *data, size_t size, const void *parent_data, size_t parent_size,
		  const struct spool_ending *ending, int level,
		  void (*symbolise)(void *context, struct recording *tables), void *context,
		  uint8_t **bytes, size_t *bytes_size)
{
	struct memory_spool memory = {0}, parent_memory = {0};
	struct spool_source source = {.context = &memory, .at = memory_at};
	struct spool_source parent = {.context = &parent_memory, .at = memory_at};
	struct conversion c = {.tables = recording_new(), .parent_tables = recording_new()};
	int error = c.tables && c.parent_tables ? 0 : MAYFLY_E_MEMORY;

	*bytes = NULL;
	*bytes_size = 0;
	if (!error)
		error = memory_begin(&memory, data, size);
	if (!error && parent_data)
		error = memory_begin(&parent_memory, parent_data, parent_size);
	if (!error)
		error = convert_streams(&c, &source, parent_data ? &parent : NULL, ending, level,
					symbolise, context);
	spool_stream_close(c.stream);
	spool_stream_close(c.parent);
	trace_writer_free_all(c.writer);
	recording_free(c.tables);
	recording_free(c.parent_tables);
	free(memory.copy);
	free(parent_memory.copy);
	if (error) {
		free(c.out.bytes);
		return error < 0 ? error : MAYFLY_E_MEMORY;
	}
	*bytes = c.out.bytes;
	*bytes_size = c.out.used;
	return 0;
}
