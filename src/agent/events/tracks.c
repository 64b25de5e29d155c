/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events: see tracks.h.
 *
 *	a type's number (a word of its owner) ──> types[] (here, with its texts)
 *	                                      └─> writer->type_said[]: is TYPE in the packet?
 *
 * The first event of a type numbers it, without a lock: two threads may give one type two numbers,
 * and the reader of the spool finds the two equal.
 *
 * An event with numbers only, of a type that the packet has, is written at once (the fast way); all
 * others take the careful way.
 */
#include "agent/events/tracks.h"

#include <errno.h>
#include <string.h>

#include "agent/events/calls.h"
#include "agent/cpu/cpu.h"
#include "agent/fields.h"
#include "agent/names.h"
#include "agent/life.h"
#include "agent/path.h"
#include "agent/spool.h"

#define REFUSED UINT32_MAX /* the number of a type for which there is no room */

/* A record without texts and stack, with the bytes that put_field() stores after its end. */
#define EVENT_BYTES 64u

/* One cache line. */
struct type {
	const char *name, *category, *unit;
	const char *field[SPOOL_EVENT_VALUES];
	uint8_t kind, fields;
	uint8_t field_type[SPOOL_EVENT_VALUES];
	bool texts; /* there are fields of text */
	_Atomic bool ready;
};

static struct type types[SPOOL_EVENT_TYPES];
static _Atomic uint32_t latest;

/* ---- types ---- */

static bool same_text(const char *kept, const char *given)
{
	uint32_t length = names_length(given);

	return strlen(kept) == length && !memcmp(kept, given, length);
}

static bool same_type(const struct type *kept, const struct type *given)
{
	if (kept->kind != given->kind || kept->fields != given->fields ||
	    memcmp(kept->field_type, given->field_type, sizeof(kept->field_type)))
		return false;
	for (uint32_t i = 0; i < given->fields; i++)
		if (!same_text(kept->field[i], given->field[i]))
			return false;
	return same_text(kept->name, given->name) && same_text(kept->category, given->category) &&
	       same_text(kept->unit, given->unit);
}

static uint32_t find_type(const struct type *given)
{
	uint32_t last = atomic_load(&latest);

	for (uint32_t i = 1; i <= last; i++)
		if (atomic_load_explicit(&types[i].ready, memory_order_acquire) &&
		    same_type(&types[i], given))
			return i;
	return REFUSED;
}

static const char *keep_text(const char *text)
{
	return names_keep(text, names_length(text));
}

static uint32_t add_type(const struct type *given)
{
	uint32_t number = atomic_load(&latest);
	struct type *type;
	bool good;

	do {
		if (number + 1 >= SPOOL_EVENT_TYPES)
			return REFUSED;
	} while (!atomic_compare_exchange_weak(&latest, &number, number + 1));
	type = &types[++number];
	*type = *given;
	good = (type->name = keep_text(given->name)) &&
	       (type->category = keep_text(given->category)) &&
	       (type->unit = keep_text(given->unit));
	for (uint32_t i = 0; i < given->fields; i++)
		good = good && (type->field[i] = keep_text(given->field[i]));
	if (!good)
		return REFUSED;
	atomic_store_explicit(&type->ready, true, memory_order_release);
	return number;
}

static bool valid(const struct type *given)
{
	if (given->kind > SPOOL_TYPE_COUNTER || given->fields > SPOOL_EVENT_VALUES ||
	    (given->kind == SPOOL_TYPE_COUNTER && !given->fields))
		return false;
	for (uint32_t i = 0; i < given->fields; i++)
		if (given->field_type[i] > SPOOL_FLOW)
			return false;
	return true;
}

static uint32_t number_type(struct type *given)
{
	uint32_t number;

	if (!valid(given))
		return REFUSED;
	for (uint32_t i = 0; i < given->fields; i++)
		given->texts |= given->field_type[i] == SPOOL_TEXT;
	number = find_type(given);
	return number == REFUSED ? add_type(given) : number;
}

/* ---- whose types: the program's, or the agent's own ---- */

/* The program's fields are a letter and a name. */
static uint32_t number_event_type(const struct mayfly_event_type *event)
{
	static const char letters[] = "iuftw"; /* in the order of enum spool_field */
	struct type given = {
	    .name = event->name,
	    .category = "",
	    .unit = event->unit,
	    .kind = event->kind <= SPOOL_TYPE_COUNTER ? (uint8_t)event->kind : UINT8_MAX,
	};

	for (; given.fields < SPOOL_EVENT_VALUES && event->field[given.fields]; given.fields++) {
		const char *text = event->field[given.fields];
		const char *letter = *text ? strchr(letters, *text) : NULL;

		if (!letter)
			return REFUSED;
		given.field_type[given.fields] = (uint8_t)(letter - letters);
		given.field[given.fields] = text + 1;
	}
	return number_type(&given);
}

