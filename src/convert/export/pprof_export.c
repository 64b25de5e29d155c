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
 */
#include "convert/export/event_walk.h"
#include "convert/export/exports.h"
#include "convert/export/label_sums.h"
#include "convert/export/protobuf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "convert/pprof_fields.h"
#include "format/numbering.h"

struct zip {
	z_stream stream;
	trace_sink *sink;
	void *context;
	int error;
	uint8_t buffer[32768];
};

struct pprof {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct shown_stacks stacks;
	struct stack_sums sums;
	struct label_sums labels;
	int allocated; /* column of the sums; the other column is what is live */
	bool counts;   /* numbers of blocks are known */
	struct texts strings;
	struct numbering functions;
	uint8_t *used; /* for each frame, then for each special location */
	struct bytes message, part, line;
	struct rounding rounding[2 * STACK_COLUMNS];
	struct zip zip;
};

/* ---- gzip ---- */

static void zip_write(struct zip *z, const void *bytes, size_t size, int flush)
{
	int result;

	if (z->error)
		return;
	z->stream.next_in = (void *)(uintptr_t)bytes;
	z->stream.avail_in = (unsigned int)size;
	do {
		z->stream.next_out = z->buffer;
		z->stream.avail_out = sizeof(z->buffer);
		result = deflate(&z->stream, flush);
		if (result == Z_STREAM_ERROR)
			z->error = MAYFLY_E_MEMORY;
		else if (z->stream.avail_out < sizeof(z->buffer))
			z->error =
			    z->sink(z->context, z->buffer, sizeof(z->buffer) - z->stream.avail_out);
	} while (!z->error &&
		 (flush == Z_FINISH ? result != Z_STREAM_END : z->stream.avail_out == 0));
}

#define GZIP_WINDOW (15 + 16) /* the largest window, and gzip's header instead of zlib's */

static int zip_begin(struct zip *z, trace_sink *sink, void *context)
{
	z->sink = sink;
	z->context = context;
	return deflateInit2(&z->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			    Z_DEFAULT_STRATEGY) == Z_OK
		   ? 0
		   : MAYFLY_E_MEMORY;
}

/* ---- parts of the profile ---- */

/* Writes p->message as a field of the profile. */
static void write_message(struct pprof *p, uint32_t field)
{
	if (p->message.failed || p->part.failed || p->line.failed)
		p->zip.error = p->zip.error ? p->zip.error : MAYFLY_E_MEMORY;
	p->part.used = 0;
	protobuf_message(&p->part, field, &p->message);
	zip_write(&p->zip, p->part.at, p->part.used, Z_NO_FLUSH);
}

static void write_number(struct pprof *p, uint32_t field, int64_t value)
{
	p->part.used = 0;
	protobuf_signed(&p->part, field, value);
	zip_write(&p->zip, p->part.at, p->part.used, Z_NO_FLUSH);
}

static uint32_t string(struct pprof *p, const char *text)
{
	uint32_t number = texts_number(&p->strings, text);

	if (number == TEXTS_FAILED && !p->zip.error)
		p->zip.error = MAYFLY_E_MEMORY;
	return number;
}

static void write_value_type(struct pprof *p, uint32_t field, const char *type, const char *unit)
{
	protobuf_unsigned(&p->message, VALUE_TYPE, string(p, type));
	protobuf_unsigned(&p->message, VALUE_UNIT, string(p, unit));
	write_message(p, field);
}

/* The name of the other column's figures in pprof. */
static const char *live_name(enum mayfly_metric metric)
{
	return metric == MAYFLY_LEAKED	    ? "leaked"
	       : metric == MAYFLY_TEMPORARY ? "temporary"
					    : "inuse";
}

/* "alloc_objects" if blocks are known, and "alloc_space". */
static void write_types_of(struct pprof *p, const char *name, int column)
{
	char objects[32], space[32];

	snprintf(objects, sizeof(objects), "%s_objects", name);
	snprintf(space, sizeof(space), "%s_space", name);
	if (p->sums.of[column] && p->counts)
		write_value_type(p, PROFILE_SAMPLE_TYPE, objects, "count");
	if (p->sums.of[column])
		write_value_type(p, PROFILE_SAMPLE_TYPE, space, "bytes");
	if (column == 0) /* the user's query */
		write_number(p, PROFILE_DEFAULT_SAMPLE_TYPE, string(p, space));
}

static void write_types(struct pprof *p, const struct mayfly_query *live)
{
	write_types_of(p, "alloc", p->allocated);
	write_types_of(p, live_name(live->metric), !p->allocated);
	write_value_type(p, PROFILE_PERIOD_TYPE, "space", "bytes");
	write_number(p, PROFILE_PERIOD,
		     p->info->interval_bytes ? (int64_t)p->info->interval_bytes : 1);
}

/* A sample's share of the sums of a stack. */
struct pprof_share {
	double bytes, blocks;
};

