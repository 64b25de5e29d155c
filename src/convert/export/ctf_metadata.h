/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the streams of an exported CTF trace: numbers that ctf_export.c writes, and the
 * text (TSDL) that declares them to readers. The two must agree. */
#ifndef MAYFLY_CTF_METADATA_H
#define MAYFLY_CTF_METADATA_H

#include "convert/out.h"

#include <mayfly/trace.h>

#define CTF_MAGIC      0xc1fc1fc1u
#define CTF_UUID_BYTES 16

/* The event's id and the low bits of its time share 32 bits. An event whose distance from the
 * previous one does not fit into these bits has the extended header. */
#define CTF_ID_BITS   5
#define CTF_TIME_BITS 27
#define CTF_EXTENDED  31u

enum ctf_event {
	CTF_MODULE = 0,
	CTF_FRAME = 1,
	CTF_STACK = 2,
	CTF_ALLOC = 3,
	CTF_FREE = 4,
	CTF_PROMOTE = 5,
	CTF_FIRST_TRACK = 6, /* and up: track events, see struct ctf_track_class */
};

/* The events of a type: the begin and end of a span are two. */
struct ctf_track_class {
	uint32_t id;	/* of BEGIN or of the only event; END has the next id */
	bool has_stack; /* some event of the type has a stack */
};

/* Whether events of the trace can be inside spans. */
bool ctf_has_spans(const struct mayfly_trace *trace);

/* class: one for each type of track events. Time 0 of the streams is at zero_ns of the trace;
 * zero_ns <= 0. */
void ctf_metadata(struct out *out, const struct mayfly_trace *trace,
		  const struct ctf_track_class *class, const char *purpose,
		  const uint8_t uuid[CTF_UUID_BYTES], int64_t zero_ns);

#endif
