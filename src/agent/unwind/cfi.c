/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .eh_frame: from a pc to the rule that leads to the calling frame.
 *
 *	.eh_frame_hdr: sorted table of (first pc, FDE), binary search
 *	      |
 *	      v
 *	FDE: pc range, instructions --> CIE: alignment factors, augmentation, first instructions
 *
 * The instructions of the CIE, then those of the FDE, are run up to the row that holds pc. Only the
 * base pointer, the stack pointer and the return address are followed.
 */
#include "agent/unwind/cfi.h"

#include "agent/cpu/cpu.h"

#include <string.h>

/* Pointer encodings. */
#define PE_OMIT	    0xffu
#define PE_FORMAT   0x0fu
#define PE_RELATIVE 0x70u
#define PE_PC	    0x10u
#define PE_DATA	    0x30u
#define PE_INDIRECT 0x80u

/* The table encoding in all objects that ld, gold, lld and mold make. */
#define PE_TABLE (PE_DATA | 0x0bu)

#define REMEMBERED_MAX 6

/* ---- bounded reads ---- */

/* A cursor. After a read past the end everything reads as 0 and bad is set. */
struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static const uint8_t *take_bytes(struct cursor *c, uint64_t count)
{
	const uint8_t *at = c->at;

	if (count > (uint64_t)(c->end - at)) {
		c->bad = true;
		c->at = c->end;
		return NULL;
	}
	c->at += count;
	return at;
}

static uint64_t take_fixed(struct cursor *c, unsigned bytes)
{
	const uint8_t *at = take_bytes(c, bytes);
	uint64_t value = 0;

	if (at)
		__builtin_memcpy(&value, at, bytes <= 8 ? bytes : 8);
	return value;
}

static uint8_t take_byte(struct cursor *c)
{
	return (uint8_t)take_fixed(c, 1);
}

/* LEB128. *last: its last byte, whose bit 6 is the sign of a signed one; *bits: its number of bits. */
static uint64_t take_leb(struct cursor *c, uint8_t *last, unsigned *bits)
{
	uint64_t value = 0;

	*bits = 0;
	do {
		*last = take_byte(c);
		if (*bits < 64)
			value |= (uint64_t)(*last & 0x7f) << *bits;
		*bits += 7;
	} while (*last & 0x80);
	return value;
}

static uint64_t take_uleb(struct cursor *c)
{
	unsigned bits;
	uint8_t last;

	return take_leb(c, &last, &bits);
}

static int64_t take_sleb(struct cursor *c)
{
	unsigned bits;
	uint8_t last;
	uint64_t value = take_leb(c, &last, &bits);

	if (last & 0x40 && bits < 64)
		value |= ~0ull << bits;
	return (int64_t)value;
}

static uint64_t take_number(struct cursor *c, unsigned format)
{
	switch (format & PE_FORMAT) {
	case 0x00:
	case 0x04:
	case 0x0c:
		return take_fixed(c, 8);
	case 0x01:
		return take_uleb(c);
	case 0x02:
		return take_fixed(c, 2);
	case 0x03:
		return take_fixed(c, 4);
	case 0x09:
		return (uint64_t)take_sleb(c);
	case 0x0a:
		return (uint64_t)(int64_t)(int16_t)take_fixed(c, 2);
	case 0x0b:
		return (uint64_t)(int64_t)(int32_t)take_fixed(c, 4);
	}
	c->bad = true;
	return 0;
}

static uint64_t take_pointer(struct cursor *c, unsigned encoding, const uint8_t *data)
{
	uint64_t place = (uint64_t)(uintptr_t)c->at;
	uint64_t value = take_number(c, encoding);

	if (encoding & PE_INDIRECT)
		c->bad = true;
	switch (encoding & PE_RELATIVE) {
	case 0:
		return value;
	case PE_PC:
		return value + place;
	case PE_DATA:
		return value + (uint64_t)(uintptr_t)data;
	}
	c->bad = true;
	return 0;
}

static struct cursor cursor_at(const struct cfi_object *object, uint64_t address)
{
	struct cursor c = {object->end, object->end, true};

