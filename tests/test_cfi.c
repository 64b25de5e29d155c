/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi.c on small .eh_frame sections made here: each instruction, the row limits, expressions, and
 * every damage of one byte and every cut, which must neither crash nor read outside.
 */
#include "agent/unwind/cfi.h"

#include "agent/cpu/cpu.h"

#include "test.h"

#include <string.h>
#include <sys/mman.h>

#define HEADER_AT 0u
#define CIE_AT	  32u
#define FDE_AT	  128u
#define IMAGE	  512u
#define CODE	  0x2000u /* the function's distance from the image */
#define CODE_SIZE 0x100u

/* Registers, as instructions and operations name them. */
#define BP	   CPU_DWARF_BP
#define SP	   CPU_DWARF_SP
#define RA	   CPU_DWARF_PC
#define OFFSET_BP  (0x80 + BP)
#define OFFSET_SP  (0x80 + SP)
#define OFFSET_RA  (0x80 + RA)
#define RESTORE_BP (0xc0 + BP)
#define BREG_BP	   (0x70 + BP)
#define BREG_SP	   (0x70 + SP)
#define BREG_RA	   (0x70 + RA)

/* Ends at an unreadable page. */
static uint8_t *image;
static size_t fill;

static void put(const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		image[fill + i] = ((const uint8_t *)bytes)[i];
	fill += n;
}

static void put_byte(unsigned value)
{
	image[fill++] = (uint8_t)value;
}

static void put_word(uint32_t value)
{
	put(&value, 4);
}

static void end_record(size_t start)
{
	uint32_t length;

	while ((fill - start) % 8 != 4)
		put_byte(0);
	length = (uint32_t)(fill - start - 4);
	memcpy(image + start, &length, 4);
}

/* One function, at image + CODE, with these instructions in its FDE. The CIE says CFA = sp + 8,
 * return address at CFA - 8, as every compiler's does. */
static void make_image(const char *augmentation, const void *program, size_t length)
{
	static const uint8_t initial[] = {0x0c, SP, 8, OFFSET_RA, 1};
	bool z = augmentation[0] == 'z';
	size_t at;

	memset(image, 0, IMAGE);
	fill = HEADER_AT;
	put("\x01\x1b\x03\x3b", 4);
	put_word(CIE_AT - 4);
	put_word(1);
	put_word(CODE);
	put_word(FDE_AT);

	fill = CIE_AT + 4;
	put_word(0);
	put_byte(1);
	put(augmentation, strlen(augmentation) + 1);
	put_byte(1);	/* code alignment */
	put_byte(0x78); /* data alignment -8 */
	put_byte(RA);
	if (z) {
		at = fill++;
		for (const char *a = augmentation + 1; *a; a++) {
			if (*a == 'R' || *a == 'L')
				put_byte(0x1b);
			if (*a == 'P') {
				put_byte(0x9b);
				put_word(0x1234);
			}
		}
		image[at] = (uint8_t)(fill - at - 1);
	}
	put(initial, sizeof(initial));
	end_record(CIE_AT);

	fill = FDE_AT + 4;
	put_word(FDE_AT + 4 - CIE_AT);
	put_word((uint32_t)(CODE - fill));
	put_word(CODE_SIZE);
	if (z)
		put_byte(0);
	put(program, length);
	end_record(FDE_AT);
}

static struct cfi_rule find(unsigned offset)
{
	struct cfi_object object = {image, image + IMAGE, image + HEADER_AT};
	struct cfi_rule rule;

	cfi_find(&object, (uintptr_t)image + CODE + offset, &rule);
	return rule;
}

static void check_simple(unsigned offset, bool from_bp, int64_t cfa, int64_t bp)
{
	struct cfi_rule r = find(offset);

	CHECK(r.kind == CFI_FRAME, "at %u: kind %d", offset, r.kind);
	CHECK(!r.cfa_is_expression && r.cfa_from_bp == from_bp && r.cfa_offset == cfa,
	      "at %u: %d %ld", offset, r.cfa_from_bp, (long)r.cfa_offset);
	CHECK(r.ra.how == CFI_AT_OFFSET && r.ra.offset == -8);
	if (bp == 0)
		CHECK(r.bp.how == CFI_SAME, "at %u: %d", offset, r.bp.how);
	else
		CHECK(r.bp.how == CFI_AT_OFFSET && r.bp.offset == bp, "at %u: %d %ld", offset,
		      r.bp.how, (long)r.bp.offset);
}

