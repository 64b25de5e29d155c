/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph as one self-contained SVG file: the call tree from the top down; the width of a
 * function is what was allocated in it and its callees. Image viewers show it as a picture;
 * browsers also run its script (flamegraph.js), which zooms and searches.
 *
 *	title                                     Search
 *	what is shown, with its error
 *	modules by colour
 *	the function under the pointer
 *	| all                                           |
 *	| main                                  | start |
 *	| parse             | run       |
 */
#include "convert/export/call_tree.h"
#include "convert/export/exports.h"
#include "convert/out.h"
#include "answer/plain_name.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flamegraph_script.h"
#include "format/numbering.h"

#define WIDTH	    1200.0 /* without a script; with it, the window's width */
#define MARGIN	    10.0
#define ROOM	    (WIDTH - 2 * MARGIN)
#define TOP	    96 /* of the first row */
#define ROW	    17
#define CHAR	    6.65 /* of the 11 px font; all three as in flamegraph.js */
#define LEAST_WIDTH 0.1	 /* narrower frames are left out */
#define COLOURED    6	 /* number of modules with their own colour */

struct flamegraph {
	struct shown_stacks stacks;
	struct call_tree tree;
	struct out out;
	bool counts;	 /* numbers of blocks are known */
	double *blocks;	 /* totals of nodes */
	uint8_t *colour; /* module -> colour; COLOURED and above: none */
	uint32_t coloured[COLOURED];
	size_t colours;
	double *next; /* by depth: where the next frame begins, in bytes */
	size_t next_capacity;
	size_t deepest;
};

/* ---- texts ---- */

static char *bytes_text(char *buffer, size_t size, double bytes)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
	size_t unit = 0;

	while (bytes >= 999.5 && unit < 6) {
		bytes /= 1024;
		unit++;
	}
	snprintf(buffer, size, "%.*f %s",
		 !unit || bytes >= 99.95 ? 0
		 : bytes >= 9.995	 ? 1
					 : 2,
		 bytes, units[unit]);
	return buffer;
}

/* "1.23 MB (4.5 %) in 12 blocks, self 56.7 KB" */
static char *figures_text(char *buffer, size_t size, const struct flamegraph *f, uint32_t node)
{
	double all = f->tree.total[0], own = f->tree.node[node].self[CALL_BYTES(0)];
	char bytes[32], own_bytes[32], blocks[64] = "";

	if (f->counts)
		snprintf(blocks, sizeof(blocks), " in %.0f %s", f->blocks[node],
			 round(f->blocks[node]) == 1 ? "block" : "blocks");
	snprintf(buffer, size, "%s (%.1f %%)%s, self %s",
		 bytes_text(bytes, sizeof(bytes), f->tree.total[node]),
		 all > 0 ? f->tree.total[node] / all * 100 : 0, blocks,
		 bytes_text(own_bytes, sizeof(own_bytes), own));
	return buffer;
}

static const char *module_name(const struct flamegraph *f, uint32_t index)
{
	const struct mayfly_module *m = mayfly_trace_module(f->stacks.trace, index);
	const char *slash = m ? strrchr(m->path, '/') : NULL;

	return !m ? "" : slash ? slash + 1 : m->path;
}

/* ---- colours ---- */

/* Colours of modules, by their area in the picture. */
static const struct {
	double hue, saturation;
} palette[COLOURED + 1] = {{26, .88}, {206, .62}, {142, .42}, {276, .48},
			   {50, .80}, {338, .62}, {40, .10}};

static double channel(double hue, double saturation, double lightness, double offset)
{
	double k = fmod(offset + hue / 30, 12);
	double a = saturation * fmin(lightness, 1 - lightness);

	return lightness - a * fmax(-1, fmin(fmin(k - 3, 9 - k), 1));
}

