/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading of line tables.
 *
 * A line program generates rows (address, file, line, column) in sequences with rising addresses. A
 * row covers the addresses from its own up to the next row's. So two consecutive rows are enough to
 * find the line of the wanted addresses between them, and no table is kept:
 *
 *   rows of a sequence   0x10 f.c:3      0x18 f.c:4      0x18 f.c:5      0x30 end
 *   wanted                    0x14 -> 3       |               0x20 -> 5
 *                                             covers nothing
 */
#include "symbols/dwarf_lines.h"

#include <dwarf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbols/elf_file.h"

#define MOST_FORMATS 16

/* After an overrun, all values read are 0 and `failed` stays set. */
struct reader {
	const uint8_t *at, *end;
	bool failed;
};

struct header {
	const uint8_t *lengths; /* operands of the standard opcodes */
	const uint8_t *program, *end;
	uint8_t least_step, line_range, opcode_base;
	int8_t line_base;
};

struct state {
	uint64_t address, line;
	uint64_t file, column;
};

/* The wanted addresses during a sequence. */
struct target {
	const uint64_t *address;
	size_t count, next; /* next: the first address at or above the last row's */
	struct dwarf_line_row *row;
	struct state last; /* the last row so far */
	bool have_last, dead;
};

static struct dwarf_bytes section_bytes(Elf_Scn *section)
{
	Elf_Data *data = elf_rawdata(section, NULL);

	return data && data->d_buf ? (struct dwarf_bytes){data->d_buf, data->d_size}
				   : (struct dwarf_bytes){0};
}

void dwarf_lines_sections(struct dwarf_line_sections *s, Elf *elf)
{
	const char *ident = elf_getident(elf, NULL);
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	memset(s, 0, sizeof(*s));
	if (!ident || ident[EI_DATA] != ELFDATA2LSB || elf_getshdrstrndx(elf, &names))
		return;
	while ((section = elf_nextscn(elf, section))) {
		const char *name;

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, names, header.sh_name);
		if (!name || (strncmp(name, ".debug_", 7) && strncmp(name, ".zdebug_", 8)))
			continue;
		name = strchr(name, '_') + 1;
		if (!strcmp(name, "line"))
			s->line = section_bytes(section);
		else if (!strcmp(name, "line_str"))
			s->line_str = section_bytes(section);
		else if (!strcmp(name, "str"))
			s->str = section_bytes(section);
	}
}

/* ---- reading ---- */

static const uint8_t *take_bytes(struct reader *r, uint64_t size)
{
	const uint8_t *at = r->at;

	if (size > (uint64_t)(r->end - r->at)) {
		r->failed = true;
		r->at = r->end;
		return NULL;
	}
	r->at += size;
	return at;
}

/* Little-endian. */
static uint64_t take_fixed(struct reader *r, unsigned size)
{
	const uint8_t *at = take_bytes(r, size);
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, size);
	return value;
}

static uint64_t take_uleb(struct reader *r)
{
	uint64_t value = 0;

	for (unsigned shift = 0; r->at < r->end; shift += 7) {
		uint8_t byte = *r->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128))
			return value;
	}
	r->failed = true;
	return 0;
}

static int64_t take_sleb(struct reader *r)
{
	uint64_t value = 0;

	for (unsigned shift = 0; r->at < r->end; shift += 7) {
		uint8_t byte = *r->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 127) << shift;
		if (byte & 128)
			continue;
		if (byte & 64 && shift + 7 < 64)
			value |= ~(uint64_t)0 << (shift + 7);
		return (int64_t)value;
	}
	r->failed = true;
	return 0;
}

static const char *take_string(struct reader *r)
{
	const uint8_t *zero = memchr(r->at, 0, (size_t)(r->end - r->at));
	const uint8_t *at = take_bytes(r, zero ? (uint64_t)(zero - r->at) + 1 : UINT64_MAX);

	return (const char *)at;
}

static const char *string_in(struct reader *r, const struct dwarf_bytes *section, uint64_t offset)
{
	if (offset < section->size &&
	    memchr(section->at + offset, 0, section->size - (size_t)offset))
		return (const char *)section->at + offset;
	r->failed = true;
	return NULL;
}

/* ---- directories and files ---- */

static bool add_directory(struct dwarf_lines *l, const char *name)
{
	return ARRAY_ADD(l->directory, l->directories_size, l->directories, name);
}

static bool add_file(struct dwarf_lines *l, const char *name, uint64_t directory)
{
	return ARRAY_ADD(l->file, l->files_size, l->files,
			 (struct dwarf_line_file){.name = name, .directory = directory});
}

static bool read_old_file(struct dwarf_lines *l, struct reader *r, const char *name)
{
	uint64_t directory = take_uleb(r);

	take_uleb(r); /* time */
	take_uleb(r); /* size */
	return !r->failed && add_file(l, name, directory);
}