/* The values of one column, in the order of the types. False: they are 0. */
static bool add_values(struct pprof *p, const struct stack_sum *sum, int column,
		       const struct pprof_share share[STACK_COLUMNS])
{
	uint64_t blocks, bytes;

	if (!p->sums.of[column])
		return false;
	blocks = rounding_next(&p->rounding[2 * column],
			       sum->of[column]->blocks.estimate * share[column].blocks);
	bytes = rounding_next(&p->rounding[2 * column + 1],
			      sum->of[column]->bytes.estimate * share[column].bytes);
	if (p->counts)
		bytes_put_u(&p->line, blocks);
	bytes_put_u(&p->line, bytes);
	return blocks | bytes;
}

static void add_labels(struct pprof *p, uint32_t set)
{
	size_t count;
	const struct mayfly_label *label = mayfly_trace_labels(p->trace, set, &count);

	for (size_t i = 0; i < count; i++) {
		if (!label_counts(label, i, count))
			continue;
		protobuf_unsigned(&p->line, LABEL_KEY, string(p, label[i].key));
		protobuf_unsigned(&p->line, LABEL_TEXT, string(p, label[i].value));
		protobuf_message(&p->message, SAMPLE_LABEL, &p->line);
	}
}

/* False: nothing to write. */
static bool make_sample(struct pprof *p, const struct stack_sum *sum,
			const struct pprof_share share[STACK_COLUMNS], uint32_t set)
{
	const uint32_t *path;
	size_t length = shown_path(&p->stacks, sum->node, &path);
	bool any;

	if (!length)
		p->zip.error = p->zip.error ? p->zip.error : MAYFLY_E_MEMORY;
	any = add_values(p, sum, p->allocated, share);
	any |= add_values(p, sum, !p->allocated, share);
	if (!any) {
		p->line.used = 0;
		return false;
	}
	protobuf_message(&p->message, SAMPLE_VALUE, &p->line);
	for (size_t i = 0; i < length; i++) {
		p->used[path[i]] = 1;
		bytes_put_u(&p->line, (uint64_t)path[i] + 1);
	}
	protobuf_message(&p->message, SAMPLE_LOCATION, &p->line);
	add_labels(p, set);
	return true;
}

/* The totals of all sets of a stack. */
static void add_weights(struct label_weights total[STACK_COLUMNS], const struct label_sum *sum,
			size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int column = 0; column < STACK_COLUMNS; column++) {
			total[column].bytes += sum[i].of[column].bytes;
			total[column].blocks += sum[i].of[column].blocks;
		}
}

/* A sample for each set of labels. A column without blocks has no shares: the first sample gets its
 * whole sum. */
static void write_stack(struct pprof *p, const struct stack_sum *sum)
{
	struct label_weights total[STACK_COLUMNS] = {0};
	struct pprof_share share[STACK_COLUMNS];
	size_t count;
	const struct label_sum *of = label_sums_of(&p->labels, sum->node, &count);

	add_weights(total, of, count);
	for (size_t i = 0; i < (count ? count : 1); i++) {
		for (int k = 0; k < STACK_COLUMNS; k++) {
			double alone = i == 0;

			share[k].bytes =
			    total[k].bytes > 0 ? of[i].of[k].bytes / total[k].bytes : alone;
			share[k].blocks =
			    total[k].blocks > 0 ? of[i].of[k].blocks / total[k].blocks : alone;
		}
		if (make_sample(p, sum, share, count ? of[i].set : 0))
			write_message(p, PROFILE_SAMPLE);
	}
}

static void pprof_write_samples(struct pprof *p)
{
	struct stack_sum sum;

	while (!p->zip.error && stack_sums_next(&p->sums, &sum))
		write_stack(p, &sum);
}

static uint32_t function_id(struct pprof *p, const struct shown_line *line)
{
	struct key key = {{1, line->name, line->file}};
	bool is_new;
	uint32_t number = numbering_of(&p->functions, key, &is_new);

	if (number == NUMBERING_NONE && !p->zip.error)
		p->zip.error = MAYFLY_E_MEMORY;
	return number + 1;
}

