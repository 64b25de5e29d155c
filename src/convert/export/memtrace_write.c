/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing Memtrace's files. Choices that the format leaves open (which bucket, how many
 * predictions, when a packet ends) are made as in Memtrace's own writer, so that the same events
 * give the same bytes.
 *
 *	alloc -> stack -> common prefix with the last one -> cache -> codewords -> packet
 *						| miss
 *						+-> pending codes
 *	flush:	pending codes -> their locations, in separate packets; then the packet of events
 *
 * The names of files and functions are coded by their places in lists of the 31 most recent ones:
 *
 *	file[0] "list.ml"  -> function[0] "Stdlib__List.map", function[1] "Stdlib__List.iter", ...
 *	file[1] "array.ml" -> ...
 */
#include "convert/export/memtrace_write.h"

#include <stdlib.h>
#include <string.h>

#include "convert/memtrace_format.h"

#define DEFAULT_VERSION 2 /* all tools read it */
#define PACKET_BYTES	32768
#define PACKET_TIME_US	30000000 /* less than the 2^25 us that an event's time can span */
#define CHECK_FROM_END	28	 /* where a header has the check of the cache, and the ids */
#define IDS_FROM_END	16
#define EVENT_BYTES	100 /* more than an event without its stack */
#define STACK_BYTES	4096
#define CODEWORD_BYTES	10 /* the largest: a miss with its code */
#define LOCATION_BYTES	4096
#define LOCATIONS_MAX	255
#define INFO_TEXT_BYTES 8000 /* limit of each text, so that all four fit into a packet */

/* With this many pending codes a packet ends; one more stack may exceed it. */
#define PENDING_ENOUGH 128
#define PENDING_MAX    (PENDING_ENOUGH + 1 + STACK_BYTES / CODEWORD_BYTES + 1)

/* From version 3 on, a domain takes this many ids at a time from the file's. */
#define IDS_PER_CHUNK 10000

#define CHECK_FIRST 4242
#define CHECK_STEP  5413

#define PREDICTIONS_MAX 255

struct packet {
	uint8_t bytes[PACKET_BYTES];
	size_t used;
};

struct name {
	char *text;
	struct names *inner; /* of a file: its functions */
};

/* The most recent one first. */
struct names {
	unsigned count;
	struct name name[NAMES];
};

/* What a domain's packets depend on. Up to version 2 there is one domain. */
struct domain {
	unsigned number;
	int64_t begin_us, end_us;	   /* of the packet */
	int64_t begin_id, next_id, id_end; /* id_end: the end of the ids that it has taken */
	struct packet events;

	int64_t *last; /* stack */
	size_t last_depth, last_size;
	int64_t pending[PENDING_MAX];
	size_t pendings;

	unsigned check_bucket;
	int64_t slot[CACHE_SIZE];
	int64_t date[CACHE_SIZE]; /* block id of its last use */
	uint16_t next[CACHE_SIZE];

	struct names files;
};

struct memtrace_writer {
	memtrace_locator *locate;
	void *locate_context;
	trace_sink *sink;
	void *sink_context;
	int error;

	unsigned version, header_bytes;
	int64_t pid, start_us;
	int64_t taken_ids; /* by all domains */
	struct domain **domain;
	size_t domains;
	struct domain *now; /* of the events to come */
	struct packet locations;
};

/* ---- bytes ---- */

static void memtrace_write_put(struct packet *p, uint64_t value, unsigned bytes)
{
	memcpy(p->bytes + p->used, &value, bytes);
	p->used += bytes;
}

static void put_vint(struct packet *p, int64_t value)
{
	if (value >= 0 && value < VINT_16) {
		memtrace_write_put(p, (uint64_t)value, 1);
	} else if (value >= 0 && value <= UINT16_MAX) {
		memtrace_write_put(p, VINT_16, 1);
		memtrace_write_put(p, (uint64_t)value, 2);
	} else if (value >= INT32_MIN && value <= INT32_MAX) {
		memtrace_write_put(p, VINT_32, 1);
		memtrace_write_put(p, (uint64_t)value, 4);
	} else {
		memtrace_write_put(p, VINT_64, 1);
		memtrace_write_put(p, (uint64_t)value, 8);
	}
}

/* Writes a text with its terminating zero. */
static void memtrace_write_put_text(struct packet *p, const char *text, size_t most)
{
	size_t length = strnlen(text, most);

	memcpy(p->bytes + p->used, text, length);
	p->bytes[p->used + length] = 0;
	p->used += length + 1;
}

