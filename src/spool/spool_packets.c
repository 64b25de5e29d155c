/* SPDX-License-Identifier: Apache-2.0 */
/* The packets of a spool: see spool_packets.h. */
#include "spool/spool_packets.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "format/format.h"

#define MOST_PACKET_BYTES  (1u << 30)
#define LEAST_PACKET_BYTES 4096u /* the memory for each writer is in proportion to this */

size_t spool_readable(const struct spool_source *source, uint64_t offset, size_t most)
{
	size_t low = 0, high = most + 1;

	if (most && source->at(source->context, offset, most))
		return most;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (source->at(source->context, offset, middle))
			low = middle;
		else
			high = middle;
	}
	return low;
}

bool spool_recognise(const void *data, size_t size)
{
	return size >= 8 && memcmp(data, SPOOL_MAGIC, 8) == 0;
}

int spool_read_header(const struct spool_source *source, const struct spool_header **mapped,
		      struct spool_header *copy)
{
	const void *magic = source->at(source->context, 0, 8);

	if (!magic || !spool_recognise(magic, 8))
		return MAYFLY_E_NOT_A_TRACE;
	*mapped = source->at(source->context, 0, sizeof(**mapped));
	if (!*mapped)
		return MAYFLY_E_EMPTY;
	if ((*mapped)->version != SPOOL_VERSION || (*mapped)->features & ~SPOOL_FEATURES_KNOWN)
		return MAYFLY_E_VERSION;
	/* The rest was stored before the state that we see. */
	if (atomic_load_explicit(&(*mapped)->state, memory_order_acquire) == SPOOL_WAITING)
		return MAYFLY_E_EMPTY;
	memcpy(copy, *mapped, sizeof(*copy));
	if (copy->header_bytes < sizeof(*copy) || copy->header_bytes % 64 ||
	    copy->packet_bytes % 64 || copy->packet_bytes < LEAST_PACKET_BYTES ||
	    copy->packet_bytes > MOST_PACKET_BYTES || copy->clock > SPOOL_CLOCK_MONOTONIC ||
	    copy->sampler > SPOOL_POISSON || copy->mode > SPOOL_EXACT ||
	    copy->interval_log2 > TRACE_MAX_INTERVAL)
		return MAYFLY_E_DAMAGED;
	return 0;
}

void packets_begin(struct spool_packets *p, const struct spool_source *source,
		   const struct spool_header *mapped, const struct spool_header *copy)
{
	*p = (struct spool_packets){
	    .source = *source,
	    .header = mapped,
	    .header_bytes = copy->header_bytes,
	    .packet_bytes = copy->packet_bytes,
	};
}

void packets_free(struct spool_packets *p)
{
	while (p->first_consumed) {
		struct spool_queued *next = p->first_consumed->next;

		free(p->first_consumed);
		p->first_consumed = next;
	}
	free(p->unbegun);
	free(p->sequence);
}

static uint64_t place_offset(const struct spool_packets *p, uint64_t index)
{
	return p->header_bytes + index * p->packet_bytes;
}

static int add_unbegun(struct spool_packets *p, uint64_t index)
{
	if (!ARRAY_ADD(p->unbegun, p->unbegun_size, p->unbegun_count, index))
		return MAYFLY_E_MEMORY;
	return 0;
}

/* The places that the file has now. A claim beyond the reserved ones is a drop, which the header
 * counts. */
static int find_places(struct spool_packets *p, bool whole)
{
	uint64_t claimed = atomic_load(&p->header->packets_claimed);
	uint64_t reserved = atomic_load(&p->header->packets_reserved);
	const void *there;

	if (claimed > reserved)
		claimed = reserved;
	for (; p->places < claimed; p->places++) {
		there = p->source.at(p->source.context, place_offset(p, p->places),
				     sizeof(struct spool_packet));
		if (!there) {
			p->damaged |= whole; /* cut off */
			return 0;
		}
		if (!array_reserve(&p->sequence, &p->sequence_size, (size_t)p->places,
				   sizeof(*p->sequence)))
			return MAYFLY_E_MEMORY;
		p->sequence[p->places] = UINT64_MAX; /* none */
		if (add_unbegun(p, p->places))
			return MAYFLY_E_MEMORY;
	}
	return 0;
}

