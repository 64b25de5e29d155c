/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perfetto's trace format: protocol buffers, packet after packet.
 *
 *	ClockSnapshot			all clocks are CLOCK_REALTIME here
 *	TrackDescriptor ...		the process, its threads, counters
 *	TrackEvent ...			live heap, live blocks, allocated, the largest functions;
 *					measurements of the process; values of labels
 *	ProfilePacket ...		the heap by stack at MOMENTS times and at the peak: flame
 *					graphs
 *	TrackEvent ...			spans, instants and counters of threads
 *	TrackEvent ...			with options->samples: each sample, with its stack
 *
 * A ProfilePacket holds the bytes that each stack has allocated and freed since the start. Readers
 * use differences between packets and what is not freed, and drop a stack whose sums decrease.
 * Mayfly's figures are estimates, rounded separately for each moment, so sums are kept from
 * decreasing; what is live stays right.
 *
 * Field numbers are those of protos/perfetto/trace of the Perfetto project.
 */
#include "convert/export/exports.h"

#include "answer/by_label.h"
#include "convert/export/curve.h"
#include "convert/export/event_walk.h"
#include "convert/out.h"
#include "convert/perfetto_fields.h"
#include "convert/export/perfetto_stacks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/interner.h"
#include "base/varint.h"

#define STEPS	       1000
#define FUNCTIONS      12
#define MOMENTS	       10
#define PACKET_BYTES   (256u << 10) /* limit of a dump's packet: the rest goes into further ones */
#define SOME_TIME      1000000000   /* instead of an unknown start: readers skip time 0 */
#define TRACK_PROCESS  1
#define TRACK_COUNTER  100		   /* and up */
#define TRACK_THREAD   10000		   /* and up */
#define TRACK_COUNTED  ((uint64_t)1 << 40) /* and up: counters of the program or a thread */
#define TRACK_MEASURED ((uint64_t)1 << 41) /* and up, added to TRACK_COUNTER */
#define TRACK_LABELLED ((uint64_t)1 << 42) /* and up, added to TRACK_COUNTER */
#define OWN_CATEGORY   "program"	   /* of event types that the program defined */

/* The figures of a stack in the previous dump. */
struct dumped {
	uint64_t allocated, freed, allocs, frees;
};

struct heap {
	const char *name; /* readers know the name of the first heap */
	bool used;
	uint32_t heaps; /* the trace's heaps in it, as in struct mayfly_query */
	struct dumped *dumped;
};

struct perfetto {
	struct export_job *job;
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct mayfly_query *query;
	struct out *out; /* that of `job` */
	struct perfetto_stacks stacks;
	struct curve curve;
	struct bytes packet, message, inner, dump;
	uint32_t pid;
	uint64_t zero; /* the file's time at the trace's time 0 */
	uint64_t profiles;
	struct heap heap[3];
	struct track_survey survey;
	struct texts names;  /* of types, categories and fields: number + 1 is the iid */
	uint8_t *name_known; /* for each: bits for the fields of InternedData that have it */
	size_t name_room;
	struct interner counters; /* pairs of type and thread */
};

/* ---- packets ---- */

static uint64_t time_of(const struct perfetto *p, int64_t ns)
{
	if (ns < 0 && -(uint64_t)ns > p->zero)
		return 0;
	return p->zero + (uint64_t)ns;
}

static void perfetto_begin_packet(struct perfetto *p, int64_t time_ns, unsigned flags)
{
	p->packet.used = 0;
	protobuf_unsigned(&p->packet, PACKET_TIME, time_of(p, time_ns));
	protobuf_unsigned(&p->packet, PACKET_SEQUENCE, 1);
	if (flags)
		protobuf_unsigned(&p->packet, PACKET_FLAGS, flags);
}

/* Writes p->message as the packet's message. */
static void perfetto_end_packet(struct perfetto *p, uint32_t field)
{
	uint8_t head[2 * 10];
	size_t size;

	protobuf_message(&p->packet, field, &p->message);
	if (p->packet.failed)
		out_fail(p->out, MAYFLY_E_MEMORY);
	size = varint_store(head, TRACE_PACKET << 3 | 2);
	size += varint_store(head + size, p->packet.used);
	out_bytes(p->out, head, size);
	out_bytes(p->out, p->packet.at, p->packet.used);
}

