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
#include "convert/export/exports.h"
#include "convert/out.h"
#include "answer/figures.h"
#include "answer/plain_name.h"
#include "answer/texts.h"
#include "answer/trace_names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flamegraph_script.h"
#include "base/hash.h"
#include "query/calls_tree.h"

#define WIDTH	    1200.0 /* without a script; with it, the window's width */
#define MARGIN	    10.0
#define ROOM	    (WIDTH - 2 * MARGIN)
#define TOP	    96 /* of the first row */
#define ROW	    17
#define CHAR	    6.65 /* of the 11 px font; all three as in flamegraph.js */
#define LEAST_WIDTH 0.5	 /* narrower frames are one */
#define COLOURED    6	 /* number of modules with their own colour */

struct flamegraph {
	struct calls *calls;
	struct texts modules; /* of places; number 0: none */
	uint32_t *module_of;  /* place -> module */
	struct out *out;
	bool counts;	 /* numbers of blocks are known */
	uint8_t *colour; /* module -> colour; COLOURED and above: none */
	uint32_t coloured[COLOURED];
	size_t colours;
	char *name; /* NAME_BYTES, of a frame */
};

/* ---- texts ---- */

/* "1.23 MiB (4.5 %) in 12 blocks, self 56.7 KiB" */
static char *figures_text(char *buffer, size_t size, const struct flamegraph *f, uint32_t node)
{
	const struct calls_node *n = &f->calls->node[node];
	double all = f->calls->node[0].total, count = f->calls->total_of[node].blocks.estimate;
	char bytes[FIGURE_TEXT], own_bytes[FIGURE_TEXT], blocks[64] = "";

	if (f->counts)
		snprintf(blocks, sizeof(blocks), " in %.0f %s", count,
			 round(count) == 1 ? "block" : "blocks");
	snprintf(buffer, size, "%s (%.1f %%)%s, self %s",
		 text_bytes(bytes, sizeof(bytes), n->total), all > 0 ? n->total / all * 100 : 0,
		 blocks, text_bytes(own_bytes, sizeof(own_bytes), n->self));
	return buffer;
}

