/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a spool to a recording: many writers' packets become one history in time order.
 *
 *	packets --check--> modules, thread names, clock points    (damaged packets drop out here)
 *	        --replay-> samples with nodes, frees
 *	samples + parent's live samples --sort by time--> history <--match by id-- frees
 *
 * Packets are decoded twice, as an address can only be given to a module once all modules are
 * known. What is kept between the two is `bytes`, how much of a packet is sound: an agent that
 * still runs appends behind it and changes nothing before it.
 */
#include "trace/recording.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/format.h"
#include "trace/spool_format.h"
#include "trace/varint.h"

#define MAX_INTERVAL_LOG2 40
#define MAX_PACKET_BYTES  (1u << 30)
#define LATEST_NS	  ((int64_t)1 << 62)
#define DEFAULT_TICKS	  2.5 /* per ns, when a spool says nothing better */
#define RECENT_FRAMES	  4096

struct packet {
	const uint8_t *body;
	size_t bytes; /* sound ones; 0 when skipped */
	uint32_t writer, tid;
	uint64_t ticks, mono_ns;
	uint64_t late_ticks, late_mono_ns; /* 0, 0: none */
	uint32_t interval_log2;
};

/* A MODULE or GONE record. */
struct change {
	uint64_t ticks;
	int64_t ns;
	uint64_t start, end, bias;
	const uint8_t *path, *build_id;
	size_t path_length, build_id_length;
	size_t order; /* in the file */
	bool gone;
};

/* A THREAD record, or a packet's first thread. */
struct naming {
	uint32_t tid;
	uint32_t index; /* of the recording's thread, once it has one */
	uint64_t ticks;
	const uint8_t *name;
	size_t length;
	size_t order;
};

struct freeing {
	int64_t ns;
	uint64_t id;
	uint32_t thread;
	uint8_t flags;
};

struct recent_frame {
	uint64_t address;
	size_t epoch;
	uint32_t frame;
	bool used;
};

struct spool {
	const uint8_t *data;
	size_t size;
	struct spool_header header;
	struct packet *packet;
	size_t packets;
	bool damaged, intervals_differ, thread_lost;

	struct change *change;
	size_t changes, change_size;
	struct naming *naming;
	size_t namings, naming_size;
	struct freeing *freeing;
	size_t freeings, freeing_size;
	uint64_t lost_samples;

	struct recording *r;
	int64_t *change_ns;   /* sorted: an epoch lies between two of them */
	uint32_t *by_start;   /* modules by (start, from) */
	uint64_t *end_before; /* the largest end of by_start[0..i] */
	struct recent_frame *recent;
};

/* One packet on its way through decode_packet(). */
struct replay {
	struct spool *s;
	struct varint_in in;
	uint64_t ticks, id;
	uint32_t interval_log2, thread;
	uint32_t tid;
	bool checking; /* the first pass */

	uint64_t cache[SPOOL_CACHE_SIZE];
	uint8_t cached[SPOOL_CACHE_SIZE];
	uint64_t address[SPOOL_MAX_FRAMES];  /* root-most first */
	uint32_t node[SPOOL_MAX_FRAMES + 1]; /* node[i + 1] is of address[0..i] */
	uint32_t depth, sound;		     /* nodes are right up to `sound` frames */
	size_t epoch;
	int64_t epoch_from, epoch_to;
	int64_t work; /* frames that may still be looked up again after a module change */
	bool no_memory;
};

static bool room(void *array, size_t used, size_t *size, size_t item)
{
	size_t want = *size ? *size + *size / 2 : 64;
	void **place = array;
	void *bigger;

	if (used < *size)
		return true;
	if (want > SIZE_MAX / item)
		return false;
	bigger = realloc(*place, want * item);
	if (!bigger)
		return false;
	*place = bigger;
	*size = want;
	return true;
}

/* qsort() must not be given the NULL of an array that never got an item. */
static void sort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	if (count)
		qsort(items, count, size, compare);
}

/* ---- the header and the list of packets ---- */

bool spool_recognise(const void *data, size_t size)
{
	return size >= 8 && memcmp(data, SPOOL_MAGIC, 8) == 0;
}

static int read_header(struct spool *s)
{
	const struct spool_header *h = &s->header;

	if (!spool_recognise(s->data, s->size))
		return MAYFLY_E_NOT_A_TRACE;
	if (s->size < sizeof(*h))
		return MAYFLY_E_EMPTY;
	memcpy(&s->header, s->data, sizeof(s->header));
	/* The rest must have been stored before the state that we see. */
	atomic_thread_fence(memory_order_acquire);
	if (h->version != SPOOL_VERSION || h->features & ~SPOOL_FEATURES_KNOWN)
		return MAYFLY_E_VERSION;
	if (atomic_load(&s->header.state) == SPOOL_WAITING)
		return MAYFLY_E_EMPTY;
	if (h->header_bytes < sizeof(*h) || h->packet_bytes <= sizeof(struct spool_packet) ||
	    h->packet_bytes > MAX_PACKET_BYTES || h->clock > SPOOL_CLOCK_MONOTONIC ||
	    h->sampler > SPOOL_POISSON || h->interval_log2 > MAX_INTERVAL_LOG2)
		return MAYFLY_E_DAMAGED;
	return 0;
}

/* A text of the header, cut off where the header ends. */
static uint32_t header_text(struct spool *s, uint32_t offset, uint32_t length)
{
	size_t limit = s->header.header_bytes < s->size ? s->header.header_bytes : s->size;

	if (offset >= limit)
		return 0;
	if (length > limit - offset)
		length = (uint32_t)(limit - offset);
	return recording_string(s->r, (const char *)s->data + offset, length);
}