/* New interned data of stacks goes into the first packet that needs it. */
static void add_interned(struct perfetto *p)
{
	if (p->stacks.fresh.used)
		protobuf_message(&p->packet, PACKET_INTERNED, &p->stacks.fresh);
}

/* An event up to what else it has. */
static void begin_event(struct perfetto *p, int64_t time_ns, unsigned flags, unsigned type,
			uint64_t track)
{
	perfetto_begin_packet(p, time_ns, flags);
	if (flags)
		add_interned(p);
	protobuf_unsigned(&p->message, EVENT_TYPE, type);
	protobuf_unsigned(&p->message, EVENT_TRACK, track);
}

static void put_clocks(struct perfetto *p)
{
	static const uint32_t clocks[] = {REALTIME, MONOTONIC, MONOTONIC_COARSE, BOOTTIME};

	perfetto_begin_packet(p, 0, FLAG_CLEARED);
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		protobuf_unsigned(&p->inner, CLOCK_ID, clocks[i]);
		protobuf_unsigned(&p->inner, CLOCK_TIME, p->zero);
		protobuf_message(&p->message, SNAPSHOT_CLOCK, &p->inner);
	}
	perfetto_end_packet(p, PACKET_CLOCKS);
}

/* ---- tracks ---- */

static void put_process(struct perfetto *p)
{
	const char *slash = strrchr(p->info->program, '/');

	perfetto_begin_packet(p, 0, 0);
	protobuf_unsigned(&p->message, TRACK_UUID, TRACK_PROCESS);
	protobuf_unsigned(&p->inner, PROCESS_PID, p->pid);
	for (size_t i = 0; i < p->info->command_count; i++)
		protobuf_text(&p->inner, PROCESS_COMMAND, p->info->command[i]);
	protobuf_text(&p->inner, PROCESS_NAME, slash ? slash + 1 : p->info->program);
	protobuf_message(&p->message, TRACK_OF_PROCESS, &p->inner);
	perfetto_end_packet(p, PACKET_TRACK);
}

static void perfetto_put_threads(struct perfetto *p)
{

	for (size_t i = 0; i < p->info->threads; i++) {
		const struct mayfly_thread *t = mayfly_trace_thread(p->trace, i);

		perfetto_begin_packet(p, 0, 0);
		protobuf_unsigned(&p->message, TRACK_UUID, TRACK_THREAD + i);
		protobuf_unsigned(&p->message, TRACK_PARENT, TRACK_PROCESS);
		protobuf_unsigned(&p->inner, THREAD_PID, p->pid);
		protobuf_unsigned(&p->inner, THREAD_TID, t->tid);
		protobuf_text(&p->inner, THREAD_NAME, t->name);
		protobuf_message(&p->message, TRACK_OF_THREAD, &p->inner);
		perfetto_end_packet(p, PACKET_TRACK);
	}
}

/* unit: "" for plain numbers. */
static void put_any_counter(struct perfetto *p, uint64_t track, uint64_t parent, const char *name,
			    const char *unit)
{
	perfetto_begin_packet(p, 0, 0);
	protobuf_unsigned(&p->message, TRACK_UUID, track);
	protobuf_text(&p->message, TRACK_NAME, name);
	protobuf_unsigned(&p->message, TRACK_PARENT, parent);
	if (strcmp(unit, "bytes") == 0)
		protobuf_unsigned(&p->inner, COUNTER_UNIT, UNIT_BYTES);
	else if (strcmp(unit, "ns") == 0)
		protobuf_unsigned(&p->inner, COUNTER_UNIT, UNIT_NS);
	else if (*unit == 0)
		protobuf_unsigned(&p->inner, COUNTER_UNIT, UNIT_COUNT);
	else
		protobuf_text(&p->inner, COUNTER_UNIT_NAME, unit);
	protobuf_message(&p->message, TRACK_OF_COUNTER, &p->inner);
	perfetto_end_packet(p, PACKET_TRACK);
}

static void put_counter_track(struct perfetto *p, uint64_t track, const char *name,
			      const char *unit)
{
	put_any_counter(p, TRACK_COUNTER + track, TRACK_PROCESS, name, unit);
}

