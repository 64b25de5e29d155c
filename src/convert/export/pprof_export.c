/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto, gzipped: for go tool pprof and compatible tools.
 *
 *	Profile --> sample_type  alloc_objects, alloc_space, inuse_objects, inuse_space
 *	        --> sample       location ids, leaf first; four values; labels: a stack whose blocks
 *	                         have different labels has several samples
 *	        --> location     one for each frame of the trace, id = frame + 1: address, mapping,
 *	                         lines, the innermost inlined function first
 *	        --> function     one for each name and file
 *	        --> mapping      one for each module, id = module + 1
 *	        --> string_table all texts by number; 0 is ""
 *
 * Fields of a message may come in any order, so samples are written first, each marking the
 * locations that it needs; everything else follows.
 *
 * The types have the names and the order of Go's heap profiles, as collectors file them by these names: Pyroscope
 * under "memory" (pkg/og/convert/pprof/profile.go, metricName(), of https://github.com/grafana/pyroscope), and
 * Parca under the four of them (https://github.com/parca-dev/parca, pkg/normalizer).
 */
#include "convert/export/event_walk.h"
#include "convert/export/profile_samples.h"
#include "convert/export/protobuf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "convert/pprof_fields.h"
#include "base/array.h"
#include "base/interner.h"

/* In a difference: the values of a stack with a set of labels, as in struct profile_sample. */
struct pprof_row {
	uint32_t node, set;
	int64_t blocks[STACK_COLUMNS], bytes[STACK_COLUMNS];
};

struct pprof {
	struct export_job *job;
	struct profile_samples samples;
	struct texts strings;
	struct interner functions;
	uint8_t *used;	      /* for each frame, then for each special location */
	struct interner rows; /* of a difference */
	struct pprof_row *row;
	size_t row_room;
	struct bytes message, part, line;
	z_stream zip;
	uint8_t buffer[32768]; /* what `zip` makes */
};

/* ---- gzip ---- */

static void zip_write(struct pprof *p, const void *bytes, size_t size, int flush)
{
	struct out *o = &p->job->out;
	z_stream *z = &p->zip;
	int result;

	z->next_in = (void *)(uintptr_t)bytes;
	z->avail_in = (unsigned int)size;
	do {
		if (o->error)
			return;
		z->next_out = p->buffer;
		z->avail_out = sizeof(p->buffer);
		result = deflate(z, flush);
		if (result == Z_STREAM_ERROR)
			out_fail(o, MAYFLY_E_MEMORY);
		out_bytes(o, p->buffer, sizeof(p->buffer) - z->avail_out);
	} while (flush == Z_FINISH ? result != Z_STREAM_END : z->avail_out == 0);
}

#define GZIP_WINDOW (15 + 16) /* the largest window, and gzip's header instead of zlib's */

/* ---- parts of the profile ---- */

/* Writes p->message as a field of the profile. */
static void write_message(struct pprof *p, uint32_t field)
{
	if (p->message.failed || p->part.failed || p->line.failed)
		out_fail(&p->job->out, MAYFLY_E_MEMORY);
	p->part.used = 0;
	protobuf_message(&p->part, field, &p->message);
	zip_write(p, p->part.at, p->part.used, Z_NO_FLUSH);
}

static void write_number(struct pprof *p, uint32_t field, int64_t value)
{
	p->part.used = 0;
	protobuf_signed(&p->part, field, value);
	zip_write(p, p->part.at, p->part.used, Z_NO_FLUSH);
}

static uint32_t string(struct pprof *p, const char *text)
{
	uint32_t number = texts_number(&p->strings, text);

	out_fail(&p->job->out, number == TEXTS_FAILED ? MAYFLY_E_MEMORY : 0);
	return number;
}

static void write_value_type(struct pprof *p, uint32_t field, const char *type, const char *unit)
{
	protobuf_unsigned(&p->message, VALUE_TYPE, string(p, type));
	protobuf_unsigned(&p->message, VALUE_UNIT, string(p, unit));
	write_message(p, field);
}

/* "alloc_objects" if blocks are known, and "alloc_space". */
static void write_types_of(struct pprof *p, int column)
{
	const char *name = profile_column_name(&p->samples, column);
	char objects[32], space[32];

	snprintf(objects, sizeof(objects), "%s_objects", name);
	snprintf(space, sizeof(space), "%s_space", name);
	if (p->job->sums.of[column] && p->samples.counts)
		write_value_type(p, PROFILE_SAMPLE_TYPE, objects, "count");
	if (p->job->sums.of[column])
		write_value_type(p, PROFILE_SAMPLE_TYPE, space, "bytes");
	/* What the user asked for. */
	if (column == (p->job->options->allocated_first ? p->job->allocated : 0))
		write_number(p, PROFILE_DEFAULT_SAMPLE_TYPE, string(p, space));
}

static void write_types(struct pprof *p)
{
	uint64_t interval = p->job->info->interval_bytes;

	write_types_of(p, p->job->allocated);
	write_types_of(p, !p->job->allocated);
	write_value_type(p, PROFILE_PERIOD_TYPE, "space", "bytes");
	write_number(p, PROFILE_PERIOD, interval ? (int64_t)interval : 1);
}

/* The values of one column, in the order of the types. A negative one takes ten bytes. */
static void add_values(struct pprof *p, const struct pprof_row *row, int column)
{
	if (!p->job->sums.of[column])
		return;
	if (p->samples.counts)
		bytes_put_u(&p->line, (uint64_t)row->blocks[column]);
	bytes_put_u(&p->line, (uint64_t)row->bytes[column]);
}

static void add_labels(struct pprof *p, uint32_t set)
{
	size_t count;
	const struct mayfly_label *label = mayfly_trace_labels(p->job->trace, set, &count);

	for (size_t i = 0; i < count; i++) {
		if (!label_counts(label, i, count))
			continue;
		protobuf_unsigned(&p->line, LABEL_KEY, string(p, label[i].key));
		protobuf_unsigned(&p->line, LABEL_TEXT, string(p, label[i].value));
		protobuf_message(&p->message, SAMPLE_LABEL, &p->line);
	}
}

static void write_row(struct pprof *p, const struct pprof_row *row, const uint32_t *path,
		      size_t length)
{
	add_values(p, row, p->job->allocated);
	add_values(p, row, !p->job->allocated);
	protobuf_message(&p->message, SAMPLE_VALUE, &p->line);
	for (size_t i = 0; i < length; i++) {
		p->used[path[i]] = 1;
		bytes_put_u(&p->line, (uint64_t)path[i] + 1);
	}
	protobuf_message(&p->message, SAMPLE_LOCATION, &p->line);
	add_labels(p, row->set);
	write_message(p, PROFILE_SAMPLE);
}

static void write_sample(void *context, const struct profile_sample *sample)
{
	struct pprof_row row = {.set = sample->set};

	for (int i = 0; i < STACK_COLUMNS; i++) {
		row.blocks[i] = (int64_t)sample->blocks[i];
		row.bytes[i] = (int64_t)sample->bytes[i];
	}
	write_row(context, &row, sample->path, sample->length);
}

/* ---- a difference ---- */

static struct pprof_row *row_of(struct pprof *p, const struct profile_sample *sample)
{
	struct key key = {{1, sample->node, sample->set}};
	bool is_new;
	uint32_t number = interner_add(&p->rows, key, &is_new);

	if (number == INTERNER_NONE ||
	    !array_reserve_filled(&p->row, &p->row_room, number, sizeof(*p->row), 0)) {
		out_fail(&p->job->out, MAYFLY_E_MEMORY);
		return NULL;
	}
	p->row[number].node = sample->node;
	p->row[number].set = sample->set;
	return &p->row[number];
}

static void add_sample(void *context, const struct profile_sample *sample)
{
	struct pprof_row *row = row_of(context, sample);

	for (int i = 0; row && i < STACK_COLUMNS; i++) {
		row->blocks[i] += (int64_t)sample->blocks[i];
		row->bytes[i] += (int64_t)sample->bytes[i];
	}
}

/* Only what was live is subtracted, which is the first column. */
static void subtract_sample(void *context, const struct profile_sample *sample)
{
	struct pprof_row *row = row_of(context, sample);

	if (!row)
		return;
	row->blocks[0] -= (int64_t)sample->blocks[0];
	row->bytes[0] -= (int64_t)sample->bytes[0];
}

static void subtract_before(struct pprof *p)
{
	struct export_options options = *p->job->options;
	struct export_job before = {
	    .trace = p->job->trace, .info = p->job->info, .options = &options};
	struct profile_samples samples;

	options.query = before.query = options.before;
	profile_samples_begin(&samples, &before);
	profile_samples_run(&samples, subtract_sample, p);
	profile_samples_end(&samples);
	stack_sums_end(&before.sums);
	shown_end(&before.stacks);
	out_fail(&p->job->out, before.out.error);
}

static bool is_nothing(const struct pprof_row *row)
{
	bool any = false;

	for (int i = 0; i < STACK_COLUMNS; i++)
		any |= row->blocks[i] || row->bytes[i];
	return !any;
}

static void write_difference(struct pprof *p)
{
	profile_samples_run(&p->samples, add_sample, p);
	subtract_before(p);
	for (size_t i = 0; !p->job->out.error && i < p->rows.count; i++) {
		const uint32_t *path;
		size_t length;

		if (is_nothing(&p->row[i]))
			continue;
		length = export_path(p->job, p->row[i].node, &path);
		if (length)
			write_row(p, &p->row[i], path, length);
	}
}

/* ---- what samples name ---- */

static uint32_t function_id(struct pprof *p, const struct shown_line *line)
{
	struct key key = {{1, line->name, line->file}};
	bool is_new;
	uint32_t number = interner_add(&p->functions, key, &is_new);

	out_fail(&p->job->out, number == INTERNER_NONE ? MAYFLY_E_MEMORY : 0);
	return number + 1;
}

static void write_location(struct pprof *p, uint32_t index)
{
	const struct shown_stacks *stacks = &p->job->stacks;
	const struct shown_frame *shown = &stacks->frame[index];
	const struct mayfly_frame *frame =
	    mayfly_trace_frame(stacks->trace, shown_trace_frame(stacks, index));

	protobuf_unsigned(&p->message, LOCATION_ID, (uint64_t)index + 1);
	if (frame && frame->kind == MAYFLY_FRAME_CODE) {
		if (frame->module < stacks->info->modules)
			protobuf_unsigned(&p->message, LOCATION_MAPPING,
					  (uint64_t)frame->module + 1);
		protobuf_unsigned(&p->message, LOCATION_ADDRESS,
				  export_address(stacks->trace, frame));
	}
	for (uint32_t i = 0; i < shown->count; i++) {
		const struct shown_line *line = &stacks->line[shown->first + i];

		protobuf_unsigned(&p->line, LINE_FUNCTION, function_id(p, line));
		protobuf_unsigned(&p->line, LINE_LINE, line->line);
		protobuf_message(&p->message, LOCATION_LINE, &p->line);
	}
	write_message(p, PROFILE_LOCATION);
}

/* The shown name is also written as the system name (the linker's name is not known); then pprof
 * shortens it like its own names. */
static void write_functions(struct pprof *p)
{
	for (size_t i = 0; i < p->functions.count && !p->job->out.error; i++) {
		const struct key *key = &p->functions.key[i];
		uint32_t name = string(p, shown_text(&p->job->stacks, (uint32_t)key->word[1]));

		protobuf_unsigned(&p->message, FUNCTION_ID, i + 1);
		protobuf_unsigned(&p->message, FUNCTION_NAME, name);
		protobuf_unsigned(&p->message, FUNCTION_SYSTEM_NAME, name);
		protobuf_unsigned(&p->message, FUNCTION_FILENAME,
				  string(p, shown_text(&p->job->stacks, (uint32_t)key->word[2])));
		write_message(p, PROFILE_FUNCTION);
	}
}

/* pprof needs no symbols: each location has a name, at least "module+0x1234". */
static void write_mapping(struct pprof *p, size_t index)
{
	const struct mayfly_module *m = mayfly_trace_module(p->job->trace, index);
	char build_id[BUILD_ID_TEXT];

	protobuf_unsigned(&p->message, MAPPING_ID, index + 1);
	protobuf_unsigned(&p->message, MAPPING_START, m->start);
	protobuf_unsigned(&p->message, MAPPING_LIMIT, m->end);
	protobuf_unsigned(&p->message, MAPPING_FILENAME, string(p, m->path));
	protobuf_unsigned(&p->message, MAPPING_BUILD_ID, string(p, export_build_id(build_id, m)));
	protobuf_unsigned(&p->message, MAPPING_HAS_FUNCTIONS, 1);
	protobuf_unsigned(&p->message, MAPPING_HAS_FILENAMES, 1);
	protobuf_unsigned(&p->message, MAPPING_HAS_LINE_NUMBERS, 1);
	protobuf_unsigned(&p->message, MAPPING_HAS_INLINE_FRAMES, 1);
	write_message(p, PROFILE_MAPPING);
}

/* pprof takes the first mapping for the program itself. */
static void write_mappings(struct pprof *p)
{
	size_t program = export_program(p->job->trace);

	if (program < p->job->info->modules)
		write_mapping(p, program);
	for (size_t i = 0; i < p->job->info->modules; i++)
		if (i != program)
			write_mapping(p, i);
}

static void comment(struct pprof *p, const char *text)
{
	write_number(p, PROFILE_COMMENT, string(p, text));
}

static void write_comments(struct pprof *p)
{
	const struct profile_samples *s = &p->samples;
	const struct export_job *j = p->job;
	int live = !j->allocated;
	const struct mayfly_estimate *asked = &j->sums.of[0]->total;
	char text[256], metric[128];

	if (export_knows(j->trace, MAYFLY_ABSENT_COMMAND))
		comment(p, export_title(j->options, j->trace));
	comment(p, "made by mayfly " MAYFLY_VERSION);
	if (j->sums.of[live] && !j->options->before) {
		export_metric_text(metric, sizeof(metric), j->trace, &j->asked[live],
				   j->sums.of[live]->time_ns);
		snprintf(text, sizeof(text), "%s: %s", profile_column_name(s, live), metric);
		comment(p, text);
	}
	/* Those of a difference are unknown. */
	if (!profile_is_estimate(s) || j->options->before)
		return;
	snprintf(text, sizeof(text),
		 "estimates from %" PRIu64 " samples; %s_space is %.0f +- %.0f bytes (1 sigma)",
		 asked->samples, profile_column_name(s, 0), asked->bytes.estimate,
		 asked->bytes.stderror);
	comment(p, text);
}

static void write_times(struct pprof *p)
{
	int64_t start_ns, duration_ns;

	export_times(p->job->trace, &p->job->asked[p->job->allocated], &start_ns, &duration_ns);
	if (p->job->options->taken_ns) {
		/* As Go's: when it was taken, and a duration if it is a difference. */
		start_ns = p->job->options->taken_ns;
		duration_ns = p->job->options->before ? duration_ns : 0;
	}
	if (start_ns)
		write_number(p, PROFILE_TIME_NANOS, start_ns);
	if (duration_ns)
		write_number(p, PROFILE_DURATION_NANOS, duration_ns);
}

static void write_profile(struct pprof *p)
{
	string(p, ""); /* number 0 */
	write_types(p);
	if (p->job->options->before)
		write_difference(p);
	else
		profile_samples_run(&p->samples, write_sample, p);
	for (size_t i = 0; i < shown_indices(&p->job->stacks) && !p->job->out.error; i++)
		if (p->used[i])
			write_location(p, (uint32_t)i);
	write_functions(p);
	write_mappings(p);
	write_times(p);
	write_comments(p);
	for (size_t i = 0; i < p->strings.count; i++) {
		p->part.used = 0;
		protobuf_text(&p->part, PROFILE_STRING, p->strings.text[i]);
		zip_write(p, p->part.at, p->part.used, Z_NO_FLUSH);
	}
	zip_write(p, "", 0, Z_FINISH);
}

void export_pprof(struct export_job *j)
{
	struct pprof *p = calloc(1, sizeof(*p));

	if (!p) {
		out_fail(&j->out, MAYFLY_E_MEMORY);
		return;
	}
	p->job = j;
	profile_samples_begin(&p->samples, j);
	if (!j->out.error)
		p->used = calloc(shown_indices(&j->stacks), 1);
	if (!p->used || deflateInit2(&p->zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
				     Z_DEFAULT_STRATEGY) != Z_OK)
		out_fail(&j->out, MAYFLY_E_MEMORY);
	else
		write_profile(p);
	deflateEnd(&p->zip);
	profile_samples_end(&p->samples);
	texts_free(&p->strings);
	interner_free(&p->functions);
	interner_free(&p->rows);
	free(p->row);
	bytes_free(&p->message);
	bytes_free(&p->part);
	bytes_free(&p->line);
	free(p->used);
	free(p);
}
