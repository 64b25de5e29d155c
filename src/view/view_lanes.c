/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans and instants by thread, arranged for `width` pixels: "from_ns", "to_ns", "end_ns" (of the
 * recording), "types", "lanes", "lanes_count" and "shown": the rows of `top` lanes from number `skip`
 * on. In a row, items shorter than a pixel that begin in the same one become one box:
 *
 *	pixels	|         |         |         |
 *	items	 | | ||  |------------| |  |
 *	boxes	 |  4  | |------------| |2 |
 *
 * so a row has at most two boxes per pixel. Lists of a row, one element for each box: start_ns, end_ns
 * (null: it never ended), type (index in "types"; of several items: of the longest among some of
 * them), count (items), busy_ns (time in which one of them is open) and fields (null, or an object;
 * of single items).
 */
#include <math.h>

#include "answer/event_rows.h"
#include "answer/json_parts.h"
#include "answer/text_format.h"
#include "view/answers.h"
#include "view/lane_index.h"

#define DEFAULT_LANES  32
#define MOST_LOOKED_AT 64 /* of the items of one box, for its type */

struct time_range view_range(const struct request *r)
{
	int64_t end = r->info->duration_ns;
	struct time_range range = {r->q.query.from_ns, r->q.query.to_ns};

	if (range.to_ns > end)
		range.to_ns = end;
	if (range.to_ns <= range.from_ns)
		range.to_ns = range.from_ns + 1;
	return range;
}

struct lanes_answer {
	struct json *j;
	const struct mayfly_trace *trace;
	const struct lane_index *index;
	const struct mayfly_query *query;
	struct time_range range;
	double pixel; /* in ns */
};

/* Boxes are written list by list, so they are arranged once for each list. */
struct box {
	size_t first, count; /* items of the row */
};

/* ---- boxes ---- */

static int64_t item_end(const struct lanes_answer *a, const struct lane_item *item)
{
	if (item->end_ns != LANE_OPEN)
		return item->end_ns;
	return item->begin_ns > a->index->end_ns ? item->begin_ns : a->index->end_ns;
}

static bool is_wide(const struct lanes_answer *a, const struct lane_item *item)
{
	return (double)(item_end(a, item) - item->begin_ns) >= a->pixel;
}

/* Where the pixel ends that this time lies in. Pixels are counted from time 0, so that boxes stay
 * the same when the range moves. */
static int64_t pixel_end(const struct lanes_answer *a, int64_t ns)
{
	double end = (floor((double)ns / a->pixel) + 1) * a->pixel;

	return end > (double)ns && end < 0x1p62 ? (int64_t)ceil(end) : ns + 1;
}

/* The box that begins with item number `first`. */
static struct box box_at(const struct lanes_answer *a, const struct lane_row *row, size_t first)
{
	size_t end;

	if (is_wide(a, &row->item[first]))
		return (struct box){first, 1};
	end = lane_begin_at(row, first + 1, pixel_end(a, row->item[first].begin_ns));
	/* Only the last one may reach beyond the pixel, as items do not overlap. */
	if (end > first + 1 && is_wide(a, &row->item[end - 1]))
		end--;
	return (struct box){first, end - first};
}

/* The next box of the row that begins before the end of the range. */
static bool next_box(const struct lanes_answer *a, const struct lane_row *row, struct box *box)
{
	size_t next = box->first + box->count;

	if (next >= row->items || row->item[next].begin_ns >= a->range.to_ns)
		return false;
	*box = box_at(a, row, next);
	return true;
}

static struct box before_first(const struct lanes_answer *a, const struct lane_row *row)
{
	return (struct box){lane_first(row, a->range.from_ns), 0};
}

static uint32_t box_type(const struct lanes_answer *a, const struct lane_row *row, struct box box)
{
	size_t step = (box.count + MOST_LOOKED_AT - 1) / MOST_LOOKED_AT;
	const struct lane_item *longest = &row->item[box.first];

	for (size_t i = 0; i < box.count; i += step) {
		const struct lane_item *item = &row->item[box.first + i];

		if (item_end(a, item) - item->begin_ns > item_end(a, longest) - longest->begin_ns)
			longest = item;
	}
	return longest->type;
}

static int64_t box_busy(const struct lanes_answer *a, const struct lane_row *row, struct box box)
{
	const struct lane_item *last = &row->item[box.first + box.count - 1];

	return last->busy_ns - row->item[box.first].busy_ns + item_end(a, last) - last->begin_ns;
}

/* ---- fields ---- */

static void put_thread(struct json *j, const struct mayfly_trace *trace, uint32_t index)
{
	const struct mayfly_thread *thread = mayfly_trace_thread(trace, index);

	if (!thread)
		return;
	json_text(j, "thread", thread->name);
	json_unsigned(j, "tid", thread->tid);
}

static void put_fields(const struct lanes_answer *a, const struct lane *lane,
		       const struct lane_item *item)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(a->trace, item->type);
	struct mayfly_track_event e = {.type = item->type, .values = type->fields};

	if (item->value == LANE_NO_VALUE) {
		json_null(a->j, NULL);
		return;
	}
	json_object(a->j, NULL);
	for (size_t i = 0; i < type->fields; i++) {
		e.value[i] = a->index->value[item->value + i];
		json_track_value(a->j, type, &e, i);
	}
	if (lane->thread == LANE_PROCESS)
		put_thread(a->j, a->trace, (uint32_t)a->index->value[item->value + type->fields].u);
	json_end(a->j);
}

/* ---- rows and lanes ---- */

