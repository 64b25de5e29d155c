/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From heaptrack's files to traces of mayfly.
 *
 * The file has one item per line. Numbers are hexadecimal and refer to earlier lines of a kind by
 * their ordinal (strings, places and stacks from 1, kinds of block from 0):
 *
 *	v 10400 3		heaptrack's version, the file's
 *	X jq -n ...		the program's command line
 *	I 1000 5e2990		bytes of a page, pages of the machine
 *	s f ./elf/dl-init.c	a string, with its length since version 3
 *	i 7fa58 9 e f 79 ...	a place in code: address, module, then function, file, line for each
 *				function, innermost inlined first
 *	t 2 1			a stack: place, stack of its caller or 0
 *	a 11c00 4		a kind of block: size, stack
 *	+ 0			a block of that kind is allocated
 *	- 0			a block of that kind is freed
 *	c 14			the time since the start in ms
 *	R 5d8			the number of resident pages
 *
 * In version 0 blocks have addresses: "+ size stack address", "- address".
 *
 * The file does not tell which block of a kind is freed. The youngest is assumed; this is right for
 * temporary blocks, which are freed by the next event. All sums and the mean lifetime of a kind are
 * right in any case, but not the distribution of lifetimes.
 *
 *	kind 7: size, node, youngest -> block (number) -> older block -> ... all live ones of it
 */
#include "convert/import/imports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/import_tables.h"
#include "convert/import/packed.h"
#include "format/format.h"
#include "base/interner.h"

#define NONE RECORDING_NONE

/* Limit of the memory of tables and live blocks, so that a small file cannot take a lot. */
#define MEMORY_FREE	((uint64_t)256 << 20)
#define MEMORY_PER_BYTE 64

#define NEWEST_VERSION 3

struct stack {
	uint32_t node;
	uint16_t depth;
};

struct kind {
	uint64_t size;
	uint32_t node;
	uint32_t youngest; /* live block, or NONE */
};

struct live {
	uint64_t serial;
	uint32_t older; /* the next older block of the kind; in a free place, the next free one */
};

/* Version 0: the block at an address. Freed entries stay: each address keeps its number. */
struct pointer {
	struct kind kind;
	uint64_t serial;
	bool live;
};

struct heaptrack_input {
	struct packed_lines lines;
	struct import_report *report;
	struct recording *tables;
	struct trace_writer *writer;
	struct budget budget;
	uint64_t version;
	uint64_t page_bytes, most_pages;
	int64_t now_ns;
	uint64_t unmatched;

	uint32_t *string, *place; /* number in the file -> string, frame of the tables */
	struct stack *stack;
	struct kind *kind;
	struct live *live;
	size_t strings, places, stacks, kinds, lives;
	size_t string_room, place_room, stack_room, kind_room, live_room;
	uint32_t free_live;
	uint32_t *module; /* string -> module of the tables */
	size_t module_room;

	struct interner addresses;
	struct pointer *pointer; /* of each */
	size_t pointer_room;

	bool in_command; /* further lines may belong to the command */
	uint64_t last;	 /* kind or address that the last event allocated ... */
	bool last_was_alloc;
};

/* ---- numbers ---- */

/* Reads a field of a line; false: there is none, and *at does not move. */
static bool heaptrack_hex(const char **at, uint64_t *value)
{
	const char *p = *at;
	uint64_t v = 0;

	while (*p == ' ')
		p++;
	for (unsigned digits = 0;; digits++, p++) {
		unsigned digit;

		if (*p >= '0' && *p <= '9')
			digit = (unsigned)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			digit = (unsigned)(*p - 'a') + 10;
		else if (digits == 0 || digits > 16 || (*p != ' ' && *p != 0))
			return false;
		else
			break;
		v = v << 4 | digit;
	}
	*at = p;
	*value = v;
	return true;
}

/* An impossible line: everything before it is used. */
#define BAD MAYFLY_E_DAMAGED

static bool one(const char *at, uint64_t *a)
{
	return heaptrack_hex(&at, a);
}

static bool two(const char *at, uint64_t *a, uint64_t *b)
{
	return heaptrack_hex(&at, a) && heaptrack_hex(&at, b);
}

/* ---- tables ---- */

