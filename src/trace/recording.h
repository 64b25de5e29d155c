/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording: everything that a trace says, as plain arrays. spool_read.c builds one from a spool,
 * the recorder adds symbols, encode.c writes it as a trace. Indices, not pointers, link the arrays;
 * strings are numbers of the string table (0 is "").
 */
#ifndef MAYFLY_RECORDING_H
#define MAYFLY_RECORDING_H

#include <mayfly/trace.h>

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
};

struct recording_location {
	uint32_t function, file; /* strings */
	uint32_t line;
	bool inlined;
};

struct recording_frame {
	uint32_t kind; /* enum mayfly_frame_kind */
	uint32_t module;
	uint64_t address;		    /* as in struct mayfly_frame */
	uint32_t first_location, locations; /* 0 locations until symbolised */
};

struct recording_sample {
	int64_t time_ns;
	int64_t free_ns; /* INT64_MAX: not freed */
	uint64_t size;
	uint32_t node;
	uint32_t thread, free_thread;
	uint32_t hits;
	uint8_t interval_log2;
	uint8_t flags, free_flags; /* MAYFLY_FLAG_... */
	uint64_t id; /* in the spool: how a forked child's spool names it; not coded */
};

/* Ticks and time were read together. Between two points time runs straight. */
struct recording_clock {
	uint64_t ticks;
	int64_t ns; /* since the start */
};

struct recording {
	struct mayfly_info info; /* the scalars; its pointers are not used, see below */
	uint32_t *command;	 /* strings */
	size_t command_count;
	uint32_t program, off_text, note;

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
	struct recording_sample *sample; /* in time order */
	size_t samples;

	char *string_bytes; /* zero-terminated strings one after the other; string 0 is "" */
	size_t string_bytes_used, string_bytes_size;
	uint32_t *string_start;
	size_t strings, strings_size;
	uint32_t *string_hash; /* private to recording.c */
	size_t string_hash_size;

	/* From the spool, for the recordings of forked children; not coded. */
	struct recording_clock *clock; /* ascending; empty: a tick is a ns since start_ticks */
	size_t clocks;
	uint64_t start_ticks;
	double ticks_per_ns;	/* outside of the points */
	uint64_t unknown_frees; /* of samples that the spool does not have */

	size_t module_size, thread_size, frame_size, location_size, node_size, sample_size;
	uint32_t *node_hash, *frame_hash; /* private to recording.c */
	size_t node_hash_size, frame_hash_size;
};

/* An empty recording with string 0 and node 0; NULL when out of memory. */
struct recording *recording_new(void);
void recording_free(struct recording *r);

/* Each returns the index of the (possibly already present) item, RECORDING_NONE when out of
 * memory. Strings may hold any bytes but zero; `length` bytes are taken, up to the first zero. */
uint32_t recording_string(struct recording *r, const char *text, size_t length);
uint32_t recording_frame(struct recording *r, uint32_t kind, uint32_t module, uint64_t address);
uint32_t recording_node(struct recording *r, uint32_t parent, uint32_t frame);
/* These append. */
uint32_t recording_module(struct recording *r, const struct recording_module *m);
uint32_t recording_thread(struct recording *r, uint32_t tid, uint32_t name);
uint32_t recording_location(struct recording *r, const struct recording_location *l);
bool recording_sample(struct recording *r, const struct recording_sample *s);

const char *recording_text(const struct recording *r, uint32_t string);

/* ---- spool_read.c ---- */

struct spool_ending {	 /* what the recorder knows and the spool does not */
	uint32_t ending; /* enum mayfly_ending */
	int32_t code;
	int64_t duration_ns; /* since spool start, 0 when unknown: then the last event's time */
	/* The spool's clock and CLOCK_MONOTONIC read together by the recorder, late in the run on
	 * the machine that recorded: makes the times of short TSC recordings precise. Or both 0. */
	uint64_t end_ticks, end_mono_ns;
};

/* Builds a recording from the bytes of a spool. The spool may still be written to (a snapshot is
 * taken as it is read), damaged or cut off. `parent` is the recording of the parent's spool, for a
 * forked child, else NULL: then inherited samples are absent (and their frees ignored).
 * Every read is bounds-checked; memory is bounded by a small multiple of `size`. */
int spool_read(const void *data, size_t size, const struct spool_ending *ending,
	       const struct recording *parent, struct recording **out);

/* True when data begins like a spool. */
bool spool_recognise(const void *data, size_t size);

/* ---- encode.c ---- */

/* The trace file as one malloc'ed block. level: zstd's; 0 chooses: 19 for small traces, less for
 * large ones, so that writing takes about as long as reading the spool. */
int trace_encode(const struct recording *r, int level, uint8_t **bytes, size_t *size);

#endif