static const char *node_name(const struct flamegraph *f, uint32_t node)
{
	const struct calls_node *n = &f->calls->node[node];

	if (n->place != CALLS_NONE)
		return place_name(f->name, NAME_BYTES, &f->calls->place[n->place]);
	if (node == 0)
		return "all";
	snprintf(f->name, NAME_BYTES, "(%u smaller)", n->smaller);
	return f->name;
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

/* 0: of none, or of several. */
static uint32_t node_module(const struct flamegraph *f, uint32_t node)
{
	uint32_t place = f->calls->node[node].place;

	return place == CALLS_NONE ? 0 : f->module_of[place];
}

/* Adjacent frames of one module differ a little. */
static double lightness_of(uint32_t name)
{
	return .70 + .13 * (double)(hash_mix(name) % 64) / 63;
}

static bool number_modules(struct flamegraph *f)
{
	f->module_of = calloc(f->calls->places + 1, sizeof(*f->module_of));
	if (!f->module_of || texts_number(&f->modules, "") == TEXTS_FAILED)
		return false;
	for (size_t i = 0; i < f->calls->places; i++) {
		f->module_of[i] = texts_number(&f->modules, path_base(f->calls->place[i].module));
		if (f->module_of[i] == TEXTS_FAILED)
			return false;
	}
	return true;
}

static bool choose_colours(struct flamegraph *f)
{
	size_t modules = f->modules.count;
	double *area = calloc(modules + 1, sizeof(*area));

	f->colour = malloc(modules + 1);
	if (!area || !f->colour) {
		free(area);
		return false;
	}
	memset(f->colour, COLOURED, modules + 1);
	for (uint32_t i = 1; i < f->calls->nodes; i++)
		area[node_module(f, i)] += f->calls->node[i].total;
	area[0] = 0;
	for (; f->colours < COLOURED; f->colours++) {
		size_t largest = 0;

		for (size_t i = 1; i < modules; i++)
			if (area[i] > area[largest])
				largest = i;
		if (!largest)
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

static void print_frame(struct flamegraph *f, uint32_t node)
{
	const struct calls_node *n = &f->calls->node[node];
	double scale = ROOM / f->calls->node[0].total, width = n->total * scale;
	double x = MARGIN + n->left * scale, first = round(n->left);
	const char *name = node_name(f, node), *label;
	struct out *o = f->out;
	size_t y = TOP + (size_t)n->depth * ROW;
	char figures[128], plain[512];

	label = n->place == CALLS_NONE ? name : name_plain(plain, sizeof(plain), name);
	out_format(o, "<g class=\"f\" data-b=\"%.0f\" data-w=\"%.0f\"", first,
		   round(n->left + n->total) - first);
	if (strcmp(name, label) != 0) {
		out_text(o, " data-n=\"");
		out_xml(o, label);
		out_char(o, '"');
	}
	out_text(o, "><title>");
	out_xml(o, name);
	out_format(o, "\n%s</title><rect x=\"%.1f\" y=\"%zu\" width=\"%.1f\" fill=\"",
		   figures_text(figures, sizeof(figures), f, node), x, y, fmax(width - .5, .1));
	print_colour(o, f->colour[node_module(f, node)],
		     n->place == CALLS_NONE ? .86 : lightness_of(n->place));
	out_format(o, "\"/><text x=\"%.1f\" y=\"%zu\">", x + 3, y + 12);
	print_label(o, label, width);
	out_text(o, "</text></g>\n");
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
    ".hit rect{fill:#f06ae8}.loading .f{display:none}";

/* Browsers lay out what they have again and again while a file loads: flamegraph.js shows the frames
 * at the end. */
static const char while_loading[] =
    "<script type=\"text/javascript\">"
    "document.documentElement.setAttribute(\"class\", \"loading\")</script>\n";

static void print_legend(struct flamegraph *f)
{
	double x = MARGIN;

	out_text(f->out, "<g id=\"legend\">");
	for (size_t i = 0; i < f->colours; i++) {
		const char *name = f->modules.text[f->coloured[i]];
		char cut[40];

		snprintf(cut, sizeof(cut), "%.30s%s", name, strlen(name) > 30 ? "..." : "");
		out_format(f->out, "<rect x=\"%.0f\" y=\"54\" width=\"11\" height=\"11\" fill=\"",
			   x);
		print_colour(f->out, i, .75);
		out_format(f->out, "\"/><text x=\"%.0f\" y=\"64\">", x + 16);
		out_xml(f->out, cut);
		out_text(f->out, "</text>");
		x += 36 + 7.2 * (double)strlen(cut);
	}
	out_text(f->out, "</g>\n");
}

static void print_head(struct flamegraph *f, const char *title, const char *what)
{
	size_t deepest = 0, height;
	struct out *o = f->out;

	for (size_t i = 0; i < f->calls->nodes; i++)
		if (f->calls->node[i].depth > deepest)
			deepest = f->calls->node[i].depth;
	height = TOP + (deepest + 1) * ROW + 12;
	out_format(o,
		   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\""
		   "http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%zu\" viewBox=\""
		   "0 0 %.0f %zu\">\n<title>",
		   WIDTH, height, WIDTH, height);
	/* Without a title of the whole, Chromium looks for it in all frames with each frame's. */
	out_xml(o, title);
	out_text(o, "</title>\n<style>");
	out_text(o, style);
	out_format(o,
		   "</style>\n%s<rect id=\"background\" width=\"%.0f\" height=\"%zu\" "
		   "fill=\"#fdfcf9\"/>\n<text id=\"title\" x=\"10\" y=\"26\">",
		   while_loading, WIDTH, height);
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

static void print_picture(struct flamegraph *f, const char *title, const char *what)
{
	f->name = malloc(NAME_BYTES);
	if (!f->name || !number_modules(f) || !choose_colours(f)) {
		out_fail(f->out, MAYFLY_E_MEMORY);
		return;
	}
	print_head(f, title, what);
	if (f->calls->node[0].total > 0) {
		for (uint32_t i = 0; i < f->calls->nodes; i++)
			if (f->calls->node[i].total > 0)
				print_frame(f, i);
		out_text(f->out, "<script><![CDATA[\n");
		out_text(f->out, flamegraph_script);
		out_text(f->out, "]]></script>\n");
	} else {
		out_text(f->out, "<text x=\"10\" y=\"106\">no blocks</text>\n");
	}
	out_text(f->out, "</svg>\n");
}

/* "live at the peak, 1.234 s: 7.95 MiB +- 13 % in 93900 blocks" */
static void say_what(char *buffer, size_t size, const struct mayfly_trace *trace,
		     const struct mayfly_query *query, const struct calls *calls)
{
	const struct mayfly_figure *bytes = &calls->all.bytes;
	char metric[128], value[FIGURE_TEXT], error[32] = "", blocks[64] = "";

	if (bytes->estimate > 0 && bytes->stderror > 0)
		snprintf(error, sizeof(error), " \xc2\xb1%.2g %%",
			 2 * bytes->stderror / bytes->estimate * 100);
	if (export_knows(trace, MAYFLY_ABSENT_BLOCKS))
		snprintf(blocks, sizeof(blocks), " in %.0f blocks", calls->all.blocks.estimate);
	snprintf(buffer, size, "%s: %s%s%s",
		 export_metric_text(metric, sizeof(metric), trace, query, calls->time_ns),
		 text_bytes(value, sizeof(value), bytes->estimate), error, blocks);
}

void export_flamegraph(struct export_job *j)
{
	const struct calls_options calls = {.least = LEAST_WIDTH / ROOM, .estimates = true};
	struct flamegraph f = {.out = &j->out,
			       .counts = export_knows(j->trace, MAYFLY_ABSENT_BLOCKS)};
	char what[256];

	out_fail(&j->out, calls_run(j->trace, j->query, &calls, &f.calls));
	if (j->out.error)
		return;
	say_what(what, sizeof(what), j->trace, j->query, f.calls);
	print_picture(&f, export_title(j->options, j->trace), what);
	calls_free(f.calls);
	texts_free(&f.modules);
	free(f.module_of);
	free(f.colour);
	free(f.name);
}
