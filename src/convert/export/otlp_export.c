/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of OpenTelemetry, as a collector is sent them (ExportProfilesServiceRequest) and as they
 * lie in files (ProfilesData), which are the same bytes.
 *
 *	resource   the process: service.name, host.name, process.pid, ..., labels
 *	  profile  one for each type: inuse_space, inuse_objects, alloc_space, alloc_objects
 *	    sample   stack, attributes (the labels of its blocks), one value
 *	dictionary tables of what samples refer to by numbers, each from 1; 0 is an empty one
 *	  stack      locations, leaf first
 *	  location   a frame: mapping, address, lines, the innermost inlined function first
 *	  function, mapping, attribute, string
 *
 * No table has an item twice, or one that nothing refers to: items are made when they are first
 * needed. Nodes that show the same stack are one.
 */
#include "convert/export/event_walk.h"
#include "convert/export/profile_samples.h"
#include "convert/export/protobuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer/trace_names.h"
#include "convert/export/otlp_fields.h"
#include "base/array.h"
#include "base/interner.h"

/* https://opentelemetry.io/docs/specs/semconv/ */
#define BUILD_ID_KEY "process.executable.build_id.gnu"

enum unit { OTLP_BYTES, OTLP_BLOCKS, OTLP_UNITS };

struct otlp_values {
	uint32_t stack, set;
	uint64_t of[STACK_COLUMNS][OTLP_UNITS];
};

struct otlp {
	struct export_job *job;
	struct profile_samples samples;
	struct texts strings, values; /* values: of attributes, which hold them themselves */
	struct interner functions, attributes, stacks;
	struct interner paths; /* a path is the number of the one towards the root, and a frame */
	struct interner rows;  /* of values: stack and set */
	struct otlp_values *value;
	size_t room;
	uint32_t *location; /* by index of the shown frame; 0: not made yet */
	uint32_t *mapping;  /* by module */
	uint32_t locations, mappings;
	struct bytes dictionary, message, part, value_bytes;
	bool failed; /* no memory */
};

/* ---- the dictionary ---- */

/* 0 is what a reader takes for a missing number. */
static void put_number(struct bytes *b, uint32_t field, uint64_t value)
{
	if (value)
		protobuf_unsigned(b, field, value);
}

/* The item that is in o->message. */
static void put_item(struct otlp *o, uint32_t table)
{
	protobuf_message(&o->dictionary, table, &o->message);
}

static uint32_t otlp_string(struct otlp *o, const char *text)
{
	uint32_t number = texts_number(&o->strings, text);

	o->failed |= number == TEXTS_FAILED;
	return number;
}

/* A number for a key, from 1; *is_new: its item has to be made. */
static uint32_t number_from_1(struct otlp *o, struct interner *n, struct key key, bool *is_new)
{
	uint32_t number = interner_add(n, key, is_new);

	o->failed |= number == INTERNER_NONE;
	*is_new &= number != INTERNER_NONE;
	return number + 1;
}

/* The value is in o->value_bytes; `bits` tells it from others of its key. */
static uint32_t attribute(struct otlp *o, const char *key, uint32_t kind, uint64_t bits,
			  const char *unit)
{
	uint32_t key_string = otlp_string(o, key);
	bool is_new;
	uint32_t number =
	    number_from_1(o, &o->attributes, (struct key){{1 + kind, key_string, bits}}, &is_new);

	if (!is_new) {
		o->value_bytes.used = 0;
		return number;
	}
	put_number(&o->message, ATTRIBUTE_KEY, key_string);
	protobuf_message(&o->message, ATTRIBUTE_VALUE, &o->value_bytes);
	put_number(&o->message, ATTRIBUTE_UNIT, otlp_string(o, unit));
	put_item(o, DICTIONARY_ATTRIBUTE);
	return number;
}

static uint32_t text_attribute(struct otlp *o, const char *key, const char *text)
{
	uint32_t number = texts_number(&o->values, text);

	o->failed |= number == TEXTS_FAILED;
	protobuf_text(&o->value_bytes, VALUE_STRING, text);
	return attribute(o, key, VALUE_STRING, number, "");
}