static uint32_t number_track_type(const struct track_type *track)
{
	struct type given = {
	    .name = track->name,
	    .category = track->category,
	    .unit = track->unit,
	    .kind = track->kind,
	    .fields = track->fields,
	};

	for (uint32_t i = 0; i < track->fields && i < SPOOL_EVENT_VALUES; i++) {
		given.field_type[i] = track->field[i].type;
		given.field[i] = track->field[i].name;
	}
	return number_type(&given);
}

/* ---- TYPE records ---- */

static void put_string(struct writer *w, const char *text)
{
	spool_put_text(w, text, strlen(text));
}

static size_t type_bytes(const struct type *type)
{
	size_t bytes = 32 + strlen(type->name) + strlen(type->category) + strlen(type->unit);

	for (uint32_t i = 0; i < type->fields; i++)
		bytes += 4 + strlen(type->field[i]);
	return bytes;
}

/* Writes TYPE, with room for `bytes` after it. */
static bool put_type(struct writer *w, uint32_t number, size_t bytes)
{
	const struct type *type = &types[number];

	if (!spool_room(w, bytes + type_bytes(type)))
		return false;
	*w->at++ = SPOOL_TYPE;
	spool_put_u(w, number);
	*w->at++ = type->kind;
	put_string(w, type->name);
	put_string(w, type->category);
	put_string(w, type->unit);
	spool_put_u(w, type->fields);
	for (uint32_t i = 0; i < type->fields; i++) {
		*w->at++ = type->field_type[i];
		put_string(w, type->field[i]);
	}
	spool_commit(w);
	w->type_said[number] = true;
	w->types_said = true;
	return true;
}

/* ---- events ---- */

/* The first byte, time and type. */
static INLINE uint8_t *put_event_start(struct writer *w, uint32_t kind, uint32_t number,
				       uint32_t stack, uint64_t ticks)
{
	uint32_t width;
	uint8_t *at = put_field(w->at + 1, zigzag(ticks - w->last_ticks), &width);

	*w->at = (uint8_t)(SPOOL_TRACK | kind | width << SPOOL_TRACK_WIDTH_SHIFT | stack);
	w->last_ticks = ticks;
	return put_u16(at, number);
}

static uint8_t *put_values(uint8_t *at, const struct type *type, const uint64_t *value)
{
	for (uint32_t i = 0; i < type->fields; i++) {
		if (type->field_type[i] == SPOOL_TEXT) {
			const char *text = (const char *)(uintptr_t)value[i];
			uint32_t length = names_length(text);

			*at++ = (uint8_t)length;
			memcpy(at, text, length);
			at += length;
		} else {
			memcpy(at, &value[i], 8);
			at += 8;
		}
	}
	return at;
}

static uint8_t *put_stack(struct writer *w, uint8_t *at)
{
	uint32_t common = spool_common(w), depth = spool_depth(w);

	at = put_u(at, w->depth - common);
	at = put_u(at, depth - common);
	at = spool_put_stack(w, at, common);
	w->depth = depth;
	w->stack_known = true;
	w->ocaml_known = false;
	return at;
}

/* The most that the record may take, without its frames. */
static size_t event_bytes(const struct type *type)
{
	return EVENT_BYTES + (type->texts ? SPOOL_EVENT_VALUES * (1 + SPOOL_TEXT_BYTES) : 0);
}

static bool write_event(struct writer *w, uint32_t kind, uint32_t number, const uint64_t *value,
			const struct walk_start *from)
{
	const struct type *type = &types[number];
	size_t bytes = event_bytes(type);
	uint8_t *at;

	if (from) {
		if (!spool_room(w, bytes))
			return false;
		spool_capture(w, from);
		bytes += spool_depth(w) * SPOOL_FRAME_BYTES;
	}
	if (!spool_room(w, bytes) || (!w->type_said[number] && !put_type(w, number, bytes)))
		return false;
	at = put_event_start(w, kind, number, from ? SPOOL_TRACK_STACK : 0, agent_ticks());
	if (kind != SPOOL_END)
		at = put_values(at, type, value);
	if (from)
		at = put_stack(w, at);
	w->at = at;
	spool_commit(w);
	spool_check_clock(w, w->last_ticks);
	return true;
}

static inline bool on(void)
{
	return LIKELY(atomic_load_explicit(&agent_state, memory_order_relaxed) == AGENT_ON &&
		      *agent_same_process);
}

bool tracks_wanted(void)
{
	return on() && spool_enabled();
}

/* For a signal handler that has interrupted the sample path. Events that the agent itself causes
 * while it starts or forks do not count. */
static COLD void drop_nested(void)
{
	if (self.busy == BUSY_SAMPLING && on() && spool_enabled())
		spool_drop_event(self.writer);
}

