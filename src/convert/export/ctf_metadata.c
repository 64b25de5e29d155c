/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata of an exported CTF trace. */
#include "convert/export/ctf_metadata.h"

#include "convert/export/event_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS 1000000000

static const char types[] =
    "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
    "typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
    "typealias integer { size = 64; align = 8; signed = true; } := int64_t;\n"
    "typealias integer { size = 64; align = 8; signed = false; base = 16; } := address_t;\n"
    "typealias integer { size = 5; align = 1; signed = false; } := uint5_t;\n"
    "typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := float64_t;\n";

static const char streams[] = "typealias integer {\n"
			      "	size = 27; align = 1; signed = false; map = clock.realtime.value;\n"
			      "} := time27_t;\n"
			      "typealias integer {\n"
			      "	size = 64; align = 8; signed = false; map = clock.realtime.value;\n"
			      "} := time64_t;\n"
			      "\n"
			      "struct event_header {\n"
			      "	enum : uint5_t { compact = 0 ... 30, extended = 31 } id;\n"
			      "	variant <id> {\n"
			      "		struct { time27_t timestamp; } compact;\n"
			      "		struct { uint32_t id; time64_t timestamp; } extended;\n"
			      "	} v;\n"
			      "} align(8);\n"
			      "\n"
			      "/* One stream for each thread. */\n"
			      "stream {\n"
			      "	id = 0;\n"
			      "	event.header := struct event_header;\n"
			      "	packet.context := struct {\n"
			      "		time64_t timestamp_begin;\n"
			      "		time64_t timestamp_end;\n"
			      "		uint64_t content_size;\n"
			      "		uint64_t packet_size;\n"
			      "		uint64_t packet_seq_num;\n"
			      "		uint64_t events_discarded;\n"
			      "		uint32_t tid;\n"
			      "		string thread;\n"
			      "	};\n"
			      "};\n";

static const char events[] =
    "\n"
    "/* Each module, frame and stack occurs once in the whole trace, before it is needed. */\n"
    "event {\n"
    "	name = \"module\"; id = 0; stream_id = 0;\n"
    "	fields := struct {\n"
    "		uint32_t module;\n"
    "		string path;\n"
    "		string build_id;\n"
    "		address_t start;\n"
    "		address_t end;\n"
    "		address_t bias;\n"
    "	};\n"
    "};\n"
    "\n"
    "/* address: in the module's file; add the module's bias for the address in the process.\n"
    "   module: 0xffffffff for none. Functions: several if inlined, innermost first. */\n"
    "event {\n"
    "	name = \"frame\"; id = 1; stream_id = 0;\n"
    "	fields := struct {\n"
    "		uint32_t frame;\n"
    "		uint32_t module;\n"
    "		address_t address;\n"
    "		uint32_t places_length;\n"
    "		struct { string function; string file; uint32_t line; } places[places_length];\n"
    "	};\n"
    "};\n"
    "\n"
    "/* Leaf first. addresses: in the process. */\n"
    "event {\n"
    "	name = \"stack\"; id = 2; stream_id = 0;\n"
    "	fields := struct {\n"
    "		uint32_t stack;\n"
    "		uint32_t depth;\n"
    "		address_t addresses[depth];\n"
    "		uint32_t frames[depth];\n"
    "	};\n"
    "};\n"
    "\n"
    "/* weight: what the block stands for. stack: 0 for none. flags: 1 part of a realloc,\n"
    "   2 temporary, 4 inherited from the parent process, 8 kept by chance when thinned.\n"
    "   labels: key=value of each, - for none. span: the innermost open span of the thread;\n"
    "   times of blocks are rounded, so a block may precede the begin of its span. */\n"
    "event {\n"
    "	name = \"alloc\"; id = 3; stream_id = 0;\n"
    "	fields := struct {\n"
    "		uint64_t sample;\n"
    "		uint64_t size;\n"
    "		float64_t weight_bytes;\n"
    "		float64_t weight_blocks;\n"
    "		uint32_t stack;\n"
    "		enum : uint8_t {\n"
    "			malloc = 0, ocaml_minor = 1, ocaml_major = 2, external = 3,\n"
    "			pool = 4, pool_mapped = 5\n"
    "		} heap;\n"
    "		uint8_t flags;\n";
static const char labels[] = "		string labels;\n";
static const char span[] = "		uint64_t _span;\n";

