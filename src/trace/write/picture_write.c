/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the picture of a heap: see picture_write.h, and doc/FORMAT.md, "heap". */
#include "trace/write/picture_write.h"

#include <string.h>

#include "format/format.h"

#define UNIT_NS 1000

struct texts {
	struct bytes text;
	uint64_t count;
};

/* The number of the text; that of the one before, when it is the same. */
static uint64_t put_text(struct texts *t, const char *text, const char *before)
{
	if (!*text)
		return 0;
	if (!before || strcmp(text, before) != 0) {
		bytes_put(&t->text, text, strlen(text) + 1);
		t->count++;
	}
	return t->count;
}

/* Places stand before names, as many holders in a row have the same. */
static void put_holders(const struct mayfly_picture *p, struct chunk_maker *c, struct texts *t)
{
	uint64_t *kind = chunk_add(c, COLUMN_HOLDER_KIND, p->holders);
	uint64_t *name = chunk_add(c, COLUMN_HOLDER_NAME, p->holders);
	uint64_t *place = chunk_add(c, COLUMN_HOLDER_PLACE, p->holders);
	uint64_t *tid = chunk_add(c, COLUMN_HOLDER_TID, p->holders);
	uint64_t *bytes = chunk_add(c, COLUMN_HOLDER_BYTES, p->holders);
	uint64_t *blocks = chunk_add(c, COLUMN_HOLDER_BLOCKS, p->holders);

	for (size_t i = 0; i < p->holders && !c->failed; i++) {
		const struct mayfly_holder *h = &p->holder[i];

		kind[i] = h->kind;
		place[i] = put_text(t, h->place, i ? h[-1].place : NULL);
		tid[i] = h->tid;
		bytes[i] = h->bytes;
		blocks[i] = h->blocks;
	}
	for (size_t i = 0; i < p->holders && !c->failed; i++)
		name[i] = put_text(t, p->holder[i].name, NULL);
}

static void put_types(const struct mayfly_picture *p, struct chunk_maker *c, struct texts *t)
{
	uint64_t *name = chunk_add(c, COLUMN_HELD_TYPE_NAME, p->types);

	for (size_t i = 0; i < p->types && !c->failed; i++)
		name[i] = put_text(t, p->type[i], NULL);
}

static void put_blocks(const struct mayfly_picture *p, struct chunk_maker *c)
{
	uint64_t *number = chunk_add(c, COLUMN_HELD_NUMBER, p->count);
	uint64_t *holder = chunk_add(c, COLUMN_HELD_HOLDER, p->count);
	uint64_t *steps = chunk_add(c, COLUMN_HELD_STEPS, p->count);
	uint64_t *type = chunk_add(c, COLUMN_HELD_TYPE, p->count);
	uint64_t next = 0;

	for (size_t i = 0; i < p->count && !c->failed; i++) {
		const struct mayfly_held *h = &p->held[i];

		number[i] = h->number - next;
		next = h->number + 1;
		holder[i] = h->holder == UINT32_MAX ? 0 : h->holder + 1;
		steps[i] = h->steps;
		type[i] = h->type == UINT32_MAX ? 0 : h->type + 1;
	}
}

void picture_write(const struct mayfly_picture *p, struct column_writer *columns, struct bytes *out)
{
	struct chunk_maker c = {0};
	struct texts t = {0};
	struct column *texts = &c.column[c.columns++];

	put_holders(p, &c, &t);
	put_types(p, &c, &t);
	put_blocks(p, &c);
	c.failed |= t.text.failed;
	*texts = (struct column){.id = COLUMN_PICTURE_TEXTS,
				 .bytes = t.text.used ? t.text.at : (void *)"",
				 .size = t.text.used};
	bytes_put_u(&c.head, UNIT_NS);
	bytes_put_s(&c.head, p->time_ns / UNIT_NS);
	bytes_put_u(&c.head, p->how);
	bytes_put_u(&c.head, (uint64_t)p->stopped_ns / UNIT_NS);
	bytes_put_u(&c.head, p->blocks);
	bytes_put_u(&c.head, p->bytes);
	bytes_put_u(&c.head, t.count);
	bytes_put_u(&c.head, p->holders);
	bytes_put_u(&c.head, p->types);
	bytes_put_u(&c.head, p->count);
	chunk_finish(&c, columns, TRACE_PICTURE, out);
	bytes_free(&t.text);
}