/* On the path. */
static void record_event(uint32_t kind, uint32_t number, const uint64_t *value,
			 const struct walk_start *from)
{
	struct writer *w = path_writer();

	if (w &&
	    UNLIKELY(w->control_generation !=
		     atomic_load_explicit(&spool_header->control_generation, memory_order_relaxed)))
		spool_tell_gap(w);
	if (!w || number - 1 >= SPOOL_EVENT_TYPES - 1 || !write_event(w, kind, number, value, from))
		spool_drop_event(w);
}

static uint32_t number_of(uint32_t *place)
{
	return __atomic_load_n(place, __ATOMIC_RELAXED);
}

void tracks_add(uint32_t kind, struct track_type *type, const uint64_t *values,
		const struct walk_start *from)
{
	int error = errno;

	if (!path_enter()) {
		drop_nested();
		return;
	}
	if (life_thread_ready() && spool_enabled()) {
		uint32_t number = atomic_load_explicit(&type->id, memory_order_relaxed);

		if (!number) {
			number = number_track_type(type);
			atomic_store_explicit(&type->id, number, memory_order_relaxed);
		}
		record_event(kind, number, values, from);
	}
	path_leave();
	errno = error;
}

/* ---- the program's events ---- */

static COLD void careful(uint32_t kind, const struct mayfly_event_type *type, uint64_t a,
			 uint64_t b, uint64_t c, uint64_t d)
{
	uint64_t value[SPOOL_EVENT_VALUES] = {a, b, c, d};
	int error = errno;

	if (!path_enter()) {
		drop_nested();
		return;
	}
	if (life_thread_ready() && spool_enabled()) {
		uint32_t number = number_of(type->number);

		if (!number) {
			number = number_event_type(type);
			__atomic_store_n(type->number, number, __ATOMIC_RELAXED);
		}
		record_event(kind, number, value, NULL);
	}
	path_leave();
	errno = error;
}

/* The rare ends of the fast way. */
static COLD void leave_slowly(void)
{
	struct writer *w = self.writer;
	int error = errno;

	spool_check_clock(w, w->last_ticks);
	path_leave();
	errno = error;
}

/* True: the packet can take an event with numbers only as it is. */
static INLINE bool is_plain(const struct writer *w, uint32_t number)
{
	return LIKELY(w && agent_use_tsc && number < SPOOL_EVENT_TYPES &&
		      spool_left(w) >= (ptrdiff_t)EVENT_BYTES && w->type_said[number] &&
		      !types[number].texts);
}

static INLINE uint8_t *put_number(uint8_t *at, uint64_t number)
{
	__builtin_memcpy(at, &number, 8);
	return at + 8;
}

/* On the fast way all calls are tail calls, so it needs no frame. */
static INLINE void event(uint32_t kind, const struct mayfly_event_type *type, uint64_t a,
			 uint64_t b, uint64_t c, uint64_t d)
{
	uint32_t number = number_of(type->number);
	struct writer *w;
	uint64_t ticks;
	uint8_t *at;

	if (UNLIKELY(!on())) {
		careful(kind, type, a, b, c, d);
		return;
	}
	if (UNLIKELY(!spool_enabled()))
		return;
	if (UNLIKELY(!path_enter())) {
		drop_nested();
		return;
	}
	w = self.writer;
	if (UNLIKELY(!is_plain(w, number))) {
		path_leave_quietly();
		careful(kind, type, a, b, c, d);
		return;
	}
	ticks = cpu_ticks();
	at = put_event_start(w, kind, number, 0, ticks);
	if (kind == SPOOL_COUNT) {
		at = put_number(at, a);
	} else if (kind != SPOOL_END) {
		put_number(put_number(put_number(put_number(at, a), b), c), d);
		at += 8 * types[number].fields;
	}
	__builtin_prefetch(at + 256, 1);
	w->at = at;
	spool_commit(w);
	if (UNLIKELY(ticks - w->clock_ticks >= SPOOL_CLOCK_TICKS || path_has_work())) {
		leave_slowly();
		return;
	}
	path_leave_quietly();
}

void tracks_span_begin(const struct mayfly_event_type *type, uint64_t a, uint64_t b, uint64_t c,
		       uint64_t d)
{
	event(SPOOL_BEGIN, type, a, b, c, d);
}

void tracks_span_end(const struct mayfly_event_type *type)
{
	event(SPOOL_END, type, 0, 0, 0, 0);
}

void tracks_instant(const struct mayfly_event_type *type, uint64_t a, uint64_t b, uint64_t c,
		    uint64_t d)
{
	event(SPOOL_INSTANT, type, a, b, c, d);
}

void tracks_counter(const struct mayfly_event_type *type, uint64_t value)
{
	event(SPOOL_COUNT, type, value, 0, 0, 0);
}
