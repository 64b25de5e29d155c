/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of Ruby's frames: see ruby_code.h.
 *
 * A frame of Ruby code has an instruction sequence: an object of the heap, which leads to its body, where
 * the instructions are. The body and what it consists of are blocks of malloc, which do not move. A frame
 * of a function of C has a method's entry, and so has a block that define_method() made a method.
 *
 * Names are made as Ruby 3.4 writes them: "Order#load", "Order.find", "block in Order#load". The name of a
 * class is a variable of the class, and the name of a method is found by its number in the table of
 * symbols, which is among the objects that Ruby keeps for good.
 */
#include "agent/ruby/ruby_code.h"

#include "agent/cpu/sys.h"
#include "agent/records.h"

#define NAME_BYTES     256u
#define FUNCTION_BYTES (2 * NAME_BYTES + 1) /* with the class */
#define PATH_BYTES     512u
#define SLOTS_MOST     4096u /* variables of a class */
#define OUTER_MOST     256u  /* blocks in blocks */
#define KEPT_MOST      64u   /* objects kept for good before the table of symbols */
#define BODY_WORDS     20u
#define SYMBOLS_GROUP  512u /* how many symbols an array of the table has, with two words each */

/* The first word of an object: its type, and flags from this bit on. */
#define TYPE(flags)	 ((flags)&0x1f)
#define USER(flags, bit) ((flags) >> (12 + (bit)) & 1)
enum { CLASS = 2, MODULE = 3, STRING = 5, ARRAY = 7, INTERNAL = 26, MOVED = 30 };
/* The kind of an internal object. */
#define KIND(flags) ((flags) >> 12 & 15)
enum { KIND_SPECIAL = 2, KIND_METHOD = 6, KIND_INSTRUCTIONS = 7 };

/* In an environment, before its flags. */
#define OUTER	   (-1)
#define METHOD	   (-2)
#define FLAG_LOCAL 2u

struct ruby ruby;

/* ---- reading ---- */

bool ruby_peek(bool careful, uintptr_t from, void *to, size_t bytes)
{
	if (!careful) {
		memcpy(to, (const void *)from, bytes);
		return true;
	}
	return !agent_sandboxed &&
	       sys_read_process((int)spool_header->pid, to, from, bytes) == (long)bytes;
}

static bool read_words(const struct ruby_reading *r, uintptr_t from, uintptr_t *to, size_t words)
{
	return from > 4096 && !(from & 7) && ruby_peek(r->careful, from, to, words * 8);
}

/* 0: it cannot be read. */
static uintptr_t word_of(const struct ruby_reading *r, uintptr_t from)
{
	uintptr_t word;

	return read_words(r, from, &word, 1) ? word : 0;
}

/* A slot of the heap. */
struct object {
	uintptr_t word[5]; /* flags, class, and what the type has */
};

static bool read_slot(const struct ruby_reading *r, uintptr_t at, struct object *o)
{
	if (!read_words(r, at, o->word, 5))
		return false;
	return TYPE(o->word[0]) != MOVED || read_words(r, o->word[2], o->word, 5);
}

static bool read_object(const struct ruby_reading *r, uintptr_t at, uint32_t type, struct object *o)
{
	return read_slot(r, at, o) && TYPE(o->word[0]) == type;
}

static bool is_kind(const struct object *o, uint32_t kind)
{
	return TYPE(o->word[0]) == INTERNAL && KIND(o->word[0]) == kind;
}

/* An element of an array; 0: there is none. */
static uintptr_t element(const struct ruby_reading *r, uintptr_t array, uint64_t index)
{
	uintptr_t found;
	struct object o;

	if (!read_object(r, array, ARRAY, &o))
		return 0;
	if (USER(o.word[0], 1))
		return index < (o.word[0] >> 15 & 3) ? o.word[2 + index] : 0;
	if (index >= o.word[2] || !read_words(r, o.word[4] + index * 8, &found, 1))
		return 0;
	return found;
}

/* Copies a string; of a long one the end if it is a path. */
static bool copy_string(const struct ruby_reading *r, uintptr_t string, char *out, size_t size,
			bool keep_end)
{
	uintptr_t length, from = 0;
	struct object o;

	*out = 0;
	if (!read_object(r, string, STRING, &o))
		return false;
	if (!USER(o.word[0], 1)) {
		length = o.word[0] >> 14 & 31;
		if (length > 3 * sizeof(*o.word) || length >= size)
			return false;
		memcpy(out, &o.word[2], length);
	} else {
		length = o.word[2];
		if (length >= size) {
			from = keep_end ? length - (size - 1) : 0;
			length = size - 1;
		}
		if (!o.word[3] || !ruby_peek(r->careful, o.word[3] + from, out, length))
			return false;
	}
	out[length] = 0;
	return true;
}

