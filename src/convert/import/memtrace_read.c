/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading Memtrace's files, event by event.
 *
 *	reader ----> current packet, meanings of codes (one hash table for the file)
 *	  |
 *	  +--> domain, one for each domain with packets:
 *		cache		slot[bucket] = code, next[bucket] = bucket predicted after it
 *		stack		of the last allocation; the next one shares its first frames
 *		names		the 31 most recent files; for each, its 31 most recent functions
 *
 * Names are not copied: in the file each ends with a zero byte.
 *
 * Memtrace takes times from the wall clock, which may be set back, in the middle of a packet, too:
 *
 *	in the file	1 2 5 | 6 9 2 3 | 4 7		(| begins a packet)
 *	moved on by	0 0 0   0 0 7 7   7 7
 *
 * An event states the lowest 25 bits of its time. After a step inside a packet they are taken as the
 * difference from the event before, and must lead to the time at which the packet says that it ends.
 */
#include "convert/import/memtrace_read.h"

#include <stdlib.h>
#include <string.h>

#include "convert/memtrace_format.h"
#include "base/array.h"
#include "base/interner.h"
#include "base/varint.h"

/* Far deeper than real stacks; in a damaged file each byte can add 85 frames. */
#define FRAMES_MAX (1u << 22)
/* The most frames that a codeword stands for. */
#define CODEWORD_FRAMES 256

/* A domain takes 170 KiB, and a packet of 68 bytes can begin one. */
#define DOMAINS_FREE	 256
#define BYTES_PER_DOMAIN 8192

struct name {
	const char *text;
	unsigned functions; /* of a file: the index of its list of functions */
};

struct names {
	unsigned count;
	struct name name[NAMES]; /* the most recent one first */
};

struct domain {
	unsigned number;
	int64_t last_us; /* moved on */
	int64_t move_us; /* by so much, since the clock was set back */
	int64_t id_end;	 /* of its last packet */
	int64_t *stack;
	size_t depth, stack_size;

	struct names files, functions[NAMES];

	int64_t slot[CACHE_SIZE];
	uint16_t next[CACHE_SIZE];
};

struct meaning {
	uint32_t first, count; /* its locations */
};

struct packet {
	unsigned version, domain;
	int64_t begin_us, end_us;
	int64_t pid, id_begin, id_end;
	uint32_t check_bucket, check_next;
	int64_t check_slot;
	size_t header, size; /* bytes; `size` includes the header */
};

struct memtrace_reader {
	const uint8_t *data;
	size_t size;
	struct memtrace_info info;

	struct varint_in file;	 /* the packets to come */
	struct varint_in events; /* the events to come of the current packet */
	bool in_packet;
	struct packet packet;
	int64_t time_us; /* of its last event, as in the file; at first when it begins */
	bool set_back;	 /* the clock, in this packet */
	int64_t move_us; /* the most of all domains */
	int64_t next_id;
	unsigned domain_index;

	struct domain **domain;
	unsigned domains, domains_max;
	uint16_t *domain_of; /* number -> index + 1, or 0 */

	struct memtrace_location *location;
	size_t locations, locations_size;
	struct interner codes;
	struct meaning *meaning; /* of each code */
	size_t meanings_size;

	struct memtrace_skipped skipped;
	int error;
	const char *problem;
};

/* ---- numbers and texts ---- */

/* OCaml's integers have 63 bits. */
static int64_t int63(uint64_t value)
{
	return (int64_t)(value << 1) >> 1;
}

static int64_t get_vint(struct varint_in *in)
{
	unsigned first = varint_byte(in);

	if (first < VINT_16)
		return first;
	if (first == VINT_16)
		return (int64_t)varint_fixed(in, 2);
	if (first == VINT_32)
		return (int32_t)varint_fixed(in, 4);
	return int63(varint_fixed(in, 8));
}

/* "" when it is cut off, too: in->bad says that. */
static const char *get_text(struct varint_in *in)
{
	const uint8_t *text = in->at, *zero = memchr(text, 0, varint_left(in));

	if (!zero) {
		varint_fail(in);
		return "";
	}
	in->at = zero + 1;
	return (const char *)text;
}

static int memtrace_read_fail(struct memtrace_reader *r, int error, const char *problem)
{
	r->error = error;
	r->problem = problem;
	return error;
}

static int damaged(struct memtrace_reader *r, const char *problem)
{
	return memtrace_read_fail(r, MAYFLY_E_DAMAGED, problem);
}

