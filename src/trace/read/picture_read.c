/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the picture of a heap: doc/FORMAT.md, "heap". */
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "trace/read/reader.h"

#define PICTURE_COLUMNS 0xaaaaaaull

struct picture_head {
	size_t texts, holders, types, blocks;
	const char **text; /* the empty one first */
};

/* A copy of the texts, which the trace keeps. False: c->error is set. */
static bool read_picture_texts(struct mayfly_trace *t, struct chunk_reader *c,
			       struct picture_head *h)
{
	size_t size = 0, at = 0;
	const uint8_t *bytes = chunk_bytes(c, COLUMN_PICTURE_TEXTS, &size);
	char *text;

	if (!bytes || h->texts > size || (size && bytes[size - 1])) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return false;
	}
	text = trace_keep(t, c, size, 1);
	h->text = chunk_memory(c, (uint64_t)h->texts + 1, sizeof(*h->text));
	if (!text || !h->text)
		return false;
	memcpy(text, bytes, size);
	h->text[0] = "";
	for (size_t i = 1; i <= h->texts && at < size; i++) {
		h->text[i] = text + at;
		at += strlen(text + at) + 1;
	}
	if (at != size || (h->texts && !h->text[h->texts]))
		chunk_fail(c, MAYFLY_E_DAMAGED);
	return !c->error;
}

/* The text of a number; NULL, and the chunk is damaged: there is none. */
static const char *text_of(struct chunk_reader *c, const struct picture_head *h, uint64_t number)
{
	if (number <= h->texts)
		return h->text[number];
	chunk_fail(c, MAYFLY_E_DAMAGED);
	return NULL;
}

static const struct mayfly_holder *read_holders(struct mayfly_trace *t, struct chunk_reader *c,
						const struct picture_head *h)
{
	const uint64_t *kind = chunk_numbers(c, COLUMN_HOLDER_KIND, h->holders);
	const uint64_t *name = chunk_numbers(c, COLUMN_HOLDER_NAME, h->holders);
	const uint64_t *place = chunk_numbers(c, COLUMN_HOLDER_PLACE, h->holders);
	const uint32_t *tid = chunk_numbers32(c, COLUMN_HOLDER_TID, h->holders);
	const uint64_t *bytes = chunk_numbers(c, COLUMN_HOLDER_BYTES, h->holders);
	const uint64_t *blocks = chunk_numbers(c, COLUMN_HOLDER_BLOCKS, h->holders);
	struct mayfly_holder *holder = trace_keep(t, c, h->holders, sizeof(*holder));

	if (!kind || !name || !place || !tid || !bytes || !blocks || !holder)
		return NULL;
	for (size_t i = 0; i < h->holders && !c->error; i++)
		holder[i] = (struct mayfly_holder){kind[i] < MAYFLY_HOLDER_KINDS
						       ? (enum mayfly_holder_kind)kind[i]
						       : MAYFLY_HOLDER_MAPPING,
						   text_of(c, h, name[i]),
						   text_of(c, h, place[i]),
						   tid[i],
						   bytes[i],
						   blocks[i]};
	return holder;
}

static const char *const *read_types(struct mayfly_trace *t, struct chunk_reader *c,
				     const struct picture_head *h)
{
	const uint64_t *name = chunk_numbers(c, COLUMN_HELD_TYPE_NAME, h->types);
	const char **type = trace_keep(t, c, h->types, sizeof(*type));

	if (!name || !type)
		return NULL;
	for (size_t i = 0; i < h->types && !c->error; i++)
		type[i] = text_of(c, h, name[i]);
	return type;
}

/* One less than the number; 0: none. */
static uint32_t index_of(struct chunk_reader *c, uint64_t number, size_t count)
{
	if (number > count)
		chunk_fail(c, MAYFLY_E_DAMAGED);
	return number ? (uint32_t)(number - 1) : UINT32_MAX;
}

static const struct mayfly_held *read_blocks(struct mayfly_trace *t, struct chunk_reader *c,
					     const struct picture_head *h)
{
	const uint64_t *number = chunk_numbers(c, COLUMN_HELD_NUMBER, h->blocks);
	const uint64_t *holder = chunk_numbers(c, COLUMN_HELD_HOLDER, h->blocks);
	const uint32_t *steps = chunk_numbers32(c, COLUMN_HELD_STEPS, h->blocks);
	const uint64_t *type = chunk_numbers(c, COLUMN_HELD_TYPE, h->blocks);
	struct mayfly_held *held = trace_keep(t, c, h->blocks, sizeof(*held));
	uint64_t next = 0;

	if (!number || !holder || !steps || !type || !held)
		return NULL;
	for (size_t i = 0; i < h->blocks && !c->error; i++) {
		if (__builtin_add_overflow(next, number[i], &next) || next == UINT64_MAX) {
			chunk_fail(c, MAYFLY_E_DAMAGED);
			break;
		}
		held[i] = (struct mayfly_held){next++, index_of(c, holder[i], h->holders),
					       index_of(c, type[i], h->types), steps[i]};
	}
	return held;
}

static size_t read_count(struct chunk_reader *c)
{
	uint64_t count = varint_u(&c->head);

	if (count >= UINT32_MAX)
		chunk_fail(c, MAYFLY_E_DAMAGED);
	return (size_t)count;
}

void picture_read(struct mayfly_trace *t, struct chunk_reader *c)
{
	struct mayfly_picture p = {0};
	struct picture_head h = {0};
	uint64_t unit = varint_u(&c->head), how, stopped;
	int64_t time = varint_s(&c->head);

	how = varint_u(&c->head);
	stopped = varint_u(&c->head);
	p.blocks = varint_u(&c->head);
	p.bytes = varint_u(&c->head);
	h.texts = read_count(c);
	h.holders = read_count(c);
	h.types = read_count(c);
	h.blocks = read_count(c);
	if (!chunk_columns(c, PICTURE_COLUMNS))
		return;
	if (unit < 1 || unit > 1000000000 || stopped > INT64_MAX / unit) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return;
	}
	p.time_ns = chunk_time(c, time, unit);
	p.stopped_ns = (int64_t)(stopped * unit);
	p.how =
	    how <= MAYFLY_PICTURE_RUNNING ? (enum mayfly_picture_how)how : MAYFLY_PICTURE_RUNNING;
	if (c->error || !read_picture_texts(t, c, &h))
		return;
	p.holder = read_holders(t, c, &h);
	p.type = c->error ? NULL : read_types(t, c, &h);
	p.held = c->error ? NULL : read_blocks(t, c, &h);
	if (c->error)
		return;
	p.holders = h.holders;
	p.types = h.types;
	p.count = h.blocks;
	t->picture = p;
	t->lost.picture = false;
}

const struct mayfly_picture *mayfly_trace_picture(const struct mayfly_trace *trace)
{
	return trace->picture.holder && !trace->lost.picture ? &trace->picture : NULL;
}