static int heaptrack_add_string(struct heaptrack_input *c, const char *at, size_t length)
{
	uint64_t stated = length;
	int error;

	if (c->version >= 3) {
		const char *start = at;

		if (!heaptrack_hex(&at, &stated) || *at != ' ')
			return BAD;
		at++;
		length -= (size_t)(at - start);
		if (stated != length)
			return BAD;
	}
	error =
	    budget_grow(&c->budget, &c->string, c->strings, &c->string_room, sizeof(*c->string));
	if (!error)
		error = budget_spend(&c->budget, 2 * length + 32);
	if (error)
		return error;
	c->string[c->strings] = recording_string(c->tables, at, length);
	return c->string[c->strings++] == NONE ? MAYFLY_E_MEMORY : 0;
}

/* The tables' string for this number of the file. */
static bool string_of(const struct heaptrack_input *c, uint64_t number, uint32_t *string)
{
	if (number > c->strings)
		return false;
	*string = number ? c->string[number - 1] : 0;
	return true;
}

/* The file does not tell where a module begins, so addresses remain those of the process. */
static int heaptrack_find_module(struct heaptrack_input *c, uint64_t number, uint32_t *module)
{
	struct recording_module fresh = {.to_ns = INT64_MAX};
	int error = 0;

	*module = NONE;
	if (!number)
		return 0;
	if (!string_of(c, number, &fresh.path))
		return BAD;
	while (!error && c->module_room < number)
		error = budget_grow(&c->budget, &c->module, c->module_room, &c->module_room,
				    sizeof(*c->module));
	if (error)
		return error;
	if (!c->module[number - 1]) {
		error = budget_spend(&c->budget, 512);
		if (error)
			return error;
		*module = recording_module(c->tables, &fresh);
		if (*module == NONE)
			return MAYFLY_E_MEMORY;
		c->module[number - 1] = *module + 1;
	}
	*module = c->module[number - 1] - 1;
	return 0;
}

/* The functions at a place, innermost first as in a trace. The last ones may lack file and line. */
static int name_place(struct heaptrack_input *c, const char *at, uint32_t frame)
{
	uint64_t function, file, line;
	int error;

	while (heaptrack_hex(&at, &function)) {
		struct recording_location place = {0};

		file = line = 0;
		if (heaptrack_hex(&at, &file) && !heaptrack_hex(&at, &line))
			return BAD;
		if (!string_of(c, function, &place.function) || !string_of(c, file, &place.file))
			return BAD;
		place.line = line > UINT32_MAX ? 0 : (uint32_t)line;
		error = budget_spend(&c->budget, 2 * sizeof(place));
		if (!error)
			error = import_function(c->tables, frame, &place);
		if (error)
			return error;
	}
	while (*at == ' ')
		at++;
	return *at ? BAD : 0;
}

static int add_place(struct heaptrack_input *c, const char *at)
{
	uint64_t address, number;
	uint32_t module, frame;
	size_t frames = c->tables->frames;
	int error;

	if (!heaptrack_hex(&at, &address) || !heaptrack_hex(&at, &number))
		return BAD;
	error = heaptrack_find_module(c, number, &module);
	if (!error)
		error = budget_grow(&c->budget, &c->place, c->places, &c->place_room,
				    sizeof(*c->place));
	if (!error)
		error = budget_spend(&c->budget, 96);
	if (error)
		return error;
	frame = recording_frame(c->tables, MAYFLY_FRAME_CODE, module, address ? address - 1 : 0);
	if (frame == NONE)
		return MAYFLY_E_MEMORY;
	c->place[c->places++] = frame;
	if (c->tables->frames == frames)
		return 0;
	error = name_place(c, at, frame);
	if (error)
		c->tables->frame[frame].first_location = c->tables->frame[frame].locations = 0;
	return error;
}