enum box_list { BOX_START, BOX_END, BOX_TYPE, BOX_COUNT, BOX_BUSY, BOX_FIELDS, BOX_LISTS };

static void put_box(const struct lanes_answer *a, const struct lane *lane,
		    const struct lane_row *row, struct box box, enum box_list list)
{
	const struct lane_item *first = &row->item[box.first];

	switch (list) {
	case BOX_START:
		json_integer(a->j, NULL, first->begin_ns);
		break;
	case BOX_END:
		json_bound(a->j, NULL, row->item[box.first + box.count - 1].end_ns);
		break;
	case BOX_TYPE:
		json_unsigned(a->j, NULL, box_type(a, row, box));
		break;
	case BOX_COUNT:
		json_unsigned(a->j, NULL, box.count);
		break;
	case BOX_BUSY:
		json_integer(a->j, NULL, box_busy(a, row, box));
		break;
	case BOX_FIELDS:
		if (box.count == 1)
			put_fields(a, lane, first);
		else
			json_null(a->j, NULL);
		break;
	case BOX_LISTS:
		break;
	}
}

static void put_boxes(const struct lanes_answer *a, const struct lane *lane,
		      const struct lane_row *row, bool instants)
{
	static const char *const names[] = {"start_ns", "end_ns",  "type",
					    "count",	"busy_ns", "fields"};

	json_object(a->j, NULL);
	json_text(a->j, "kind", instants ? "instants" : "spans");
	for (int list = 0; list < BOX_LISTS; list++) {
		struct box box = before_first(a, row);

		json_array(a->j, names[list]);
		while (next_box(a, row, &box))
			put_box(a, lane, row, box, (enum box_list)list);
		json_end(a->j);
	}
	json_end(a->j);
}

/* INT64_MIN and INT64_MAX stand for "unknown". */
static void put_moment(struct json *j, const char *key, int64_t ns)
{
	if (ns == INT64_MIN || ns == INT64_MAX)
		json_null(j, key);
	else
		json_integer(j, key, ns);
}

static void put_lane(const struct lanes_answer *a, const struct lane *lane)
{
	uint64_t spans = lane->deeper;

	for (size_t i = 0; i < lane->span_rows; i++)
		spans += lane->row[i].items;
	json_object(a->j, NULL);
	if (lane->thread == LANE_PROCESS)
		json_null(a->j, "thread");
	else
		put_thread(a->j, a->trace, lane->thread);
	put_moment(a->j, "began_ns", lane->start_ns);
	put_moment(a->j, "ended_ns", lane->exit_ns);
	json_unsigned(a->j, "rows", lane->span_rows + (lane->instants.items > 0));
	json_unsigned(a->j, "spans", spans);
	json_unsigned(a->j, "deeper_spans", lane->deeper);
	json_unsigned(a->j, "unmatched_ends", lane->unmatched);
	json_unsigned(a->j, "instants", lane->instants.items);
	json_end(a->j);
}

static void put_rows(const struct lanes_answer *a, const struct lane *lane)
{
	json_array(a->j, NULL);
	for (size_t i = 0; i < lane->span_rows; i++)
		put_boxes(a, lane, &lane->row[i], false);
	if (lane->instants.items)
		put_boxes(a, lane, &lane->instants, true);
	json_end(a->j);
}

static bool lane_shown(const struct lanes_answer *a, const struct lane *lane)
{
	const struct mayfly_match *match = &a->query->thread;
	const struct mayfly_thread *thread;
	char number[16];

	if (!match->matches || lane->thread == LANE_PROCESS)
		return true;
	thread = mayfly_trace_thread(a->trace, lane->thread);
	text_format(number, sizeof(number), "%u", thread->tid);
	return match->matches(match->context, thread->name) ||
	       match->matches(match->context, number);
}

static void put_types(const struct lanes_answer *a)
{
	size_t types = mayfly_trace_info(a->trace)->track_types;

	JSON_ROWS(a->j, "types", i, i < types) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(a->trace, i);

		json_text(a->j, "name", type->name);
		json_text_or_null(a->j, "category", type->category);
		json_bool(a->j, "pause", type->kind == MAYFLY_TYPE_SPAN && is_pause(type));
	}
}

/* The rows of the lanes that the request asks for. Returns the number of all. */
static size_t put_shown(const struct lanes_answer *a, size_t skip, size_t top)
{
	size_t lanes = 0;

	json_array(a->j, "shown");
	for (size_t i = 0; i < a->index->lanes; i++) {
		if (!lane_shown(a, a->index->lane[i]))
			continue;
		if (lanes >= skip && lanes - skip < top)
			put_rows(a, a->index->lane[i]);
		lanes++;
	}
	json_end(a->j);
	return lanes;
}

int view_lanes(struct request *r, struct json *j)
{
	struct lanes_answer a = {
	    .j = j, .trace = r->trace, .query = &r->q.query, .range = view_range(r)};
	int error = lane_index(r->trace, &a.index);

	if (error)
		return error;
	a.pixel = fmax(1, (double)(a.range.to_ns - a.range.from_ns) / (double)r->width);
	json_integer(j, "from_ns", a.range.from_ns);
	json_integer(j, "to_ns", a.range.to_ns);
	json_integer(j, "end_ns", a.index->end_ns);
	put_types(&a);
	json_array(j, "lanes");
	for (size_t i = 0; i < a.index->lanes; i++)
		if (lane_shown(&a, a.index->lane[i]))
			put_lane(&a, a.index->lane[i]);
	json_end(j);
	json_unsigned(j, "lanes_count",
		      put_shown(&a, r->skip, r->top_given ? r->top : DEFAULT_LANES));
	return 0;
}