static void rows(void)
{
	/* push bp; mov sp, bp; leave; ret, in all lengths of advance_loc. */
	static const uint8_t program[] = {0x41, 0x0e, 16,   OFFSET_BP, 2,	   0x02, 3,  0x0d,
					  BP,	0x03, 0x20, 0,	       RESTORE_BP, 0x0c, SP, 8,
					  0x04, 0x10, 0,    0,	       0,	   0x0e, 32};

	make_image("zR", program, sizeof(program));
	check_simple(0, false, 8, 0);
	check_simple(1, false, 16, -16);
	check_simple(3, false, 16, -16);
	check_simple(4, true, 16, -16);
	check_simple(0x23, true, 16, -16);
	check_simple(0x24, false, 8, 0);
	check_simple(0x33, false, 8, 0);
	check_simple(0x34, false, 32, 0);
	check_simple(CODE_SIZE - 1, false, 32, 0);
	CHECK(find(CODE_SIZE).kind == CFI_UNKNOWN);
	CHECK(find(0u - 1).kind == CFI_UNKNOWN);
}

static void remembered_rows(void)
{
	static const uint8_t program[] = {0x0e, 64, OFFSET_BP,	3,    0x41, 0x0a,
					  0x0e, 8,  RESTORE_BP, 0x41, 0x0b};

	make_image("zR", program, sizeof(program));
	check_simple(0, false, 64, -24);
	check_simple(1, false, 8, 0);
	check_simple(2, false, 64, -24);
}

static void long_forms(void)
{
	/* def_cfa_sf bp 3; offset_extended bp 5; offset_extended_sf bp 6; a large offset. */
	static const uint8_t program[] = {0x12, BP,   0x7d, 0x05, BP,	5,    0x41, 0x11, BP,	6,
					  0x41, 0x0e, 0x80, 0x80, 0x04, 0x41, 0x13, 0x70, 0x2e, 24,
					  0x2f, BP,   0x79, 0x41, 0x06, BP,   0x41, 0x08, BP};

	make_image("zPLR", program, sizeof(program));
	check_simple(0, true, 24, -40);
	check_simple(1, true, 24, -48);
	check_simple(2, true, 65536, -48);
	check_simple(3, true, 128, 121 * 8);
	check_simple(4, true, 128, 0);
	check_simple(5, true, 128, 0);
}

static void roots_and_signals(void)
{
	static const uint8_t root[] = {0x07, RA}, other[] = {0x0c, 10, 8}, held[] = {0x09, RA, 3},
			     stack[] = {OFFSET_SP, 2}, lost[] = {0x09, BP, 3};

	make_image("zR", root, sizeof(root));
	CHECK(find(0).kind == CFI_ROOT);
	make_image("zR", other, sizeof(other));
	CHECK(find(0).kind == CFI_UNKNOWN);
	make_image("zR", held, sizeof(held));
	CHECK(find(0).kind == CFI_UNKNOWN);
	make_image("zR", stack, sizeof(stack));
	CHECK(find(0).kind == CFI_UNKNOWN);
	make_image("zR", lost, sizeof(lost));
	CHECK(find(0).kind == CFI_FRAME && find(0).bp.how == CFI_LOST);
	make_image("zRS", NULL, 0);
	CHECK(find(0).kind == CFI_SIGNAL);
}

/* The return address is signed from here on: so it is, and the rest stays. Elsewhere it is another
 * processor's instruction. */
static void signed_addresses(void)
{
	static const uint8_t program[] = {0x41, 0x2d, 0x41, 0x0e, 32, OFFSET_BP, 4};

	make_image("zR", program, sizeof(program));
	check_simple(0, false, 8, 0);
	if (CPU_CFI_SIGNED) {
		check_simple(1, false, 8, 0);
		check_simple(2, false, 32, -32);
	} else {
		CHECK(find(1).kind == CFI_UNKNOWN);
	}
}

static bool read_memory(void *context, uintptr_t address, uintptr_t *value)
{
	*value = address + 5;
	return context == NULL && address % 8 == 0;
}