/* 1: found; 0: not begun (again); 2: never will be; negative: error. */
static int look_at(struct spool_packets *p, uint64_t index, uint64_t latest, bool whole,
		   struct spool_queued **q)
{
	const struct spool_source *source = &p->source;
	const struct spool_packet *packet =
	    source->at(source->context, place_offset(p, index), sizeof(*packet));
	size_t body = p->packet_bytes - sizeof(*packet);
	uint32_t magic;
	uint64_t sequence;

	if (!packet)
		return 0;
	magic = __atomic_load_n(&packet->magic, __ATOMIC_ACQUIRE);
	if (!magic)
		return 0;
	sequence = __atomic_load_n(&packet->sequence, __ATOMIC_RELAXED);
	/* Packets that were claimed after the search began wait for the next one: of a writer's two
	 * packets, the search may have missed the first and found the second. */
	if (sequence == p->sequence[index] || sequence > latest)
		return 0;
	if (magic != SPOOL_PACKET_MAGIC || packet->interval_log2 > TRACE_MAX_INTERVAL) {
		p->damaged = true;
		return 2;
	}
	if (!source->at(source->context, place_offset(p, index), p->packet_bytes)) {
		if (!whole)
			return 0;
		body = spool_readable(source, place_offset(p, index) + sizeof(*packet), body);
	}
	*q = calloc(1, sizeof(**q));
	if (!*q)
		return MAYFLY_E_MEMORY;
	p->sequence[index] = sequence;
	(*q)->index = index;
	(*q)->sequence = sequence;
	(*q)->readable = body;
	(*q)->packet = source->at(source->context, place_offset(p, index), sizeof(*packet) + body);
	return 1;
}

static int compare_sequence(const void *a, const void *b)
{
	const struct spool_queued *x = *(struct spool_queued *const *)a;
	const struct spool_queued *y = *(struct spool_queued *const *)b;

	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Looks at all places that are not begun; those that are now go to list[]. */
static size_t look_at_all(struct spool_packets *p, uint64_t latest, bool whole,
			  struct spool_queued **list, int *error)
{
	size_t kept = 0, count = 0;

	for (size_t i = 0; i < p->unbegun_count; i++) {
		int result = *error ? 0 : look_at(p, p->unbegun[i], latest, whole, &list[count]);

		if (result == 1)
			count++;
		else if (result <= 0)
			p->unbegun[kept++] = p->unbegun[i];
		if (result < 0)
			*error = result;
	}
	p->unbegun_count = kept;
	return count;
}

int packets_find(struct spool_packets *p, bool whole,
		 int (*found)(void *context, struct spool_queued *q), void *context)
{
	uint64_t latest = whole ? UINT64_MAX : atomic_load(&p->header->claims);
	int error = find_places(p, whole);
	struct spool_queued **list;
	size_t count;

	if (error || !p->unbegun_count)
		return error;
	list = malloc(p->unbegun_count * sizeof(*list));
	if (!list)
		return MAYFLY_E_MEMORY;
	count = look_at_all(p, latest, whole, list, &error);
	if (count > 1)
		qsort(list, count, sizeof(*list), compare_sequence);
	for (size_t i = 0; i < count; i++) {
		p->held++;
		if (error)
			free(list[i]);
		else
			error = found(context, list[i]);
	}
	free(list);
	return error;
}

void packets_consumed(struct spool_packets *p, struct spool_queued *q, uint64_t chunks)
{
	q->chunks = chunks;
	q->next = NULL;
	if (p->last_consumed)
		p->last_consumed->next = q;
	else
		p->first_consumed = q;
	p->last_consumed = q;
}

int packets_release(struct spool_packets *p, uint64_t chunks)
{
	int error = 0;

	while (p->first_consumed && p->first_consumed->chunks < chunks && !error) {
		struct spool_queued *q = p->first_consumed;

		p->first_consumed = q->next;
		if (!q->next)
			p->last_consumed = NULL;
		if (p->source.done)
			p->source.done(p->source.context, q->index);
		p->held--;
		error = add_unbegun(p, q->index);
		free(q);
	}
	return error;
}