/* ---- meanings of codes ---- */

static struct key key_of(int64_t code)
{
	return (struct key){{1, (uint64_t)code}};
}

const struct memtrace_location *memtrace_locate(const struct memtrace_reader *r, int64_t code,
						size_t *count)
{
	uint32_t number = interner_find(&r->codes, key_of(code));

	*count = number == INTERNER_NONE ? 0 : r->meaning[number].count;
	return *count ? r->location + r->meaning[number].first : NULL;
}

static bool same_location(const struct memtrace_location *a, const struct memtrace_location *b)
{
	return a->line == b->line && a->start_char == b->start_char && a->end_char == b->end_char &&
	       strcmp(a->file, b->file) == 0 && strcmp(a->function, b->function) == 0;
}

/* Gives the last `count` locations to the code, or drops them if it has the same ones already. */
static int define(struct memtrace_reader *r, int64_t code, size_t count)
{
	size_t first = r->locations - count;
	struct meaning *m;
	uint32_t number;
	bool is_new;

	if (!array_reserve(&r->meaning, &r->meanings_size, r->codes.count, sizeof(*m)) ||
	    (number = interner_add(&r->codes, key_of(code), &is_new)) == INTERNER_NONE)
		return memtrace_read_fail(r, MAYFLY_E_MEMORY, "");
	m = &r->meaning[number];
	if (is_new) {
		*m = (struct meaning){(uint32_t)first, (uint32_t)count};
		return 0;
	}
	if (m->count != count)
		return damaged(r, "two meanings of one location code");
	for (size_t i = 0; i < count; i++)
		if (!same_location(&r->location[m->first + i], &r->location[first + i]))
			return damaged(r, "two meanings of one location code");
	r->locations = first;
	return 0;
}

static struct memtrace_location *new_location(struct memtrace_reader *r)
{
	if (r->locations >= UINT32_MAX ||
	    !array_reserve(&r->location, &r->locations_size, r->locations, sizeof(*r->location))) {
		memtrace_read_fail(r, MAYFLY_E_MEMORY, "");
		return NULL;
	}
	return &r->location[r->locations++];
}

/* The name that `code` stands for in a list, moved to its front; NULL: there is none. */
static const struct name *recent_name(struct names *names, struct varint_in *in, unsigned code)
{
	struct name name;

	if (code == NAME_NEW) {
		name.text = get_text(in);
		if (in->bad)
			return NULL;
		/*
		 * If the list is full, the new name inherits the functions of the name that drops
		 * out: writers of version 1 rely on this by accident; later writers use only the
		 * names that they have put in front of these.
		 */
		name.functions =
		    names->count < NAMES ? names->count++ : names->name[NAMES - 1].functions;
		code = names->count - 1;
	} else {
		if (code >= names->count)
			return NULL;
		name = names->name[code];
	}
	memmove(&names->name[1], &names->name[0], code * sizeof(name));
	names->name[0] = name;
	return &names->name[0];
}

static uint32_t take_bits(uint64_t *word, unsigned bits)
{
	uint32_t value = (uint32_t)(*word & ((1u << bits) - 1));

	*word >>= bits;
	return value;
}

static int read_location(struct memtrace_reader *r, struct domain *d, struct varint_in *in)
{
	const struct name *file, *function;
	struct memtrace_location *l;
	int64_t code = int63(varint_fixed(in, 8));
	unsigned count = varint_byte(in);

	for (unsigned i = 0; i < count; i++) {
		uint64_t word = varint_fixed(in, 6);

		if (in->bad)
			break;
		l = new_location(r);
		if (!l)
			return r->error;
		l->line = take_bits(&word, LINE_BITS);
		l->start_char = take_bits(&word, START_BITS);
		l->end_char = take_bits(&word, END_BITS);
		file = recent_name(&d->files, in, take_bits(&word, NAME_BITS));
		function = file ? recent_name(&d->functions[file->functions], in,
					      take_bits(&word, NAME_BITS))
				: NULL;
		l->file = file ? file->text : NULL;
		l->function = function ? function->text : NULL;
		if (!l->function) {
			r->locations--;
			return damaged(r, "a location without a name");
		}
	}
	if (in->bad)
		return damaged(r, "a location that is cut off");
	return define(r, code, count);
}

/* ---- stacks ---- */