static bool evaluate(const void *code, uint32_t length, uintptr_t *result)
{
	struct cfi_expression e = {code, length};
	struct cfi_registers r = {0x401b, 0x7000, 0x6000, read_memory, NULL};

	return cfi_evaluate(&e, &r, NULL, result);
}

#define EVALUATES(value, ...)                                                                      \
	do {                                                                                       \
		static const uint8_t code_[] = {__VA_ARGS__};                                      \
		uintptr_t result_ = 0;                                                             \
		CHECK(evaluate(code_, sizeof(code_), &result_) && result_ == (uintptr_t)(value),   \
		      "%s: %#lx", #__VA_ARGS__, result_);                                          \
	} while (0)
#define FAILS(...)                                                                                 \
	do {                                                                                       \
		static const uint8_t code_[] = {__VA_ARGS__};                                      \
		uintptr_t result_;                                                                 \
		CHECK(!evaluate(code_, sizeof(code_), &result_), "%s", #__VA_ARGS__);              \
	} while (0)

static void expressions(void)
{
	if (CPU_HAS_LINK) {
		FAILS(BREG_RA, 0); /* the link register: not known here */
	} else {
		/* The procedure linkage table's: sp + 8, and 8 more behind its push. */
		EVALUATES(0x7010, BREG_SP, 8, BREG_RA, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22);
		EVALUATES(0x7008, BREG_SP, 8, BREG_RA, 0x70, 0x3f, 0x1a, 0x3c, 0x2a, 0x33, 0x24,
			  0x22);
	}
	/* A realigned frame: what lies at bp - 8. */
	EVALUATES(0x5ffd, BREG_BP, 0x78, 0x06);
	EVALUATES(0x7123, BREG_SP, 0, 0x23, 0xa3, 2);
	EVALUATES(-3, 0x08, 4, 0x31, 0x1c, 0x1f);
	EVALUATES(-2, 0x31, 0x20);
	EVALUATES(0xff, 0x08, 0xff);
	EVALUATES(-1, 0x09, 0xff);
	EVALUATES(0x1234, 0x0a, 0x34, 0x12);
	EVALUATES(-2, 0x0b, 0xfe, 0xff);
	EVALUATES(0xfffffffe, 0x0c, 0xfe, 0xff, 0xff, 0xff);
	EVALUATES(-2, 0x0d, 0xfe, 0xff, 0xff, 0xff);
	EVALUATES(0x0807060504030201, 0x0e, 1, 2, 3, 4, 5, 6, 7, 8);
	EVALUATES(300, 0x10, 0xac, 2);
	EVALUATES(-1, 0x11, 0x7f);
	EVALUATES(10, 0x35, 0x12, 0x22);
	EVALUATES(5, 0x35, 0x36, 0x13);
	EVALUATES(1, 0x36, 0x35, 0x16, 0x1c, 0x1f, 0x96);
	EVALUATES(5, 0x35, 0x36, 0x14);
	EVALUATES(7, 0x35, 0x32, 0x21);
	EVALUATES(6, 0x35, 0x33, 0x27);
	EVALUATES(15, 0x35, 0x33, 0x1e);
	EVALUATES(2, 0x38, 0x32, 0x25);
	EVALUATES(-1, 0x09, 0x80, 0x3f, 0x26);
	EVALUATES(0, 0x31, 0x08, 64, 0x24);
	EVALUATES(1, 0x35, 0x35, 0x29);
	EVALUATES(1, 0x09, 0xff, 0x31, 0x2d);
	EVALUATES(0, 0x09, 0xff, 0x31, 0x2b);
	EVALUATES(1, 0x35, 0x35, 0x2c);
	EVALUATES(0, 0x35, 0x35, 0x2e);
	FAILS(0x73, 0);	   /* rbx or x3 */
	FAILS(0x06);	   /* nothing to read at */
	FAILS(0x31, 0x06); /* misaligned */
	FAILS(0x22);
	FAILS(0x31, 0x22);
	FAILS(0x0e, 1, 2);
	FAILS(BREG_SP);
	FAILS(0x30, 0x30, 0x1b); /* division */
	FAILS(0x2f, 0xfd, 0xff); /* a jump */
	FAILS(0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30,
	      0x30, 0x30, 0x30);
}

static void expression_rules(void)
{
	static const uint8_t program[] = {0x0f, 3,	 BREG_BP, 0x78, 0x06, 0x10, BP,
					  2,	BREG_BP, 0,	  0x16, RA,   1,    0x31};
	struct cfi_rule r;
	uintptr_t value = 0;

	make_image("zR", program, sizeof(program));
	r = find(0);
	CHECK(r.kind == CFI_FRAME && r.cfa_is_expression && r.cfa_expression.length == 3);
	CHECK(evaluate(r.cfa_expression.code, 3, &value) && value == 0x5ffd);
	CHECK(r.bp.how == CFI_AT_EXPRESSION && r.bp.expression.length == 2);
	CHECK(r.ra.how == CFI_IS_EXPRESSION && r.ra.expression.length == 1);
}

/* Functions of 16 bytes, 32 bytes apart, each with a CFA of its own. */
static void make_functions(unsigned count)
{
	static const uint8_t cie[] = {0, 0,    0,  0, 1,    'z',  'R', 0,
				      1, 0x78, RA, 1, 0x1b, 0x0c, SP,  8};
	size_t cie_at = 12 + count * 8;

	memset(image, 0, IMAGE);
	fill = HEADER_AT;
	put("\x01\x1b\x03\x3b", 4);
	put_word(0);
	put_word(count);
	fill = cie_at + 4;
	put(cie, sizeof(cie));
	put_byte(OFFSET_RA);
	put_byte(1);
	end_record(cie_at);
	for (unsigned i = 0; i < count; i++) {
		uint32_t entry[2] = {CODE + i * 32, (uint32_t)fill};
		size_t at = fill;

		memcpy(image + 12 + i * 8, entry, 8);
		fill += 4;
		put_word((uint32_t)(fill - cie_at));
		put_word((uint32_t)(CODE + i * 32 - fill));
		put_word(16);
		put_byte(0);
		put_byte(0x0e);
		put_byte(16 + i * 8);
		end_record(at);
	}
}

static void search(void)
{
	for (unsigned count = 1; count <= 8; count++) {
		make_functions(count);
		CHECK(find(0u - 1).kind == CFI_UNKNOWN);
		for (unsigned i = 0; i < count; i++) {
			check_simple(i * 32, false, 16 + i * 8, 0);
			check_simple(i * 32 + 15, false, 16 + i * 8, 0);
			CHECK(find(i * 32 + 16).kind == CFI_UNKNOWN);
			CHECK(find(i * 32 + 31).kind == CFI_UNKNOWN);
		}
	}
}

static void damage(void)
{
	static const uint8_t program[] = {0x0e, 64,	    OFFSET_BP, 3,    0x41, 0x0a,    0x0e,
					  8,	RESTORE_BP, 0x41,      0x0b, 0x0f, 3,	    BREG_BP,
					  0x78, 0x06,	    0x10,      BP,   2,	   BREG_BP, 0};
	unsigned still = 0;

	for (unsigned at = 0; at < 200; at++) {
		for (unsigned value = 0; value < 256; value++) {
			make_image("zPLR", program, sizeof(program));
			image[at] = (uint8_t)value;
			still += find(1).kind == CFI_FRAME;
		}
	}
	CHECK(still > 0 && still < 200 * 256);
	for (unsigned end = 0; end < IMAGE; end++) {
		make_image("zPLR", program, sizeof(program));
		memmove(image + IMAGE - end, image, end);
		struct cfi_object object = {image + IMAGE - end, image + IMAGE,
					    image + IMAGE - end};
		struct cfi_rule rule;

		cfi_find(&object, (uintptr_t)object.start + CODE + 1, &rule);
		CHECK(rule.kind == CFI_UNKNOWN || end > FDE_AT, "cut at %u", end);
	}
}

int main(void)
{
	const size_t page = 4096;
	uint8_t *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || mprotect(memory + page, page, PROT_READ | PROT_WRITE) != 0)
		return 1;
	image = memory + 2 * page - IMAGE;
	RUN(rows);
	RUN(remembered_rows);
	RUN(long_forms);
	RUN(roots_and_signals);
	RUN(signed_addresses);
	RUN(expressions);
	RUN(expression_rules);
	RUN(search);
	RUN(damage);
	DONE();
}
