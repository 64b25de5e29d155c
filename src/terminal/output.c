/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people. */
#include "terminal/output.h"

#include "terminal/border.h"
#include "terminal/terminal.h"
#include "base/array.h"

#include <assert.h>
#include <langinfo.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PIPE_WIDTH    100 /* when the width of the reader's terminal is not known */
#define LEAST_WIDTH   40
#define LARGEST_WIDTH 1000
#define LINE_BYTES    8192
#define TITLE_BYTES   128

void output_detect(struct output *o)
{
	const char *columns = getenv("COLUMNS");
	struct winsize window;

	o->width = PIPE_WIDTH;
	if (isatty(STDOUT_FILENO))
		o->width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col
			       ? window.ws_col
			       : 80;
	if (columns && atoi(columns) > 0)
		o->width = atoi(columns);
	if (o->width < LEAST_WIDTH)
		o->width = LEAST_WIDTH;
	if (o->width > LARGEST_WIDTH)
		o->width = LARGEST_WIDTH;
	o->colour = terminal_has_colour();
	o->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* ---- bars ---- */

char *text_bar(char *buffer, size_t size, const struct output *o, double part, double whole,
	       int columns)
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	double share = whole > 0 ? part / whole : 0;
	size_t used = 0;
	long units;

	if (!(share > 0))
		share = 0;
	if (share > 1)
		share = 1;
	buffer[0] = 0;
	units = lround(share * columns * (o->utf8 ? 8 : 1));
	for (; units >= (o->utf8 ? 8 : 1); units -= o->utf8 ? 8 : 1)
		used += (size_t)snprintf(buffer + used, used < size ? size - used : 0, "%s",
					 o->utf8 ? "█" : "#");
	if (units > 0 && used < size)
		snprintf(buffer + used, size - used, "%s", eighths[units]);
	return buffer;
}

