/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata of an exported CTF trace. */
#include "convert/ctf_metadata.h"

#include <inttypes.h>
#include <string.h>

#define SECOND_NS 1000000000

static const char types[] =
    "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
    "typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
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
			      "		uint32_t tid;\n"
			      "		string thread;\n"
			      "	};\n"
			      "};\n";

static const char events[] =
    "\n"
    "/* Modules, frames and stacks come once in the whole trace, before they are needed. */\n"
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
    "/* address: in the module's file; in the process it is more by the module's bias. module:\n"
    "   0xffffffff for none. Functions: several when inlined, the innermost first. */\n"
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
    "/* The leaf first. addresses: in the process. */\n"
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
    "   2 temporary, 4 inherited from the parent process, 8 kept by chance when thinned. */\n"
    "event {\n"
    "	name = \"alloc\"; id = 3; stream_id = 0;\n"
    "	fields := struct {\n"
    "		uint64_t sample;\n"
    "		uint64_t size;\n"
    "		float64_t weight_bytes;\n"
    "		float64_t weight_blocks;\n"
    "		uint32_t stack;\n"
    "		enum : uint8_t {\n"
    "			malloc = 0, ocaml_minor = 1, ocaml_major = 2, external = 3\n"
    "		} heap;\n"
    "		uint8_t flags;\n"
    "	};\n"
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

/* As in C, without escapes but for quotes: readers differ in the others. */
static void put_string(struct out *out, const char *name, const char *text)
{
	out_format(out, "	%s = \"", name);
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

void ctf_metadata(struct out *out, const struct mayfly_info *info, const char *purpose,
		  const uint8_t uuid[CTF_UUID_BYTES], int64_t zero_ns)
{
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
}