/* Before DWARF 5, lists end with an empty name. */
static bool read_old_names(struct dwarf_lines *l, struct reader *r)
{
	const char *name;

	while ((name = take_string(r)) && *name) {
		if (!add_directory(l, name))
			return false;
	}
	while ((name = take_string(r)) && *name) {
		if (!read_old_file(l, r, name))
			return false;
	}
	return !r->failed;
}

struct format {
	uint64_t content, form;
};

static void read_field(const struct dwarf_lines *l, struct reader *r, uint64_t form,
		       unsigned offset_size, const char **text, uint64_t *number)
{
	switch (form) {
	case DW_FORM_string:
		*text = take_string(r);
		break;
	case DW_FORM_line_strp:
		*text = string_in(r, &l->sections->line_str, take_fixed(r, offset_size));
		break;
	case DW_FORM_strp:
		*text = string_in(r, &l->sections->str, take_fixed(r, offset_size));
		break;
	case DW_FORM_udata:
		*number = take_uleb(r);
		break;
	case DW_FORM_data1:
		*number = take_fixed(r, 1);
		break;
	case DW_FORM_data2:
		*number = take_fixed(r, 2);
		break;
	case DW_FORM_data4:
		*number = take_fixed(r, 4);
		break;
	case DW_FORM_data8:
		*number = take_fixed(r, 8);
		break;
	case DW_FORM_data16:
		take_bytes(r, 16);
		break;
	case DW_FORM_block:
		take_bytes(r, take_uleb(r));
		break;
	default:
		r->failed = true;
	}
}

/* In DWARF 5 a list describes the format of its entries. */
static bool read_list(struct dwarf_lines *l, struct reader *r, unsigned offset_size, bool files)
{
	struct format format[MOST_FORMATS];
	unsigned formats = (unsigned)take_fixed(r, 1);
	uint64_t count;

	if (formats > MOST_FORMATS)
		return false;
	for (unsigned i = 0; i < formats; i++) {
		format[i].content = take_uleb(r);
		format[i].form = take_uleb(r);
	}
	count = take_uleb(r);
	/* Entries of 0 bytes would allow any count. */
	if (r->failed || count > (uint64_t)(r->end - r->at))
		return false;
	while (count--) {
		const char *name = NULL;
		uint64_t directory = 0;

		for (unsigned i = 0; i < formats; i++) {
			const char *text = NULL;
			uint64_t number = 0;

			read_field(l, r, format[i].form, offset_size, &text, &number);
			if (format[i].content == DW_LNCT_path)
				name = text;
			else if (format[i].content == DW_LNCT_directory_index)
				directory = number;
		}
		if (r->failed || !name)
			return false;
		if (files ? !add_file(l, name, directory) : !add_directory(l, name))
			return false;
	}
	return true;
}

struct dwarf_line_file *dwarf_lines_file(struct dwarf_lines *l, uint32_t number)
{
	size_t i = l->version < 5 ? (size_t)number - 1 : number;

	return i < l->files ? &l->file[i] : NULL;
}

const char *dwarf_lines_directory(const struct dwarf_lines *l, const struct dwarf_line_file *file)
{
	uint64_t i = file->directory;

	if (i == 0)
		return l->version >= 5 && l->directories ? l->directory[0] : NULL;
	if (l->version < 5)
		i--;
	return i < l->directories ? l->directory[i] : NULL;
}

/* ---- the line program ---- */

static bool read_header(struct dwarf_lines *l, struct reader *r, struct header *h)
{
	unsigned offset_size = 4;
	uint64_t length = take_fixed(r, 4);
	struct reader names;

	if (length == 0xffffffff) {
		offset_size = 8;
		length = take_fixed(r, 8);
	}
	if (r->failed || length > (uint64_t)(r->end - r->at))
		return false;
	r->end = h->end = r->at + length;
	l->version = (unsigned)take_fixed(r, 2);
	if (l->version < 2 || l->version > 5)
		return false;
	if (l->version >= 5)
		take_fixed(r, 2); /* sizes of addresses and segment selectors */
	length = take_fixed(r, offset_size);
	if (r->failed || length > (uint64_t)(r->end - r->at))
		return false;
	h->program = r->at + length;
	names = (struct reader){.at = r->at, .end = h->program};
	h->least_step = (uint8_t)take_fixed(&names, 1);
	if (l->version >= 4)
		take_fixed(&names, 1); /* operations per instruction: 1 except for VLIW */
	take_fixed(&names, 1);	       /* whether rows begin as statements */
	h->line_base = (int8_t)take_fixed(&names, 1);
	h->line_range = (uint8_t)take_fixed(&names, 1);
	h->opcode_base = (uint8_t)take_fixed(&names, 1);
	h->lengths = take_bytes(&names, h->opcode_base ? h->opcode_base - 1u : 0);
	if (names.failed || !h->opcode_base || !h->line_range)
		return false;
	if (l->version < 5)
		return read_old_names(l, &names);
	return read_list(l, &names, offset_size, false) && read_list(l, &names, offset_size, true);
}