static void write_location(struct pprof *p, uint32_t index)
{
	const struct shown_frame *shown = &p->stacks.frame[index];
	const struct mayfly_frame *frame =
	    mayfly_trace_frame(p->trace, shown_trace_frame(&p->stacks, index));

	protobuf_unsigned(&p->message, LOCATION_ID, (uint64_t)index + 1);
	if (frame && frame->kind == MAYFLY_FRAME_CODE) {
		if (frame->module < p->info->modules)
			protobuf_unsigned(&p->message, LOCATION_MAPPING,
					  (uint64_t)frame->module + 1);
		protobuf_unsigned(&p->message, LOCATION_ADDRESS, export_address(p->trace, frame));
	}
	for (uint32_t i = 0; i < shown->count; i++) {
		const struct shown_line *line = &p->stacks.line[shown->first + i];

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
	for (size_t i = 0; i < p->functions.count && !p->zip.error; i++) {
		const struct key *key = &p->functions.key[i];
		uint32_t name = string(p, shown_text(&p->stacks, (uint32_t)key->word[1]));

		protobuf_unsigned(&p->message, FUNCTION_ID, i + 1);
		protobuf_unsigned(&p->message, FUNCTION_NAME, name);
		protobuf_unsigned(&p->message, FUNCTION_SYSTEM_NAME, name);
		protobuf_unsigned(&p->message, FUNCTION_FILENAME,
				  string(p, shown_text(&p->stacks, (uint32_t)key->word[2])));
		write_message(p, PROFILE_FUNCTION);
	}
}

/* pprof needs no symbols: each location has a name, at least "module+0x1234". */
static void write_mapping(struct pprof *p, size_t index)
{
	const struct mayfly_module *m = mayfly_trace_module(p->trace, index);
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
	size_t main_module = 0;

	for (size_t i = p->info->modules; i-- > 0;)
		if (strcmp(mayfly_trace_module(p->trace, i)->path, p->info->program) == 0)
			main_module = i;
	if (p->info->modules)
		write_mapping(p, main_module);
	for (size_t i = 0; i < p->info->modules; i++)
		if (i != main_module)
			write_mapping(p, i);
}

static void comment(struct pprof *p, const char *text)
{
	write_number(p, PROFILE_COMMENT, string(p, text));
}

static void write_comments(struct pprof *p, const struct export_options *options,
			   const struct mayfly_query *live)
{
	const struct mayfly_node_sums *asked = p->sums.of[0], *lives = p->sums.of[!p->allocated];
	const char *name = live_name(live->metric);
	char text[256], metric[128];

	if (export_knows(p->trace, MAYFLY_ABSENT_COMMAND))
		comment(p, export_title(options, p->trace));
	comment(p, "made by mayfly " MAYFLY_VERSION);
	if (lives) {
		export_metric_text(metric, sizeof(metric), p->trace, live, lives->time_ns);
		snprintf(text, sizeof(text), "%s: %s", name, metric);
		comment(p, text);
	}
	if ((p->info->mode == MAYFLY_EXACT && !p->info->thinned) ||
	    !export_knows(p->trace, MAYFLY_ABSENT_ERRORS))
		return;
	snprintf(text, sizeof(text),
		 "estimates from %" PRIu64 " samples; %s_space is %.0f +- %.0f bytes (1 sigma)",
		 asked->total.samples, p->allocated ? name : "alloc", asked->total.bytes.estimate,
		 asked->total.bytes.stderror);
	comment(p, text);
}

static void write_times(struct pprof *p)
{
	if (p->info->start_real_ns > 0)
		write_number(p, PROFILE_TIME_NANOS, p->info->start_real_ns);
	if (export_knows(p->trace, MAYFLY_ABSENT_TIMES))
		write_number(p, PROFILE_DURATION_NANOS, p->info->duration_ns);
}

static void write_profile(struct pprof *p, const struct export_options *options,
			  const struct mayfly_query *live)
{
	string(p, ""); /* number 0 */
	write_types(p, live);
	pprof_write_samples(p);
	for (size_t i = 0; i < shown_indices(&p->stacks) && !p->zip.error; i++)
		if (p->used[i])
			write_location(p, (uint32_t)i);
	write_functions(p);
	write_mappings(p);
	write_times(p);
	write_comments(p, options, live);
	for (size_t i = 0; i < p->strings.count; i++) {
		p->part.used = 0;
		protobuf_text(&p->part, PROFILE_STRING, p->strings.text[i]);
		zip_write(&p->zip, p->part.at, p->part.used, Z_NO_FLUSH);
	}
	zip_write(&p->zip, "", 0, Z_FINISH);
}

static int pprof_convert(struct pprof *p, const struct export_options *options)
{
	struct mayfly_query asked, other;
	const struct mayfly_query *const questions[STACK_COLUMNS] = {&asked, &other};
	int error;

	export_two_questions(options->query, &asked, &other);
	p->allocated = asked.metric != MAYFLY_ALLOCATED;
	p->counts = export_knows(p->trace, MAYFLY_ABSENT_BLOCKS);
	error = stack_sums_begin(&p->sums, p->trace, &asked, &other);
	if (!error)
		error = shown_begin(&p->stacks, p->trace, options->query);
	if (!error && p->info->label_sets > 1 && !p->info->snapshot_ns)
		error = label_sums_begin(&p->labels, p->trace, questions, &p->sums);
	if (error)
		return error;
	p->used = calloc(shown_indices(&p->stacks), 1);
	if (!p->used)
		return MAYFLY_E_MEMORY;
	write_profile(p, options, p->allocated ? &asked : &other);
	return p->zip.error;
}

int export_pprof(const struct mayfly_trace *trace, const struct export_options *options,
		 trace_sink *sink, void *context)
{
	struct pprof *p = calloc(1, sizeof(*p));
	int error;

	if (!p)
		return MAYFLY_E_MEMORY;
	p->trace = trace;
	p->info = mayfly_trace_info(trace);
	error = zip_begin(&p->zip, sink, context);
	if (!error)
		error = pprof_convert(p, options);
	deflateEnd(&p->zip.stream);
	stack_sums_end(&p->sums);
	label_sums_end(&p->labels);
	shown_end(&p->stacks);
	texts_free(&p->strings);
	numbering_free(&p->functions);
	bytes_free(&p->message);
	bytes_free(&p->part);
	bytes_free(&p->line);
	free(p->used);
	free(p);
	return error;
}