static uint32_t int_attribute(struct otlp *o, const char *key, uint64_t value)
{
	protobuf_unsigned(&o->value_bytes, VALUE_INT, value);
	return attribute(o, key, VALUE_INT, value, "");
}

static uint32_t double_attribute(struct otlp *o, const char *key, double value, const char *unit)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	protobuf_double(&o->value_bytes, VALUE_DOUBLE, value);
	return attribute(o, key, VALUE_DOUBLE, bits, unit);
}

static uint32_t otlp_function(struct otlp *o, const struct shown_line *line)
{
	const struct shown_stacks *stacks = &o->job->stacks;
	struct key key = {{1, line->name, line->file}};
	bool is_new;
	uint32_t number = number_from_1(o, &o->functions, key, &is_new);

	if (!is_new)
		return number;
	put_number(&o->message, OTLP_FUNCTION_NAME, otlp_string(o, shown_text(stacks, line->name)));
	put_number(&o->message, OTLP_FUNCTION_FILENAME,
		   otlp_string(o, shown_text(stacks, line->file)));
	put_item(o, DICTIONARY_FUNCTION);
	return number;
}

static uint32_t otlp_mapping(struct otlp *o, uint32_t index)
{
	const struct mayfly_module *m;
	char build_id[BUILD_ID_TEXT];
	uint32_t id = 0;

	if (index >= o->job->info->modules)
		return 0;
	if (o->mapping[index])
		return o->mapping[index];
	m = mayfly_trace_module(o->job->trace, index);
	if (*export_build_id(build_id, m))
		id = text_attribute(o, BUILD_ID_KEY, build_id);
	put_number(&o->message, OTLP_MAPPING_START, m->start);
	put_number(&o->message, OTLP_MAPPING_LIMIT, m->end);
	put_number(&o->message, OTLP_MAPPING_FILENAME, otlp_string(o, m->path));
	if (id) {
		bytes_put_u(&o->part, id);
		protobuf_message(&o->message, OTLP_MAPPING_ATTRIBUTES, &o->part);
	}
	put_item(o, DICTIONARY_MAPPING);
	return o->mapping[index] = ++o->mappings;
}

static uint32_t otlp_location(struct otlp *o, uint32_t index)
{
	const struct shown_stacks *stacks = &o->job->stacks;
	const struct shown_frame *shown = &stacks->frame[index];
	const struct mayfly_frame *frame =
	    mayfly_trace_frame(stacks->trace, shown_trace_frame(stacks, index));
	const struct shown_line *line = &stacks->line[shown->first];
	bool code = frame && frame->kind == MAYFLY_FRAME_CODE;
	uint32_t mapping;

	if (o->location[index])
		return o->location[index];
	/* Made before its own message is begun. */
	mapping = code ? otlp_mapping(o, frame->module) : 0;
	for (uint32_t i = 0; i < shown->count; i++)
		otlp_function(o, &line[i]);
	put_number(&o->message, OTLP_LOCATION_MAPPING, mapping);
	put_number(&o->message, OTLP_LOCATION_ADDRESS,
		   code ? export_address(stacks->trace, frame) : 0);
	for (uint32_t i = 0; i < shown->count; i++) {
		put_number(&o->part, OTLP_LINE_FUNCTION, otlp_function(o, &line[i]));
		put_number(&o->part, OTLP_LINE_LINE, line[i].line);
		protobuf_message(&o->message, OTLP_LOCATION_LINES, &o->part);
	}
	put_item(o, DICTIONARY_LOCATION);
	return o->location[index] = ++o->locations;
}