/* ---- symbols ---- */

/* The table is an array of arrays, each with two words for a symbol: its name, the symbol. */
static uintptr_t symbol_name(const struct ruby_reading *r, uintptr_t table, uint64_t number)
{
	return element(r, element(r, table, number / SYMBOLS_GROUP), number % SYMBOLS_GROUP * 2);
}

/* Among the objects that are kept for good: operators are symbols whose number is their character. */
static uintptr_t find_symbols(const struct ruby_reading *r)
{
	static _Atomic uint32_t where;
	uintptr_t kept = word_of(r, (uintptr_t)*ruby.vm + ruby.at->vm_marked);
	uintptr_t first = element(r, kept, 0), table;
	char name[4];

	for (uint32_t i = atomic_load(&where); i < KEPT_MOST; i++) {
		table = element(r, first, i);
		if (copy_string(r, symbol_name(r, table, '+'), name, sizeof(name), false) &&
		    name[0] == '+' && !name[1]) {
			atomic_store(&where, i);
			return table;
		}
	}
	return 0;
}

static bool copy_symbol(const struct ruby_reading *r, uintptr_t id, char *out)
{
	uint64_t number = id > ruby.at->last_operator ? id >> 4 : id;

	return copy_string(r, symbol_name(r, find_symbols(r), number), out, NAME_BYTES, false);
}

/* ---- classes ---- */

/* A variable of a class: *id is its number, once it is known. 0: there is none. */
static uintptr_t variable(const struct ruby_reading *r, const struct object *class,
			  const char *name, _Atomic uintptr_t *id)
{
	uintptr_t extension = class->word[ruby.at->class_extension / 8];
	uintptr_t table = word_of(r, extension + ruby.at->extension_variables);
	uintptr_t bound, entries, entry[3], known = atomic_load(id); /* hash, key, value */
	char text[NAME_BYTES];

	if (!extension || !table)
		return 0;
	bound = word_of(r, table + ruby.at->table_bound);
	entries = word_of(r, table + ruby.at->table_entries);
	for (uintptr_t i = 0; i < bound && i < SLOTS_MOST; i++) {
		if (!read_words(r, entries + i * sizeof(entry), entry, 3))
			return 0;
		if (known ? entry[1] != known
			  : !copy_symbol(r, entry[1], text) || strcmp(text, name) != 0)
			continue;
		atomic_store(id, entry[1]);
		return entry[2];
	}
	return 0;
}

static bool is_class(const struct object *o)
{
	return TYPE(o->word[0]) == CLASS || TYPE(o->word[0]) == MODULE;
}

/* The class's name and what joins a method's to it: "Order#", or "Order." for methods of the class itself.
 * "": it has none. */
static void copy_class(const struct ruby_reading *r, uintptr_t at, char *out)
{
	static _Atomic uintptr_t id_path, id_attached;
	const char *joint = "#";
	struct object class;

	*out = 0;
	if (!read_slot(r, at, &class) || !is_class(&class))
		return;
	if (TYPE(class.word[0]) == CLASS && USER(class.word[0], 0)) { /* singleton */
		at = variable(r, &class, "__attached__", &id_attached);
		if (!read_slot(r, at, &class) || !is_class(&class))
			return;
		joint = ".";
	}
	at = variable(r, &class, "__classpath__", &id_path);
	if (copy_string(r, at, out, NAME_BYTES - 1, false))
		strcat(out, joint);
}

/* ---- methods ---- */

struct method {
	uintptr_t owner, definition, name; /* name: a symbol's number */
	bool is_instructions;
};

static bool read_method(const struct ruby_reading *r, const struct object *entry, struct method *m)
{
	m->owner = entry->word[ruby.at->method_owner / 8];
	m->definition = entry->word[ruby.at->method_definition / 8];
	m->is_instructions = (word_of(r, m->definition) & 15) == 0;
	m->name = word_of(r, m->definition + ruby.at->definition_name);
	return m->name != 0;
}