	if (address >= (uintptr_t)object->start && address < (uintptr_t)object->end) {
		c.at = (const uint8_t *)(uintptr_t)address;
		c.bad = false;
	}
	return c;
}

/* ---- the binary search table ---- */

static int32_t table_field(const uint8_t *table, uint64_t entry, unsigned field)
{
	int32_t value;

	__builtin_memcpy(&value, table + entry * 8 + field * 4, 4);
	return value;
}

/* The FDE whose first pc is the last one not above pc; 0 if there is none. */
static uint64_t find_fde(const struct cfi_object *object, uintptr_t pc)
{
	struct cursor c = cursor_at(object, (uintptr_t)object->header);
	const uint8_t *head = take_bytes(&c, 4), *table;
	int64_t wanted = (int64_t)((uint64_t)pc - (uint64_t)(uintptr_t)object->header);
	uint64_t count, low = 0;

	if (!head || head[0] != 1 || head[1] == PE_OMIT || head[2] == PE_OMIT ||
	    head[3] != PE_TABLE)
		return 0;
	take_pointer(&c, head[1], object->header);
	count = take_number(&c, head[2]);
	if (c.bad || count == 0 || count > (uint64_t)(c.end - c.at) / 8)
		return 0;
	table = c.at;
	if (wanted < table_field(table, 0, 0))
		return 0;
	while (count > 1) {
		uint64_t half = count / 2;

		low = wanted >= table_field(table, low + half, 0) ? low + half : low;
		count -= half;
	}
	return (uint64_t)(uintptr_t)object->header + (uint64_t)(int64_t)table_field(table, low, 1);
}

/* ---- CIE and FDE ---- */

struct cie {
	struct cursor program;
	uint64_t code_align;
	int64_t data_align;
	unsigned encoding;
	bool has_length; /* augmentation data, with its length, in each FDE */
	bool is_signal;
};

/* The header of a CIE or FDE: *record becomes a cursor over what follows the length. */
static bool open_record(const struct cfi_object *object, uint64_t address, struct cursor *record)
{
	uint64_t length;

	*record = cursor_at(object, address);
	length = take_fixed(record, 4);
	if (length == 0xffffffffu)
		length = take_fixed(record, 8);
	if (record->bad || length < 4 || length > (uint64_t)(record->end - record->at))
		return false;
	record->end = record->at + length;
	return true;
}

static bool read_augmentation(struct cie *cie, struct cursor *c, const char *letters)
{
	if (*letters == 0)
		return true;
	if (*letters++ != 'z')
		return false;
	cie->has_length = true;
	struct cursor data = {.at = c->at};
	uint64_t length = take_uleb(c);

	data.at = c->at;
	if (!take_bytes(c, length))
		return false;
	data.end = c->at;
	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			cie->encoding = take_byte(&data);
			break;
		case 'P':
			take_number(&data, take_byte(&data));
			break;
		case 'L':
			take_byte(&data);
			break;
		case 'S':
			cie->is_signal = true;
			break;
		default:
			/* The length lets us skip this letter's data only with all that follows. */
			return !data.bad;
		}
	}
	return !data.bad;
}

static bool read_cie(const struct cfi_object *object, uint64_t address, struct cie *cie)
{
	struct cursor c;
	const char *letters;
	uint8_t version;
	uint64_t return_column;

	__builtin_memset(cie, 0, sizeof(*cie));
	if (!open_record(object, address, &c) || take_fixed(&c, 4) != 0)
		return false;
	version = take_byte(&c);
	if (version != 1 && version != 3)
		return false;
	letters = (const char *)c.at;
	while (take_byte(&c))
		;
	cie->code_align = take_uleb(&c);
	cie->data_align = take_sleb(&c);
	return_column = version == 1 ? take_byte(&c) : take_uleb(&c);
	if (c.bad || return_column != CPU_DWARF_PC || !read_augmentation(cie, &c, letters))
		return false;
	cie->program = c;
	return true;
}

/* ---- the instructions ---- */

enum column { COLUMN_BP, COLUMN_SP, COLUMN_RA, COLUMNS };