static uint32_t otlp_stack(struct otlp *o, const struct profile_sample *sample)
{
	uint32_t path = 0, number;
	bool is_new;

	for (size_t i = sample->length; i-- > 0;)
		path =
		    number_from_1(o, &o->paths, (struct key){{1, path, sample->path[i]}}, &is_new);
	number = number_from_1(o, &o->stacks, (struct key){{1, path}}, &is_new);
	if (!is_new)
		return number;
	for (size_t i = 0; i < sample->length; i++)
		otlp_location(o, sample->path[i]);
	for (size_t i = 0; i < sample->length; i++)
		bytes_put_u(&o->part, o->location[sample->path[i]]);
	protobuf_message(&o->message, STACK_LOCATIONS, &o->part);
	put_item(o, DICTIONARY_STACK);
	return number;
}

/* Number 0 of each table. A link's is made of zeros, for readers that want identifiers of full
 * length. */
static void put_empty_items(struct otlp *o)
{
	static const uint8_t zeros[LINK_TRACE_ID_BYTES];
	static const uint32_t tables[] = {DICTIONARY_MAPPING, DICTIONARY_LOCATION,
					  DICTIONARY_FUNCTION, DICTIONARY_ATTRIBUTE,
					  DICTIONARY_STACK};

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		put_item(o, tables[i]);
	protobuf_bytes(&o->message, LINK_TRACE_ID, zeros, LINK_TRACE_ID_BYTES);
	protobuf_bytes(&o->message, LINK_SPAN_ID, zeros, LINK_SPAN_ID_BYTES);
	put_item(o, DICTIONARY_LINK);
	otlp_string(o, "");
}

static void put_strings(struct otlp *o)
{
	for (size_t i = 0; i < o->strings.count; i++)
		protobuf_text(&o->dictionary, DICTIONARY_STRING, o->strings.text[i]);
}

/* ---- profiles ---- */

static void take_sample(void *context, const struct profile_sample *sample)
{
	struct otlp *o = context;
	uint32_t stack = otlp_stack(o, sample);
	bool is_new;
	uint32_t row = interner_add(&o->rows, (struct key){{1, stack, sample->set}}, &is_new);
	struct otlp_values *v;

	if (o->failed || row == INTERNER_NONE ||
	    !array_reserve_filled(&o->value, &o->room, row, sizeof(*o->value), 0)) {
		out_fail(&o->job->out, MAYFLY_E_MEMORY);
		return;
	}
	v = &o->value[row];
	v->stack = stack;
	v->set = sample->set;
	for (int i = 0; i < STACK_COLUMNS; i++) {
		v->of[i][OTLP_BYTES] += sample->bytes[i];
		v->of[i][OTLP_BLOCKS] += sample->blocks[i];
	}
}

/* The numbers of a set's labels, into o->part. */
static void put_labels(struct otlp *o, uint32_t set)
{
	size_t count;
	const struct mayfly_label *label = mayfly_trace_labels(o->job->trace, set, &count);

	for (size_t i = 0; i < count; i++)
		if (label_counts(label, i, count))
			bytes_put_u(&o->part, text_attribute(o, label[i].key, label[i].value));
}

static void put_samples(struct otlp *o, struct bytes *profile, int column, enum unit unit)
{
	struct bytes sample = {0};

	for (size_t i = 0; i < o->rows.count; i++) {
		const struct otlp_values *v = &o->value[i];

		if (!v->of[column][unit])
			continue;
		put_number(&sample, OTLP_SAMPLE_STACK, v->stack);
		put_labels(o, v->set);
		if (o->part.used)
			protobuf_message(&sample, OTLP_SAMPLE_ATTRIBUTES, &o->part);
		bytes_put_u(&o->part, v->of[column][unit]);
		protobuf_message(&sample, OTLP_SAMPLE_VALUES, &o->part);
		protobuf_message(profile, OTLP_PROFILE_SAMPLES, &sample);
	}
	o->failed |= sample.failed;
	bytes_free(&sample);
}

static void put_type(struct otlp *o, struct bytes *profile, uint32_t field, const char *type,
		     const char *unit)
{
	put_number(&o->part, OTLP_TYPE_TYPE, otlp_string(o, type));
	put_number(&o->part, OTLP_TYPE_UNIT, otlp_string(o, unit));
	protobuf_message(profile, field, &o->part);
}