/* Makes room for the frames that one codeword can add after `depth` frames. */
static int reserve_frames(struct memtrace_reader *r, struct domain *d, size_t depth)
{
	if (depth + CODEWORD_FRAMES > FRAMES_MAX)
		return memtrace_read_fail(r, MAYFLY_E_TOO_LARGE, "a stack of millions of frames");
	if (!array_reserve(&d->stack, &d->stack_size, depth + CODEWORD_FRAMES, sizeof(*d->stack)))
		return memtrace_read_fail(r, MAYFLY_E_MEMORY, "");
	return 0;
}

/* Decodes frames to d->stack[depth] and on; returns the new depth, or SIZE_MAX. */
static size_t decode_frames(struct memtrace_reader *r, struct domain *d, struct varint_in *in,
			    size_t depth, unsigned codewords)
{
	unsigned at = 0, bucket, tag, predicted;

	while (codewords-- && !in->bad) {
		if (reserve_frames(r, d, depth))
			return SIZE_MAX;
		bucket = (unsigned)varint_fixed(in, 2);
		tag = bucket & 3;
		bucket >>= 2;
		d->next[at] = (uint16_t)bucket;
		at = bucket;
		if (tag == TAG_MISS) {
			d->slot[bucket] = int63(varint_fixed(in, 8));
			d->stack[depth++] = d->slot[bucket];
			continue;
		}
		predicted = tag == TAG_HIT_N ? varint_byte(in) : tag;
		d->stack[depth++] = d->slot[at];
		while (predicted--) {
			at = d->next[at];
			d->stack[depth++] = d->slot[at];
		}
	}
	return in->bad ? SIZE_MAX : depth;
}

static int read_stack(struct memtrace_reader *r, struct domain *d, struct varint_in *in,
		      unsigned codewords, struct memtrace_event *e)
{
	/* If the prefix is too long (not known), frames are decoded only to keep the cache in step
	 * with the writer's; they are put after the old stack, where they do no harm. */
	bool known = (uint64_t)e->common_prefix <= d->depth;
	size_t depth;

	e->shared = known ? (size_t)e->common_prefix : d->depth;
	depth = decode_frames(r, d, in, e->shared, codewords);
	if (depth == SIZE_MAX)
		return r->error ? r->error : damaged(r, "a stack that is cut off");
	if (known)
		d->depth = depth;
	e->stack = d->stack;
	e->depth = d->depth;
	return 1;
}

static int read_alloc(struct memtrace_reader *r, struct domain *d, struct varint_in *in,
		      unsigned code, struct memtrace_event *e)
{
	unsigned count_bytes = 1, codewords;

	e->kind = MEMTRACE_ALLOC;
	e->id = r->next_id;
	r->next_id = (int64_t)((uint64_t)r->next_id + 1);
	e->length = (int64_t)code - EVENT_SHORT_ALLOC;
	e->samples = 1;
	e->source = MEMTRACE_MINOR;
	if (code == EVENT_ALLOC) {
		count_bytes = 2;
		e->length = get_vint(in);
		e->samples = get_vint(in);
		e->source = (enum memtrace_source)varint_byte(in);
		if (e->source > MEMTRACE_EXTERNAL)
			return damaged(r, "an allocation of unknown source");
	}
	e->common_prefix = get_vint(in);
	codewords = (unsigned)varint_fixed(in, count_bytes);
	if (in->bad)
		return damaged(r, "an allocation that is cut off");
	if (e->common_prefix < 0)
		return damaged(r, "a stack with a negative prefix");
	return read_stack(r, d, in, codewords, e);
}

/* ---- packets ---- */

/* The size of the header in bytes; 0: it is not complete. */
static size_t read_header(const struct varint_in *file, struct packet *p)
{
	struct varint_in in = *file;

	varint_fixed(&in, 4); /* the magic number */
	p->size = varint_fixed(&in, 4) / 8;
	p->begin_us = (int64_t)varint_fixed(&in, 8);
	p->end_us = (int64_t)varint_fixed(&in, 8);
	varint_fixed(&in, 4); /* duration of a flush */
	p->version = (unsigned)varint_fixed(&in, 2);
	p->pid = (int64_t)varint_fixed(&in, 8);
	p->domain = p->version >= 3 ? (unsigned)varint_fixed(&in, 2) : 0;
	p->check_bucket = (uint32_t)varint_fixed(&in, 2);
	p->check_next = (uint32_t)varint_fixed(&in, 2);
	p->check_slot = int63(varint_fixed(&in, 8));
	p->id_begin = int63(varint_fixed(&in, 8));
	p->id_end = int63(varint_fixed(&in, 8));
	p->header = HEADER_BYTES + (p->version >= 3 ? HEADER_BYTES_DOMAIN : 0);
	return in.bad ? 0 : p->header;
}