/* The method that a frame is in, through the blocks around it. */
static bool method_of(const struct ruby_reading *r, const uintptr_t *ep, struct method *m)
{
	uintptr_t around[3]; /* method or class, next environment, flags */
	struct object o;

	for (uint32_t i = 0; i < OUTER_MOST; i++) {
		if (!read_words(r, (uintptr_t)(ep + METHOD), around, 3))
			return false;
		if (!read_slot(r, around[0], &o))
			memset(&o, 0, sizeof(o));
		if (is_kind(&o, KIND_SPECIAL) && !read_slot(r, o.word[1], &o))
			return false;
		if (is_kind(&o, KIND_METHOD))
			return read_method(r, &o, m);
		if (around[2] & FLAG_LOCAL)
			return false;
		ep = (const uintptr_t *)(around[1] & ~(uintptr_t)3);
	}
	return false;
}

/* ---- instructions ---- */

struct body {
	uintptr_t word[BODY_WORDS];
};

static inline uintptr_t part_of(const struct body *b, uint32_t offset)
{
	return b->word[offset / 8];
}

static inline uint32_t number_of(const struct body *b, uint32_t offset)
{
	return (uint32_t)(b->word[offset / 8] >> offset % 8 * 8);
}

/*
 * How many entries of the table of lines begin at `unit` or before it:
 *
 *	6 words		each the counts for 9 units, of 7 bits
 *	blocks		of 512 units: the count before it, 7 counts of 9 bits, 8 words of bits
 */
static uint32_t entries_to(const struct ruby_reading *r, uintptr_t index, uint64_t unit)
{
	uint64_t block[10], word, k;

	if (unit < 54) {
		if (!read_words(r, index + unit / 9 * 8, &word, 1))
			return 0;
		return word >> unit % 9 * 7 & 127;
	}
	unit -= 54;
	if (!read_words(r, index + 48 + unit / 512 * sizeof(block), block, 10))
		return 0;
	k = unit % 512 / 64;
	return (uint32_t)block[0] + (k ? (uint32_t)(block[1] >> (k - 1) * 9 & 511) : 0) +
	       (uint32_t)__builtin_popcountll(block[2 + k] << (63 - unit % 64));
}

static uint32_t line_of(const struct ruby_reading *r, const struct body *b, uint64_t unit)
{
	uint32_t count = number_of(b, ruby.at->body_lines_count), entry = 1, line;
	uintptr_t index = part_of(b, ruby.at->body_lines_index);

	if (count > 1)
		entry = index ? entries_to(r, index, unit) : 0;
	if (entry - 1 < count &&
	    ruby_peek(r->careful,
		      part_of(b, ruby.at->body_lines) + (entry - 1) * ruby.at->line_size, &line,
		      sizeof(line)))
		return line;
	return (uint32_t)(part_of(b, ruby.at->body_line) >> 1);
}

/* The file: its real path if it has one. */
static void copy_path(const struct ruby_reading *r, const struct body *b, char *out)
{
	uintptr_t path = part_of(b, ruby.at->body_path);

	if (copy_string(r, path, out, PATH_BYTES, true) ||
	    copy_string(r, element(r, path, 1), out, PATH_BYTES, true))
		return;
	copy_string(r, element(r, path, 0), out, PATH_BYTES, true);
}

/* "block in load" is "block in Order#load" when a method of Order has the block. */
static void qualify(const struct ruby_reading *r, const struct ruby_frame *frame,
		    const struct body *b, const char *label, char *out)
{
	char base[NAME_BYTES];
	size_t all = strlen(label), tail;
	struct method m;

	copy_string(r, part_of(b, ruby.at->body_base_label), base, sizeof(base), false);
	tail = strlen(base);
	strcpy(out, label);
	if (tail > all || strcmp(label + all - tail, base) != 0 || !method_of(r, frame->ep, &m) ||
	    !m.is_instructions)
		return;
	copy_class(r, m.owner, out + all - tail);
	strcat(out, base);
}

static bool name_method(const struct ruby_reading *r, const struct method *m, char *out)
{
	char name[NAME_BYTES];

	if (!copy_symbol(r, m->name, name))
		return false;
	copy_class(r, m->owner, out);
	strcat(out, name);
	return true;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = codes_mix(hash, (uint8_t)*text);
	return hash;
}

