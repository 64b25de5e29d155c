/* SPDX-License-Identifier: Apache-2.0 */
/* The call tree, of one trace or of two, as arrays; the callers and callees of a function. */
#include <stdlib.h>

#include "answer/absent.h"
#include "answer/function_choice.h"
#include "answer/json_parts.h"
#include "answer/own_code.h"
#include "answer/text_format.h"
#include "answer/texts.h"
#include "answer/trace_names.h"
#include "query/calls_tree.h"
#include "view/answers.h"
#include "view/view_arrays.h"

enum {
	PARENT,
	END,
	DEPTH,
	NAME,
	FILE_NAME,
	MODULE,
	LINE,
	SAMPLES,
	SELF_SAMPLES,
	KIND,
	SELF,
	TOTAL,
	LEFT,
	SELF_STDERR,
	TOTAL_STDERR,
	ARRAYS, /* of a tree; a difference also has: */
	BEFORE = ARRAYS,
	SIGNIFICANT,
	DIFF_ARRAYS
};

static const struct view_array arrays[] = {
    [PARENT] = {"parent", VIEW_U32},
    [END] = {"end", VIEW_U32},
    [DEPTH] = {"depth", VIEW_U32},
    [NAME] = {"name", VIEW_U32},
    [FILE_NAME] = {"file", VIEW_U32},
    [MODULE] = {"module", VIEW_U32},
    [LINE] = {"line", VIEW_U32},
    [SAMPLES] = {"samples", VIEW_U32},
    [SELF_SAMPLES] = {"self_samples", VIEW_U32},
    [KIND] = {"kind", VIEW_U8},
    [SELF] = {"self", VIEW_F64},
    [TOTAL] = {"total", VIEW_F64},
    [LEFT] = {"left", VIEW_F64},
    [SELF_STDERR] = {"self_stderr", VIEW_F32},
    [TOTAL_STDERR] = {"total_stderr", VIEW_F32},
    [BEFORE] = {"before", VIEW_F64},
    [SIGNIFICANT] = {"significant", VIEW_U8},
};

/* What is said of a place; TEXTS_FAILED: not yet. */
struct named {
	uint32_t name, file, module;
	uint8_t kind;
};

struct naming {
	const struct mayfly_trace *trace;
	struct own_code own; /* the request's rules */
	const struct calls *calls;
	struct texts texts;
	struct named *of; /* place -> ... */
	char *buffer;
};

/* What the page draws in other colours. main() is where the entry ends. */
static uint8_t place_kind(struct naming *n, const char *name, const struct mayfly_place *p)
{
	return is_entry(name, p->file)
		   ? CODE_ENTRY
		   : (uint8_t)code_kind(&n->own, n->trace, name, p->file, p->module);
}

static struct named name_place(struct naming *n, const struct mayfly_place *p)
{
	const char *name =
	    frame_shown_name(n->buffer, NAME_BYTES, p->kind, p->function, p->module, p->address);

	return (struct named){
	    .kind = place_kind(n, name, p),
	    .name = texts_number(&n->texts, name),
	    .file = texts_number(&n->texts, p->file),
	    .module = texts_number(&n->texts, p->module),
	};
}

/* The root, and nodes that stand for many. */
static struct named name_other(struct naming *n, const struct calls_node *node)
{
	const char *name = node->depth == 0 ? "all"
			   : !node->smaller
			       ? "(deeper callers)"
			       : text_format(n->buffer, NAME_BYTES, "(%u smaller)", node->smaller);
	uint32_t empty = texts_number(&n->texts, "");

	return (struct named){texts_number(&n->texts, name), empty, empty, CODE_NONE};
}

static struct named name_node(struct naming *n, const struct calls_node *node)
{
	struct named *known;

	if (node->place == CALLS_NONE)
		return name_other(n, node);
	known = &n->of[node->place];
	if (known->name == TEXTS_FAILED)
		*known = name_place(n, &n->calls->place[node->place]);
	return *known;
}

static bool name_nodes(struct naming *n, struct named *of)
{
	for (size_t i = 0; i < n->calls->places; i++)
		n->of[i].name = TEXTS_FAILED;
	for (size_t i = 0; i < n->calls->nodes; i++) {
		of[i] = name_node(n, &n->calls->node[i]);
		if (of[i].name == TEXTS_FAILED || of[i].file == TEXTS_FAILED ||
		    of[i].module == TEXTS_FAILED)
			return false;
	}
	return true;
}

