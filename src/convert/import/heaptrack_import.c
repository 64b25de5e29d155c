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

#define MEMORY_MORE ((uint64_t)128 << 20) /* for live blocks, of which a short file can have many */

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
	struct import *in;
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

static bool one(const char *at, uint64_t *a)
{
	return heaptrack_hex(&at, a);
}

static bool two(const char *at, uint64_t *a, uint64_t *b)
{
	return heaptrack_hex(&at, a) && heaptrack_hex(&at, b);
}

/* ---- tables: functions that take a line return false when it is impossible ---- */

static bool heaptrack_add_string(struct heaptrack_input *c, const char *at, size_t length)
{
	uint64_t stated = length;

	if (c->version >= 3) {
		const char *start = at;

		if (!heaptrack_hex(&at, &stated) || *at != ' ')
			return false;
		at++;
		length -= (size_t)(at - start);
		if (stated != length)
			return false;
	}
	import_spend(c->in, 2 * length + 32);
	IMPORT_APPEND(c->in, c->string, c->strings, c->string_room,
		      recording_string(c->in->tables, at, length));
	return true;
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
static bool heaptrack_find_module(struct heaptrack_input *c, uint64_t number, uint32_t *module)
{
	struct recording_module fresh = {0};

	*module = NONE;
	if (!number)
		return true;
	if (!string_of(c, number, &fresh.path))
		return false;
	while (c->module_room < number)
		if (!import_grow(c->in, &c->module, c->module_room, &c->module_room,
				 sizeof(*c->module)))
			return true;
	if (!c->module[number - 1])
		c->module[number - 1] = import_module(c->in, fresh, 0) + 1;
	*module = c->module[number - 1] - 1;
	return true;
}

/* The functions at a place, innermost first as in a trace. The last ones may lack file and line. */
static bool name_place(struct heaptrack_input *c, const char *at, uint32_t frame)
{
	uint64_t function, file, line;

	while (heaptrack_hex(&at, &function)) {
		struct recording_location place = {0};

		file = line = 0;
		if (heaptrack_hex(&at, &file) && !heaptrack_hex(&at, &line))
			return false;
		if (!string_of(c, function, &place.function) || !string_of(c, file, &place.file))
			return false;
		place.line = line > UINT32_MAX ? 0 : (uint32_t)line;
		import_spend(c->in, 2 * sizeof(place));
		import_function(c->in->tables, frame, &place);
	}
	while (*at == ' ')
		at++;
	return !*at;
}

static bool add_place(struct heaptrack_input *c, const char *at)
{
	struct recording *t = c->in->tables;
	uint64_t address, number;
	uint32_t module, frame;
	size_t frames = t->frames;

	if (!heaptrack_hex(&at, &address) || !heaptrack_hex(&at, &number) ||
	    !heaptrack_find_module(c, number, &module))
		return false;
	frame = import_frame(c->in, module, address ? address - 1 : 0);
	IMPORT_APPEND(c->in, c->place, c->places, c->place_room, frame);
	if (t->frames == frames || name_place(c, at, frame))
		return true;
	t->frame[frame].first_location = t->frame[frame].locations = 0;
	return false;
}

static bool add_stack(struct heaptrack_input *c, const char *at)
{
	struct stack s = {0};
	uint64_t place, caller;

	if (!two(at, &place, &caller) || place > c->places || caller > c->stacks)
		return false;
	if (caller)
		s = c->stack[caller - 1];
	import_spend(c->in, 96);
	if (place && s.depth < TRACE_MAX_DEPTH) {
		s.node = recording_node(c->in->tables, s.node, c->place[place - 1]);
		s.depth++;
	}
	IMPORT_APPEND(c->in, c->stack, c->stacks, c->stack_room, s);
	return true;
}

static bool add_kind(struct heaptrack_input *c, const char *at)
{
	uint64_t size, stack;

	if (!two(at, &size, &stack) || stack > c->stacks)
		return false;
	IMPORT_APPEND(c->in, c->kind, c->kinds, c->kind_room,
		      (struct kind){size, stack ? c->stack[stack - 1].node : 0, NONE});
	return true;
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

static void heaptrack_write_alloc(struct heaptrack_input *c, const struct kind *k, uint64_t what,
				  uint64_t *serial)
{
	struct trace_block block = block_of(k);

	c->last = what;
	c->last_was_alloc = true;
	import_fail(c->in, trace_writer_alloc(c->in->writer, c->now_ns, &block, serial));
}

static void write_free(struct heaptrack_input *c, const struct kind *k, uint64_t what,
		       uint64_t serial)
{
	struct trace_block block = block_of(k);
	uint32_t flags = is_temporary(c, what) ? MAYFLY_FLAG_TEMPORARY : 0;

	import_fail(c->in, trace_writer_free(c->in->writer, c->now_ns, serial, &block, 0, flags));
}

/* A free of a block that is not in the file. */
static void miss(struct heaptrack_input *c)
{
	c->unmatched++;
	c->last_was_alloc = false;
}

static bool alloc_kind(struct heaptrack_input *c, uint64_t number)
{
	struct kind *k;
	uint32_t at = c->free_live;

	if (number >= c->kinds)
		return false;
	if (at != NONE) {
		c->free_live = c->live[at].older;
	} else {
		if (!import_grow(c->in, &c->live, c->lives, &c->live_room, sizeof(*c->live)))
			return true;
		if (c->lives >= NONE)
			import_fail(c->in, MAYFLY_E_TOO_LARGE);
		at = (uint32_t)c->lives++;
	}
	k = &c->kind[number];
	c->live[at].older = k->youngest;
	k->youngest = at;
	heaptrack_write_alloc(c, k, number, &c->live[at].serial);
	return true;
}

static bool free_kind(struct heaptrack_input *c, uint64_t number)
{
	struct kind *k;
	uint32_t at;

	if (number >= c->kinds)
		return false;
	k = &c->kind[number];
	at = k->youngest;
	if (at == NONE) {
		miss(c);
		return true;
	}
	k->youngest = c->live[at].older;
	c->live[at].older = c->free_live;
	c->free_live = at;
	write_free(c, k, number, c->live[at].serial);
	return true;
}

/* ---- events of version 0 ---- */

#define ADDRESS_COST 96 /* as a key, with its slots and room to grow */

static bool alloc_pointer(struct heaptrack_input *c, const char *at)
{
	uint64_t size, stack, address;
	struct pointer *p;
	uint32_t number;
	bool is_new;

	if (!heaptrack_hex(&at, &size) || !heaptrack_hex(&at, &stack) ||
	    !heaptrack_hex(&at, &address) || stack > c->stacks || !address)
		return false;
	if (!import_grow(c->in, &c->pointer, c->addresses.count, &c->pointer_room,
			 sizeof(*c->pointer)))
		return true;
	number = interner_add(&c->addresses, (struct key){{1, address}}, &is_new);
	if (number == INTERNER_NONE) {
		import_fail(c->in, MAYFLY_E_MEMORY);
		return true;
	}
	if (is_new)
		import_spend(c->in, ADDRESS_COST);
	p = &c->pointer[number];
	*p = (struct pointer){.live = true,
			      .kind = {size, stack ? c->stack[stack - 1].node : 0, NONE}};
	heaptrack_write_alloc(c, &p->kind, address, &p->serial);
	return true;
}

static bool free_pointer(struct heaptrack_input *c, uint64_t address)
{
	uint32_t number = interner_find(&c->addresses, (struct key){{1, address}});
	struct pointer *p = number == INTERNER_NONE ? NULL : &c->pointer[number];

	if (!p || !p->live) {
		miss(c);
		return true;
	}
	p->live = false;
	write_free(c, &p->kind, address, p->serial);
	return true;
}

/* ---- lines ---- */

static bool begin_version(struct heaptrack_input *c, const char *at)
{
	uint64_t heaptrack;

	if (!heaptrack_hex(&at, &heaptrack))
		return false;
	/* The first numbered version did not write its number. */
	if (!heaptrack_hex(&at, &c->version))
		c->version = heaptrack == 0x10200;
	if (c->version > NEWEST_VERSION) {
		import_problem(c->in, "made by an unsupported newer version of heaptrack");
		import_fail(c->in, MAYFLY_E_VERSION);
	}
	return true;
}

/* An argument that contains spaces is split. */
static bool set_command(struct heaptrack_input *c, char *text)
{
	if (c->in->tables->command)
		return false;
	c->in_command = true;
	import_command(c->in, text);
	return true;
}

static bool set_time(struct heaptrack_input *c, uint64_t ms)
{
	if (ms > TRACE_LATEST_NS / 1000000)
		return false;
	if ((int64_t)ms * 1000000 > c->now_ns)
		c->now_ns = (int64_t)ms * 1000000;
	return true;
}

static bool heaptrack_take_event(struct heaptrack_input *c, const char *at, bool is_free)
{
	uint64_t number;

	if (!c->version && !is_free)
		return alloc_pointer(c, at);
	if (!one(at, &number))
		return false;
	if (is_free)
		return c->version ? free_kind(c, number) : free_pointer(c, number);
	return alloc_kind(c, number);
}

/* Handles rare lines. */
static bool take_fact(struct heaptrack_input *c, char kind, char *at)
{
	uint64_t a, b;

	switch (kind) {
	case 'v':
		return begin_version(c, at);
	case 'X':
		return set_command(c, at);
	case 'I':
		if (!two(at, &a, &b))
			return false;
		c->page_bytes = a;
		return true;
	case 'c':
		return one(at, &a) && set_time(c, a);
	case 'R':
		if (!one(at, &a))
			return false;
		if (a > c->most_pages)
			c->most_pages = a;
		return true;
	case '#': /* a comment */
	case 'A': /* attached to a running program */
	case 'S': /* a suppression */
		return true;
	}
	return false;
}

static bool heaptrack_take_line(struct heaptrack_input *c, char *line, size_t length)
{
	char *at = line + 2;

	if (!length)
		return true;
	if (length < 2)
		at = line + 1;
	else if (line[1] != ' ' && line[0] != '#')
		return false;
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

/* Everything before an impossible line is used. */
static bool heaptrack_line(void *context, char *line, size_t length)
{
	struct heaptrack_input *c = context;
	char kind = *line;
	bool good = heaptrack_take_line(c, line, length);

	/* An argument may contain line ends. */
	if (!good && c->in_command) {
		import_command(c->in, line);
		return true;
	}
	if (kind != 'X' && kind != '#' && kind)
		c->in_command = false;
	return good;
}

/* ---- the whole file ---- */

static void heaptrack_describe(struct heaptrack_input *c)
{
	struct recording *t = c->in->tables;

	import_describe(c->in,
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
		snprintf(c->in->report.left_out, sizeof(c->in->report.left_out),
			 "%" PRIu64 " frees of blocks that are not in the file", c->unmatched);
}

void heaptrack_import(struct import *in)
{
	struct heaptrack_input c = {.in = in, .free_live = NONE};

	in->budget += MEMORY_MORE;
	import_begin_events(in);
	recording_thread(in->tables, 0, 0);
	import_lines(in, heaptrack_line, &c);
	heaptrack_describe(&c);
	free(c.string);
	free(c.place);
	free(c.stack);
	free(c.kind);
	free(c.live);
	free(c.module);
	free(c.pointer);
	interner_free(&c.addresses);
}

/* "v 10400 3" and a second line of one of these kinds. */
static bool heaptrack_begins(const void *data, size_t size, const char *kinds)
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
	return *at == 0 && strchr(kinds, end[1]);
}

/* strchr() finds the zero, too: there may be no second line. */
bool heaptrack_recognise(const void *data, size_t size)
{
	return heaptrack_begins(data, size, "XIAsitac+-#SR");
}

/* What heaptrack --raw writes has addresses instead of names, and its modules ('x', 'm'). */
bool heaptrack_raw_recognise(const void *data, size_t size)
{
	return heaptrack_begins(data, size, "xm");
}