static void print_colour(struct out *o, size_t colour, double lightness)
{
	double hue = palette[colour].hue, saturation = palette[colour].saturation;

	out_format(o, "#%02x%02x%02x",
		   (unsigned int)lround(255 * channel(hue, saturation, lightness, 0)),
		   (unsigned int)lround(255 * channel(hue, saturation, lightness, 8)),
		   (unsigned int)lround(255 * channel(hue, saturation, lightness, 4)));
}

static size_t colour_of(const struct flamegraph *f, uint32_t module)
{
	return module < f->stacks.info->modules ? f->colour[module] : COLOURED;
}

/* Adjacent frames of one module differ a little. */
static double lightness_of(uint32_t name)
{
	return .70 + .13 * (double)(numbering_mix(name) % 64) / 63;
}

static bool choose_colours(struct flamegraph *f)
{
	size_t modules = f->stacks.info->modules;
	double *area = calloc(modules + 1, sizeof(*area));

	f->colour = malloc(modules + 1);
	if (!area || !f->colour) {
		free(area);
		return false;
	}
	memset(f->colour, COLOURED, modules + 1);
	for (size_t i = 1; i < f->tree.count; i++)
		if (f->tree.node[i].module < modules)
			area[f->tree.node[i].module] += f->tree.total[i];
	for (; f->colours < COLOURED; f->colours++) {
		size_t largest = modules;

		for (size_t i = 0; i < modules; i++)
			if (area[i] > (largest < modules ? area[largest] : 0))
				largest = i;
		if (largest == modules)
			break;
		area[largest] = 0;
		f->colour[largest] = (uint8_t)f->colours;
		f->coloured[f->colours] = (uint32_t)largest;
	}
	free(area);
	return true;
}

/* ---- frames ---- */

static size_t letters_of(const char *text)
{
	size_t letters = 0;

	for (size_t length; *text; text += length ? length : 1, letters++)
		length = utf8_length(text);
	return letters;
}

/* Shortens a label if needed, first by its enclosing scopes, which say the least. */
static void print_label(struct out *o, const char *label, double width)
{
	size_t room = width > 6 ? (size_t)((width - 6) / CHAR) : 0, at = 0;
	const char *inner;
	char cut[512];

	if (room < 3)
		return;
	while (letters_of(label) > room && (inner = strstr(label, "::")) != NULL)
		label = inner + 2;
	if (letters_of(label) <= room) {
		out_xml(o, label);
		return;
	}
	for (size_t i = 0; i + 1 < room && at + 8 < sizeof(cut); i++) {
		size_t length = utf8_length(label + at);

		at += length ? length : 1;
	}
	memcpy(cut, label, at);
	cut[at] = 0;
	out_xml(o, cut);
	out_text(o, "\xe2\x80\xa6");
}

static void print_frame(struct flamegraph *f, uint32_t node, size_t depth, double begin,
			const char *name, const char *label)
{
	double scale = ROOM / f->tree.total[0], width = f->tree.total[node] * scale;
	double x = MARGIN + begin * scale, first = round(begin);
	struct out *o = &f->out;
	char figures[128];

	out_format(o, "<g class=\"f\" data-b=\"%.0f\" data-w=\"%.0f\"", first,
		   round(begin + f->tree.total[node]) - first);
	if (strcmp(name, label) != 0) {
		out_text(o, " data-n=\"");
		out_xml(o, label);
		out_char(o, '"');
	}
	out_text(o, "><title>");
	out_xml(o, name);
	out_format(o, "\n%s</title><rect x=\"%.1f\" y=\"%zu\" width=\"%.1f\" fill=\"",
		   figures_text(figures, sizeof(figures), f, node), x, TOP + depth * ROW,
		   fmax(width - .5, .1));
	print_colour(o, node ? colour_of(f, f->tree.node[node].module) : COLOURED,
		     node ? lightness_of(f->tree.node[node].name) : .86);
	out_format(o, "\"/><text x=\"%.1f\" y=\"%zu\">", x + 3, TOP + depth * ROW + 12);
	print_label(o, label, width);
	out_text(o, "</text></g>\n");
}