static uint32_t limited(uint64_t value)
{
	return value > UINT32_MAX ? 0 : (uint32_t)value;
}

/* The last row covers the wanted addresses below `end`. */
static void cover(struct target *t, uint64_t end)
{
	for (; t->next < t->count && t->address[t->next] < end; t->next++) {
		struct dwarf_line_row *row = &t->row[t->next];

		if (row->found || t->address[t->next] < t->last.address)
			continue;
		row->found = true;
		row->file = limited(t->last.file);
		row->line = limited(t->last.line);
		row->column = limited(t->last.column);
	}
}

static void emit(struct target *t, const struct state *s)
{
	if (t->dead)
		return;
	if (!t->have_last || s->address < t->last.address)
		t->next = elf_file_lower_bound(t->address, t->count, s->address);
	else if (s->address > t->last.address)
		cover(t, s->address);
	t->last = *s;
	t->have_last = true;
}

static void begin_sequence(struct target *t, struct state *s)
{
	*s = (struct state){.line = 1, .file = 1};
	t->have_last = t->dead = false;
}

static bool run_extended(struct reader *r, struct target *t, struct state *s, struct dwarf_lines *l)
{
	uint64_t length = take_uleb(r);
	struct reader operand = {.at = r->at};
	const char *name;

	if (!take_bytes(r, length) || !length)
		return false;
	operand.end = r->at;
	switch (take_fixed(&operand, 1)) {
	case DW_LNE_end_sequence:
		emit(t, s);
		begin_sequence(t, s);
		break;
	case DW_LNE_set_address:
		if (length - 1 > sizeof(s->address))
			return false;
		s->address = take_fixed(&operand, (unsigned)length - 1);
		/* Functions dropped by the linker are at 0. */
		t->dead = s->address == 0;
		break;
	case DW_LNE_define_file:
		name = take_string(&operand);
		return name && read_old_file(l, &operand, name);
	default:
		break;
	}
	return true;
}

static void run_standard(struct reader *r, const struct header *h, struct target *t,
			 struct state *s, uint8_t opcode)
{
	switch (opcode) {
	case DW_LNS_copy:
		emit(t, s);
		break;
	case DW_LNS_advance_pc:
		s->address += take_uleb(r) * h->least_step;
		break;
	case DW_LNS_advance_line:
		s->line += (uint64_t)take_sleb(r);
		break;
	case DW_LNS_set_file:
		s->file = take_uleb(r);
		break;
	case DW_LNS_set_column:
		s->column = take_uleb(r);
		break;
	case DW_LNS_const_add_pc:
		s->address += (uint64_t)(255 - h->opcode_base) / h->line_range * h->least_step;
		break;
	case DW_LNS_fixed_advance_pc:
		s->address += take_fixed(r, 2);
		break;
	default:
		for (unsigned i = 0; i < h->lengths[opcode - 1]; i++)
			take_uleb(r);
	}
}

static bool run_program(const struct header *h, struct target *t, struct dwarf_lines *l)
{
	struct reader r = {.at = h->program, .end = h->end};
	struct state s;

	begin_sequence(t, &s);
	while (r.at < r.end && !r.failed) {
		uint8_t opcode = *r.at++;

		if (opcode >= h->opcode_base) {
			unsigned step = opcode - h->opcode_base;

			s.address += (uint64_t)(step / h->line_range) * h->least_step;
			s.line += (uint64_t)(int64_t)(h->line_base + (int)(step % h->line_range));
			emit(t, &s);
		} else if (opcode == 0) {
			if (!run_extended(&r, t, &s, l))
				return false;
		} else {
			run_standard(&r, h, t, &s, opcode);
		}
	}
	return !r.failed;
}

bool dwarf_lines_read(struct dwarf_lines *l, const struct dwarf_line_sections *s, uint64_t offset,
		      const uint64_t *address, size_t count, struct dwarf_line_row *row)
{
	struct target target = {.address = address, .count = count, .row = row};
	struct reader r;
	struct header h;

	memset(l, 0, sizeof(*l));
	l->sections = s;
	if (offset >= s->line.size)
		return false;
	r = (struct reader){.at = s->line.at + offset, .end = s->line.at + s->line.size};
	return read_header(l, &r, &h) && run_program(&h, &target, l);
}

void dwarf_lines_free(struct dwarf_lines *l)
{
	free(l->directory);
	free(l->file);
	memset(l, 0, sizeof(*l));
}