static void put_times(const struct otlp *o, struct bytes *profile)
{
	int64_t start_ns, duration_ns;

	export_times(o->job->trace, &o->job->asked[o->job->allocated], &start_ns, &duration_ns);
	if (start_ns)
		protobuf_fixed(profile, OTLP_PROFILE_TIME, (uint64_t)start_ns);
	if (duration_ns)
		protobuf_unsigned(profile, OTLP_PROFILE_DURATION, (uint64_t)duration_ns);
}

/* What a sum of the samples is, and how certain it is. There is no other place for that. */
static void put_certainty(struct otlp *o, struct bytes *profile, int column, enum unit unit)
{
	const struct mayfly_node_sums *sums = o->job->sums.of[column];
	const struct mayfly_estimate *total = &sums->total;
	char metric[128];

	export_metric_text(metric, sizeof(metric), o->job->trace, &o->job->asked[column],
			   sums->time_ns);
	bytes_put_u(&o->part, text_attribute(o, "mayfly.metric", metric));
	if (profile_is_estimate(&o->samples)) {
		double error = unit == OTLP_BYTES ? total->bytes.stderror : total->blocks.stderror;

		bytes_put_u(&o->part, int_attribute(o, "mayfly.samples", total->samples));
		bytes_put_u(&o->part, double_attribute(o, "mayfly.standard_error", error,
						       unit == OTLP_BYTES ? "By" : "{block}"));
	}
	protobuf_message(profile, OTLP_PROFILE_ATTRIBUTES, &o->part);
}

static void put_profile(struct otlp *o, struct bytes *scope, int column, enum unit unit)
{
	uint64_t interval = o->job->info->interval_bytes;
	struct bytes profile = {0};
	char type[32];

	if (!o->job->sums.of[column] || (unit == OTLP_BLOCKS && !o->samples.counts))
		return;
	snprintf(type, sizeof(type), "%s_%s", profile_column_name(&o->samples, column),
		 unit == OTLP_BYTES ? "space" : "objects");
	put_type(o, &profile, OTLP_PROFILE_SAMPLE_TYPE, type,
		 unit == OTLP_BYTES ? "bytes" : "count");
	put_samples(o, &profile, column, unit);
	put_times(o, &profile);
	/* Pyroscope files a profile under the name of its period's type (pkg/ingester/otlp/convert.go,
	 * newProfileBuilder(), of https://github.com/grafana/pyroscope), and those of Go under "memory". */
	put_type(o, &profile, OTLP_PROFILE_PERIOD_TYPE, "memory", "bytes");
	protobuf_unsigned(&profile, OTLP_PROFILE_PERIOD, interval ? interval : 1);
	put_certainty(o, &profile, column, unit);
	protobuf_message(scope, SCOPE_PROFILES_PROFILES, &profile);
	bytes_free(&profile);
}

/* The user's own metric first: it is what tools show. */
static void put_profiles(struct otlp *o, struct bytes *scope)
{
	protobuf_text(&o->part, SCOPE_NAME, "mayfly");
	protobuf_text(&o->part, SCOPE_VERSION, MAYFLY_VERSION);
	protobuf_message(scope, SCOPE_PROFILES_SCOPE, &o->part);
	for (int column = 0; column < STACK_COLUMNS; column++) {
		put_profile(o, scope, column, OTLP_BYTES);
		put_profile(o, scope, column, OTLP_BLOCKS);
	}
}

/* ---- the process ---- */

/* A key of the resource, whose value is in o->value_bytes. */
static void put_fact(struct otlp *o, struct bytes *resource, const char *key)
{
	protobuf_text(&o->part, KEY_VALUE_KEY, key);
	protobuf_message(&o->part, KEY_VALUE_VALUE, &o->value_bytes);
	protobuf_message(resource, RESOURCE_ATTRIBUTES, &o->part);
}