/* From left to right; frames too narrow to be seen are left out with all their callees. */
static bool print_frames(struct flamegraph *f)
{
	double least = f->tree.total[0] * LEAST_WIDTH / ROOM;
	size_t depth = 1, left;
	char label[512];

	if (!array_reserve(&f->next, &f->next_capacity, 1, sizeof(*f->next)))
		return false;
	f->next[1] = 0;
	print_frame(f, 0, 0, 0, "all", "all");
	for (uint32_t i = call_tree_next(&f->tree, 0, &left); i != CALL_NONE; depth++) {
		const char *name = shown_text(&f->stacks, f->tree.node[i].name);

		if (!array_reserve(&f->next, &f->next_capacity, depth + 1, sizeof(*f->next)))
			return false;
		f->next[depth + 1] = f->next[depth];
		if (f->tree.total[i] >= least)
			print_frame(f, i, depth, f->next[depth], name,
				    name_plain(label, sizeof(label), name));
		f->next[depth] += f->tree.total[i];
		i = call_tree_next(&f->tree, i, &left);
		depth -= left;
	}
	return true;
}

static void find_deepest(struct flamegraph *f)
{
	double least = f->tree.total[0] * LEAST_WIDTH / ROOM;
	size_t depth = 1, left;

	for (uint32_t i = call_tree_next(&f->tree, 0, &left); i != CALL_NONE; depth++) {
		if (depth > f->deepest && f->tree.total[i] >= least)
			f->deepest = depth;
		i = call_tree_next(&f->tree, i, &left);
		depth -= left;
	}
}

/* ---- the picture ---- */

static const char style[] =
    "text{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:11px;"
    "fill:#1f1f1f}"
    "#title,#what,#legend text,#details,#found,.button{font-family:system-ui,'DejaVu Sans',"
    "Verdana,sans-serif;font-size:12px;fill:#555}"
    "#title{font-size:16px;font-weight:bold;fill:#222}"
    "#details{fill:#222}#found{text-anchor:end;fill:#a0009c}"
    ".button{text-anchor:end;fill:#0b57a4;cursor:pointer;visibility:hidden}"
    ".button:hover{text-decoration:underline}"
    ".f{cursor:pointer}.f rect{height:16px;rx:2px}.f text{pointer-events:none}"
    ".f:hover rect{stroke:#222;stroke-width:.7}.above{opacity:.55}"
    ".hit rect{fill:#f06ae8}";

static void print_legend(struct flamegraph *f)
{
	double x = MARGIN;

	out_text(&f->out, "<g id=\"legend\">");
	for (size_t i = 0; i < f->colours; i++) {
		const char *name = module_name(f, f->coloured[i]);
		char cut[40];

		snprintf(cut, sizeof(cut), "%.30s%s", name, strlen(name) > 30 ? "..." : "");
		out_format(&f->out, "<rect x=\"%.0f\" y=\"54\" width=\"11\" height=\"11\" fill=\"",
			   x);
		print_colour(&f->out, i, .75);
		out_format(&f->out, "\"/><text x=\"%.0f\" y=\"64\">", x + 16);
		out_xml(&f->out, cut);
		out_text(&f->out, "</text>");
		x += 36 + 7.2 * (double)strlen(cut);
	}
	out_text(&f->out, "</g>\n");
}