static int add_stack(struct heaptrack_input *c, const char *at)
{
	struct stack parent = {0};
	uint64_t place, caller;
	struct stack *s;
	int error;

	if (!two(at, &place, &caller) || place > c->places || caller > c->stacks)
		return BAD;
	if (caller)
		parent = c->stack[caller - 1];
	error = budget_grow(&c->budget, &c->stack, c->stacks, &c->stack_room, sizeof(*c->stack));
	if (!error)
		error = budget_spend(&c->budget, 96);
	if (error)
		return error;
	s = &c->stack[c->stacks];
	*s = parent;
	if (place && parent.depth < TRACE_MAX_DEPTH) {
		s->node = recording_node(c->tables, parent.node, c->place[place - 1]);
		s->depth = parent.depth + 1;
		if (s->node == NONE)
			return MAYFLY_E_MEMORY;
	}
	c->stacks++;
	return 0;
}

static int add_kind(struct heaptrack_input *c, const char *at)
{
	uint64_t size, stack;

	if (!two(at, &size, &stack) || stack > c->stacks)
		return BAD;
	return BUDGET_APPEND(&c->budget, c->kind, c->kinds, c->kind_room,
			     (struct kind){size, stack ? c->stack[stack - 1].node : 0, NONE});
}

/* ---- events ---- */

static struct trace_block block_of(const struct kind *k)
{
	return (struct trace_block){.size = k->size, .node = k->node};
}

/* Whether the block that is freed now was allocated by the previous event; updates c->last. */
static bool is_temporary(struct heaptrack_input *c, uint64_t what)
{
	bool temporary = c->last_was_alloc && c->last == what;

	c->last_was_alloc = false;
	return temporary;
}

static int heaptrack_write_alloc(struct heaptrack_input *c, const struct kind *k, uint64_t what,
				 uint64_t *serial)
{
	struct trace_block block = block_of(k);

	c->last = what;
	c->last_was_alloc = true;
	return trace_writer_alloc(c->writer, c->now_ns, &block, serial);
}

static int write_free(struct heaptrack_input *c, const struct kind *k, uint64_t what,
		      uint64_t serial)
{
	struct trace_block block = block_of(k);

	return trace_writer_free(c->writer, c->now_ns, serial, &block, 0,
				 is_temporary(c, what) ? MAYFLY_FLAG_TEMPORARY : 0);
}

static int alloc_kind(struct heaptrack_input *c, uint64_t number)
{
	struct kind *k;
	uint32_t at = c->free_live;
	int error = 0;

	if (number >= c->kinds)
		return BAD;
	if (at == NONE) {
		error =
		    budget_grow(&c->budget, &c->live, c->lives, &c->live_room, sizeof(*c->live));
		if (error)
			return error;
		if (c->lives >= NONE)
			return MAYFLY_E_TOO_LARGE;
		at = (uint32_t)c->lives++;
	} else {
		c->free_live = c->live[at].older;
	}
	k = &c->kind[number];
	c->live[at].older = k->youngest;
	k->youngest = at;
	return heaptrack_write_alloc(c, k, number, &c->live[at].serial);
}

static int free_kind(struct heaptrack_input *c, uint64_t number)
{
	struct kind *k;
	uint32_t at;

	if (number >= c->kinds)
		return BAD;
	k = &c->kind[number];
	at = k->youngest;
	if (at == NONE) {
		c->unmatched++;
		c->last_was_alloc = false;
		return 0;
	}
	k->youngest = c->live[at].older;
	c->live[at].older = c->free_live;
	c->free_live = at;
	return write_free(c, k, number, c->live[at].serial);
}

/* ---- events of version 0 ---- */

#define ADDRESS_COST 96 /* as a key, with its slots and room to grow */

static int add_pointer(struct heaptrack_input *c, uint64_t address, struct pointer **pointer)
{
	size_t before = c->addresses.count;
	bool is_new;
	uint32_t number;
	int error =
	    budget_grow(&c->budget, &c->pointer, before, &c->pointer_room, sizeof(*c->pointer));

	if (error)
		return error;
	number = interner_add(&c->addresses, (struct key){{1, address}}, &is_new);
	if (number == INTERNER_NONE)
		return MAYFLY_E_MEMORY;
	*pointer = &c->pointer[number];
	return is_new ? budget_spend(&c->budget, ADDRESS_COST) : 0;
}