/* ---- packets ---- */

static void memtrace_write_begin_packet(const struct memtrace_writer *w, const struct domain *d,
					struct packet *p)
{
	/* Size, times, block ids: end_packet(). */
	memset(p->bytes, 0, w->header_bytes);
	p->used = 0;
	memtrace_write_put(p, PACKET_MAGIC, 4);
	p->used = 28;
	memtrace_write_put(p, w->version, 2);
	memtrace_write_put(p, (uint64_t)w->pid, 8);
	if (w->version >= 3)
		memtrace_write_put(p, d->number, 2);
	memtrace_write_put(p, CACHE_NO_CHECK, 2);
	p->used = w->header_bytes;
}

/* Lets readers check that their cache equals the writer's. */
static void put_check(const struct memtrace_writer *w, struct domain *d, struct packet *p)
{
	unsigned bucket = d->check_bucket;
	size_t used = p->used;

	d->check_bucket = (bucket + CHECK_STEP) % CACHE_SIZE;
	p->used = w->header_bytes - CHECK_FROM_END;
	memtrace_write_put(p, bucket, 2);
	memtrace_write_put(p, d->next[bucket], 2);
	memtrace_write_put(p, (uint64_t)d->slot[bucket], 8);
	p->used = used;
}

static int memtrace_write_end_packet(struct memtrace_writer *w, const struct domain *d,
				     struct packet *p, int64_t end_us, int64_t end_id)
{
	size_t size = p->used;

	p->used = 4;
	memtrace_write_put(p, size * 8, 4);
	memtrace_write_put(p, (uint64_t)d->begin_us, 8);
	memtrace_write_put(p, (uint64_t)end_us, 8);
	p->used = w->header_bytes - IDS_FROM_END;
	memtrace_write_put(p, (uint64_t)d->begin_id, 8);
	memtrace_write_put(p, (uint64_t)end_id, 8);
	if (!w->error)
		w->error = w->sink(w->sink_context, p->bytes, size);
	return w->error;
}

static void put_event(struct packet *p, unsigned code, int64_t time_us)
{
	memtrace_write_put(p, code << TIME_BITS | ((uint32_t)time_us & TIME_MASK), 4);
}

static int write_info(struct memtrace_writer *w, const struct memtrace_info *info)
{
	struct domain *d = w->now;
	struct packet *p = &d->events;

	memtrace_write_begin_packet(w, d, p);
	put_event(p, EVENT_INFO, w->start_us);
	memcpy(p->bytes + p->used, &info->sample_rate, 8);
	p->used += 8;
	memtrace_write_put(p, info->word_size, 1);
	memtrace_write_put_text(p, info->executable, INFO_TEXT_BYTES);
	memtrace_write_put_text(p, info->host, INFO_TEXT_BYTES);
	memtrace_write_put_text(p, info->runtime_parameters, INFO_TEXT_BYTES);
	memtrace_write_put(p, (uint64_t)info->pid, 8);
	if (w->version >= 2)
		memtrace_write_put_text(p, info->context, INFO_TEXT_BYTES);
	return memtrace_write_end_packet(w, d, p, w->start_us, 0);
}

/* ---- locations ---- */

static void free_name(struct name *n)
{
	for (unsigned i = 0; n->inner && i < n->inner->count; i++)
		free_name(&n->inner->name[i]);
	free(n->inner);
	free(n->text);
}

/* The name's place before it moves to the front, NAME_NEW if it had none; -1: out of memory. */
static int code_name(struct names *n, const char *text, bool is_file)
{
	struct name name;
	unsigned at = 0, code;

	while (at < n->count && strcmp(n->name[at].text, text) != 0)
		at++;
	code = at < n->count ? at : NAME_NEW;
	if (code == NAME_NEW) {
		name = (struct name){strdup(text), is_file ? calloc(1, sizeof(*n)) : NULL};
		if (!name.text || (is_file && !name.inner)) {
			free_name(&name);
			return -1;
		}
		if (n->count == NAMES)
			free_name(&n->name[--n->count]);
		at = n->count++;
	} else {
		name = n->name[at];
	}
	memmove(&n->name[1], &n->name[0], at * sizeof(name));
	n->name[0] = name;
	return (int)code;
}

static uint64_t at_most(uint64_t value, unsigned bits)
{
	uint64_t most = (1u << bits) - 1;

	return value < most ? value : most;
}