/* Fills in one packet. False: it was never begun. */
static bool read_packet_header(struct spool *s, size_t offset, struct packet *p)
{
	struct spool_packet header;
	size_t left = s->size - offset;
	size_t body = s->header.packet_bytes - sizeof(header);
	uint32_t used;

	if (left < sizeof(header))
		return false;
	memcpy(&header, s->data + offset, sizeof(header));
	atomic_thread_fence(memory_order_acquire);
	if (header.magic == 0)
		return false;
	used = atomic_load_explicit(&header.used, memory_order_relaxed);
	if (header.magic != SPOOL_PACKET_MAGIC || used > body ||
	    header.interval_log2 > MAX_INTERVAL_LOG2) {
		s->damaged = true;
		return false;
	}
	p->body = s->data + offset + sizeof(header);
	p->bytes = used;
	if (p->bytes > left - sizeof(header)) {
		p->bytes = left - sizeof(header);
		s->damaged = true;
	}
	p->writer = header.writer;
	p->tid = header.tid;
	p->ticks = header.ticks;
	p->mono_ns = header.mono_ns;
	p->late_ticks = atomic_load(&header.late_ticks);
	p->late_mono_ns = atomic_load(&header.late_mono_ns);
	p->interval_log2 = header.interval_log2;
	return true;
}

static int list_packets(struct spool *s)
{
	uint64_t claimed = atomic_load(&s->header.packets_claimed);
	uint64_t reserved = atomic_load(&s->header.packets_reserved);
	uint64_t there = 0;

	/* Claims beyond the reserved packets are the drops that the counters tell of. */
	if (claimed > reserved)
		claimed = reserved;
	if (s->size > s->header.header_bytes)
		there = (s->size - s->header.header_bytes + s->header.packet_bytes - 1) /
			s->header.packet_bytes;
	if (claimed > there) {
		s->damaged = true;
		claimed = there;
	}
	s->packet = calloc((size_t)claimed + 1, sizeof(*s->packet));
	if (!s->packet)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < claimed; i++) {
		size_t offset = s->header.header_bytes + i * (size_t)s->header.packet_bytes;

		if (read_packet_header(s, offset, &s->packet[s->packets]))
			s->packets++;
	}
	return 0;
}

/* ---- times ---- */

static int compare_clock(const void *a, const void *b)
{
	const struct recording_clock *x = a, *y = b;

	if (x->ticks != y->ticks)
		return x->ticks < y->ticks ? -1 : 1;
	return (x->ns > y->ns) - (x->ns < y->ns);
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double slope(const struct recording_clock *a, const struct recording_clock *b)
{
	return (double)(b->ticks - a->ticks) / (double)(b->ns - a->ns);
}

static void add_clock_point(struct spool *s, uint64_t ticks, uint64_t mono_ns)
{
	struct recording *r = s->r;

	if (ticks < s->header.start_ticks || mono_ns < s->header.start_mono_ns ||
	    mono_ns - s->header.start_mono_ns > (uint64_t)LATEST_NS)
		return;
	r->clock[r->clocks].ticks = ticks;
	r->clock[r->clocks++].ns = (int64_t)(mono_ns - s->header.start_mono_ns);
}

/* Drops points that are not at least `gap` after the one kept before. */
static size_t thin_clock(struct recording_clock *point, size_t count, int64_t gap)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept && (point[i].ns - point[kept - 1].ns < gap ||
			     point[i].ticks <= point[kept - 1].ticks))
			continue;
		point[kept++] = point[i];
	}
	return kept;
}

/* The median of the slopes from point to point, as single points may be far off: the thread may
 * have lost its CPU between reading the one clock and the other. */
static int median_slope(struct recording *r, double *ticks_per_ns)
{
	double *slopes = malloc(r->clocks * sizeof(*slopes));

	if (!slopes)
		return MAYFLY_E_MEMORY;
	for (size_t i = 1; i < r->clocks; i++)
		slopes[i - 1] = slope(&r->clock[i - 1], &r->clock[i]);
	sort(slopes, r->clocks - 1, sizeof(*slopes), compare_double);
	*ticks_per_ns = slopes[(r->clocks - 1) / 2];
	free(slopes);
	return 0;
}

/* Drops points that do not lie on a line of about the right slope with the one before, unless the
 * next one lies on such a line with them (the machine slept). NTP changes the slope by at most
 * 500 ppm. */
static size_t reject_outliers(struct recording_clock *point, size_t count, double ticks_per_ns)
{
	const double limit = 0.001 * ticks_per_ns;
	struct recording_clock odd = {0};
	bool is_odd = false;
	size_t kept = 1;

	for (size_t i = 1; i < count; i++) {
		struct recording_clock this = point[i];

		if (fabs(slope(&point[kept - 1], &this) - ticks_per_ns) <= limit) {
			point[kept++] = this;
			is_odd = false;
		} else if (is_odd && fabs(slope(&odd, &this) - ticks_per_ns) <= limit) {
			point[kept++] = odd;
			point[kept++] = this;
			is_odd = false;
		} else {
			odd = this;
			is_odd = true;
		}
	}
	return kept;
}