/* One row of the unwind table. */
struct row {
	bool cfa_is_expression;
	uint64_t cfa_register;
	int64_t cfa_offset;
	struct cfi_expression cfa_expression;
	struct cfi_place places[COLUMNS];
};

struct machine {
	const struct cie *cie;
	const struct cfi_object *object;
	uint64_t location, pc;
	struct row row, first; /* first: after the CIE's instructions, for restore */
	struct row remembered[REMEMBERED_MAX];
	unsigned depth;
};

/* The place of a register's rule; a dummy for those that are not followed. */
static struct cfi_place *place_of(struct row *row, uint64_t reg, struct cfi_place *dummy)
{
	switch (reg) {
	case CPU_DWARF_BP:
		return &row->places[COLUMN_BP];
	case CPU_DWARF_SP:
		return &row->places[COLUMN_SP];
	case CPU_DWARF_PC:
		return &row->places[COLUMN_RA];
	}
	return dummy;
}

static void set_place(struct machine *m, uint64_t reg, enum cfi_how how, int64_t offset)
{
	struct cfi_place dummy, *place = place_of(&m->row, reg, &dummy);

	place->how = how;
	place->offset = offset;
}

static int64_t scaled(const struct machine *m, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)m->cie->data_align);
}

static struct cfi_expression take_expression(struct cursor *c)
{
	struct cfi_expression e = {NULL, 0};
	uint64_t length = take_uleb(c);
	const uint8_t *code = take_bytes(c, length);

	if (code && length <= UINT32_MAX) {
		e.code = code;
		e.length = (uint32_t)length;
	}
	return e;
}

static void set_expression(struct machine *m, struct cursor *c, enum cfi_how how)
{
	uint64_t reg = take_uleb(c);
	struct cfi_place dummy, *place = place_of(&m->row, reg, &dummy);

	place->how = how;
	place->expression = take_expression(c);
}

static void restore(struct machine *m, uint64_t reg)
{
	struct cfi_place dummy = {0};

	*place_of(&m->row, reg, &dummy) = *place_of(&m->first, reg, &dummy);
}

/* Instructions that change the CFA rule. false: not one of them. */
static bool run_cfa(struct machine *m, struct cursor *c, uint8_t op)
{
	struct row *row = &m->row;

	switch (op) {
	case 0x0c: /* def_cfa */
		row->cfa_register = take_uleb(c);
		row->cfa_offset = (int64_t)take_uleb(c);
		break;
	case 0x12: /* def_cfa_sf */
		row->cfa_register = take_uleb(c);
		row->cfa_offset = scaled(m, (uint64_t)take_sleb(c));
		break;
	case 0x0d: /* def_cfa_register */
		row->cfa_register = take_uleb(c);
		break;
	case 0x0e: /* def_cfa_offset */
		row->cfa_offset = (int64_t)take_uleb(c);
		break;
	case 0x13: /* def_cfa_offset_sf */
		row->cfa_offset = scaled(m, (uint64_t)take_sleb(c));
		break;
	case 0x0f: /* def_cfa_expression */
		row->cfa_expression = take_expression(c);
		row->cfa_is_expression = true;
		return true;
	default:
		return false;
	}
	row->cfa_is_expression = false;
	return true;
}