static int memtrace_write_put_location(struct domain *d, struct packet *p,
				       const struct memtrace_location *l)
{
	int file = code_name(&d->files, l->file, true);
	int function = file < 0 ? -1 : code_name(d->files.name[0].inner, l->function, false);
	uint64_t word;

	if (function < 0)
		return MAYFLY_E_MEMORY;
	word = at_most(l->line, LINE_BITS) | at_most(l->start_char, START_BITS) << LINE_BITS |
	       at_most(l->end_char, END_BITS) << (LINE_BITS + START_BITS) |
	       (uint64_t)file << (LINE_BITS + START_BITS + END_BITS) |
	       (uint64_t)function << (LINE_BITS + START_BITS + END_BITS + NAME_BITS);
	memtrace_write_put(p, word, 6);
	if (file == NAME_NEW)
		memtrace_write_put_text(p, l->file, LOCATION_BYTES);
	if (function == NAME_NEW)
		memtrace_write_put_text(p, l->function, LOCATION_BYTES);
	return 0;
}

/* Whether the locations fit even if no name is in the lists. */
static bool locations_fit(const struct memtrace_location *l, size_t count)
{
	size_t bytes = 8 + 1;

	if (count > LOCATIONS_MAX)
		return false;
	for (size_t i = 0; i < count && bytes <= LOCATION_BYTES; i++)
		bytes += 6 + strlen(l[i].file) + 1 + strlen(l[i].function) + 1;
	return bytes <= LOCATION_BYTES;
}

static int put_code(struct memtrace_writer *w, struct packet *p, int64_t code)
{
	static const struct memtrace_location unknown = {"??", "<unknown>", 1, 1, 1};
	const struct memtrace_location *l;
	size_t count = 0;
	int error = 0;

	l = w->locate(w->locate_context, code, &count);
	if (!l)
		count = 0;
	if (!locations_fit(l, count)) {
		l = &unknown;
		count = 1;
	}
	put_event(p, EVENT_LOCATION, w->now->begin_us);
	memtrace_write_put(p, (uint64_t)code, 8);
	memtrace_write_put(p, count, 1);
	for (size_t i = 0; i < count && !error; i++)
		error = memtrace_write_put_location(w->now, p, &l[i]);
	return error;
}

static int write_locations(struct memtrace_writer *w)
{
	struct packet *p = &w->locations;
	struct domain *d = w->now;
	size_t done = 0;

	while (done < d->pendings && !w->error) {
		memtrace_write_begin_packet(w, d, p);
		while (done < d->pendings && PACKET_BYTES - p->used > LOCATION_BYTES && !w->error)
			w->error = put_code(w, p, d->pending[done++]);
		if (!w->error)
			memtrace_write_end_packet(w, d, p, d->begin_us, d->begin_id);
	}
	d->pendings = 0;
	return w->error;
}

/* ---- events ---- */

static void begin_ids(struct memtrace_writer *w, struct domain *d)
{
	if (d->next_id == d->id_end) {
		d->next_id = w->taken_ids;
		w->taken_ids += w->version >= 3 ? IDS_PER_CHUNK : INT64_MAX;
		d->id_end = w->taken_ids;
	}
	d->begin_id = d->next_id;
}

static int flush_at(struct memtrace_writer *w, int64_t now_us)
{
	struct domain *d = w->now;

	if (write_locations(w) ||
	    memtrace_write_end_packet(w, d, &d->events, d->end_us, d->next_id))
		return w->error;
	d->begin_us = now_us;
	d->end_us = now_us;
	begin_ids(w, d);
	memtrace_write_begin_packet(w, d, &d->events);
	put_check(w, d, &d->events);
	return 0;
}

static int begin_event(struct memtrace_writer *w, unsigned code, int64_t time_us)
{
	int64_t now_us = (int64_t)((uint64_t)w->start_us + (uint64_t)time_us);
	struct domain *d = w->now;

	if (now_us < d->end_us)
		now_us = d->end_us;
	if (PACKET_BYTES - d->events.used < EVENT_BYTES + STACK_BYTES ||
	    d->pendings > PENDING_ENOUGH ||
	    (uint64_t)now_us - (uint64_t)d->begin_us > PACKET_TIME_US || d->next_id == d->id_end) {
		if (flush_at(w, now_us))
			return w->error;
	}
	d->end_us = now_us;
	put_event(&d->events, code, now_us);
	return 0;
}