static void fill(const struct calls *c, const struct named *named, union view_items *items)
{
	for (size_t i = 0; i < c->nodes; i++) {
		const struct calls_node *n = &c->node[i];

		items[PARENT].u32[i] = n->parent;
		items[END].u32[i] = n->end;
		items[DEPTH].u32[i] = n->depth;
		items[NAME].u32[i] = named[i].name;
		items[FILE_NAME].u32[i] = named[i].file;
		items[MODULE].u32[i] = named[i].module;
		items[LINE].u32[i] = n->place == CALLS_NONE ? 0 : c->place[n->place].line;
		items[SAMPLES].u32[i] = n->samples;
		items[SELF_SAMPLES].u32[i] = n->self_samples;
		items[KIND].u8[i] = named[i].kind;
		items[SELF].f64[i] = n->self;
		items[TOTAL].f64[i] = n->total;
		items[LEFT].f64[i] = n->left;
		items[SELF_STDERR].f32[i] = n->self_stderror;
		items[TOTAL_STDERR].f32[i] = n->total_stderror;
	}
}

static void fill_diff(const struct calls_diff *d, union view_items *items)
{
	for (size_t i = 0; i < d->after->nodes; i++) {
		items[BEFORE].f64[i] = d->before[i];
		items[SIGNIFICANT].u8[i] = d->change[i].verdict == DIFF_REAL;
	}
}

static void put_members(struct json *j, const struct naming *n, const struct calls_diff *d)
{
	json_object(j, NULL);
	json_integer(j, "time_ns", n->calls->time_ns);
	json_estimate(j, "total", &n->calls->all);
	if (d)
		json_estimate(j, "base_total", &d->before_all);
	JSON_LIST(j, "texts", i, i < n->texts.count, json_text(j, NULL, n->texts.text[i]));
}

/* d: the difference whose tree it is, or NULL. */
static int put_tree(const struct request *r, const struct calls *c, const struct calls_diff *d,
		    struct view_answer *a)
{
	struct naming n = {.trace = r->trace, .own = r->q.own, .calls = c};
	struct named *named = calloc(c->nodes + 1, sizeof(*named));
	struct json j = {.one_line = true};
	union view_items items[DIFF_ARRAYS];
	bool done;

	if (r->info->absent) {
		j.is_null = absent_key;
		j.null_context = r->info->absent;
	}
	n.of = calloc(c->places + 1, sizeof(*n.of));
	n.buffer = malloc(NAME_BYTES);
	done = named && n.of && n.buffer && name_nodes(&n, named);
	if (done) {
		put_members(&j, &n, d);
		done =
		    view_arrays(&j, arrays, d ? DIFF_ARRAYS : ARRAYS, c->nodes, &a->bytes, items);
	}
	if (done)
		fill(c, named, items);
	if (done && d)
		fill_diff(d, items);
	texts_free(&n.texts);
	free(n.of);
	free(n.buffer);
	free(named);
	a->type = "application/octet-stream";
	return done ? 0 : MAYFLY_E_MEMORY;
}

static struct calls_options tree_options(const struct request *r)
{
	return (struct calls_options){
	    .invert = r->invert,
	    .fold = r->recursion,
	    .by_line = r->merge == REQUEST_MERGE_LINE,
	    .blocks = r->blocks,
	    .least = r->least,
	};
}

int view_tree(struct request *r, struct view_answer *a)
{
	const struct calls_options options = tree_options(r);
	struct calls *calls;
	int error = calls_run(r->trace, &r->q.query, &options, &calls);

	if (error)
		return error;
	error = put_tree(r, calls, NULL, a);
	calls_free(calls);
	return error;
}

int view_difftree(struct request *r, struct view_answer *a)
{
	const struct calls_options options = tree_options(r);
	struct calls_diff *diff;
	int error = MAYFLY_E_ABSENT;

	if (r->view->base)
		error = calls_diff_run(r->view->base, r->trace, &r->q.query, &options, &diff);
	if (error)
		return error;
	error = put_tree(r, diff->after, diff, a);
	calls_diff_free(diff);
	return error;
}

/* ---- one function ---- */

static void put_rows(struct json *j, const char *key, const struct request *r,
		     const struct mayfly_row *row, size_t rows)
{
	JSON_ROWS(j, key, i, i < rows && (!r->top || i < r->top))
		json_row(j, r->trace, MAYFLY_BY_FUNCTION, &row[i]);
}

int view_callers(struct request *r, struct json *j)
{
	struct function_choice choice = {.name = r->function ? r->function : ""};
	struct calls_around *around;
	int error =
	    calls_around_run(r->trace, &r->q.query, function_choice_match(&choice), &around);

	if (error)
		return error;
	json_integer(j, "time_ns", around->time_ns);
	json_estimate(j, "total", &around->all);
	if (around->functions) {
		json_object(j, "function");
		json_row(j, r->trace, MAYFLY_BY_FUNCTION, &around->function);
		json_end(j);
	} else {
		json_null(j, "function");
	}
	put_rows(j, "callers", r, around->caller, around->callers);
	put_rows(j, "callees", r, around->callee, around->callees);
	calls_around_free(around);
	return 0;
}
