/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report --by tree: the call tree. A function with one callee shown stands in line with it;
 * only where calls branch, the tree does:
 *
 *	1.02 MiB  100 %  main
 *	1.00 MiB   98 %  |- load
 *	1.00 MiB   98 %  |  parse
 *	20.0 KiB    2 %  `- (3 smaller)
 */
#include "cli/report/report.h"

#include "answer/json_parts.h"
#include "query/calls_tree.h"

#include <stdlib.h>
#include <string.h>

#define IN_LINE	    0.9	 /* share of its caller that a callee needs to stand in line with it */
#define LEAST_SHARE 0.01 /* of all, when --top does not say how many nodes */

/* The part of a line before its name: for each level of branches, whether more follow. */
struct drawing {
	const struct report *r;
	const struct calls *c;
	bool *more;	 /* by level of branches */
	uint32_t *level; /* node -> its level; 0: below the root's only callee */
	int width[3];	 /* of the value, its error, the percentage */
};

static const char *node_name(char *buffer, size_t size, const struct calls *c, uint32_t node)
{
	const struct calls_node *n = &c->node[node];

	if (n->place != CALLS_NONE)
		return place_name(buffer, size, &c->place[n->place]);
	if (node == 0)
		snprintf(buffer, size, "all");
	else if (n->smaller)
		snprintf(buffer, size, "(%u smaller)", n->smaller);
	else
		snprintf(buffer, size, "(deeper callers)");
	return buffer;
}

/* The node after this one in the tree that has the same caller; 0: none. */
static uint32_t next_callee(const struct calls *c, uint32_t node)
{
	uint32_t next = c->node[node].end;

	return next < c->node[c->node[node].parent].end ? next : 0;
}

static bool is_too_deep(const struct report *r, const struct calls_node *n)
{
	return r->depth_given && r->depth && n->depth > r->depth;
}

static void print_branches(const struct drawing *d, uint32_t node)
{
	static const char *const utf8[] = {"│  ", "   ", "├─ ", "└─ "};
	static const char *const ascii[] = {"|  ", "   ", "|- ", "`- "};
	const char *const *part = d->r->out.utf8 ? utf8 : ascii;
	const struct calls_node *n = &d->c->node[node];
	uint32_t level = d->level[node];
	bool begins = node && level > d->level[n->parent];

	for (uint32_t i = 1; i <= level; i++) {
		bool last = i == level && begins;

		fputs(part[(last ? 2 : 0) + (d->more[i] ? 0 : 1)], stdout);
	}
}

static void node_cells(const struct drawing *d, uint32_t node, char cell[3][FIGURE_TEXT])
{
	const struct mayfly_estimate *e = &d->c->total_of[node];

	text_figure_value(cell[0], FIGURE_TEXT, &e->bytes, e->samples);
	text_figure_error(cell[1], FIGURE_TEXT, d->r->out.utf8, &e->bytes, e->samples);
	cell[2][0] = 0;
	if (figure_confidence(&e->bytes, e->samples) >= FIGURE_RANGE)
		text_percent(cell[2], FIGURE_TEXT, e->bytes.estimate, d->c->all.bytes.estimate);
}

static void measure(struct drawing *d)
{
	char cell[3][FIGURE_TEXT];

	for (uint32_t i = 0; i < d->c->nodes; i++) {
		node_cells(d, i, cell);
		for (int k = 0; k < 3 && !is_too_deep(d->r, &d->c->node[i]); k++)
			if (d->width[k] < (int)text_columns(cell[k]))
				d->width[k] = (int)text_columns(cell[k]);
	}
}

static void print_cell(const struct drawing *d, const char *text, int width, bool right,
		       enum style style)
{
	int rest = width - (int)text_columns(text);

	printf("%*s", right ? rest : 0, "");
	print_styled(&d->r->out, style, text);
	printf("%*s", right ? 0 : rest, "");
}

static void print_node(const struct drawing *d, uint32_t node, char *name)
{
	const struct output *o = &d->r->out;
	int used = d->width[0] + d->width[1] + d->width[2] + 5 + 3 * (int)d->level[node];
	int room = o->width - used > 16 ? o->width - used : 16;
	char cell[3][FIGURE_TEXT], fitted[NAME_BYTES];

	node_cells(d, node, cell);
	print_cell(d, cell[0], d->width[0], true, STYLE_PLAIN);
	putchar(' ');
	print_cell(d, cell[1], d->width[1], false, STYLE_DIM);
	printf("%s", d->width[1] ? " " : "");
	print_cell(d, cell[2], d->width[2], true, STYLE_PLAIN);
	fputs("  ", stdout);
	print_branches(d, node);
	puts(name_fit(fitted, sizeof(fitted), o, node_name(name, NAME_BYTES, d->c, node),
		      (size_t)room));
}