/* Instructions that change the rule of one register, or nothing. false: an unknown one. */
static bool run_register(struct machine *m, struct cursor *c, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case 0x00: /* nop */
		return true;
	case 0x05: /* offset_extended */
		reg = take_uleb(c);
		set_place(m, reg, CFI_AT_OFFSET, scaled(m, take_uleb(c)));
		return true;
	case 0x11: /* offset_extended_sf */
		reg = take_uleb(c);
		set_place(m, reg, CFI_AT_OFFSET, scaled(m, (uint64_t)take_sleb(c)));
		return true;
	case 0x2f: /* GNU_negative_offset_extended */
		reg = take_uleb(c);
		set_place(m, reg, CFI_AT_OFFSET, scaled(m, 0 - take_uleb(c)));
		return true;
	case 0x14: /* val_offset */
		reg = take_uleb(c);
		set_place(m, reg, CFI_IS_OFFSET, scaled(m, take_uleb(c)));
		return true;
	case 0x15: /* val_offset_sf */
		reg = take_uleb(c);
		set_place(m, reg, CFI_IS_OFFSET, scaled(m, (uint64_t)take_sleb(c)));
		return true;
	case 0x06: /* restore_extended */
		restore(m, take_uleb(c));
		return true;
	case 0x07: /* undefined */
		set_place(m, take_uleb(c), CFI_LOST, 0);
		return true;
	case 0x08: /* same_value */
		set_place(m, take_uleb(c), CFI_SAME, 0);
		return true;
	case 0x09: /* register: held in one that is not followed */
		reg = take_uleb(c);
		take_uleb(c);
		if (reg == CPU_DWARF_PC)
			m->row.places[COLUMN_RA] = (struct cfi_place){.how = CFI_IS_EXPRESSION};
		else
			set_place(m, reg, CFI_LOST, 0);
		return true;
	case 0x10: /* expression */
		set_expression(m, c, CFI_AT_EXPRESSION);
		return true;
	case 0x16: /* val_expression */
		set_expression(m, c, CFI_IS_EXPRESSION);
		return true;
	case 0x2e: /* GNU_args_size */
		take_uleb(c);
		return true;
	case 0x2d: /* AARCH64_negate_ra_state */
		return CPU_CFI_SIGNED;
	}
	return false;
}

static bool run_state(struct machine *m, uint8_t op)
{
	if (op == 0x0a) { /* remember_state */
		if (m->depth == REMEMBERED_MAX)
			return false;
		m->remembered[m->depth++] = m->row;
		return true;
	}
	if (m->depth == 0) /* restore_state */
		return false;
	m->row = m->remembered[--m->depth];
	return true;
}

/* The location after an instruction that advances it; the same one for all others. */
static uint64_t advance_location(struct machine *m, struct cursor *c, uint8_t op)
{
	switch (op) {
	case 0x01: /* set_loc */
		return take_pointer(c, m->cie->encoding, m->object->header);
	case 0x02: /* advance_loc1, 2, 4 */
		return m->location + take_fixed(c, 1) * m->cie->code_align;
	case 0x03:
		return m->location + take_fixed(c, 2) * m->cie->code_align;
	case 0x04:
		return m->location + take_fixed(c, 4) * m->cie->code_align;
	}
	return m->location;
}

/* Runs up to the row that holds pc. false: malformed, or beyond what is understood. */
static bool run_program(struct machine *m, struct cursor c)
{
	while (c.at < c.end && !c.bad) {
		uint8_t op = take_byte(&c);
		uint8_t low = op & 0x3f;
		bool known = true;

		switch (op >> 6) {
		case 1: /* advance_loc */
			m->location += low * m->cie->code_align;
			break;
		case 2: /* offset */
			set_place(m, low, CFI_AT_OFFSET, scaled(m, take_uleb(&c)));
			break;
		case 3: /* restore */
			restore(m, low);
			break;
		default:
			if (op >= 0x01 && op <= 0x04)
				m->location = advance_location(m, &c, op);
			else if (op == 0x0a || op == 0x0b)
				known = run_state(m, op);
			else
				known = run_cfa(m, &c, op) || run_register(m, &c, op);
		}
		if (!known)
			return false;
		if (m->location > m->pc)
			return !c.bad;
	}
	return !c.bad;
}

/* ---- from the row to the rule ---- */

static void conclude(const struct row *row, struct cfi_rule *rule)
{
	const struct cfi_place *sp = &row->places[COLUMN_SP];

	rule->ra = row->places[COLUMN_RA];
	rule->bp = row->places[COLUMN_BP];
	rule->cfa_is_expression = row->cfa_is_expression;
	rule->cfa_expression = row->cfa_expression;
	rule->cfa_offset = row->cfa_offset;
	rule->cfa_from_bp = row->cfa_register == CPU_DWARF_BP;
	if (rule->ra.how == CFI_LOST) {
		rule->kind = CFI_ROOT;
		return;
	}
	/* The return address in a register that is not followed, or a stack pointer that is not the
	 * CFA: compilers make neither. */
	if (rule->ra.how == CFI_SAME && !CPU_HAS_LINK)
		return;
	if (rule->ra.how == CFI_IS_EXPRESSION && !rule->ra.expression.code)
		return;
	if (sp->how != CFI_SAME && !(sp->how == CFI_IS_OFFSET && sp->offset == 0))
		return;
	if (!rule->cfa_is_expression && row->cfa_register != CPU_DWARF_BP &&
	    row->cfa_register != CPU_DWARF_SP)
		return;
	rule->kind = CFI_FRAME;
}