static COLD void write_place(const struct ruby_reading *r, uint64_t address, const char *function,
			     const char *file, uint32_t line)
{
	struct records_place place = {function, file, line, 0, 0};

	records_place(r->stack->w, agent_ticks(), address, &place, 1);
}

static uint64_t c_method_address(const struct ruby_reading *r, const struct method *m)
{
	struct code_seen seen = {.object = (const void *)m->definition, .units = 1};
	struct code *code = codes_known(seen.object, r->version);
	char function[FUNCTION_BYTES];
	uint64_t address, unit = 0;
	bool is_new;

	if (!code) {
		if (!name_method(r, m, function))
			return 0;
		seen.hash = hash_text(0, function);
		code = codes_compared(&seen, r->version);
	}
	if (!code)
		return 0;
	address = codes_address(code, &unit, &is_new);
	if (UNLIKELY(is_new) && name_method(r, m, function))
		write_place(r, address, function, RUBY_C_FILE, 0);
	return address;
}

/* What a frame of instructions is of. */
struct instructions {
	struct body body;
	struct method method; /* that the block is, if it is one */
	const void *object;   /* what its code is found by */
	bool is_method;
	uint64_t unit;
};

static bool read_instructions(const struct ruby_reading *r, const struct ruby_frame *frame,
			      struct instructions *in)
{
	uintptr_t code, body;
	struct object o;

	if (!read_slot(r, frame->iseq, &o) || !is_kind(&o, KIND_INSTRUCTIONS))
		return false;
	body = o.word[ruby.at->iseq_body / 8];
	if (!read_words(r, body, in->body.word, BODY_WORDS))
		return false;
	code = part_of(&in->body, ruby.at->body_code);
	/* The counter has left the instruction already. */
	in->unit = frame->pc > code ? (frame->pc - code) / 8 - 1 : 0;
	in->is_method = frame->is_method && method_of(r, frame->ep, &in->method);
	in->object = (const void *)(in->is_method ? in->method.definition : body);
	return code && in->unit < number_of(&in->body, ruby.at->body_size);
}

static struct code *compare(const struct ruby_reading *r, const struct instructions *in)
{
	const struct body *b = &in->body;
	struct code_seen seen = {
	    .object = in->object,
	    .part = {part_of(b, ruby.at->body_code), part_of(b, ruby.at->body_lines),
		     part_of(b, ruby.at->body_lines_index)},
	    .units = number_of(b, ruby.at->body_size),
	    .hash = part_of(b, ruby.at->body_line),
	};
	char text[PATH_BYTES];

	copy_string(r, part_of(b, ruby.at->body_label), text, NAME_BYTES, false);
	seen.hash = hash_text(codes_mix(seen.hash, in->is_method ? in->method.name : 0), text);
	copy_path(r, b, text);
	seen.hash = hash_text(seen.hash, text);
	return codes_compared(&seen, r->version);
}

static COLD void write_instruction(const struct ruby_reading *r, const struct ruby_frame *frame,
				   const struct instructions *in, uint64_t address)
{
	char function[FUNCTION_BYTES], file[PATH_BYTES], label[NAME_BYTES];

	copy_string(r, part_of(&in->body, ruby.at->body_label), label, sizeof(label), false);
	if (!in->is_method || !name_method(r, &in->method, function))
		qualify(r, frame, &in->body, label, function);
	copy_path(r, &in->body, file);
	write_place(r, address, function, file, line_of(r, &in->body, in->unit));
}

static uint64_t instruction_address(const struct ruby_reading *r, const struct ruby_frame *frame)
{
	struct instructions in;
	struct code *code;
	uint64_t address;
	bool is_new;

	if (!read_instructions(r, frame, &in))
		return 0;
	code = codes_known(in.object, r->version);
	if (!code)
		code = compare(r, &in);
	if (!code)
		return 0;
	address = codes_address(code, &in.unit, &is_new);
	if (UNLIKELY(is_new))
		write_instruction(r, frame, &in, address);
	return address;
}

uint64_t ruby_code_find(const struct ruby_reading *r, const struct ruby_frame *frame,
			const void *object, uintptr_t instruction)
{
	struct method m;
	uint64_t address;

	if (frame->pc)
		address = instruction_address(r, frame);
	else
		address = method_of(r, frame->ep, &m) ? c_method_address(r, &m) : 0;
	if (r->version && address)
		codes_keep_latest(r->stack->codes, object, instruction, address);
	return address;
}