static bool has_magic(const struct varint_in *in)
{
	struct varint_in copy = *in;

	return varint_fixed(&copy, 4) == PACKET_MAGIC;
}

static int check_header(struct memtrace_reader *r, const struct packet *p)
{
	if (p->version < 1 || p->version > MEMTRACE_NEWEST)
		return memtrace_read_fail(r, MAYFLY_E_VERSION,
					  "made by an unsupported version of Memtrace");
	if (p->size < p->header || p->size > INT32_MAX / 8)
		return damaged(r, "a packet of impossible size");
	if (p->id_begin > p->id_end)
		return damaged(r, "a packet whose block ids run backwards");
	return 0;
}

static int find_domain(struct memtrace_reader *r, unsigned number)
{
	struct domain *d;

	if (r->domain_of[number]) {
		r->domain_index = r->domain_of[number] - 1u;
		return 0;
	}
	if (r->domains == r->domains_max)
		return memtrace_read_fail(r, MAYFLY_E_TOO_LARGE, "too many domains for its size");
	d = calloc(1, sizeof(*d));
	if (!d)
		return memtrace_read_fail(r, MAYFLY_E_MEMORY, "");
	d->number = number;
	d->last_us = r->info.start_us;
	r->domain_index = r->domains;
	r->domain[r->domains++] = d;
	r->domain_of[number] = (uint16_t)r->domains;
	return 0;
}

/* Whether the packet can follow the domain's last one: also after the clock was set back, unless it
 * lasts longer than any. Up to version 2, all packets are one sequence. */
static bool in_sequence(const struct memtrace_reader *r, const struct packet *p)
{
	unsigned known = p->version >= 3 ? r->domain_of[p->domain] : r->domains > 0;
	const struct domain *d = known ? r->domain[known - 1] : NULL;
	int64_t last_us = d ? d->last_us : r->info.start_us, begin_us, lasts_us;

	if (p->version < 3 ? r->next_id != p->id_begin : d && p->id_begin < d->id_end)
		return false;
	if (__builtin_add_overflow(p->begin_us, d ? d->move_us : 0, &begin_us) ||
	    __builtin_sub_overflow(p->end_us, p->begin_us, &lasts_us))
		return false;
	return begin_us >= last_us || lasts_us <= (int64_t)TIME_MASK;
}

/* Moves a time of the file on. If it is still before the domain's last one, the clock was set back:
 * then times are moved as far as in other domains, if that is enough. */
static int move_on(struct memtrace_reader *r, struct domain *d, int64_t file_us, int64_t *time_us)
{
	int64_t back_us;

	if (__builtin_add_overflow(file_us, d->move_us, time_us))
		return damaged(r, "an impossible time");
	if (*time_us >= d->last_us)
		return 0;
	if (__builtin_sub_overflow(d->last_us, file_us, &back_us))
		return damaged(r, "an impossible time");
	if (r->move_us < back_us)
		r->move_us = back_us;
	d->move_us = r->move_us;
	if (__builtin_add_overflow(file_us, d->move_us, time_us))
		return damaged(r, "an impossible time");
	return 0;
}

static bool cache_agrees(const struct domain *d, const struct packet *p)
{
	return p->check_bucket == CACHE_NO_CHECK ||
	       (p->check_bucket < CACHE_SIZE && d->next[p->check_bucket] == p->check_next &&
		d->slot[p->check_bucket] == p->check_slot);
}

static int begin_packet(struct memtrace_reader *r)
{
	const struct packet *p = &r->packet;
	struct domain *d;
	int64_t begin_us;

	r->events = varint_begin(r->file.at + p->header, p->size - p->header);
	r->file.at += p->size;
	r->next_id = p->id_begin;
	r->time_us = p->begin_us;
	r->set_back = p->end_us < p->begin_us;
	if (find_domain(r, p->domain))
		return r->error;
	d = r->domain[r->domain_index];
	d->id_end = p->id_end;
	if (move_on(r, d, p->begin_us, &begin_us))
		return r->error;
	if (!cache_agrees(d, p))
		return damaged(r, "the stack cache differs from the writer's");
	r->in_packet = true;
	return 1;
}