void cfi_find(const struct cfi_object *object, uintptr_t pc, struct cfi_rule *rule)
{
	struct machine m;
	struct cie cie;
	struct cursor fde;
	uint64_t address, first, size, distance;
	const uint8_t *place;

	__builtin_memset(rule, 0, sizeof(*rule));
	rule->kind = CFI_UNKNOWN;
	if (!object->header)
		return;
	address = find_fde(object, pc);
	if (address == 0 || !open_record(object, address, &fde))
		return;
	place = fde.at;
	distance = take_fixed(&fde, 4);
	if (distance == 0 || distance > (uint64_t)(place - object->start) ||
	    !read_cie(object, (uintptr_t)place - distance, &cie))
		return;
	first = take_pointer(&fde, cie.encoding, object->header);
	size = take_number(&fde, cie.encoding);
	if (fde.bad || pc < first || pc - first >= size)
		return;
	if (cie.has_length && !take_bytes(&fde, take_uleb(&fde)))
		return;
	m.cie = &cie;
	m.object = object;
	m.location = first;
	m.pc = pc;
	m.depth = 0;
	__builtin_memset(&m.row, 0, sizeof(m.row));
	m.row.cfa_register = ~0ull;
	m.first = m.row;
	if (run_program(&m, cie.program)) {
		m.first = m.row;
		if (run_program(&m, fde))
			conclude(&m.row, rule);
	}
	if (cie.is_signal) {
		rule->leads_elsewhere = rule->kind == CFI_FRAME && rule->cfa_is_expression;
		rule->kind = CFI_SIGNAL;
	}
}

/* ---- expressions ---- */

#define STACK_MAX 16

struct stack {
	uint64_t value[STACK_MAX];
	unsigned depth;
	bool bad;
};

static void push_operand(struct stack *s, uint64_t value)
{
	if (s->depth == STACK_MAX)
		s->bad = true;
	else
		s->value[s->depth++] = value;
}

static uint64_t pop_operand(struct stack *s)
{
	if (s->depth == 0) {
		s->bad = true;
		return 0;
	}
	return s->value[--s->depth];
}

static void push_register(struct stack *s, const struct cfi_registers *r, uint64_t reg,
			  int64_t offset)
{
	switch (reg) {
	case CPU_DWARF_BP:
		push_operand(s, r->bp + (uint64_t)offset);
		return;
	case CPU_DWARF_SP:
		push_operand(s, r->sp + (uint64_t)offset);
		return;
	case CPU_DWARF_PC:
		push_operand(s, r->pc + (uint64_t)offset);
		s->bad |= CPU_HAS_LINK;
		return;
	}
	s->bad = true;
}

static void push_memory(struct stack *s, const struct cfi_registers *r)
{
	uintptr_t value = 0;

	if (!r->read(r->context, (uintptr_t)pop_operand(s), &value))
		s->bad = true;
	push_operand(s, value);
}