enum counter { LIVE_BYTES = 0, LIVE_BLOCKS, ALLOCATED_BYTES, FIRST_FUNCTION };

static void put_counter_tracks(struct perfetto *p, const struct curve *curve)
{
	char name[4096], text[4096 + 32];

	if (!curve->steps)
		return;
	put_counter_track(p, LIVE_BYTES, "live heap", "bytes");
	put_counter_track(p, LIVE_BLOCKS, "live blocks", "");
	put_counter_track(p, ALLOCATED_BYTES, "allocated", "bytes");
	for (size_t row = 0; row < curve->series->rows; row++) {
		snprintf(text, sizeof(text), "live heap of %s",
			 curve_row_name(curve, row, name, sizeof(name)));
		put_counter_track(p, FIRST_FUNCTION + row, text, "bytes");
	}
}

/* ---- counters ---- */

static uint64_t perfetto_whole(double value)
{
	return value > 0 ? value < 0x1p63 ? (uint64_t)llround(value) : INT64_MAX : 0;
}

static void perfetto_put_counter(struct perfetto *p, int64_t time_ns, uint64_t track, double value)
{
	begin_event(p, time_ns, 0, TYPE_COUNTER, TRACK_COUNTER + track);
	protobuf_unsigned(&p->message, EVENT_COUNTER, perfetto_whole(value));
	perfetto_end_packet(p, PACKET_TRACK_EVENT);
}

/* Measurements of the process, and the recording's other counters. */
static void put_measured(struct perfetto *p)
{
	const struct mayfly_query *q = p->query;

	for (size_t i = 0; i < p->info->counters; i++) {
		const struct mayfly_counter *m = mayfly_trace_counter(p->trace, i);
		uint64_t track = TRACK_MEASURED + i;

		put_counter_track(p, track, m->name, m->unit);
		for (size_t k = 0; k < m->points; k++)
			if (m->time_ns[k] >= q->from_ns && m->time_ns[k] <= q->to_ns)
				perfetto_put_counter(p, m->time_ns[k], track, m->value[k]);
	}
}

static void put_step(struct perfetto *p, const struct curve *curve, size_t i)
{
	const struct curve_step *step = &curve->step[i];
	const struct mayfly_series *s = curve->series;
	bool last = i + 1 == curve->steps;
	/* The largest value of the step is drawn from its start. */
	perfetto_put_counter(p, step->from_ns, LIVE_BYTES, step->largest);
	/* The report's figure. In a trace of samples it may be a little below or above the largest
	 * value of its step: see peak.h. */
	if (curve->peak_ns >= step->from_ns && (curve->peak_ns < step->to_ns || last))
		perfetto_put_counter(p, curve->peak_ns, LIVE_BYTES, curve->peak.bytes.estimate);
	if (last)
		perfetto_put_counter(p, step->to_ns, LIVE_BYTES, step->live_bytes);
	perfetto_put_counter(p, step->to_ns, LIVE_BLOCKS, step->live_blocks);
	perfetto_put_counter(p, step->to_ns, ALLOCATED_BYTES, step->allocated_bytes);
	for (size_t row = 0; row < s->rows; row++)
		perfetto_put_counter(p, step->to_ns, FIRST_FUNCTION + row,
				     s->live_bytes[row * s->points + i]);
}

/* ---- labels ---- */

static void put_label_tracks(struct perfetto *p, const struct by_label *b, uint64_t first)
{
	char name[4096];

	for (size_t i = 0; i < b->values; i++) {
		snprintf(name, sizeof(name), "live heap of %s=%s", b->key, b->value[i].name);
		put_counter_track(p, first + i, name, "bytes");
	}
}

static void put_label_counters(struct perfetto *p, const struct by_label *b, uint64_t first)
{
	const struct mayfly_series *s = b->series;

	for (size_t step = 0; step < s->points; step++)
		for (size_t i = 0; i < b->values; i++)
			perfetto_put_counter(p, s->time_ns[step], first + i,
					     s->live_bytes[i * s->points + step]);
}

static void annotate(struct perfetto *p, struct bytes *to, uint32_t field, const char *name,
		     uint64_t value)
{
	protobuf_text(&p->inner, ANNOTATION_NAME, name);
	protobuf_unsigned(&p->inner, ANNOTATION_UNSIGNED, value);
	protobuf_message(to, field, &p->inner);
}