static int alloc_pointer(struct heaptrack_input *c, const char *at)
{
	uint64_t size, stack, address;
	struct pointer *p;
	int error;

	if (!heaptrack_hex(&at, &size) || !heaptrack_hex(&at, &stack) ||
	    !heaptrack_hex(&at, &address) || stack > c->stacks || !address)
		return BAD;
	error = add_pointer(c, address, &p);
	if (error)
		return error;
	*p = (struct pointer){.live = true,
			      .kind = {size, stack ? c->stack[stack - 1].node : 0, NONE}};
	return heaptrack_write_alloc(c, &p->kind, address, &p->serial);
}

static int free_pointer(struct heaptrack_input *c, uint64_t address)
{
	uint32_t number = interner_find(&c->addresses, (struct key){{1, address}});
	struct pointer *p = number == INTERNER_NONE ? NULL : &c->pointer[number];

	if (!p || !p->live) {
		c->unmatched++;
		c->last_was_alloc = false;
		return 0;
	}
	p->live = false;
	return write_free(c, &p->kind, address, p->serial);
}

/* ---- lines ---- */

static int begin_version(struct heaptrack_input *c, const char *at)
{
	uint64_t heaptrack;

	if (!heaptrack_hex(&at, &heaptrack))
		return BAD;
	/* The first numbered version did not write its number. */
	if (!heaptrack_hex(&at, &c->version))
		c->version = heaptrack == 0x10200;
	return c->version > NEWEST_VERSION ? MAYFLY_E_VERSION : 0;
}

/* Arguments are separated by spaces; an argument that contains spaces is split. */
static int add_words(struct heaptrack_input *c, char *text)
{
	struct recording *t = c->tables;
	char *save = NULL;

	if (budget_spend(&c->budget, 64 * (uint64_t)strlen(text)))
		return MAYFLY_E_TOO_LARGE;
	for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		uint32_t *bigger = reallocarray(t->command, t->command_count + 1, sizeof(*bigger));

		if (!bigger)
			return MAYFLY_E_MEMORY;
		t->command = bigger;
		bigger[t->command_count] = recording_string(t, word, strlen(word));
		if (bigger[t->command_count++] == NONE)
			return MAYFLY_E_MEMORY;
	}
	return 0;
}

static int set_command(struct heaptrack_input *c, char *text)
{
	if (c->tables->command)
		return BAD;
	c->in_command = true;
	return add_words(c, text);
}

static int set_time(struct heaptrack_input *c, uint64_t ms)
{
	if (ms > TRACE_LATEST_NS / 1000000)
		return BAD;
	if ((int64_t)ms * 1000000 > c->now_ns)
		c->now_ns = (int64_t)ms * 1000000;
	return 0;
}

static int heaptrack_take_event(struct heaptrack_input *c, const char *at, bool is_free)
{
	uint64_t number;

	if (!c->version && !is_free)
		return alloc_pointer(c, at);
	if (!one(at, &number))
		return BAD;
	if (is_free)
		return c->version ? free_kind(c, number) : free_pointer(c, number);
	return alloc_kind(c, number);
}

/* Handles rare lines. */
static int take_fact(struct heaptrack_input *c, char kind, char *at)
{
	uint64_t a, b;

	switch (kind) {
	case 'v':
		return begin_version(c, at);
	case 'X':
		return set_command(c, at);
	case 'I':
		if (!two(at, &a, &b))
			return BAD;
		c->page_bytes = a;
		return 0;
	case 'c':
		return one(at, &a) ? set_time(c, a) : BAD;
	case 'R':
		if (!one(at, &a))
			return BAD;
		if (a > c->most_pages)
			c->most_pages = a;
		return 0;
	case '#': /* a comment */
	case 'A': /* attached to a running program */
	case 'S': /* a suppression */
		return 0;
	}
	return BAD;
}

static int heaptrack_take_line(struct heaptrack_input *c, char *line, size_t length)
{
	char *at = line + 2;

	if (!length)
		return 0;
	if (length < 2)
		at = line + 1;
	else if (line[1] != ' ' && line[0] != '#')
		return BAD;
	switch (line[0]) {
	case '+':
	case '-':
		return heaptrack_take_event(c, at, line[0] == '-');
	case 'a':
		return add_kind(c, at);
	case 't':
		return add_stack(c, at);
	case 'i':
		return add_place(c, at);
	case 's':
		return heaptrack_add_string(c, at, length - (size_t)(at - line));
	}
	return take_fact(c, line[0], at);
}