static int build_clock(struct spool *s, const struct spool_ending *ending)
{
	const int64_t steady_gap = 10000000, least_span = 20000;
	struct recording *r = s->r;
	int error;

	r->start_ticks = s->header.start_ticks;
	r->ticks_per_ns = 1;
	if (s->header.clock == SPOOL_CLOCK_MONOTONIC)
		return 0;
	r->clock = calloc(2 * s->packets + 3, sizeof(*r->clock));
	if (!r->clock)
		return MAYFLY_E_MEMORY;
	add_clock_point(s, s->header.start_ticks, s->header.start_mono_ns);
	add_clock_point(s, atomic_load(&s->header.end_ticks), atomic_load(&s->header.end_mono_ns));
	for (size_t i = 0; i < s->packets; i++) {
		const struct packet *p = &s->packet[i];

		if (!p->bytes)
			continue;
		add_clock_point(s, p->ticks, p->mono_ns);
		add_clock_point(s, p->late_ticks, p->late_mono_ns);
	}
	if (ending && ending->end_ticks)
		add_clock_point(s, ending->end_ticks, ending->end_mono_ns);
	sort(r->clock, r->clocks, sizeof(*r->clock), compare_clock);
	r->ticks_per_ns = DEFAULT_TICKS;
	if (r->clock[r->clocks - 1].ns < steady_gap) {
		/* Too short for anything but the whole line. */
		struct recording_clock last = r->clock[r->clocks - 1];

		r->clocks = 1;
		if (last.ns >= least_span)
			r->ticks_per_ns = slope(&r->clock[0], &last);
	} else {
		r->clocks = thin_clock(r->clock, r->clocks, steady_gap);
		if (r->clocks > 1) {
			error = median_slope(r, &r->ticks_per_ns);
			if (error)
				return error;
			r->clocks = reject_outliers(r->clock, r->clocks, r->ticks_per_ns);
		}
	}
	if (!(r->ticks_per_ns > 0.01 && r->ticks_per_ns < 100))
		r->ticks_per_ns = DEFAULT_TICKS;
	return 0;
}

static int64_t add_ticks(int64_t base, double ns)
{
	return ns >= (double)(LATEST_NS - base) ? LATEST_NS : base + (int64_t)ns;
}

/* A moment of the spool in ns after its start; never less than 0, never falling as ticks rise. */
static int64_t time_of(const struct recording *r, uint64_t ticks)
{
	const struct recording_clock *a, *b;
	size_t low = 0, high = r->clocks;
	int64_t ns;

	if (ticks <= r->start_ticks)
		return 0;
	if (!r->clocks)
		return ticks - r->start_ticks > (uint64_t)LATEST_NS
			   ? LATEST_NS
			   : (int64_t)(ticks - r->start_ticks);
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (r->clock[middle].ticks <= ticks)
			low = middle;
		else
			high = middle;
	}
	a = &r->clock[low];
	if (ticks <= a->ticks)
		return a->ns;
	if (low + 1 == r->clocks)
		return add_ticks(a->ns, (double)(ticks - a->ticks) / r->ticks_per_ns);
	b = a + 1;
	ns = add_ticks(a->ns, (double)(ticks - a->ticks) / slope(a, b));
	return ns < b->ns ? ns : b->ns;
}

/* ---- modules and threads ---- */