static unsigned hash(int64_t code, uint64_t factor, unsigned shift)
{
	uint64_t product = (uint64_t)code * factor & (UINT64_MAX >> 1);

	return (unsigned)(product >> shift) & (CACHE_SIZE - 1);
}

/* True: *bucket holds the code. False: *bucket is the one of its two possible buckets that has been
 * unused for longer. */
static bool find_bucket(const struct domain *d, int64_t code, unsigned *bucket)
{
	unsigned first = hash(code, 0x4983723, 11), second = hash(code, 0xfdea731, 21);

	if (d->slot[first] == code) {
		*bucket = first;
		return true;
	}
	if (d->slot[second] == code) {
		*bucket = second;
		return true;
	}
	*bucket = d->date[first] < d->date[second] ? first : second;
	return false;
}

static void put_hit(struct packet *p, unsigned bucket, unsigned predictions)
{
	memtrace_write_put(p, bucket << 2 | (predictions < TAG_HIT_N ? predictions : TAG_HIT_N), 2);
	if (predictions >= TAG_HIT_N)
		memtrace_write_put(p, predictions, 1);
}

/* Writes codes from stack[at] on, as far as they fit; returns the number of codewords. */
static unsigned memtrace_write_put_stack(struct domain *d, const int64_t *stack, size_t at,
					 size_t depth)
{
	struct packet *p = &d->events;
	size_t limit = p->used + STACK_BYTES - CODEWORD_BYTES;
	unsigned codewords = 0, from = 0, bucket, predictions;
	bool known = false;

	while (at < depth && (known || p->used <= limit)) {
		int64_t code = stack[at++];

		/* After 255 predictions a new run begins with the next predicted bucket. */
		if (!known)
			known = find_bucket(d, code, &bucket);
		d->date[bucket] = d->next_id;
		d->next[from] = (uint16_t)bucket;
		from = bucket;
		codewords++;
		if (!known) {
			d->slot[bucket] = code;
			d->pending[d->pendings++] = code;
			memtrace_write_put(p, bucket << 2 | TAG_MISS, 2);
			memtrace_write_put(p, (uint64_t)code, 8);
			continue;
		}
		known = false;
		for (predictions = 0; at < depth && p->used + 2 <= limit; predictions++, at++) {
			if (d->slot[d->next[from]] != stack[at])
				break;
			if (predictions == PREDICTIONS_MAX) {
				known = true;
				break;
			}
			from = d->next[from];
		}
		put_hit(p, bucket, predictions);
		bucket = d->next[from];
	}
	return codewords;
}

static size_t common_prefix(const struct domain *d, const int64_t *stack, size_t depth)
{
	size_t most = depth < d->last_depth ? depth : d->last_depth, at = 0;

	while (at < most && d->last[at] == stack[at])
		at++;
	return at;
}

static int remember_stack(struct domain *d, const int64_t *stack, size_t from, size_t depth)
{
	/* Not array_reserve(): the OCaml package has this file without base/array.c. */
	if (depth > d->last_size) {
		size_t size = depth + depth / 2 + 64;
		int64_t *bigger = realloc(d->last, size * sizeof(*bigger));

		if (!bigger)
			return MAYFLY_E_MEMORY;
		d->last = bigger;
		d->last_size = size;
	}
	if (depth > from)
		memcpy(d->last + from, stack + from, (depth - from) * sizeof(*stack));
	d->last_depth = depth;
	return 0;
}

static bool codes_valid(const int64_t *stack, size_t from, size_t depth)
{
	for (size_t i = from; i < depth; i++)
		if (!stack[i] || (int64_t)((uint64_t)stack[i] << 1) >> 1 != stack[i])
			return false;
	return true;
}

int memtrace_writer_alloc(struct memtrace_writer *w, int64_t time_us, int64_t length,
			  int64_t samples, enum memtrace_source source, const int64_t *stack,
			  size_t depth, int64_t *id)
{
	struct domain *d = w->now;
	size_t prefix = common_prefix(d, stack, depth), count_at;
	bool small = length >= 1 && length <= SHORT_LENGTH_MAX && source == MEMTRACE_MINOR &&
		     samples == 1 && depth - prefix <= UINT8_MAX;
	struct packet *p = &d->events;
	unsigned codewords;

	if (w->error)
		return w->error;
	if (!codes_valid(stack, prefix, depth))
		return MAYFLY_E_RANGE;
	w->error = remember_stack(d, stack, prefix, depth);
	if (w->error ||
	    begin_event(w, small ? EVENT_SHORT_ALLOC + (unsigned)length : EVENT_ALLOC, time_us))
		return w->error;
	if (!small) {
		put_vint(p, length);
		put_vint(p, samples);
		memtrace_write_put(p, (uint64_t)source, 1);
	}
	put_vint(p, (int64_t)prefix);
	count_at = p->used;
	memtrace_write_put(p, 0, small ? 1 : 2);
	codewords = memtrace_write_put_stack(d, stack, prefix, depth);
	memcpy(p->bytes + count_at, &codewords, small ? 1 : 2);
	*id = d->next_id++;
	return 0;
}