/* Each value of a label is a dictionary. */
static void annotate_label(struct perfetto *p, const struct label_value *v)
{
	struct label_figure figure[LABEL_FIGURES];

	label_figures(v, figure);
	protobuf_text(&p->dump, ANNOTATION_NAME, v->name);
	for (size_t i = 0; i < LABEL_FIGURES; i++)
		annotate(p, &p->dump, ANNOTATION_DICT, figure[i].name, figure[i].value);
	protobuf_message(&p->message, EVENT_ANNOTATION, &p->dump);
}

static void put_label_sums(struct perfetto *p, const struct by_label *b)
{
	char name[4096];

	by_label_title(name, sizeof(name), "allocated", b);
	begin_event(p, b->series->time_ns[b->series->points - 1], 0, TYPE_INSTANT, TRACK_PROCESS);
	protobuf_text(&p->message, EVENT_CATEGORY, "labels");
	protobuf_text(&p->message, EVENT_NAME, name);
	for (size_t i = 0; i < b->values; i++)
		annotate_label(p, &b->value[i]);
	perfetto_end_packet(p, PACKET_TRACK_EVENT);
}

static void perfetto_put_labels(struct perfetto *p)
{
	const char *key[BY_LABEL_KEYS];
	size_t keys = label_keys(p->trace, key, BY_LABEL_KEYS);

	for (size_t i = 0; i < keys && !p->out->error; i++) {
		uint64_t first = TRACK_LABELLED + i * (BY_LABEL_VALUES + 1);
		struct by_label b;

		out_fail(p->out, by_label_begin(&b, p->trace, p->query, key[i], STEPS));
		if (b.values) {
			put_label_tracks(p, &b, first);
			put_label_counters(p, &b, first);
			put_label_sums(p, &b);
		}
		by_label_end(&b);
	}
}

/* ---- heap dumps ---- */

/* Raises *allocated and *freed so that neither decreases and their difference is now_live. */
static void keep_up(uint64_t *allocated, uint64_t *freed, double now_allocated, double now_live)
{
	uint64_t live = perfetto_whole(now_live), before = *freed;

	if (perfetto_whole(now_allocated) > *allocated)
		*allocated = perfetto_whole(now_allocated);
	*freed = *allocated > live ? *allocated - live : 0;
	if (*freed < before)
		*freed = before;
	*allocated = *freed + live;
}

static void begin_dump(struct perfetto *p, const struct heap *h, int64_t time_ns)
{
	uint64_t interval = p->info->interval_bytes;

	if (h == &p->heap[1])
		interval = p->info->ocaml_interval_bytes;
	protobuf_unsigned(&p->dump, DUMP_PID, p->pid);
	protobuf_unsigned(&p->dump, DUMP_FROM_STARTUP, 1);
	protobuf_unsigned(&p->dump, DUMP_TIME, time_of(p, time_ns));
	protobuf_text(&p->dump, DUMP_HEAP, h->name);
	protobuf_unsigned(&p->dump, DUMP_INTERVAL, interval);
	protobuf_unsigned(&p->dump, DUMP_FIRST_INTERVAL, interval);
}

static void end_dump(struct perfetto *p, int64_t time_ns, bool continued)
{
	perfetto_begin_packet(p, time_ns, FLAG_NEEDS_STATE);
	add_interned(p);
	protobuf_message(&p->message, PROFILE_DUMPS, &p->dump);
	if (continued)
		protobuf_unsigned(&p->message, PROFILE_CONTINUED, 1);
	protobuf_unsigned(&p->message, PROFILE_INDEX, p->profiles++);
	perfetto_end_packet(p, PACKET_PROFILE);
}

