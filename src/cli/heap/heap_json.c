/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of a heap as JSON: sizes, holders and types, no addresses and no contents. */
#include "cli/heap/heap_print.h"

#include "answer/json_parts.h"
#include "cli/heap/heap_waste_figures.h"
#include "terminal/message.h"
#include "terminal/print_json.h"

#define STAGES_MOST 1000u /* rows that have them */

static void put_total(struct json *j, const char *key, const struct heap_total *total)
{
	json_object(j, key);
	json_unsigned(j, "bytes", total->bytes);
	json_unsigned(j, "blocks", total->blocks);
	json_end(j);
}

static void put_kind(struct json *j, const struct picture *p, struct heap_kind kind)
{
	json_text_or_null(j, "type", kind.type ? p->type_name[kind.type - 1] : "");
	json_unsigned_or_null(j, "block_bytes", !kind.type, kind.bytes);
}

static void put_stages(struct json *j, const struct picture *p, const struct heap_row *row)
{
	JSON_ROWS(j, "through", i, i < HEAP_STAGES && row->stage[i].kinds.blocks) {
		put_kind(j, p, row->stage[i].kind);
		json_unsigned(j, "bytes", row->stage[i].kinds.bytes);
		json_unsigned(j, "blocks", row->stage[i].kinds.blocks);
	}
}

void heap_json_holder(struct json *j, const struct holder *h)
{
	char name[HEAP_NAME_TEXT];

	json_text(j, "kind", heap_holder_kind_word(h->kind));
	json_text(j, "holder", holder_text(name, sizeof(name), h));
	json_text_or_null(j, "name", h->name);
	json_text_or_null(j, "module", h->module);
	json_unsigned_or_null(j, "tid", h->tid != 0, (uint64_t)h->tid);
	json_text_or_null(j, "thread", h->thread);
}

static void put_sharers(struct json *j, const struct picture *p, uint64_t holders)
{
	JSON_ROWS_WHERE(j, "holders", i, i < p->shared.sharers, holders >> i & 1)
		heap_json_holder(j, &p->holders.holder[p->shared.sharer[i]]);
	json_bool(j, "others", holders & HEAP_OTHER_SHARERS);
}

/* Nothing without --waste. */
static void put_waste(struct json *j, const struct picture *p, const struct heap_waste_sum *sum)
{
	const struct heap_waste *w = &p->graph.waste;
	const struct mayfly_estimate copies = heap_waste_copies(w, sum);

	if (!w->end)
		return;
	json_object(j, "waste");
	put_total(j, "zero", &(struct heap_total){sum->zero_bytes, sum->zero_blocks});
	put_total(j, "zero_end", &(struct heap_total){sum->end_bytes, sum->end_blocks});
	json_estimate(j, "copies", &copies);
	json_end(j);
}

static void put_rows(struct json *j, const struct picture *p, const struct heap_rows *rows,
		     enum heap_row_kind kind, const char *key)
{
	JSON_ROWS_WHERE(j, key, i, i < rows->count, rows->row[i].kind == kind) {
		const struct heap_row *row = &rows->row[i];

		if (kind == HEAP_ROW_HOLDER)
			heap_json_holder(j, &p->holders.holder[row->holder]);
		else
			put_sharers(j, p, p->shared.group[row->group].holders);
		json_unsigned(j, "bytes", row->total.bytes);
		json_unsigned(j, "blocks", row->total.blocks);
		put_waste(j, p, &row->waste);
		put_stages(j, p, row);
	}
}

static void put_kinds(struct json *j, const struct picture *p, const struct heap_kinds *kinds)
{
	JSON_ROWS(j, "types", i, i < kinds->count) {
		put_kind(j, p, kinds->sum[i].kind);
		json_unsigned(j, "bytes", kinds->sum[i].own.bytes);
		json_unsigned(j, "blocks", kinds->sum[i].own.blocks);
		put_total(j, "lost", &kinds->sum[i].lost);
		put_waste(j, p, &kinds->sum[i].waste);
	}
}

static const char *how_word(const struct picture *p)
{
	if (!p->pid)
		return "core file";
	switch (p->how) {
	case FROZEN_COPY:
		return "copy";
	case FROZEN_MEMORY:
	case FROZEN_HELD:
		return "stopped";
	case FROZEN_RUNNING:
		return "running";
	}
	return "";
}