/* Moves to the next packet to be read. 1, 0 at the end, or an error. */
static int next_packet(struct memtrace_reader *r)
{
	struct packet *p = &r->packet;

	while (varint_left(&r->file)) {
		if (!read_header(&r->file, p)) {
			r->skipped.truncated++;
			return 0;
		}
		if (!has_magic(&r->file))
			return damaged(r, "no packet where one should begin");
		if (check_header(r, p))
			return r->error;
		if (!in_sequence(r, p)) {
			r->skipped.misplaced++;
		} else if (p->pid != r->info.pid) {
			r->skipped.wrong_pid++;
		} else if (p->size <= varint_left(&r->file)) {
			return begin_packet(r);
		}
		if (p->size > varint_left(&r->file)) {
			r->skipped.truncated++;
			return 0;
		}
		r->file.at += p->size;
	}
	return 0;
}

static bool event_time(const struct packet *p, uint32_t word, int64_t *time_us)
{
	uint64_t begin = (uint64_t)p->begin_us, low = word & TIME_MASK;

	if (low < (begin & TIME_MASK))
		low += (uint64_t)TIME_MASK + 1;
	*time_us = (int64_t)((begin & ~(uint64_t)TIME_MASK) + low);
	return p->begin_us <= *time_us && *time_us <= p->end_us;
}

/* The nearest time to that of the event before. */
static int64_t time_near(const struct memtrace_reader *r, uint32_t word)
{
	uint32_t ahead = (word - (uint32_t)r->time_us) & TIME_MASK;
	int64_t change = ahead;

	if (ahead > TIME_MASK / 2)
		change -= (int64_t)TIME_MASK + 1;
	return (int64_t)((uint64_t)r->time_us + (uint64_t)change);
}

/* When an event of the current packet took place, moved on. */
static int read_time(struct memtrace_reader *r, struct domain *d, uint32_t word)
{
	int64_t time_us;

	if (r->set_back || !event_time(&r->packet, word, &time_us) || time_us < r->time_us) {
		r->set_back = true;
		time_us = time_near(r, word);
	}
	r->time_us = time_us;
	if (move_on(r, d, time_us, &time_us))
		return r->error;
	d->last_us = time_us;
	return 0;
}

/* After the clock was set back in a packet, its last event tells whether it was that. */
static bool ends_in_time(const struct memtrace_reader *r)
{
	return !r->set_back || !(((uint32_t)r->time_us ^ (uint32_t)r->packet.end_us) & TIME_MASK);
}

static int read_of_block(struct memtrace_reader *r, struct varint_in *in, unsigned code,
			 struct memtrace_event *e)
{
	int64_t delta = get_vint(in);

	e->kind = code == EVENT_PROMOTE ? MEMTRACE_PROMOTE : MEMTRACE_COLLECT;
	if (in->bad)
		return damaged(r, "an event that is cut off");
	if (delta < 0 && (code == EVENT_PROMOTE || r->packet.version < 3))
		return damaged(r, "an event of a block that does not exist yet");
	e->id = int63((uint64_t)r->next_id - 1 - (uint64_t)delta);
	return 1;
}

/* 1: an event for the caller; 0: a location, which is handled here. */
static int read_event(struct memtrace_reader *r, struct memtrace_event *e)
{
	struct domain *d = r->domain[r->domain_index];
	struct varint_in *in = &r->events;
	uint32_t word = (uint32_t)varint_fixed(in, 4);
	unsigned code = word >> TIME_BITS;

	if (in->bad)
		return damaged(r, "an event that is cut off");
	if (read_time(r, d, word))
		return r->error;
	e->time_us = (int64_t)((uint64_t)d->last_us - (uint64_t)r->info.start_us);
	e->domain_index = r->domain_index;
	e->domain = d->number;
	if (code == EVENT_LOCATION)
		return read_location(r, d, in);
	if (code == EVENT_PROMOTE || code == EVENT_COLLECT)
		return read_of_block(r, in, code, e);
	if (code == EVENT_ALLOC ||
	    (code > EVENT_SHORT_ALLOC && code <= EVENT_SHORT_ALLOC + SHORT_LENGTH_MAX))
		return read_alloc(r, d, in, code, e);
	return damaged(r, "an unknown kind of event");
}