static int put_of_block(struct memtrace_writer *w, unsigned code, int64_t time_us, int64_t id)
{
	if (w->error)
		return w->error;
	/* From version 3 on, a block of another domain can be collected, but not promoted. */
	if (id < 0 ||
	    id >= (w->version >= 3 && code == EVENT_COLLECT ? w->taken_ids : w->now->next_id))
		return MAYFLY_E_RANGE;
	if (begin_event(w, code, time_us))
		return w->error;
	put_vint(&w->now->events, w->now->next_id - 1 - id);
	return 0;
}

int memtrace_writer_promote(struct memtrace_writer *w, int64_t time_us, int64_t id)
{
	return put_of_block(w, EVENT_PROMOTE, time_us, id);
}

int memtrace_writer_collect(struct memtrace_writer *w, int64_t time_us, int64_t id)
{
	return put_of_block(w, EVENT_COLLECT, time_us, id);
}

int memtrace_writer_flush(struct memtrace_writer *w)
{
	return w->error ? w->error : flush_at(w, w->now->end_us);
}

/* Like Memtrace's own writer, ends the file with the current packet, even if it is empty. */
int memtrace_writer_finish(struct memtrace_writer *w)
{
	return memtrace_writer_flush(w);
}

/* ---- domains ---- */

static int add_domain(struct memtrace_writer *w, unsigned number)
{
	struct domain **bigger = realloc(w->domain, (w->domains + 1) * sizeof(*bigger));
	struct domain *d = calloc(1, sizeof(*d));

	if (bigger)
		w->domain = bigger;
	if (!bigger || !d) {
		free(d);
		return w->error = MAYFLY_E_MEMORY;
	}
	d->number = number;
	d->begin_us = d->end_us = w->start_us;
	d->check_bucket = CHECK_FIRST;
	w->domain[w->domains++] = w->now = d;
	begin_ids(w, d);
	memtrace_write_begin_packet(w, d, &d->events);
	return 0;
}

int memtrace_writer_domain(struct memtrace_writer *w, unsigned number)
{
	if (w->version < 3 || w->now->number == number || memtrace_writer_flush(w))
		return w->error;
	for (size_t i = 0; i < w->domains; i++)
		if (w->domain[i]->number == number) {
			w->now = w->domain[i];
			return 0;
		}
	return add_domain(w, number);
}

int memtrace_writer_new(const struct memtrace_info *info, memtrace_locator *locate,
			void *locate_context, trace_sink *sink, void *sink_context,
			struct memtrace_writer **writer)
{
	struct memtrace_writer *w = calloc(1, sizeof(*w));
	int error;

	*writer = NULL;
	if (!w)
		return MAYFLY_E_MEMORY;
	w->locate = locate;
	w->locate_context = locate_context;
	w->sink = sink;
	w->sink_context = sink_context;
	w->version =
	    info->version && info->version <= MEMTRACE_NEWEST ? info->version : DEFAULT_VERSION;
	w->header_bytes = HEADER_BYTES + (w->version >= 3 ? HEADER_BYTES_DOMAIN : 0);
	w->pid = info->pid;
	w->start_us = info->start_us;
	error = add_domain(w, info->domain);
	if (!error)
		error = write_info(w, info);
	if (error) {
		memtrace_writer_free(w);
		return error;
	}
	memtrace_write_begin_packet(w, w->now, &w->now->events);
	*writer = w;
	return 0;
}

void memtrace_writer_free(struct memtrace_writer *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->domains; i++) {
		struct names *files = &w->domain[i]->files;

		for (unsigned k = 0; k < files->count; k++)
			free_name(&files->name[k]);
		free(w->domain[i]->last);
		free(w->domain[i]);
	}
	free(w->domain);
	free(w);
}