static int take_lines(struct heaptrack_input *c)
{
	int error = 0;
	size_t length;
	char *line;

	while (!error && (line = packed_lines_next(&c->lines, &length))) {
		char kind = *line;

		error = heaptrack_take_line(c, line, length);
		/* An argument may contain line ends. */
		if (error == BAD && c->in_command)
			error = add_words(c, line);
		else if (kind != 'X' && kind != '#' && kind)
			c->in_command = false;
	}
	if (c->lines.error)
		return c->lines.error;
	if (error == MAYFLY_E_VERSION)
		snprintf(c->report->problem, sizeof(c->report->problem),
			 "made by an unsupported newer version of heaptrack");
	if (error && error != BAD)
		return error;
	if (error)
		snprintf(c->report->problem, sizeof(c->report->problem), "line %" PRIu64,
			 c->lines.number);
	else
		snprintf(c->report->problem, sizeof(c->report->problem), "%s", c->lines.problem);
	return 0;
}

/* ---- the whole file ---- */

static int heaptrack_describe(struct heaptrack_input *c)
{
	struct recording *t = c->tables;
	int error = import_describe(t, c->report->problem,
				    "converted from a heaptrack file, version %" PRIu64
				    "; times have its resolution of 10 ms, "
				    "and of equal blocks the youngest is assumed to be freed",
				    c->version);

	import_count_named(t);
	t->info.absent = MAYFLY_ABSENT_THREADS | MAYFLY_ABSENT_PROCESS | MAYFLY_ABSENT_START |
			 MAYFLY_ABSENT_MODULES;
	t->info.interval_bytes = 1;
	t->info.duration_ns = c->now_ns;
	t->info.ending = MAYFLY_END_UNKNOWN;
	if (c->page_bytes && c->most_pages <= UINT64_MAX / c->page_bytes)
		t->info.program_max_rss_bytes = c->most_pages * c->page_bytes;
	if (c->unmatched)
		snprintf(c->report->left_out, sizeof(c->report->left_out),
			 "%" PRIu64 " frees of blocks that are not in the file", c->unmatched);
	return error;
}

static int heaptrack_convert(struct heaptrack_input *c)
{
	int error;

	if (recording_thread(c->tables, 0, 0) == NONE)
		return MAYFLY_E_MEMORY;
	error = take_lines(c);
	if (!error)
		error = heaptrack_describe(c);
	return error ? error : trace_writer_finish(c->writer);
}

static void free_all(struct heaptrack_input *c)
{
	packed_lines_close(&c->lines);
	trace_writer_free_all(c->writer);
	recording_free(c->tables);
	free(c->string);
	free(c->place);
	free(c->stack);
	free(c->kind);
	free(c->live);
	free(c->module);
	free(c->pointer);
	interner_free(&c->addresses);
}

int heaptrack_import(const void *data, size_t size, const struct import_options *options,
		     trace_sink *sink, void *context, struct import_report *report)
{
	struct trace_writer_options how = {.mode = MAYFLY_EXACT};
	struct heaptrack_input c = {.report = report, .free_live = NONE, .tables = recording_new()};
	int error = MAYFLY_E_MEMORY;

	(void)options; /* names are in the file */
	c.budget.left = MEMORY_FREE + (uint64_t)size * MEMORY_PER_BYTE;
	if (c.tables)
		c.writer = trace_writer_new(&how, c.tables, sink, context);
	if (c.writer && packed_lines_open(&c.lines, data, size))
		error = heaptrack_convert(&c);
	free_all(&c);
	return error;
}

/* "v 10400 3" and a second line of one of the known kinds. */
bool heaptrack_recognise(const void *data, size_t size)
{
	char text[256];
	size_t used = packed_peek(data, size, text, sizeof(text) - 1);
	const char *at = text + 1;
	uint64_t version, file;
	char *end;

	text[used] = 0;
	end = strchr(text, '\n');
	if (text[0] != 'v' || !end)
		return false;
	*end = 0;
	if (!heaptrack_hex(&at, &version) || version < 0x10000 || version > 0xffffff)
		return false;
	if (heaptrack_hex(&at, &file) && file > 255)
		return false;
	return *at == 0 && (!end[1] || strchr("XIAsitac+-#SR", end[1]));
}