/* Keys are there once. A label of the user's comes before what is known otherwise, and a later
 * one before an earlier one. */
static bool is_given(const struct export_process *process, size_t from, const char *key)
{
	for (size_t i = from; i < process->labels; i++)
		if (!strcmp(process->label[i].key, key))
			return true;
	return false;
}

static void put_known(struct otlp *o, struct bytes *resource, const struct export_process *process,
		      const char *key, const char *value)
{
	if (!value || !*value || is_given(process, 0, key))
		return;
	protobuf_text(&o->value_bytes, VALUE_STRING, value);
	put_fact(o, resource, key);
}

static void put_process(struct otlp *o, struct bytes *resource,
			const struct export_process *process)
{
	const struct mayfly_info *info = o->job->info;
	size_t program = export_program(o->job->trace);
	const char *name = path_base(info->program);
	char build_id[BUILD_ID_TEXT] = "";

	if (program < info->modules)
		export_build_id(build_id, mayfly_trace_module(o->job->trace, program));
	put_known(o, resource, process, "service.name",
		  process->service ? process->service
		  : *name	   ? name
				   : "unknown_service");
	put_known(o, resource, process, "host.name", process->host ? process->host : info->host);
	put_known(o, resource, process, "process.executable.name", name);
	put_known(o, resource, process, "process.executable.path", info->program);
	put_known(o, resource, process, BUILD_ID_KEY, build_id);
	if (info->pid && !is_given(process, 0, "process.pid")) {
		protobuf_unsigned(&o->value_bytes, VALUE_INT, info->pid);
		put_fact(o, resource, "process.pid");
	}
	for (size_t i = 0; i < process->labels; i++) {
		if (is_given(process, i + 1, process->label[i].key))
			continue;
		protobuf_text(&o->value_bytes, VALUE_STRING, process->label[i].value);
		put_fact(o, resource, process->label[i].key);
	}
}

/* ---- all of it ---- */

static bool has_failed(const struct otlp *o)
{
	return o->failed || o->dictionary.failed || o->message.failed || o->part.failed ||
	       o->value_bytes.failed;
}

static void write_request(struct otlp *o)
{
	struct bytes scope = {0}, inner = {0}, request = {0};

	put_process(o, &inner, &o->job->options->process);
	protobuf_message(&request, RESOURCE_PROFILES_RESOURCE, &inner);
	put_profiles(o, &scope);
	protobuf_message(&request, RESOURCE_PROFILES_SCOPES, &scope);
	bytes_free(&scope);
	put_strings(o);
	protobuf_message(&inner, REQUEST_RESOURCE_PROFILES, &request);
	bytes_free(&request);
	protobuf_message(&inner, REQUEST_DICTIONARY, &o->dictionary);
	if (inner.failed || has_failed(o))
		out_fail(&o->job->out, MAYFLY_E_MEMORY);
	else
		out_bytes(&o->job->out, inner.at, inner.used);
	bytes_free(&inner);
}

void export_otlp(struct export_job *j)
{
	struct otlp o = {.job = j};

	profile_samples_begin(&o.samples, j);
	if (!j->out.error) {
		o.location = calloc(shown_indices(&j->stacks), sizeof(*o.location));
		o.mapping = calloc(j->info->modules + 1, sizeof(*o.mapping));
		out_fail(&j->out, o.location && o.mapping ? 0 : MAYFLY_E_MEMORY);
	}
	put_empty_items(&o);
	profile_samples_run(&o.samples, take_sample, &o);
	if (!j->out.error)
		write_request(&o);
	profile_samples_end(&o.samples);
	texts_free(&o.strings);
	texts_free(&o.values);
	interner_free(&o.functions);
	interner_free(&o.attributes);
	interner_free(&o.stacks);
	interner_free(&o.paths);
	interner_free(&o.rows);
	bytes_free(&o.dictionary);
	bytes_free(&o.message);
	bytes_free(&o.part);
	bytes_free(&o.value_bytes);
	free(o.value);
	free(o.location);
	free(o.mapping);
}