int memtrace_next(struct memtrace_reader *r, struct memtrace_event *event)
{
	int result;

	if (r->error)
		return r->error;
	for (;;) {
		if (!r->in_packet) {
			result = next_packet(r);
			if (result <= 0)
				return result;
		}
		while (varint_left(&r->events)) {
			result = read_event(r, event);
			if (result)
				return result;
		}
		r->in_packet = false;
		if (!ends_in_time(r))
			return damaged(r, "an event outside its packet's time");
		if (r->next_id != r->packet.id_end)
			return damaged(r,
				       "a packet whose number of blocks differs from its header");
		r->skipped.set_back_us = r->move_us;
	}
}

/* ---- opening ---- */

static int read_info(struct memtrace_reader *r, const struct packet *p, struct varint_in in)
{
	struct memtrace_info *info = &r->info;
	uint32_t word = (uint32_t)varint_fixed(&in, 4);
	uint64_t rate = varint_fixed(&in, 8);
	int64_t time_us;

	info->word_size = varint_byte(&in);
	if (in.bad || word >> TIME_BITS != EVENT_INFO || !event_time(p, word, &time_us) ||
	    time_us != p->begin_us)
		return damaged(r, "no description of the trace at its beginning");
	info->version = p->version;
	info->start_us = p->begin_us;
	info->domain = p->domain;
	memcpy(&info->sample_rate, &rate, 8);
	info->executable = get_text(&in);
	info->host = get_text(&in);
	info->runtime_parameters = get_text(&in);
	info->pid = (int64_t)varint_fixed(&in, 8);
	info->context = p->version >= 2 ? get_text(&in) : "";
	if (in.bad || varint_left(&in))
		return damaged(r, "a description of the trace that is cut off");
	return 0;
}

static int read_beginning(struct memtrace_reader *r)
{
	struct packet *p = &r->packet;
	struct varint_in in;

	if (!r->size)
		return memtrace_read_fail(r, MAYFLY_E_EMPTY, "");
	if (!memtrace_recognise(r->data, r->size))
		return memtrace_read_fail(r, MAYFLY_E_NOT_A_TRACE, "");
	if (!read_header(&r->file, p))
		return memtrace_read_fail(r, MAYFLY_E_EMPTY, "");
	if (check_header(r, p))
		return r->error;
	if (p->size > varint_left(&r->file))
		return memtrace_read_fail(r, MAYFLY_E_EMPTY, "");
	in = varint_begin(r->file.at + p->header, p->size - p->header);
	r->file.at += p->size;
	return read_info(r, p, in);
}

bool memtrace_recognise(const void *data, size_t size)
{
	struct varint_in in = varint_begin(data, size);

	return has_magic(&in);
}

int memtrace_open(const void *data, size_t size, struct memtrace_reader **reader)
{
	struct memtrace_reader *r = calloc(1, sizeof(*r));
	int error;

	*reader = NULL;
	if (!r)
		return MAYFLY_E_MEMORY;
	r->data = data;
	r->size = size;
	r->file = varint_begin(data, size);
	r->problem = "";
	error = read_beginning(r);
	if (!error) {
		r->domains_max = size / BYTES_PER_DOMAIN < UINT16_MAX - DOMAINS_FREE
				     ? (unsigned)(DOMAINS_FREE + size / BYTES_PER_DOMAIN)
				     : UINT16_MAX;
		r->domain = calloc(r->domains_max, sizeof(*r->domain));
		r->domain_of = calloc(UINT16_MAX + 1, sizeof(*r->domain_of));
		error = r->domain && r->domain_of ? 0 : MAYFLY_E_MEMORY;
	}
	if (error) {
		memtrace_close(r);
		return error;
	}
	*reader = r;
	return 0;
}

void memtrace_close(struct memtrace_reader *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->domains; i++) {
		free(r->domain[i]->stack);
		free(r->domain[i]);
	}
	free(r->domain);
	free(r->domain_of);
	free(r->location);
	free(r->meaning);
	interner_free(&r->codes);
	free(r);
}

const struct memtrace_info *memtrace_info(const struct memtrace_reader *r)
{
	return &r->info;
}

uint64_t memtrace_size(const struct memtrace_reader *r)
{
	return r->size;
}

struct memtrace_skipped memtrace_skipped(const struct memtrace_reader *r)
{
	return r->skipped;
}

const char *memtrace_problem(const struct memtrace_reader *r)
{
	return r->problem;
}