static void put_python(struct json *j, const struct picture *p)
{
	const struct pymalloc_sums *s = &p->graph.python;
	char version[16];

	if (p->has_python == PYTHON_NONE) {
		json_null(j, "python");
		return;
	}
	json_object(j, "python");
	snprintf(version, sizeof(version), "%u.%u", p->python.version / 100,
		 p->python.version % 100);
	json_text_or_null(j, "version", p->python.version ? version : "");
	json_bool(j, "known", p->has_python == PYTHON_KNOWN);
	json_unsigned(j, "arenas", s->arenas);
	json_unsigned(j, "arena_bytes", s->arena_bytes);
	json_unsigned(j, "blocks", s->blocks);
	json_unsigned(j, "bytes", s->bytes);
	json_unsigned(j, "free_block_bytes", s->free_bytes);
	json_unsigned(j, "damaged_pools", s->damaged);
	JSON_ROWS_WHERE(j, "size_classes", i, i < PYMALLOC_CLASSES, s->used[i]) {
		json_unsigned(j, "block_bytes", (i + 1) * HEAP_UNIT);
		json_unsigned(j, "blocks", s->used[i]);
	}
	json_end(j);
}

static void put_all(struct json *j, const struct picture *p, const struct heap_rows *rows,
		    const struct heap_kinds *kinds)
{
	const struct heap_graph *g = &p->graph;
	const struct heap_waste_sum waste = heap_waste_all(p);
	char libc[16];

	json_unsigned_or_null(j, "pid", p->pid != 0, (uint64_t)p->pid);
	json_text_or_null(j, "program", p->program);
	snprintf(libc, sizeof(libc), "2.%u", p->libc_version % 100);
	json_text_or_null(j, "glibc", p->libc_version ? libc : "");
	json_text(j, "read", how_word(p));
	json_integer(j, "stopped_ns", p->stopped_ns);
	json_unsigned(j, "threads", p->threads);
	json_unsigned(j, "bytes", g->all.bytes);
	json_unsigned(j, "blocks", g->all.blocks);
	json_object(j, "malloc");
	json_unsigned(j, "arenas", g->sums.arenas);
	json_unsigned(j, "used_chunk_bytes", g->sums.chunk_bytes);
	json_unsigned(j, "cached_chunk_bytes", g->sums.cached_bytes);
	json_unsigned(j, "free_chunk_bytes", g->sums.free_bytes);
	json_unsigned(j, "arena_head_bytes", g->sums.head_bytes);
	json_unsigned(j, "mapped_bytes", g->sums.mapped_bytes);
	json_unsigned(j, "mapped_blocks", g->sums.mapped);
	json_end(j);
	put_python(j, p);
	put_waste(j, p, &waste);
	json_unsigned_or_null(j, "waste_interval_bytes", g->waste.interval != 0, g->waste.interval);
	put_rows(j, p, rows, HEAP_ROW_HOLDER, "held");
	put_rows(j, p, rows, HEAP_ROW_SHARED, "shared");
	json_object(j, "lost");
	json_unsigned(j, "bytes", rows->row[rows->count - 1].total.bytes);
	json_unsigned(j, "blocks", rows->row[rows->count - 1].total.blocks);
	put_total(j, "directly", &g->lost_directly);
	put_total(j, "indirectly", &g->lost_indirectly);
	put_waste(j, p, &rows->row[rows->count - 1].waste);
	put_stages(j, p, &rows->row[rows->count - 1]);
	json_end(j);
	put_kinds(j, p, kinds);
}

int heap_print_json(const struct picture *p)
{
	struct json j = json_document();
	struct heap_rows rows = {0};
	struct heap_kinds kinds = {0};
	int status;

	if (heap_rows_make(&rows, p, STAGES_MOST) && heap_kinds_find(&p->graph, &kinds)) {
		put_all(&j, p, &rows, &kinds);
		status = json_print(&j);
	} else {
		bytes_free(&j.bytes);
		status = cli_error("out of memory");
	}
	heap_rows_free(&rows);
	heap_kinds_free(&kinds);
	return status;
}