static void print_head(struct flamegraph *f, const char *title, const char *what)
{
	size_t height = TOP + (f->deepest + 1) * ROW + 12;
	struct out *o = &f->out;

	out_format(o,
		   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\""
		   "http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%zu\" viewBox=\""
		   "0 0 %.0f %zu\">\n<style>",
		   WIDTH, height, WIDTH, height);
	out_text(o, style);
	out_format(o,
		   "</style>\n<rect id=\"background\" width=\"%.0f\" height=\"%zu\" "
		   "fill=\"#fdfcf9\"/>\n<text id=\"title\" x=\"10\" y=\"26\">",
		   WIDTH, height);
	out_xml(o, title);
	out_text(o, "</text>\n<text id=\"what\" x=\"10\" y=\"45\">");
	out_xml(o, what);
	out_text(o, "</text>\n");
	print_legend(f);
	out_text(o, "<text id=\"details\" x=\"10\" y=\"86\"> </text>\n"
		    "<text id=\"search\" class=\"button\" x=\"1190\" y=\"26\">Search</text>\n"
		    "<text id=\"reset\" class=\"button\" x=\"1120\" y=\"26\">Reset zoom</text>\n"
		    "<text id=\"found\" x=\"1190\" y=\"45\"></text>\n");
}

static int print_picture(struct flamegraph *f, const char *title, const char *what)
{
	find_deepest(f);
	if (!choose_colours(f))
		return MAYFLY_E_MEMORY;
	print_head(f, title, what);
	if (f->tree.total[0] > 0) {
		if (!print_frames(f))
			return MAYFLY_E_MEMORY;
		out_text(&f->out, "<script><![CDATA[\n");
		out_text(&f->out, flamegraph_script);
		out_text(&f->out, "]]></script>\n");
	} else {
		out_text(&f->out, "<text x=\"10\" y=\"106\">no blocks</text>\n");
	}
	out_text(&f->out, "</svg>\n");
	return 0;
}

/* "live at the peak, 1.234 s: 7.95 MB +- 13 % in 93900 blocks" */
static void say_what(char *buffer, size_t size, const struct mayfly_trace *trace,
		     const struct mayfly_query *query, const struct mayfly_node_sums *sums)
{
	const struct mayfly_figure *bytes = &sums->total.bytes;
	char metric[128], value[32], error[32] = "", blocks[64] = "";

	if (bytes->estimate > 0 && bytes->stderror > 0)
		snprintf(error, sizeof(error), " \xc2\xb1%.2g %%",
			 2 * bytes->stderror / bytes->estimate * 100);
	if (export_knows(trace, MAYFLY_ABSENT_BLOCKS))
		snprintf(blocks, sizeof(blocks), " in %.0f blocks", sums->total.blocks.estimate);
	snprintf(buffer, size, "%s: %s%s%s",
		 export_metric_text(metric, sizeof(metric), trace, query, sums->time_ns),
		 bytes_text(value, sizeof(value), bytes->estimate), error, blocks);
}

static int flamegraph_convert(struct flamegraph *f, const struct mayfly_trace *trace,
			      const struct export_options *options)
{
	struct stack_sums sums;
	char what[256];
	int error = stack_sums_begin(&sums, trace, options->query, NULL);

	if (error)
		return error;
	say_what(what, sizeof(what), trace, options->query, sums.of[0]);
	f->counts = export_knows(trace, MAYFLY_ABSENT_BLOCKS);
	error = shown_begin(&f->stacks, trace, options->query);
	if (!error)
		error = call_tree_make(&f->tree, &f->stacks, &sums, false);
	stack_sums_end(&sums);
	if (error)
		return error;
	f->blocks = call_tree_totals(&f->tree, CALL_BLOCKS(0));
	error = f->blocks ? call_tree_sort(&f->tree, CALL_BYTES(0)) : MAYFLY_E_MEMORY;
	return error ? error : print_picture(f, export_title(options, trace), what);
}

int export_flamegraph(const struct mayfly_trace *trace, const struct export_options *options,
		      trace_sink *sink, void *context)
{
	struct flamegraph f = {0};
	int error, written;

	out_begin(&f.out, sink, context);
	error = flamegraph_convert(&f, trace, options);
	written = out_end(&f.out);
	shown_end(&f.stacks);
	call_tree_free(&f.tree);
	free(f.blocks);
	free(f.colour);
	free(f.next);
	return error ? error : written;
}