static const char other_events[] = "	};\n"
				   "};\n"
				   "\n"
				   "event {\n"
				   "	name = \"free\"; id = 4; stream_id = 0;\n"
				   "	fields := struct {\n"
				   "		uint64_t sample;\n"
				   "		uint64_t size;\n"
				   "		float64_t weight_bytes;\n"
				   "		uint8_t flags;\n"
				   "	};\n"
				   "};\n"
				   "\n"
				   "/* From OCaml's minor to its major heap. */\n"
				   "event {\n"
				   "	name = \"promote\"; id = 5; stream_id = 0;\n"
				   "	fields := struct {\n"
				   "		uint64_t sample;\n"
				   "		uint64_t size;\n"
				   "		float64_t weight_bytes;\n"
				   "	};\n"
				   "};\n";

static void put_uuid(struct out *out, const uint8_t uuid[CTF_UUID_BYTES])
{
	out_char(out, '"');
	for (int i = 0; i < CTF_UUID_BYTES; i++)
		out_format(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			   uuid[i]);
	out_char(out, '"');
}

/* Quoted as in C, but only quotes are escaped: readers differ in other escapes. */
static void put_quoted(struct out *out, const char *text)
{
	for (; *text; text++) {
		size_t length = utf8_length(text);

		if (*text == '"' || *text == '\\')
			out_char(out, '\\');
		if (length == 0 || (unsigned char)*text < ' ' || *text == 0x7f) {
			out_char(out, '?');
		} else {
			out_bytes(out, text, length);
			text += length - 1;
		}
	}
}

static void put_string(struct out *out, const char *name, const char *text)
{
	out_format(out, "	%s = \"", name);
	put_quoted(out, text);
	out_text(out, "\";\n");
}

static void put_environment(struct out *out, const struct mayfly_info *info, const char *purpose)
{
	out_text(out, "\nenv {\n");
	put_string(out, "tracer_name", "mayfly");
	put_string(out, "tracer_version", info->version);
	put_string(out, "program", info->program);
	put_string(out, "command", *purpose ? purpose : info->program);
	put_string(out, "mode", info->mode == MAYFLY_EXACT ? "exact" : "sampled");
	out_format(out, "	pid = %" PRIu32 ";\n", info->pid);
	out_format(out, "	interval_bytes = %" PRIu64 ";\n", info->interval_bytes);
	out_format(out, "	dropped_samples = %" PRIu64 ";\n", info->dropped_samples);
	out_format(out, "	duration_ns = %" PRId64 ";\n", info->duration_ns);
	out_text(out, "};\n");
}

static void put_clock(struct out *out, const uint8_t uuid[CTF_UUID_BYTES], int64_t offset_ns)
{
	int64_t offset_s = offset_ns / SECOND_NS, rest = offset_ns % SECOND_NS;

	if (rest < 0) {
		rest += SECOND_NS;
		offset_s--;
	}
	out_text(out, "\nclock {\n	name = \"realtime\";\n	uuid = ");
	put_uuid(out, uuid);
	out_text(out, ";\n	description = \"Nanoseconds since 1970\";\n"
		      "	freq = 1000000000;\n");
	out_format(out, "	offset_s = %" PRId64 ";\n	offset = %" PRId64 ";\n", offset_s,
		   rest);
	out_text(out, "	absolute = TRUE;\n};\n\n");
}

/* ---- track events ---- */

/* An identifier for any name. The leading '_', which readers remove, keeps it from being a keyword
 * of TSDL. */
static void field_identifier(char *buffer, size_t size, const char *name)
{
	size_t used = 0;

	buffer[used++] = '_';
	for (; *name && used + 1 < size; name++) {
		bool fits = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
			    (*name >= '0' && *name <= '9');

		buffer[used++] = fits ? *name : '_';
	}
	buffer[used] = 0;
}

#define IDENTIFIER_BYTES 256

/* Whether an earlier field or one of mayfly's own has this name. */
static bool is_taken(char identifier[MAYFLY_TRACK_VALUES][IDENTIFIER_BYTES], size_t field)
{
	for (size_t i = 0; i < field; i++)
		if (strcmp(identifier[i], identifier[field]) == 0)
			return true;
	return strcmp(identifier[field], "_stack") == 0 || strcmp(identifier[field], "_span") == 0;
}

#define MOST_TAKEN (MAYFLY_TRACK_VALUES + 1) /* names of the other fields and mayfly's own */

static void name_field(char identifier[MAYFLY_TRACK_VALUES][IDENTIFIER_BYTES], size_t field,
		       const char *name)
{
	char *own = identifier[field];

	field_identifier(own, IDENTIFIER_BYTES - MOST_TAKEN, *name ? name : "value");
	while (is_taken(identifier, field))
		strcat(own, "_");
}