static bool add_sample(struct perfetto *p, struct heap *h, const struct stack_sum *sum)
{
	uint32_t node = sum->node < p->info->nodes ? sum->node : 0;
	struct dumped *d = &h->dumped[node];
	uint64_t stack = perfetto_stack(&p->stacks, node);

	keep_up(&d->allocated, &d->freed, sum->of[0]->bytes.estimate, sum->of[1]->bytes.estimate);
	keep_up(&d->allocs, &d->frees, sum->of[0]->blocks.estimate, sum->of[1]->blocks.estimate);
	protobuf_unsigned(&p->inner, SAMPLE_STACK, stack);
	protobuf_unsigned(&p->inner, SAMPLE_ALLOCATED, d->allocated);
	protobuf_unsigned(&p->inner, SAMPLE_FREED, d->freed);
	protobuf_unsigned(&p->inner, SAMPLE_ALLOCS, d->allocs);
	protobuf_unsigned(&p->inner, SAMPLE_FREES, d->frees);
	protobuf_message(&p->dump, DUMP_SAMPLE, &p->inner);
	return stack > 0;
}

static void put_sums(struct perfetto *p, struct heap *h, struct stack_sums *sums, int64_t time_ns)
{
	struct stack_sum sum;

	begin_dump(p, h, time_ns);
	while (!p->out->error && stack_sums_next(sums, &sum)) {
		if (p->dump.used + p->stacks.fresh.used > PACKET_BYTES) {
			end_dump(p, time_ns, true);
			begin_dump(p, h, time_ns);
		}
		if (!add_sample(p, h, &sum))
			out_fail(p->out, MAYFLY_E_MEMORY);
	}
	end_dump(p, time_ns, false);
}

struct perfetto_moment {
	int64_t time_ns;
	bool peak;
};

static void put_dump(struct perfetto *p, struct heap *h, const struct perfetto_moment *at)
{
	struct mayfly_query allocated = *p->query, live = *p->query;
	struct stack_sums sums;
	int error;

	allocated.metric = MAYFLY_ALLOCATED;
	live.metric = MAYFLY_LIVE;
	allocated.heaps = live.heaps = h->heaps;
	live.at_ns = at->peak ? MAYFLY_AT_PEAK : at->time_ns;
	live.from_ns = allocated.from_ns = 0;
	live.to_ns = INT64_MAX;
	/* Includes the moment itself; in snapshots it is the end of an interval already. */
	allocated.to_ns = at->time_ns + (p->info->snapshot_ns == 0 && at->time_ns < INT64_MAX);
	error = stack_sums_begin(&sums, p->trace, &allocated, &live);
	if (error) {
		out_fail(p->out, error);
		return;
	}
	put_sums(p, h, &sums, at->time_ns);
	stack_sums_end(&sums);
}

/* The moments of dumps: the ends of equal parts of the run, and the peak. */
static size_t choose_moments(const struct perfetto *p, const struct curve *curve,
			     struct perfetto_moment moments[MOMENTS + 1])
{
	struct perfetto_moment peak = {curve->peak_ns, true};
	bool want_peak = curve->peak.bytes.estimate > 0 && peak.time_ns >= p->query->from_ns;
	size_t count = 0;

	for (int i = 1; curve->steps && i <= MOMENTS; i++) {
		int64_t time_ns = curve->step[curve->steps * (size_t)i / MOMENTS - 1].to_ns;

		if (want_peak && peak.time_ns <= time_ns) {
			moments[count++] = peak;
			want_peak = false;
		}
		if (i == MOMENTS || count == 0 || moments[count - 1].time_ns < time_ns)
			moments[count++] = (struct perfetto_moment){time_ns, false};
	}
	return count;
}

static void put_dumps(struct perfetto *p, const struct curve *curve)
{
	struct perfetto_moment moments[MOMENTS + 1];
	size_t count = choose_moments(p, curve, moments);

	for (size_t i = 0; i < count; i++)
		for (size_t h = 0; h < sizeof(p->heap) / sizeof(p->heap[0]); h++)
			if (p->heap[h].used)
				put_dump(p, &p->heap[h], &moments[i]);
}

/* Those that blocks are in; a trace that was cut off does not know. */
static uint32_t heaps_present(const struct mayfly_info *info)
{
	uint32_t native = 1u << MAYFLY_HEAP_MALLOC;

	return info->heaps		    ? info->heaps
	       : info->ocaml_interval_bytes ? native | MAYFLY_HEAPS_OCAML
					    : native;
}

/* A trace with malloc's heap only is queried without a filter by heap, because snapshots cannot
 * tell heaps apart. A viewer shows the first heap, so none is there without blocks. */