char *text_sparkline(char *buffer, size_t size, const struct output *o, const double *value,
		     size_t count)
{
	static const char *const utf8[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	double largest = 0;
	size_t used = 0;

	buffer[0] = 0;
	for (size_t i = 0; i < count; i++)
		if (value[i] > largest)
			largest = value[i];
	for (size_t i = 0; o->utf8 && i < count && used + 4 < size; i++) {
		double share = largest > 0 && value[i] > 0 ? value[i] / largest : 0;
		long level = share > 0 ? 1 + lround(share * 7) : 0;

		used += (size_t)snprintf(buffer + used, size - used, "%s", utf8[level]);
	}
	return buffer;
}

/* ---- lines ---- */

void write_styled(FILE *to, const struct output *o, enum style style, const char *text)
{
	bool styled = o->colour && style != STYLE_PLAIN && *text;

	if (styled)
		border_sign(to, (enum border_sign)style);
	fputs(text, to);
	if (styled)
		border_sign(to, SIGN_PLAIN);
}

void print_styled(const struct output *o, enum style style, const char *text)
{
	write_styled(stdout, o, style, text);
}

/* Prints words from column `column` on; changes text[LINE_BYTES]. */
static void print_words(const struct output *o, enum style style, int indent, int column,
			char *text)
{
	char line[LINE_BYTES];
	bool first = true;
	size_t used = 0;

	text_clean(text, LINE_BYTES, text); /* a name's newline would begin a line of its own */
	for (char *save, *word = strtok_r(text, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		int columns = (int)text_columns(word);

		if (!first && column + 1 + columns > o->width) {
			print_styled(o, style, line);
			printf("\n%*s", indent, "");
			column = indent;
			used = 0;
		} else if (!first) {
			used += (size_t)snprintf(line + used, sizeof(line) - used, " ");
			column++;
		}
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%s", word);
		column += columns;
		first = false;
	}
	if (used)
		print_styled(o, style, line);
	putchar('\n');
}

void print_wrapped(const struct output *o, enum style style, int indent, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	printf("%*s", indent, "");
	print_words(o, style, indent, indent, text);
}

void print_field(const struct output *o, const char *name, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	print_styled(o, STYLE_BOLD, name);
	printf("%*s", (int)(FIELD_INDENT - text_columns(name)), "");
	print_words(o, STYLE_PLAIN, FIELD_INDENT, FIELD_INDENT, text);
}

/* ---- tables ---- */

#define MOST_COLUMNS 16

struct table {
	const struct output *out;
	struct column column[MOST_COLUMNS]; /* their titles are ours */
	size_t columns;
	bool fixed; /* all columns are there */
	char **cell;
	size_t cells, room;
	enum style *row_style; /* [row_styles]; later rows are plain */
	size_t row_styles, style_room;
	bool failed; /* out of memory */
};

#define GAP 2 /* between columns */

struct table *table_new(const struct output *o)
{
	struct table *t = calloc(1, sizeof(*t));

	if (t)
		t->out = o;
	return t;
}

void table_row(struct table *t)
{
	if (t)
		t->fixed = t->columns > 0;
}

struct table *table_column(struct table *t, const struct column *column)
{
	char *title;

	if (!t || t->failed || t->fixed || t->columns > t->cells)
		return t;
	title = t->columns < MOST_COLUMNS ? strdup(column->title) : NULL;
	t->failed = !title;
	if (!title)
		return t;
	text_clean(title, strlen(title) + 1, title);
	t->column[t->columns] = *column;
	t->column[t->columns++].title = title;
	return t;
}

/* Takes a text over. NULL: out of memory. */
static void take_cell(struct table *t, char *text)
{
	assert(!t || t->failed || t->fixed || t->cells < t->columns); /* it has a column */
	if (text && t && !t->failed && ARRAY_ADD(t->cell, t->room, t->cells, text)) {
		text_clean(text, strlen(text) + 1, text);
		return;
	}
	free(text);
	if (t)
		t->failed = true;
}

void table_cell(struct table *t, const char *text)
{
	take_cell(t, strdup(text));
}

void table_format(struct table *t, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	take_cell(t, vasprintf(&text, format, arguments) < 0 ? NULL : text);
	va_end(arguments);
}

void table_bytes(struct table *t, double bytes)
{
	char text[FIGURE_TEXT];

	table_cell(t, text_bytes(text, sizeof(text), bytes));
}

void table_count(struct table *t, double count)
{
	char text[FIGURE_TEXT];

	table_cell(t, text_count(text, sizeof(text), count));
}

void table_duration(struct table *t, double ns)
{
	char text[FIGURE_TEXT];

	table_cell(t, text_duration(text, sizeof(text), ns));
}

void table_percent(struct table *t, double part, double whole)
{
	char text[FIGURE_TEXT];

	table_cell(t, text_percent(text, sizeof(text), part, whole));
}

void table_figure(struct table *t, int drop, const struct mayfly_figure *f, uint64_t samples)
{
	char text[FIGURE_TEXT];

	if (!t)
		return;
	table_cell(t, text_figure_value(text, sizeof(text), f, samples));
	table_cell(COLUMN(t, "", .drop = drop, .style = STYLE_DIM, .close = true),
		   text_figure_error(text, sizeof(text), t->out->utf8, f, samples));
}

static void table_free(struct table *t)
{
	for (size_t i = 0; i < t->cells; i++)
		free(t->cell[i]);
	for (size_t i = 0; i < t->columns; i++)
		free((char *)t->column[i].title);
	free(t->cell);
	free(t->row_style);
	free(t);
}

void table_row_style(struct table *t, enum style style)
{
	size_t row;

	if (!t || t->failed)
		return;
	row = (t->cells - 1) / t->columns;
	while (t->row_styles <= row && !t->failed)
		t->failed = !ARRAY_ADD(t->row_style, t->style_room, t->row_styles, STYLE_PLAIN);
	if (!t->failed)
		t->row_style[row] = style;
}

/* The style of the column takes precedence over that of the row. */
static enum style cell_style(const struct table *t, const struct column *column, long row)
{
	if (row < 0)
		return STYLE_BOLD;
	if (column->style != STYLE_PLAIN || (size_t)row >= t->row_styles)
		return column->style;
	return t->row_style[row];
}

static size_t column_width(const struct table *t, size_t column)
{
	size_t width = text_columns(t->column[column].title);

	for (size_t i = column; i < t->cells; i += t->columns) {
		size_t columns = text_columns(t->cell[i]);

		if (columns > width)
			width = columns;
	}
	return width;
}

static size_t gap_before(const struct table *t, size_t column)
{
	return column == 0 ? 0 : t->column[column].close ? 1 : GAP;
}

/* Decides which columns are printed; others get width 0. Returns the width that is left for the
 * last one. */
static size_t fit_columns(const struct table *t, const struct output *o, int indent, size_t *width)
{
	size_t last = t->columns - 1, wanted = (size_t)o->width * 2 / 5;

	for (size_t i = 0; i < t->columns; i++)
		width[i] = column_width(t, i);
	if (wanted > width[last])
		wanted = width[last];
	for (;;) {
		size_t used = (size_t)indent + gap_before(t, last);
		int drop = 0;

		for (size_t i = 0; i < last; i++) {
			used += width[i] ? gap_before(t, i) + width[i] : 0;
			if (width[i] && t->column[i].drop > drop)
				drop = t->column[i].drop;
		}
		if (used + wanted <= (size_t)o->width || drop == 0 || o->wide)
			return used < (size_t)o->width ? (size_t)o->width - used : 1;
		for (size_t i = 0; i < last; i++)
			if (t->column[i].drop == drop)
				width[i] = 0;
	}
}

static void print_cell(const struct output *o, const struct column *c, enum style style,
		       const char *text, size_t width)
{
	int padding = (int)(width - text_columns(text));

	if (c->right)
		printf("%*s", padding, "");
	print_styled(o, style, text);
	if (!c->right)
		printf("%*s", padding, "");
}

/* row: an index, or -1 for the titles. name: what the last column holds. */
static void print_line(const struct table *t, const struct output *o, int indent,
		       const size_t *width, const char *name, long row)
{
	const struct column *last = &t->column[t->columns - 1];
	char *const *cell = row < 0 ? NULL : &t->cell[(size_t)row * t->columns];

	printf("%*s", indent, "");
	for (size_t i = 0; i + 1 < t->columns; i++) {
		const struct column *c = &t->column[i];

		if (!width[i])
			continue;
		printf("%*s", (int)gap_before(t, i), "");
		print_cell(o, c, cell_style(t, c, row), cell ? cell[i] : c->title, width[i]);
	}
	printf("%*s", (int)gap_before(t, t->columns - 1), "");
	print_styled(o, cell_style(t, last, row), name);
	putchar('\n');
}

size_t table_rows(const struct table *t)
{
	return t && !t->failed && t->columns ? t->cells / t->columns : 0;
}

/* The last cells, shortened to `columns`; NULL: out of memory. The caller frees them and the list. */
static char **fit_last(const struct table *t, const struct output *o, size_t columns)
{
	size_t rows = table_rows(t);
	char **cell = calloc(rows + 1, sizeof(*cell)), **fitted = calloc(rows + 1, sizeof(*fitted));

	for (size_t row = 0; cell && row < rows; row++)
		cell[row] = t->cell[(row + 1) * t->columns - 1];
	if (cell && fitted && !names_fit(fitted, o, cell, rows, columns)) {
		free(fitted);
		fitted = NULL;
	}
	if (!cell) {
		free(fitted);
		fitted = NULL;
	}
	free(cell);
	return fitted;
}

static bool print_table(const struct table *t, int indent)
{
	size_t width[MOST_COLUMNS] = {0};
	char title[TITLE_BYTES], **fitted;
	size_t left;

	left = fit_columns(t, t->out, indent, width);
	fitted = fit_last(t, t->out, left);
	if (!fitted)
		return false;
	print_line(t, t->out, indent, width,
		   name_fit(title, sizeof(title), t->out, t->column[t->columns - 1].title, left),
		   -1);
	for (size_t row = 0; row < table_rows(t); row++) {
		print_line(t, t->out, indent, width, fitted[row], (long)row);
		free(fitted[row]);
	}
	free(fitted);
	return true;
}

bool table_end(struct table *t, int indent)
{
	bool done = t && !t->failed && (!table_rows(t) || print_table(t, indent));

	if (t)
		table_free(t);
	return done;
}

bool table_print_rows(const struct output *o, size_t rows,
		      void (*put)(struct table *t, const void *context, size_t row),
		      const void *context)
{
	struct table *t = table_new(o);

	for (size_t i = 0; i < rows; i++) {
		table_row(t);
		put(t, context, i);
	}
	return table_end(t, 0);
}