static int compare_change(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool same_module(const struct change *a, const struct change *b)
{
	return a->end == b->end && a->bias == b->bias && a->path_length == b->path_length &&
	       a->build_id_length == b->build_id_length &&
	       memcmp(a->path, b->path, a->path_length) == 0 &&
	       memcmp(a->build_id, b->build_id, a->build_id_length) == 0;
}

static bool add_module(struct spool *s, const struct change *c)
{
	struct recording_module m = {
	    .path = recording_string(s->r, (const char *)c->path, c->path_length),
	    .start = c->start,
	    .end = c->end,
	    .bias = c->bias,
	    .from_ns = c->ns,
	    .to_ns = INT64_MAX,
	    .build_id_length = (uint32_t)c->build_id_length,
	};

	memcpy(m.build_id, c->build_id, c->build_id_length);
	return m.path != RECORDING_NONE && recording_module(s->r, &m) != RECORDING_NONE;
}

/* Sweeps the records of each start address in time order. Several writers may report one module. */
static int build_modules(struct spool *s)
{
	struct recording *r = s->r;
	const struct change *open = NULL;

	for (size_t i = 0; i < s->changes; i++)
		s->change[i].ns = time_of(r, s->change[i].ticks);
	sort(s->change, s->changes, sizeof(*s->change), compare_change);
	for (size_t i = 0; i < s->changes; i++) {
		const struct change *c = &s->change[i];

		if (open && open->start != c->start)
			open = NULL;
		if (!c->gone && open && same_module(open, c))
			continue;
		if (open)
			r->module[r->modules - 1].to_ns = c->ns;
		open = c->gone ? NULL : c;
		if (open && !add_module(s, c))
			return MAYFLY_E_MEMORY;
	}
	return 0;
}

static int compare_int64(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Modules are born sorted by (start, from). */
static int index_modules(struct spool *s)
{
	struct recording *r = s->r;
	uint64_t end = 0;

	s->end_before = calloc(r->modules + 1, sizeof(*s->end_before));
	s->change_ns = calloc(s->changes + 1, sizeof(*s->change_ns));
	s->recent = calloc(RECENT_FRAMES, sizeof(*s->recent));
	if (!s->end_before || !s->change_ns || !s->recent)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < r->modules; i++) {
		if (r->module[i].end > end)
			end = r->module[i].end;
		s->end_before[i] = end;
	}
	for (size_t i = 0; i < s->changes; i++)
		s->change_ns[i] = s->change[i].ns;
	sort(s->change_ns, s->changes, sizeof(*s->change_ns), compare_int64);
	return 0;
}

/* The first module in [low, high) that starts (or: starts there and was mapped) after. */
static size_t modules_after(const struct recording *r, uint64_t start, int64_t ns)
{
	size_t low = 0, high = r->modules;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct recording_module *m = &r->module[middle];

		if (m->start < start || (m->start == start && m->from_ns <= ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * The module that covers an address at a time: of those mapped then, the latest; else, as the
 * agent may notice a module only after code of it ran, the first that is mapped there later.
 * Modules of one start are one group. The number of groups looked at is limited: modules that
 * overlap so much do not exist outside of damaged files.
 */
static uint32_t find_module(const struct spool *s, uint64_t address, int64_t ns)
{
	const struct recording *r = s->r;
	const struct recording_module *now = NULL, *later = NULL;
	size_t group_end = modules_after(r, address, INT64_MAX);

	for (unsigned groups = 0; group_end && groups < 64; groups++) {
		uint64_t start = r->module[group_end - 1].start;
		size_t split = modules_after(r, start, ns);
		const struct recording_module *m;

		if (s->end_before[group_end - 1] <= address)
			break;
		m = split ? &r->module[split - 1] : NULL;
		if (m && m->start == start && ns < m->to_ns && address < m->end &&
		    (!now || m->from_ns > now->from_ns))
			now = m;
		for (size_t i = split; !now && i < group_end && i < split + 8; i++) {
			m = &r->module[i];
			if (address < m->end && (!later || m->from_ns < later->from_ns))
				later = m;
		}
		group_end = start ? modules_after(r, start - 1, INT64_MAX) : 0;
	}
	if (!now)
		now = later;
	return now ? (uint32_t)(now - r->module) : RECORDING_NONE;
}

static int compare_naming(const void *a, const void *b)
{
	const struct naming *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->ticks != y->ticks)
		return x->ticks < y->ticks ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Leaves one entry for each thread number, with the latest name. */
static void settle_threads(struct spool *s)
{
	size_t kept = 0;

	sort(s->naming, s->namings, sizeof(*s->naming), compare_naming);
	for (size_t i = 0; i < s->namings; i++) {
		struct naming n = s->naming[i];

		if (kept && s->naming[kept - 1].tid == n.tid) {
			if (n.length)
				s->naming[kept - 1] = n;
			continue;
		}
		s->naming[kept++] = n;
	}
	s->namings = kept;
}

/* The recording's thread of this number; it gets one when it is first asked for. */
static uint32_t find_thread(struct spool *s, uint32_t tid)
{
	size_t low = 0, high = s->namings;
	struct naming *n;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (s->naming[middle].tid <= tid)
			low = middle;
		else
			high = middle;
	}
	n = &s->naming[low];
	if (n->index == RECORDING_NONE) {
		uint32_t name = recording_string(s->r, (const char *)n->name, n->length);

		if (name != RECORDING_NONE)
			n->index = recording_thread(s->r, tid, name);
	}
	return n->index;
}

static bool add_naming(struct spool *s, const struct replay *p, const uint8_t *name, size_t length)
{
	if (!room(&s->naming, s->namings, &s->naming_size, sizeof(*s->naming)))
		return false;
	s->naming[s->namings] = (struct naming){
	    .tid = p->tid,
	    .index = RECORDING_NONE,
	    .ticks = p->ticks,
	    .name = name,
	    .length = length,
	    .order = s->namings,
	};
	s->namings++;
	return true;
}

/* ---- records ---- */

static void next_time(struct replay *p)
{
	p->ticks += (uint64_t)varint_s(&p->in);
}

static void next_id(struct replay *p)
{
	p->id += (uint64_t)varint_s(&p->in);
}

static uint64_t read_frame(struct replay *p)
{
	uint64_t slot = varint_fixed(&p->in, 2);
	uint64_t address;

	if (slot < SPOOL_CACHE_SIZE) {
		if (!p->cached[slot])
			varint_fail(&p->in);
		return p->cache[slot];
	}
	if (slot != SPOOL_FRAME_LITERAL)
		return varint_fail(&p->in);
	address = varint_fixed(&p->in, 8);
	if (address & SPOOL_MARK_BIT && SPOOL_MARK_KIND(address) != SPOOL_MARK_TRUNCATED &&
	    SPOOL_MARK_KIND(address) != SPOOL_MARK_ELIDED)
		return varint_fail(&p->in);
	slot = spool_cache_slot(address);
	p->cache[slot] = address;
	p->cached[slot] = 1;
	return address;
}

static uint32_t make_frame(struct spool *s, uint64_t address, int64_t ns)
{
	uint32_t module;

	if (address & SPOOL_MARK_BIT) {
		if (SPOOL_MARK_KIND(address) == SPOOL_MARK_TRUNCATED)
			return recording_frame(s->r, MAYFLY_FRAME_TRUNCATED, RECORDING_NONE, 0);
		return recording_frame(s->r, MAYFLY_FRAME_ELIDED, RECORDING_NONE,
				       SPOOL_MARK_COUNT(address));
	}
	address--;
	module = find_module(s, address, ns);
	if (module != RECORDING_NONE)
		address -= s->r->module[module].bias;
	return recording_frame(s->r, MAYFLY_FRAME_CODE, module, address);
}

static uint32_t find_frame(struct replay *p, uint64_t address, int64_t ns)
{
	size_t slot = (address * 0x9e3779b97f4a7c15u) >> 52;
	struct recent_frame *recent = &p->s->recent[slot % RECENT_FRAMES];

	if (!recent->used || recent->address != address || recent->epoch != p->epoch) {
		recent->used = true;
		recent->address = address;
		recent->epoch = p->epoch;
		recent->frame = make_frame(p->s, address, ns);
	}
	return recent->frame;
}

/* Which modules are mapped changes with the epoch, so frames must be looked up again. Real
 * packets cross few epochs; `work` keeps a hostile one from crossing forever. */
static void find_epoch(struct replay *p, int64_t ns)
{
	const struct spool *s = p->s;
	size_t low = 0, high = s->changes;

	if (ns >= p->epoch_from && ns < p->epoch_to)
		return;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->change_ns[middle] <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	p->epoch = low;
	p->epoch_from = low ? s->change_ns[low - 1] : INT64_MIN;
	p->epoch_to = low < s->changes ? s->change_ns[low] : INT64_MAX;
	if (p->work > 0) {
		p->work -= p->sound;
		p->sound = 0;
	}
}

static uint32_t find_node(struct replay *p, int64_t ns)
{
	find_epoch(p, ns);
	for (; p->sound < p->depth; p->sound++) {
		uint32_t frame = find_frame(p, p->address[p->sound], ns);
		uint32_t node = RECORDING_NONE;

		if (frame != RECORDING_NONE)
			node = recording_node(p->s->r, p->node[p->sound], frame);
		if (node == RECORDING_NONE) {
			p->no_memory = true;
			return 0;
		}
		p->node[p->sound + 1] = node;
	}
	return p->node[p->depth];
}

static uint32_t this_thread(struct replay *p)
{
	if (p->thread == RECORDING_NONE) {
		p->thread = find_thread(p->s, p->tid);
		p->no_memory |= p->thread == RECORDING_NONE;
	}
	return p->thread;
}

static void read_stack(struct replay *p)
{
	uint64_t pop = varint_u(&p->in);
	uint64_t push = varint_u(&p->in);

	if (pop > p->depth || push > SPOOL_MAX_FRAMES - (p->depth - pop)) {
		varint_fail(&p->in);
		return;
	}
	p->depth -= (uint32_t)pop;
	if (p->sound > p->depth)
		p->sound = p->depth;
	while (push--)
		p->address[p->depth++] = read_frame(p);
}

static void read_sample(struct replay *p)
{
	struct recording_sample sample = {.free_ns = INT64_MAX, .free_thread = RECORDING_NONE};
	uint64_t hits;

	sample.flags = varint_byte(&p->in) & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0;
	next_time(p);
	next_id(p);
	sample.size = varint_u(&p->in);
	hits = varint_u(&p->in);
	sample.hits = hits < UINT32_MAX ? (uint32_t)hits : UINT32_MAX;
	read_stack(p);
	if (p->checking || p->in.bad)
		return;
	sample.id = p->id;
	sample.time_ns = time_of(p->s->r, p->ticks);
	sample.node = find_node(p, sample.time_ns);
	sample.thread = this_thread(p);
	sample.interval_log2 = (uint8_t)p->interval_log2;
	if (!recording_sample(p->s->r, &sample))
		p->no_memory = true;
}

static void read_free(struct replay *p)
{
	struct spool *s = p->s;
	uint8_t flags = varint_byte(&p->in);
	struct freeing f = {0};

	next_time(p);
	next_id(p);
	if (p->checking || p->in.bad)
		return;
	f.flags = (uint8_t)((flags & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0) |
			    (flags & SPOOL_FLAG_TEMPORARY ? MAYFLY_FLAG_TEMPORARY : 0));
	f.ns = time_of(s->r, p->ticks);
	f.id = p->id;
	f.thread = this_thread(p);
	if (!room(&s->freeing, s->freeings, &s->freeing_size, sizeof(f))) {
		p->no_memory = true;
		return;
	}
	s->freeing[s->freeings++] = f;
}

static void read_thread(struct replay *p)
{
	uint64_t tid = varint_u(&p->in);
	uint64_t length = varint_u(&p->in);
	const uint8_t *name = varint_bytes(&p->in, length);

	if (tid > UINT32_MAX) {
		varint_fail(&p->in);
		return;
	}
	p->tid = (uint32_t)tid;
	p->thread = RECORDING_NONE;
	if (p->checking && !p->in.bad && !add_naming(p->s, p, name, length))
		p->no_memory = true;
}

static void read_module(struct replay *p, bool gone)
{
	struct spool *s = p->s;
	struct change c = {.gone = gone, .order = s->changes};

	next_time(p);
	c.ticks = p->ticks;
	c.start = varint_fixed(&p->in, 8);
	if (!gone) {
		c.end = varint_fixed(&p->in, 8);
		c.bias = varint_fixed(&p->in, 8);
		c.path_length = varint_u(&p->in);
		c.path = varint_bytes(&p->in, c.path_length);
		c.build_id_length = varint_u(&p->in);
		c.build_id = varint_bytes(&p->in, c.build_id_length);
		if (c.end < c.start)
			varint_fail(&p->in);
		/* A recording has room for 32 bytes of a build-id; real ones have 8 to 20. */
		if (c.build_id_length > sizeof(s->r->module->build_id))
			c.build_id_length = 0;
	}
	if (!p->checking || p->in.bad)
		return;
	if (!room(&s->change, s->changes, &s->change_size, sizeof(c))) {
		p->no_memory = true;
		return;
	}
	s->change[s->changes++] = c;
}

static void read_record(struct replay *p, uint8_t tag)
{
	uint64_t number;

	switch (tag) {
	case SPOOL_SAMPLE:
		read_sample(p);
		break;
	case SPOOL_FREE:
		read_free(p);
		break;
	case SPOOL_THREAD:
		read_thread(p);
		break;
	case SPOOL_INTERVAL:
		p->interval_log2 = varint_byte(&p->in);
		if (p->interval_log2 > MAX_INTERVAL_LOG2)
			varint_fail(&p->in);
		if (p->interval_log2 != p->s->header.interval_log2)
			p->s->intervals_differ = true;
		break;
	case SPOOL_MODULE:
	case SPOOL_GONE:
		read_module(p, tag == SPOOL_GONE);
		break;
	case SPOOL_LOST:
		next_time(p);
		number = varint_u(&p->in);
		if (p->checking && !p->in.bad && number < UINT32_MAX)
			p->s->lost_samples += number;
		break;
	default:
		varint_fail(&p->in);
	}
}

/* Decodes one packet; returns how many of its bytes are whole, sound records. */
static size_t decode_packet(struct replay *p, struct spool *s, const struct packet *packet)
{
	size_t sound = 0;

	memset(p->cached, 0, sizeof(p->cached));
	p->s = s;
	p->in = varint_begin(packet->body, packet->bytes);
	p->ticks = packet->ticks;
	p->id = s->header.first_sample_id;
	p->interval_log2 = packet->interval_log2;
	p->tid = packet->tid;
	p->thread = RECORDING_NONE;
	p->node[0] = 0;
	p->depth = p->sound = 0;
	p->epoch_from = INT64_MAX;
	p->epoch_to = INT64_MIN;
	p->work = 16 * (int64_t)s->header.packet_bytes;
	p->no_memory = p->checking && !add_naming(s, p, NULL, 0);
	while (varint_left(&p->in) && !p->no_memory) {
		uint8_t tag = varint_byte(&p->in);

		if (tag == SPOOL_PAD)
			return packet->bytes;
		read_record(p, tag);
		if (p->in.bad)
			break;
		sound = (size_t)(p->in.at - packet->body);
	}
	return sound;
}

/* The first pass. A packet with a wrong record is skipped as a whole, except that what was cut off
 * at the end of the file is read up to there. */
static int check_packets(struct spool *s, struct replay *p)
{
	p->checking = true;
	for (size_t i = 0; i < s->packets; i++) {
		struct packet *packet = &s->packet[i];
		size_t changes = s->changes, namings = s->namings;
		uint64_t lost = s->lost_samples;
		size_t sound = decode_packet(p, s, packet);

		if (p->no_memory)
			return MAYFLY_E_MEMORY;
		if (packet->interval_log2 != s->header.interval_log2)
			s->intervals_differ = true;
		if (sound == packet->bytes)
			continue;
		s->damaged = true;
		if (packet->body + packet->bytes == s->data + s->size) {
			packet->bytes = sound;
			continue;
		}
		packet->bytes = 0;
		s->changes = changes;
		s->namings = namings;
		s->lost_samples = lost;
	}
	p->checking = false;
	return 0;
}

/* ---- inheritance ---- */

static uint32_t copy_string(struct recording *to, const struct recording *from, uint32_t string)
{
	const char *text = recording_text(from, string);

	return recording_string(to, text, strlen(text));
}

/* The child's index of each of the parent's modules, threads, frames and nodes, made when first
 * needed: a child inherits few of them. */
struct heritage {
	struct recording *r;
	const struct recording *parent;
	uint32_t *module, *thread, *node;
};

static uint32_t *unknown_indices(size_t count)
{
	uint32_t *index = malloc((count + 1) * sizeof(*index));

	if (index)
		memset(index, 0xff, (count + 1) * sizeof(*index));
	return index;
}

static uint32_t inherit_module(struct heritage *h, uint32_t module)
{
	struct recording_module m;

	if (module >= h->parent->modules)
		return RECORDING_NONE;
	if (h->module[module] != RECORDING_NONE)
		return h->module[module];
	m = h->parent->module[module];
	m.path = copy_string(h->r, h->parent, m.path);
	m.problem = 0;
	if (m.path == RECORDING_NONE)
		return RECORDING_NONE;
	for (size_t i = 0; i < h->r->modules; i++) {
		const struct recording_module *have = &h->r->module[i];

		if (have->path == m.path && have->start == m.start && have->end == m.end &&
		    have->bias == m.bias && have->build_id_length == m.build_id_length &&
		    memcmp(have->build_id, m.build_id, m.build_id_length) == 0) {
			h->module[module] = (uint32_t)i;
			return (uint32_t)i;
		}
	}
	/* The child did not report it: it was unmapped before the fork. */
	m.from_ns = m.to_ns = 0;
	h->module[module] = recording_module(h->r, &m);
	return h->module[module];
}

static uint32_t inherit_thread(struct heritage *h, uint32_t thread)
{
	const struct recording_thread *t;
	uint32_t name;

	if (thread >= h->parent->threads)
		return RECORDING_NONE;
	if (h->thread[thread] != RECORDING_NONE)
		return h->thread[thread];
	t = &h->parent->thread[thread];
	for (size_t i = 0; i < h->r->threads; i++)
		if (h->r->thread[i].tid == t->tid) {
			h->thread[thread] = (uint32_t)i;
			return (uint32_t)i;
		}
	name = copy_string(h->r, h->parent, t->name);
	if (name != RECORDING_NONE)
		h->thread[thread] = recording_thread(h->r, t->tid, name);
	return h->thread[thread];
}

static uint32_t inherit_frame(struct heritage *h, uint32_t frame)
{
	const struct recording_frame *f = &h->parent->frame[frame];
	uint32_t module = RECORDING_NONE;

	if (f->module != RECORDING_NONE) {
		module = inherit_module(h, f->module);
		if (module == RECORDING_NONE)
			return RECORDING_NONE;
	}
	return recording_frame(h->r, f->kind, module, f->address);
}

/* Parents have smaller numbers: climb to the first known one, then make nodes on the way back. */
static uint32_t inherit_node(struct heritage *h, uint32_t node)
{
	uint32_t path[SPOOL_MAX_FRAMES];
	size_t depth = 0;
	uint32_t here;

	h->node[0] = 0;
	while (h->node[node] == RECORDING_NONE && depth < SPOOL_MAX_FRAMES) {
		path[depth++] = node;
		node = h->parent->node[node].parent;
	}
	here = h->node[node];
	while (depth && here != RECORDING_NONE) {
		uint32_t frame = inherit_frame(h, h->parent->node[path[--depth]].frame);

		if (frame == RECORDING_NONE)
			return RECORDING_NONE;
		here = recording_node(h->r, here, frame);
		h->node[path[depth]] = here;
	}
	return here;
}

static int inherit_samples(struct spool *s, struct heritage *h)
{
	int64_t fork_ns = time_of(h->parent, s->header.fork_ticks);

	for (size_t i = 0; i < h->parent->samples; i++) {
		struct recording_sample sample = h->parent->sample[i];

		if (sample.id >= s->header.first_sample_id || sample.time_ns > fork_ns ||
		    sample.free_ns <= fork_ns)
			continue;
		sample.time_ns = 0;
		sample.free_ns = INT64_MAX;
		sample.free_thread = RECORDING_NONE;
		sample.free_flags = 0;
		sample.flags = (sample.flags & MAYFLY_FLAG_REALLOC) | MAYFLY_FLAG_INHERITED;
		sample.node = inherit_node(h, sample.node);
		sample.thread = inherit_thread(h, sample.thread);
		if (sample.node == RECORDING_NONE || sample.thread == RECORDING_NONE ||
		    !recording_sample(s->r, &sample))
			return MAYFLY_E_MEMORY;
		s->r->info.inherited++;
	}
	return 0;
}

static int inherit(struct spool *s, const struct recording *parent)
{
	struct heritage h = {.r = s->r, .parent = parent};
	int error = MAYFLY_E_MEMORY;

	if (!parent || !s->header.first_sample_id)
		return 0;
	h.module = unknown_indices(parent->modules);
	h.thread = unknown_indices(parent->threads);
	h.node = unknown_indices(parent->nodes);
	if (h.module && h.thread && h.node)
		error = inherit_samples(s, &h);
	free(h.module);
	free(h.thread);
	free(h.node);
	return error;
}

/* ---- history ---- */

static int compare_sample(const void *a, const void *b)
{
	const struct recording_sample *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

struct identity {
	uint64_t id;
	size_t sample;
};

static int compare_identity(const void *a, const void *b)
{
	const struct identity *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->sample > y->sample) - (x->sample < y->sample);
}

static int compare_freeing(const void *a, const void *b)
{
	const struct freeing *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

/* Of several samples with one number, which only damage can make, the first gets the free. */
static struct recording_sample *find_sample(struct recording *r, const struct identity *list,
					    uint64_t id)
{
	size_t low = 0, high = r->samples;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->samples && list[low].id == id ? &r->sample[list[low].sample] : NULL;
}

static int match_frees(struct spool *s)
{
	struct recording *r = s->r;
	struct identity *list = malloc((r->samples + 1) * sizeof(*list));

	if (!list)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < r->samples; i++) {
		list[i].id = r->sample[i].id;
		list[i].sample = i;
	}
	sort(list, r->samples, sizeof(*list), compare_identity);
	sort(s->freeing, s->freeings, sizeof(*s->freeing), compare_freeing);
	for (size_t i = 0; i < s->freeings; i++) {
		const struct freeing *f = &s->freeing[i];
		struct recording_sample *sample = find_sample(r, list, f->id);

		if (!sample || sample->free_ns != INT64_MAX) {
			r->unknown_frees++;
			continue;
		}
		/* The two times come from different threads, which need not agree on what a
		 * nanosecond is. */
		sample->free_ns = f->ns > sample->time_ns ? f->ns : sample->time_ns;
		sample->free_thread = f->thread;
		sample->free_flags = f->flags;
		r->info.frees++;
	}
	free(list);
	return 0;
}

/* Fills truncated[] for each node: parents come before children. */
static void mark_truncated(const struct recording *r, bool *truncated)
{
	truncated[0] = false;
	for (size_t i = 1; i < r->nodes; i++) {
		const struct mayfly_node *n = &r->node[i];

		truncated[i] = n->parent ? truncated[n->parent]
					 : r->frame[n->frame].kind == MAYFLY_FRAME_TRUNCATED;
	}
}

static int count_samples(struct recording *r)
{
	bool *truncated = malloc(r->nodes);
	int64_t last = 0;

	if (!truncated)
		return MAYFLY_E_MEMORY;
	mark_truncated(r, truncated);
	for (size_t i = 0; i < r->samples; i++) {
		const struct recording_sample *sample = &r->sample[i];

		if (sample->time_ns > last)
			last = sample->time_ns;
		if (sample->free_ns != INT64_MAX && sample->free_ns > last)
			last = sample->free_ns;
		r->info.truncated_stacks += truncated[sample->node];
	}
	r->info.samples = r->samples;
	r->info.duration_ns = last;
	free(truncated);
	return 0;
}

/* ---- the rest ---- */

static const char *off_reason_text(uint32_t reason)
{
	static const char *const text[] = {
	    [SPOOL_OFF_NONE] = "unknown reason",
	    [SPOOL_OFF_NO_SPACE] = "no space left for the recording",
	    [SPOOL_OFF_NO_MEMORY] = "out of memory",
	    [SPOOL_OFF_LIBC] = "this C library is not supported",
	    [SPOOL_OFF_SANDBOX] = "the program's sandbox forbids extending the recording",
	    [SPOOL_OFF_OWN_MALLOC] = "the program has its own malloc",
	    [SPOOL_OFF_FORK] = "forked children are not followed",
	};

	return text[reason < sizeof(text) / sizeof(*text) ? reason : 0];
}

static int read_command(struct spool *s)
{
	const struct spool_header *h = &s->header;
	size_t limit = h->header_bytes < s->size ? h->header_bytes : s->size;
	size_t length = h->command_length;
	const char *at = (const char *)s->data + h->command_offset;

	if (h->command_offset > limit || length > limit - h->command_offset)
		return 0;
	while (length) {
		size_t argument = strnlen(at, length);
		uint32_t *bigger;

		bigger = realloc(s->r->command, (s->r->command_count + 1) * sizeof(*bigger));
		if (!bigger)
			return MAYFLY_E_MEMORY;
		s->r->command = bigger;
		bigger[s->r->command_count] = recording_string(s->r, at, argument);
		if (bigger[s->r->command_count] == RECORDING_NONE)
			return MAYFLY_E_MEMORY;
		s->r->command_count++;
		if (argument == length)
			break;
		at += argument + 1;
		length -= argument + 1;
	}
	return 0;
}

static int describe(struct spool *s)
{
	const struct spool_header *h = &s->header;
	struct recording *r = s->r;
	struct mayfly_info *info = &r->info;

	info->format_version = TRACE_VERSION;
	info->mode = h->interval_log2 == 0 && !s->intervals_differ ? MAYFLY_EXACT : MAYFLY_SAMPLED;
	info->sampler = h->sampler;
	info->pid = h->pid;
	info->parent_pid = h->parent_pid;
	info->interval_bytes = (uint64_t)1 << h->interval_log2;
	info->start_real_ns = (int64_t)h->start_real_ns;
	info->seed = h->seed;
	info->dropped_frees = atomic_load(&s->header.dropped_frees);
	info->nested_blocks = atomic_load(&s->header.nested_blocks);
	info->nested_bytes = atomic_load(&s->header.nested_bytes);
	r->program = header_text(s, h->exe_offset, h->exe_length);
	r->note = header_text(s, h->note_offset, h->note_length);
	if (r->program == RECORDING_NONE || r->note == RECORDING_NONE)
		return MAYFLY_E_MEMORY;
	return read_command(s);
}

static int describe_end(struct spool *s, const struct spool_ending *ending)
{
	struct recording *r = s->r;
	struct mayfly_info *info = &r->info;
	int64_t end = time_of(r, atomic_load(&s->header.last_ticks));
	uint64_t dropped;
	const char *text;
	size_t length;

	if (ending) {
		info->ending = ending->ending;
		info->ending_code = ending->code;
		if (ending->duration_ns > 0)
			end = ending->duration_ns;
	}
	if (atomic_load(&s->header.state) == SPOOL_OFF) {
		info->ending = MAYFLY_END_OFF;
		info->ending_code = 0;
		end = time_of(r, atomic_load(&s->header.off_ticks));
		text = s->header.off_text;
		length = strnlen(text, sizeof(s->header.off_text));
		if (!length) {
			text = off_reason_text(atomic_load(&s->header.off_reason));
			length = strlen(text);
		}
		r->off_text = recording_string(r, text, length);
		if (r->off_text == RECORDING_NONE)
			return MAYFLY_E_MEMORY;
	}
	if (end > info->duration_ns)
		info->duration_ns = end;
	dropped = atomic_load(&s->header.dropped_samples);
	info->dropped_samples = dropped > s->lost_samples ? dropped : s->lost_samples;
	info->modules = r->modules;
	info->threads = r->threads;
	info->strings = r->strings;
	info->nodes = r->nodes;
	info->frames = r->frames;
	info->complete = !s->damaged;
	return 0;
}

static int replay_packets(struct spool *s, struct replay *p)
{
	for (size_t i = 0; i < s->packets; i++) {
		if (s->packet[i].bytes)
			decode_packet(p, s, &s->packet[i]);
		if (p->no_memory)
			return MAYFLY_E_MEMORY;
	}
	return 0;
}

static int read_spool(struct spool *s, struct replay *p, const struct spool_ending *ending,
		      const struct recording *parent)
{
	int error = read_header(s);

	if (!error)
		error = list_packets(s);
	if (!error)
		error = describe(s);
	if (!error)
		error = check_packets(s, p);
	if (!error)
		error = build_clock(s, ending);
	if (!error)
		error = build_modules(s);
	if (!error)
		error = index_modules(s);
	if (error)
		return error;
	settle_threads(s);
	error = replay_packets(s, p);
	if (!error)
		error = inherit(s, parent);
	if (error)
		return error;
	sort(s->r->sample, s->r->samples, sizeof(*s->r->sample), compare_sample);
	error = match_frees(s);
	if (error)
		return error;
	error = count_samples(s->r);
	return error ? error : describe_end(s, ending);
}

int spool_read(const void *data, size_t size, const struct spool_ending *ending,
	       const struct recording *parent, struct recording **out)
{
	struct spool s = {.data = data, .size = size};
	struct replay *p = calloc(1, sizeof(*p));
	int error = MAYFLY_E_MEMORY;

	*out = NULL;
	s.r = recording_new();
	if (p && s.r)
		error = read_spool(&s, p, ending, parent);
	free(p);
	free(s.packet);
	free(s.change);
	free(s.naming);
	free(s.freeing);
	free(s.change_ns);
	free(s.end_before);
	free(s.recent);
	if (error) {
		recording_free(s.r);
		return error;
	}
	*out = s.r;
	return 0;
}