static void choose_heaps(struct perfetto *p)
{
	uint32_t asked = p->query->heaps, present = heaps_present(p->info);
	uint32_t native = 1u << MAYFLY_HEAP_MALLOC, ocaml = MAYFLY_HEAPS_OCAML;
	uint32_t pool = 1u << MAYFLY_HEAP_POOL | 1u << MAYFLY_HEAP_POOL_MAPPED;

	if (p->info->snapshot_ns)
		present = native;
	p->heap[0] =
	    (struct heap){.name = "libc.malloc", .heaps = present & ~native ? native : asked};
	p->heap[1] = (struct heap){.name = "ocaml", .heaps = asked ? ocaml & asked : ocaml};
	p->heap[2] = (struct heap){.name = "pool", .heaps = asked ? pool & asked : pool};
	p->heap[0].used = (!asked || asked & native) && present & native;
	p->heap[1].used = present & p->heap[1].heaps;
	p->heap[2].used = present & p->heap[2].heaps;
}

static void begin_heaps(struct perfetto *p)
{
	choose_heaps(p);
	for (size_t i = 0; i < sizeof(p->heap) / sizeof(p->heap[0]); i++) {
		if (!p->heap[i].used)
			continue;
		p->heap[i].dumped = calloc(p->info->nodes + 1, sizeof(*p->heap[i].dumped));
		out_fail(p->out, p->heap[i].dumped ? 0 : MAYFLY_E_MEMORY);
	}
}

/* ---- track events ---- */

static bool perfetto_make_room(struct perfetto *p, uint32_t number)
{
	size_t before = p->name_room;

	if (!array_reserve(&p->name_known, &p->name_room, number, 1))
		return false;
	memset(p->name_known + before, 0, p->name_room - before);
	return true;
}

/* The iid of a text; a new text goes into the next packet. 0: out of memory. */
static uint64_t perfetto_intern(struct perfetto *p, uint32_t field, const char *text)
{
	uint32_t number = texts_number(&p->names, text);
	uint8_t *known;

	if (number == TEXTS_FAILED || !perfetto_make_room(p, number))
		return 0;
	known = &p->name_known[number];
	if (!(*known >> field & 1)) {
		*known |= (uint8_t)(1u << field);
		protobuf_unsigned(&p->inner, STRING_IID, (uint64_t)number + 1);
		protobuf_text(&p->inner, STRING_STR, text);
		protobuf_message(&p->stacks.fresh, field, &p->inner);
	}
	return (uint64_t)number + 1;
}

/* The iids of an event, interned before its packet is made, because new texts are part of it. */
struct track_iids {
	uint64_t category, name, field[MAYFLY_TRACK_VALUES], continued;
};

static bool intern_type(struct perfetto *p, const struct mayfly_track_type *type, bool again,
			struct track_iids *iid)
{
	const char *category = *type->category ? type->category : OWN_CATEGORY;
	bool done;

	iid->category = perfetto_intern(p, DATA_CATEGORIES, category);
	iid->name = perfetto_intern(p, DATA_EVENT_NAMES, type->name);
	done = iid->category && iid->name;
	for (size_t i = 0; i < type->fields; i++) {
		iid->field[i] = perfetto_intern(p, DATA_ANNOTATION_NAMES, type->field[i].name);
		done &= iid->field[i] != 0;
	}
	iid->continued = again ? perfetto_intern(p, DATA_ANNOTATION_NAMES, "continued") : 0;
	return done && !again == !iid->continued;
}

static void perfetto_put_value(struct perfetto *p, uint64_t name,
			       const struct mayfly_track_field *field, union mayfly_value value)
{
	protobuf_unsigned(&p->inner, ANNOTATION_NAME_IID, name);
	if (field->type == MAYFLY_FIELD_INT)
		protobuf_signed(&p->inner, ANNOTATION_SIGNED, value.i);
	else if (field->type == MAYFLY_FIELD_FLOAT)
		protobuf_double(&p->inner, ANNOTATION_DOUBLE, value.f);
	else if (track_is_address(field))
		protobuf_unsigned(&p->inner, ANNOTATION_POINTER, value.u);
	else if (field->type == MAYFLY_FIELD_TEXT)
		protobuf_text(&p->inner, ANNOTATION_TEXT, value.text);
	else
		protobuf_unsigned(&p->inner, ANNOTATION_UNSIGNED, value.u);
	protobuf_message(&p->message, EVENT_ANNOTATION, &p->inner);
}