/* Constants and stack shuffles. false: another operation. */
static bool run_operand(struct stack *s, struct cursor *c, uint8_t op)
{
	uint64_t a, b;

	if (op >= 0x30 && op <= 0x4f) { /* lit0..31 */
		push_operand(s, op - 0x30u);
		return true;
	}
	switch (op) {
	case 0x08: /* const1u .. const8s */
		push_operand(s, take_fixed(c, 1));
		return true;
	case 0x09:
		push_operand(s, (uint64_t)(int64_t)(int8_t)take_fixed(c, 1));
		return true;
	case 0x0a:
		push_operand(s, take_fixed(c, 2));
		return true;
	case 0x0b:
		push_operand(s, (uint64_t)(int64_t)(int16_t)take_fixed(c, 2));
		return true;
	case 0x0c:
		push_operand(s, take_fixed(c, 4));
		return true;
	case 0x0d:
		push_operand(s, (uint64_t)(int64_t)(int32_t)take_fixed(c, 4));
		return true;
	case 0x0e:
	case 0x0f:
		push_operand(s, take_fixed(c, 8));
		return true;
	case 0x10: /* constu, consts */
		push_operand(s, take_uleb(c));
		return true;
	case 0x11:
		push_operand(s, (uint64_t)take_sleb(c));
		return true;
	case 0x12: /* dup */
		a = pop_operand(s);
		push_operand(s, a);
		push_operand(s, a);
		return true;
	case 0x13: /* drop */
		pop_operand(s);
		return true;
	case 0x14: /* over */
		a = pop_operand(s);
		b = pop_operand(s);
		push_operand(s, b);
		push_operand(s, a);
		push_operand(s, b);
		return true;
	case 0x16: /* swap */
		a = pop_operand(s);
		b = pop_operand(s);
		push_operand(s, a);
		push_operand(s, b);
		return true;
	case 0x96: /* nop */
		return true;
	}
	return false;
}

/* Operations on the two top values; a is the upper one. */
static bool run_binary(struct stack *s, uint8_t op)
{
	uint64_t a, b, r;

	if (op < 0x1a || op > 0x2e || op == 0x1f || op == 0x20 || op == 0x23 || op == 0x28)
		return false;
	a = pop_operand(s);
	b = pop_operand(s);
	switch (op) {
	case 0x1a:
		r = b & a;
		break;
	case 0x1c:
		r = b - a;
		break;
	case 0x1e:
		r = b * a;
		break;
	case 0x21:
		r = b | a;
		break;
	case 0x22:
		r = b + a;
		break;
	case 0x24:
		r = a < 64 ? b << a : 0;
		break;
	case 0x25:
		r = a < 64 ? b >> a : 0;
		break;
	case 0x26:
		r = (uint64_t)((int64_t)b >> (a < 64 ? a : 63));
		break;
	case 0x27:
		r = b ^ a;
		break;
	case 0x29:
		r = b == a;
		break;
	case 0x2a:
		r = (int64_t)b >= (int64_t)a;
		break;
	case 0x2b:
		r = (int64_t)b > (int64_t)a;
		break;
	case 0x2c:
		r = (int64_t)b <= (int64_t)a;
		break;
	case 0x2d:
		r = (int64_t)b < (int64_t)a;
		break;
	case 0x2e:
		r = b != a;
		break;
	default: /* div, mod */
		return false;
	}
	push_operand(s, r);
	return true;
}

static void run_operation(struct stack *s, struct cursor *c, const struct cfi_registers *r,
			  uint8_t op)
{
	if (op >= 0x70 && op <= 0x8f) { /* breg0..31 */
		push_register(s, r, op - 0x70u, take_sleb(c));
		return;
	}
	switch (op) {
	case 0x06: /* deref */
		push_memory(s, r);
		return;
	case 0x1f: /* neg */
		push_operand(s, 0 - pop_operand(s));
		return;
	case 0x20: /* not */
		push_operand(s, ~pop_operand(s));
		return;
	case 0x23: /* plus_uconst */
		push_operand(s, pop_operand(s) + take_uleb(c));
		return;
	}
	if (!run_operand(s, c, op) && !run_binary(s, op))
		s->bad = true;
}

bool cfi_evaluate(const struct cfi_expression *expression, const struct cfi_registers *registers,
		  const uintptr_t *initial, uintptr_t *result)
{
	struct cursor c = {expression->code, expression->code + expression->length, false};
	struct stack s = {.depth = 0};

	if (!expression->code)
		return false;
	if (initial)
		push_operand(&s, *initial);
	while (c.at < c.end && !s.bad && !c.bad)
		run_operation(&s, &c, registers, take_byte(&c));
	*result = (uintptr_t)pop_operand(&s);
	return !s.bad && !c.bad;
}