static bool print_nodes(struct drawing *d)
{
	char *name = malloc(NAME_BYTES);

	for (uint32_t i = 0; name && i < d->c->nodes; i++) {
		const struct calls_node *n = &d->c->node[i];
		uint32_t next = i ? next_callee(d->c, i) : 0;

		if (is_too_deep(d->r, n))
			continue;
		if (i) {
			bool alone = n->parent + 1 == i && !next &&
				     n->total >= IN_LINE * d->c->node[n->parent].total;

			d->level[i] = d->level[n->parent] + !alone;
			if (!alone)
				d->more[d->level[i]] = next != 0;
		}
		print_node(d, i, name);
	}
	free(name);
	return name != NULL;
}

static int draw(const struct report *r, const struct calls *c)
{
	struct drawing d = {.r = r, .c = c};
	bool done;

	d.more = calloc(c->nodes + 2, sizeof(*d.more));
	d.level = calloc(c->nodes + 1, sizeof(*d.level));
	done = d.more && d.level;
	if (done) {
		measure(&d);
		done = print_nodes(&d);
	}
	free(d.more);
	free(d.level);
	return done ? CLI_OK : cli_error("out of memory");
}

/* ---- how much of it ---- */

static int compare_totals(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return a > b ? -1 : a < b;
}

/* The share that a node must have so that `top` nodes are shown. */
static double share_of_top(const struct calls *c, size_t top)
{
	double *total = malloc((c->nodes + 1) * sizeof(*total)), share = LEAST_SHARE;
	double all = c->node[0].total;

	if (!total)
		return share;
	for (size_t i = 1; i < c->nodes; i++)
		total[i - 1] = c->node[i].total;
	qsort(total, c->nodes - 1, sizeof(*total), compare_totals);
	/* A little less, so that rounding keeps the last one. */
	share = c->nodes - 1 > top && all > 0 ? total[top - 1] / all * (1 - 1e-12) : 0;
	free(total);
	return share;
}

static int run_tree(const struct report *r, struct calls **c)
{
	struct calls_options o = {.fold = true, .least = LEAST_SHARE, .estimates = true};
	int error;

	if (r->top_given) {
		struct calls_options all = {.fold = true};

		o.least = 0;
		error = r->top ? calls_run(r->file.trace, &r->q.query, &all, c) : 0;
		if (error)
			return error;
		if (r->top) {
			o.least = share_of_top(*c, r->top);
			calls_free(*c);
		}
	}
	return calls_run(r->file.trace, &r->q.query, &o, c);
}

/* ---- JSON ---- */

static void put_place(struct json *j, const struct calls *c, uint32_t node, char *name)
{
	const struct calls_node *n = &c->node[node];
	const struct mayfly_place *p = n->place == CALLS_NONE ? NULL : &c->place[n->place];

	json_text(j, "name", node_name(name, NAME_BYTES, c, node));
	json_text_or_null(j, "function", p ? p->function : "");
	json_text_or_null(j, "file", p ? p->file : "");
	json_text_or_null(j, "module", p ? p->module : "");
	json_unsigned(j, "smaller", n->smaller);
	json_estimate(j, "self", &c->self[node]);
	json_estimate(j, "total", &c->total_of[node]);
}

static int print_tree_json(const struct report *r, const struct calls *c)
{
	struct json j = report_document(r->file.info->absent);
	char *name = malloc(NAME_BYTES);
	uint32_t open = 0;

	if (!name)
		return cli_error("out of memory");
	json_text(&j, "metric", metric_names[r->q.query.metric]);
	json_text(&j, "by", "tree");
	json_integer(&j, "time_ns", c->time_ns);
	json_estimate(&j, "total", &c->all);
	for (uint32_t i = 0; i < c->nodes; i++) {
		if (is_too_deep(r, &c->node[i]))
			continue;
		for (; open > c->node[i].depth; open--) {
			json_end(&j);
			json_end(&j);
		}
		json_object(&j, i ? NULL : "tree");
		put_place(&j, c, i, name);
		json_array(&j, "callees");
		open++;
	}
	for (; open; open--) {
		json_end(&j);
		json_end(&j);
	}
	free(name);
	return json_print(&j);
}

/* ---- the view ---- */

int report_print_tree(struct report *r)
{
	char metric[256], figure[128];
	struct calls *c;
	int error = run_tree(r, &c), status;

	if (error)
		return report_failed(r, error);
	if (r->json) {
		status = print_tree_json(r, c);
		calls_free(c);
		return status;
	}
	report_metric_text(metric, sizeof(metric), r, c->time_ns);
	print_wrapped(&r->out, STYLE_BOLD, 0, "%s, as a tree of calls: %s%s", metric,
		      text_estimate(figure, sizeof(figure), r->out.utf8, &c->all),
		      r->q.filtered ? ", filtered" : "");
	status = draw(r, c);
	if (!status && !r->top_given)
		print_wrapped(&r->out, STYLE_DIM, 2,
			      "  callees below 1 %% of all are joined (--top 0 shows all)");
	calls_free(c);
	if (status)
		return status;
	report_print_legend(r);
	return cli_finish();
}