static void put_flows(struct perfetto *p, const struct mayfly_track_event *e)
{
	uint64_t flow;

	for (size_t at = 0; track_flow(p->trace, e, &at, &flow);) {
		enum flow_step step = track_survey_flow(&p->survey, flow);

		if (step != FLOW_NONE)
			protobuf_fixed(&p->message,
				       step == FLOW_LAST ? EVENT_LAST_FLOW : EVENT_FLOW, flow);
	}
}

static uint64_t thread_track(const struct perfetto *p, uint32_t thread)
{
	return thread < p->info->threads ? TRACK_THREAD + (uint64_t)thread : TRACK_PROCESS;
}

/* Writes an instant, or the begin of a slice, perhaps repeated. */
static void put_named(struct perfetto *p, const struct mayfly_track_event *e, unsigned event_type,
		      int64_t time_ns, bool again)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(p->trace, e->type);
	uint64_t stack = e->node ? perfetto_stack(&p->stacks, e->node) : 0;
	struct track_iids iid;

	if ((e->node && !stack) || !intern_type(p, type, again, &iid)) {
		out_fail(p->out, MAYFLY_E_MEMORY);
		return;
	}
	begin_event(p, time_ns, FLAG_NEEDS_STATE, event_type, thread_track(p, e->thread));
	protobuf_unsigned(&p->message, EVENT_CATEGORY_IID, iid.category);
	protobuf_unsigned(&p->message, EVENT_NAME_IID, iid.name);
	for (size_t i = 0; i < e->values; i++)
		perfetto_put_value(p, iid.field[i], &type->field[i], e->value[i]);
	if (again) {
		protobuf_unsigned(&p->inner, ANNOTATION_NAME_IID, iid.continued);
		protobuf_unsigned(&p->inner, ANNOTATION_BOOL, 1);
		protobuf_message(&p->message, EVENT_ANNOTATION, &p->inner);
	} else {
		put_flows(p, e);
	}
	if (stack)
		protobuf_unsigned(&p->message, EVENT_STACK, stack);
	perfetto_end_packet(p, PACKET_TRACK_EVENT);
}

static void end_slice(struct perfetto *p, uint32_t thread, int64_t time_ns)
{
	begin_event(p, time_ns, 0, TYPE_END, thread_track(p, thread));
	perfetto_end_packet(p, PACKET_TRACK_EVENT);
}

static void put_slice(void *context, const struct event_walk *w,
		      const struct mayfly_track_event *begin, bool again)
{
	struct perfetto *p = context;

	if (begin)
		put_named(p, begin, TYPE_BEGIN, w->track.time_ns, again);
	else
		end_slice(p, w->track.thread, w->track.time_ns);
}

/* The track of a thread's counter is a child of the thread's track, any other of the process's. */
static void perfetto_put_count(struct perfetto *p, const struct mayfly_track_event *e)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(p->trace, e->type);
	bool of_threads = track_is_of_threads(p->trace, type);
	struct key key = {{1, e->type, of_threads ? e->thread : 0}};
	bool is_new, real = type->field[0].type == MAYFLY_FIELD_FLOAT;
	uint64_t track;
	uint32_t number;
	double value;

	if (!track_counter_value(p->trace, e, &value))
		return;
	number = interner_add(&p->counters, key, &is_new);
	if (number == INTERNER_NONE) {
		out_fail(p->out, MAYFLY_E_MEMORY);
		return;
	}
	track = TRACK_COUNTED + number;
	if (is_new)
		put_any_counter(p, track, of_threads ? thread_track(p, e->thread) : TRACK_PROCESS,
				type->name, type->unit);
	begin_event(p, e->time_ns, 0, TYPE_COUNTER, track);
	if (real || (type->field[0].type != MAYFLY_FIELD_INT && e->value[0].u > INT64_MAX))
		protobuf_double(&p->message, EVENT_DOUBLE_COUNTER, value);
	else
		protobuf_signed(&p->message, EVENT_COUNTER, e->value[0].i);
	perfetto_end_packet(p, PACKET_TRACK_EVENT);
}