bool ctf_has_spans(const struct mayfly_trace *trace)
{
	for (size_t i = 0; i < mayfly_trace_info(trace)->track_types; i++)
		if (mayfly_trace_track_type(trace, i)->kind == MAYFLY_TYPE_SPAN)
			return true;
	return false;
}

static void put_fields(struct out *out, const struct mayfly_track_type *type, size_t fields,
		       bool has_stack)
{
	static const char *const names[] = {
	    [MAYFLY_FIELD_INT] = "int64_t",	[MAYFLY_FIELD_UINT] = "uint64_t",
	    [MAYFLY_FIELD_FLOAT] = "float64_t", [MAYFLY_FIELD_TEXT] = "string",
	    [MAYFLY_FIELD_FLOW] = "uint64_t",
	};
	char identifier[MAYFLY_TRACK_VALUES][IDENTIFIER_BYTES];

	if (fields == 0 && !has_stack && type->kind != MAYFLY_TYPE_SPAN)
		return;
	out_text(out, "	fields := struct {\n");
	for (size_t i = 0; i < fields; i++) {
		const struct mayfly_track_field *field = &type->field[i];

		name_field(identifier, i, field->name);
		out_format(out, "		%s %s;\n",
			   track_is_address(field) ? "address_t" : names[field->type],
			   identifier[i]);
	}
	if (has_stack)
		out_text(out, "		uint32_t _stack;\n");
	if (type->kind == MAYFLY_TYPE_SPAN)
		out_text(out, span);
	out_text(out, "	};\n");
}

/* Types that the program did not define get their category as a prefix, like providers elsewhere;
 * except "thread.start", whose name contains it already. */
static bool needs_category(const struct mayfly_track_type *type)
{
	size_t length = strlen(type->category);

	return length &&
	       (strncmp(type->name, type->category, length) != 0 || type->name[length] != '.');
}

static void put_class(struct out *out, const struct mayfly_track_type *type, uint32_t id,
		      const char *suffix, size_t fields, bool has_stack)
{
	out_text(out, "\nevent {\n	name = \"");
	if (needs_category(type)) {
		put_quoted(out, type->category);
		out_char(out, ':');
	}
	put_quoted(out, type->name);
	out_format(out, "%s\"; id = %" PRIu32 "; stream_id = 0;\n", suffix, id);
	put_fields(out, type, fields, has_stack);
	out_text(out, "};\n");
}

static void put_track_classes(struct out *out, const struct mayfly_trace *trace,
			      const struct ctf_track_class *class)
{
	size_t count = mayfly_trace_info(trace)->track_types;

	if (count)
		out_text(
		    out,
		    "\n/* Track events: spans begin and end (an end closes the latest open span "
		    "of its type and\n   thread); instants; values of counters. stack: "
		    "0 for none.\n   span: its number, from 1; 0 for an end without a "
		    "begin. */\n");
	for (size_t i = 0; i < count; i++) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(trace, i);
		bool has_end = type->kind == MAYFLY_TYPE_SPAN;

		put_class(out, type, class[i].id, has_end ? "_begin" : "", type->fields,
			  class[i].has_stack);
		if (has_end)
			put_class(out, type, class[i].id + 1, "_end", 0, false);
	}
}

void ctf_metadata(struct out *out, const struct mayfly_trace *trace,
		  const struct ctf_track_class *class, const char *purpose,
		  const uint8_t uuid[CTF_UUID_BYTES], int64_t zero_ns)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	out_text(out, "/* CTF 1.8 */\n\n");
	out_text(out, types);
	out_text(out, "\ntrace {\n	major = 1;\n	minor = 8;\n	uuid = ");
	put_uuid(out, uuid);
	out_text(out, ";\n	byte_order = le;\n"
		      "	packet.header := struct {\n"
		      "		uint32_t magic;\n"
		      "		uint8_t uuid[16];\n"
		      "		uint32_t stream_id;\n"
		      "		uint64_t stream_instance_id;\n"
		      "	};\n};\n");
	put_environment(out, info, purpose);
	put_clock(out, uuid, info->start_real_ns + zero_ns);
	out_text(out, streams);
	out_text(out, events);
	if (info->label_sets > 1)
		out_text(out, labels);
	if (ctf_has_spans(trace))
		out_text(out, span);
	out_text(out, other_events);
	put_track_classes(out, trace, class);
}
