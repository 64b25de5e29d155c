/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a trace that is being made: strings, modules, threads, frames, the calling-context
 * tree. The maker of a trace (spool_stream.c, a converter) adds rows as it meets new things, and
 * gives the events to a trace_writer (writer.h). Events name nodes and threads by index; the writer
 * writes new rows of the tables before the events that need them. Indices, not pointers, link the
 * arrays; strings are numbers of the string table (0 is "").
 */
#ifndef MAYFLY_RECORDING_H
#define MAYFLY_RECORDING_H

#include <mayfly/trace.h>

#include "base/bytes.h"
#include "base/hash_index.h"
#include "format/format.h"

#define RECORDING_NONE UINT32_MAX

struct recording_module {
	uint32_t path, problem; /* strings */
	uint8_t build_id[32];
	uint32_t build_id_length;
	uint64_t start, end, bias;
	int64_t from_ns, to_ns;
};

struct recording_thread {
	uint32_t tid;
	uint32_t name; /* string */
	uint32_t row;  /* the thread whose row in answers it is in: itself or one before it */
};

struct recording_location {
	uint32_t function, file; /* strings */
	uint32_t line;
	bool inlined;
	uint16_t respelled; /* of the function: see struct mayfly_location */
	uint32_t first_char, last_char;
};

struct recording_frame {
	uint32_t kind; /* enum mayfly_frame_kind */
	uint32_t module;
	uint64_t address;		    /* as in struct mayfly_frame */
	uint32_t first_location, locations; /* 0 locations until symbolised */
};

/* How a child of a crowded node is found; node 0: a free slot. */
struct recording_edge {
	uint32_t parent, frame, node;
};

/* How most children are found: those of a node that were found last are a list, the latest first, of up
 * to RECORDING_LATEST. A node that has others beside them is crowded. */
#define RECORDING_LATEST 4
#define RECORDING_MORE	 UINT32_MAX
struct recording_links {
	uint32_t frame, child; /* the first of its children's list; frame RECORDING_NONE: none */
	uint32_t next; /* in its parent's list; 0: none, RECORDING_MORE: none, and it is crowded */
};

/* What track events of a type have: see struct mayfly_track_type. */
#define RECORDING_FIELDS 4
struct recording_track_type {
	uint32_t kind;		       /* enum mayfly_type_kind */
	uint32_t name, category, unit; /* strings */
	uint32_t fields;
	struct {
		uint32_t type, name; /* enum mayfly_field_type; string */
	} field[RECORDING_FIELDS];
};

struct recording_label {
	uint32_t key, value; /* strings */
};
#define RECORDING_LABELS TRACE_MAX_LABELS
struct recording_labels {
	uint32_t first, count; /* in label[] */
};

struct recording {
	struct mayfly_info info; /* the scalars; its pointers are not used, see below */
	uint32_t *command;	 /* strings */
	size_t command_count;
	uint32_t program, off_text, note, title, entry;
	uint32_t host, runtime_parameters, context; /* of a Memtrace file */

	struct recording_module *module;
	size_t modules;
	struct recording_thread *thread;
	size_t threads;
	struct recording_frame *frame; /* distinct */
	size_t frames;
	struct recording_location *location;
	size_t locations;
	struct mayfly_node *node; /* node[0] is the root; parents before children; distinct */
	size_t nodes;

	struct recording_track_type *track_type; /* distinct */
	size_t track_types;
	struct recording_labels *label_set; /* distinct; label_set[0] is empty */
	size_t label_sets;
	struct recording_label *label; /* of all sets */
	size_t labels;

	struct bytes text; /* zero-terminated strings one after the other; string 0 is "" */
	uint32_t *string_start;
	size_t strings, strings_size;

	size_t module_size, thread_size, frame_size, location_size, node_size;
	/* Private to recording.c. */
	struct recording_edge *node_hash;
	struct recording_links *links; /* of each node */
	size_t links_size;
	size_t node_hash_size, edges;
	size_t track_type_size, label_set_size, label_size;
	struct hash_index string_index, frame_index, track_type_index, label_set_index;
	size_t event_texts;
	bool failed; /* out of memory: rows are missing, and no writer finishes the trace */
};

/* An empty recording with string 0 and node 0; NULL when out of memory. */
struct recording *recording_new(void);
void recording_free(struct recording *r);

/* Each returns the index of the (possibly already present) item. Out of memory sets r->failed and
 * returns 0, a row that may be looked at; trace_writer_flush() and _finish() return the error.
 * Strings may hold any bytes but zero; `length` bytes are taken, up to the first zero. */
uint32_t recording_string(struct recording *r, const char *text, size_t length);
uint32_t recording_name(struct recording *r, const char *text); /* all of a text */
uint32_t recording_frame(struct recording *r, uint32_t kind, uint32_t module, uint64_t address);
uint32_t recording_node(struct recording *r, uint32_t parent, uint32_t frame);
/* Puts a frame that was in no module into this one. Only before the frame is written. False, and
 * nothing is done: there is such a frame already, or this one is in a module. */
bool recording_move_frame(struct recording *r, uint32_t frame, uint32_t module, uint64_t address);
/* These append. */
uint32_t recording_module(struct recording *r, const struct recording_module *m);
/* The row of another trace's module. */
struct recording_module recording_copy_module(struct recording *r, const struct mayfly_module *m);
uint32_t recording_thread(struct recording *r, uint32_t tid, uint32_t name);
uint32_t recording_location(struct recording *r, const struct recording_location *l);
/* Gives a frame the locations of another trace's frame; none may have come to it before. */
void recording_copy_locations(struct recording *r, uint32_t frame,
			      const struct mayfly_location *location, size_t count);

/* Equal types, and equal sets of labels, are one. RECORDING_NONE when out of memory, beyond
 * MAYFLY_TRACK_TYPES or MAYFLY_LABEL_SETS (the caller goes on without), for an invalid type (a counter
 * without a number), and for more than RECORDING_LABELS labels. No labels: 0. */
uint32_t recording_track_type(struct recording *r, const struct recording_track_type *type);
uint32_t recording_copy_track_type(struct recording *r, const struct mayfly_track_type *from);
uint32_t recording_labels(struct recording *r, const struct recording_label *label, uint32_t count);
uint32_t recording_copy_labels(struct recording *r, const struct mayfly_label *from, size_t count);

/* The string of a text value of a track event. Each event may bring a new text, and strings are
 * never freed: after RECORDING_EVENT_TEXTS of them, new ones become "(more)". */
#define RECORDING_EVENT_TEXTS 262144u
uint32_t recording_event_text(struct recording *r, const char *text, size_t length);

const char *recording_text(const struct recording *r, uint32_t string);

#endif