static int put_track(void *context, const struct event_walk *w)
{
	struct perfetto *p = context;

	switch (w->track.kind) {
	case MAYFLY_TRACK_BEGIN:
	case MAYFLY_TRACK_END:
		event_walk_slices(w, put_slice, p);
		break;
	case MAYFLY_TRACK_INSTANT:
		put_named(p, &w->track, TYPE_INSTANT, w->track.time_ns, false);
		break;
	default:
		perfetto_put_count(p, &w->track);
	}
	return p->out->error;
}

static void put_tracks(struct perfetto *p)
{
	if (!p->info->track_events || p->out->error)
		return;
	out_fail(p->out, track_survey_begin(&p->survey, p->trace, p->query));
	if (!p->out->error)
		out_fail(p->out, event_walk_run(p->trace, p->query, WALK_TRACKS, put_track, p));
}

/* ---- samples ---- */

static int perfetto_put_sample(void *context, const struct mayfly_event *e)
{
	struct perfetto *p = context;
	uint64_t stack = e->kind == MAYFLY_ALLOC ? perfetto_stack(&p->stacks, e->node) : 0;

	if (e->kind == MAYFLY_ALLOC && !stack)
		return MAYFLY_E_MEMORY;
	begin_event(p, e->time_ns, FLAG_NEEDS_STATE, TYPE_INSTANT, TRACK_THREAD + e->thread);
	protobuf_text(&p->message, EVENT_CATEGORY, "heap");
	protobuf_text(&p->message, EVENT_NAME, export_event_name(e));
	annotate(p, &p->message, EVENT_ANNOTATION, "sample", e->sample);
	annotate(p, &p->message, EVENT_ANNOTATION, "size", e->size);
	annotate(p, &p->message, EVENT_ANNOTATION, "weight", perfetto_whole(e->weight_bytes));
	if (e->labels) {
		protobuf_text(&p->inner, ANNOTATION_NAME, "labels");
		protobuf_text(&p->inner, ANNOTATION_TEXT,
			      mayfly_trace_label_text(p->trace, e->labels));
		protobuf_message(&p->message, EVENT_ANNOTATION, &p->inner);
	}
	if (stack)
		protobuf_unsigned(&p->message, EVENT_STACK, stack);
	perfetto_end_packet(p, PACKET_TRACK_EVENT);
	return p->out->error;
}

/* ---- the whole file ---- */

static void put_all(struct perfetto *p, bool samples)
{
	const struct curve *curve = &p->curve;

	put_clocks(p);
	put_process(p);
	perfetto_put_threads(p);
	put_counter_tracks(p, curve);
	for (size_t i = 0; i < curve->steps; i++)
		put_step(p, curve, i);
	put_measured(p);
	if (curve->steps)
		perfetto_put_labels(p);
	put_dumps(p, curve);
	put_tracks(p);
	if (!p->out->error && samples)
		out_fail(p->out, export_each_event(p->trace, true, perfetto_put_sample, p));
}

static void end_perfetto(struct perfetto *p)
{
	perfetto_stacks_end(&p->stacks);
	curve_free(&p->curve);
	bytes_free(&p->packet);
	bytes_free(&p->message);
	bytes_free(&p->inner);
	bytes_free(&p->dump);
	track_survey_end(&p->survey);
	texts_free(&p->names);
	free(p->name_known);
	interner_free(&p->counters);
	for (size_t i = 0; i < sizeof(p->heap) / sizeof(p->heap[0]); i++)
		free(p->heap[i].dumped);
}

void export_perfetto(struct export_job *j)
{
	struct perfetto p = {
	    .job = j, .trace = j->trace, .info = j->info, .query = j->query, .out = &j->out};

	out_fail(&j->out, curve_make(j->trace, j->query, STEPS, FUNCTIONS, &p.curve));
	p.pid = p.info->pid ? p.info->pid : 1;
	p.zero = p.info->start_real_ns > 0 ? (uint64_t)p.info->start_real_ns : SOME_TIME;
	if (!j->out.error)
		out_fail(&j->out, perfetto_stacks_begin(&p.stacks, j->trace, j->query));
	begin_heaps(&p);
	if (!j->out.error)
		put_all(&p, j->options->samples);
	end_perfetto(&p);
}
