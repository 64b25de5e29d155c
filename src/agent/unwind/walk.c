/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stack capture: see walk.h for the idea.
 *
 * A walk goes from boundary to boundary. A boundary is the state between two frames: the return
 * address pc, the stack pointer after that return (the inner frame's CFA), the base pointer.
 *
 *	      leaf                                                    root
 *	 sp_2 |  frame 2   | RA | sp_1   frame 1   | RA | sp_0   frame 0 ... |
 *	                   pc_1 ^                  pc_0 ^
 *	      boundary 2        boundary 1              boundary 0
 *
 * The step from a boundary outwards needs the rule of pc and two words at most: the next return
 * address, and the slot where the frame saved the base pointer.
 *
 * Frame table, an open-addressed hash with linear probing; 0 = empty:
 *
 *	 63         52   51   50    48 47                        0
 *	| CFA offset/8 | bp? |  saved  |     return address       |
 *
 * The CFA is sp (or bp if `bp?`) + offset; `saved` says where the return address and the base pointer
 * are (cpu_pack_saved). On x86-64 the return address is at CFA - 8. AArch64 has 4 bits of `saved` and
 * offset/16. The largest offsets are codes for what does not fit. Those rules are in a
 * side table, or read from .eh_frame again at each walk when that is full. The rule of a return
 * address is the one in force at address - 1; a frame that a signal interrupted is entered as
 * pc + 1, so that one key serves both.
 *
 * frames[] of struct walk is the captured stack, and where the next walk may join it. Its private
 * words: cfa = the boundary's sp; from = where the return address itself was read, if the CPU does
 * not have it at cfa - 8; bp = the base pointer, and bp_slot = the address that it was restored from by the frame inside, with bit 0 set
 * where it matters: where the rules outside would use this base pointer before restoring another.
 * words[] lists all stack words that frames[] follows from, with their values, in one row: what the
 * next walk verifies.
 */
#include "agent/unwind/walk.h"

#include "agent/unwind/cfi.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/unwind/frame_record.h"
#include "agent/unwind/modules.h"
#include "format/spool_format.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define MAIN_STACK_LEAST  (120ul << 20) /* the kernel keeps 128 MiB free below the main stack */
#define MAIN_STACK_MOST	  (64ul << 30)
#define THREAD_STACK_MOST (64ul << 20)
#define FRAME_BYTES_MOST  (64ul << 20) /* the largest frame followed on a stack without bounds */
#define PROBE_AHEAD	  (256ul << 10)
#define ENTRY_FRAME_MOST  64u
#define FRAMES_MOST	  (1u << 24)
#define LEAF		  (WALK_ROOT + 1) /* in frames[] of a deep stack, after the mark */
#define LEAF_FULL	  (2 * WALK_SEGMENT)
#define SWITCHES_MOST	  2048u /* an OCaml 5 program makes two where C calls OCaml */

/* ---- the frame table ---- */

#define RULE_SHIFT	CPU_ADDRESS_BITS
#define SAVED_MASK	((1u << CPU_SAVED_BITS) - 1)
#define USES_BP		(1ull << (RULE_SHIFT + CPU_SAVED_BITS))
#define OFFSET_SHIFT	(RULE_SHIFT + CPU_SAVED_BITS + 1)
#define CODE_ROOT	(~0ull >> OFFSET_SHIFT)
#define CODE_UNKNOWN	(CODE_ROOT - 1)
#define CODE_SIGNAL	(CODE_ROOT - 2)
#define CODE_WIDE	(CODE_ROOT - 3) /* in the side table */
#define CODE_FIRST	CODE_WIDE
#define OFFSET_MOST	((int64_t)(CODE_FIRST - 1) * CPU_CFA_UNIT)
#define TAKEN_OUT	(~0ull)	   /* an entry that was removed: a key that is never looked up */
#define TABLE_SMALLEST	(1u << 11) /* entries lie anywhere, so all its pages are touched soon */
#define TABLE_SANDBOXED (1u << 14) /* at least, as it cannot grow any more */
#define TABLE_LARGEST	(1u << 24)
#define PROBES_MOST	64u
#define WIDE_SLOTS	(1u << 14)
#define WIDE_RULES_MOST 8192u

struct table {
	uint64_t mask;
	_Atomic uint64_t used;
	_Atomic uint64_t slots[];
};

/* A rule that does not fit into 16 bits; constant once it is in the side table. */
struct wide_rule {
	uintptr_t pc;
	struct cfi_rule rule;
};

struct wide_table {
	_Atomic uint32_t used;		    /* of rules[], never given back */
	_Atomic uint32_t slots[WIDE_SLOTS]; /* 1 + index of a rule; 0 = empty */
	struct wide_rule rules[WIDE_RULES_MOST];
};

extern __typeof(_dl_find_object) _dl_find_object __attribute__((weak));
extern void *__libc_stack_end __attribute__((weak));

enum walk_outside (*walk_without_rule)(struct walk_start *at, uintptr_t high);

static _Atomic(struct table *) table;
static struct wide_table *wide;
static _Atomic uint32_t generation = 1;
static _Atomic bool sandboxed;
static bool ticks_are_trusted;
static uintptr_t main_thread, main_stack_end, main_stack_limit;
static uintptr_t own_start, own_size;

/* Which boundaries of the last walk may be met. */
enum candidates {
	VERIFIED,  /* frames[0 .. join), all of which still hold */
	LEAF_PART, /* of a deep stack: frames[LEAF .. join), not compared yet */
	MARKS,	   /* the first deep.candidates marks */
};

/* A walk under way. */
struct pass {
	struct walk *w;
	uintptr_t pc, sp, bp;
	uintptr_t bp_slot;	 /* where the frame inside restored bp from, or 0 */
	struct cpu_return from;	 /* where pc was read */
	uintptr_t link, link_sp; /* the link register of the frame at link_sp; 0: not known */
	uintptr_t high;		 /* memory from sp up to here can be read */
	struct walk_frame *out;	 /* next in scratch, from the leaf to the root */
	uint32_t laps;		 /* times that the ring was filled */
	enum candidates candidates;
	uint32_t join;		   /* boundaries of the last walk, not yet passed */
	uint32_t total;		   /* frames of the stack */
	uint32_t barrier;	   /* frames from the leaf that the next walk must not verify */
	uint32_t switches;	   /* changes of stack */
	uintptr_t leaf;		   /* where the walk began, if on the native stack, else 0 */
	uintptr_t page;		   /* the last page that was tried and can be read, or 0 */
	bool native;		   /* on the stack that the thread was born with */
	bool truncated, zero_root; /* how it ended */
};

static size_t table_bytes(uint64_t slots)
{
	return sizeof(struct table) + slots * sizeof(uint64_t);
}

static struct table *new_table(uint64_t slots)
{
	struct table *t = sys_memory(table_bytes(slots));

	if (t)
		t->mask = slots - 1;
	return t;
}

static uint64_t key_bits(uint64_t entry)
{
	return entry << (64 - CPU_ADDRESS_BITS);
}

static void empty_table(struct table *t)
{
	for (uint64_t i = 0; i <= t->mask; i++) {
		if (atomic_load_explicit(&t->slots[i], memory_order_relaxed) != 0)
			atomic_store_explicit(&t->slots[i], 0, memory_order_relaxed);
	}
	atomic_store(&t->used, 0);
}

/* The entry of pc, or 0. */
static uint64_t find_entry(struct table *t, uintptr_t pc)
{
	for (unsigned i = 0; i < PROBES_MOST; i++) {
		uint64_t entry =
		    atomic_load_explicit(&t->slots[(pc + i) & t->mask], memory_order_relaxed);

		if (entry == 0 || key_bits(entry ^ pc) == 0)
			return entry;
	}
	return 0;
}

/* Racing threads may insert an entry twice: the copies are equal. */
static void put_entry(struct table *t, uint64_t entry)
{
	for (unsigned i = 0; i < PROBES_MOST; i++) {
		_Atomic uint64_t *slot = &t->slots[(entry + i) & t->mask];
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(slot, &there, entry)) {
			atomic_fetch_add_explicit(&t->used, 1, memory_order_relaxed);
			return;
		}
		if (key_bits(there ^ entry) == 0)
			return;
	}
}

static void remove_entry(struct table *t, uint64_t entry)
{
	for (unsigned i = 0; i < PROBES_MOST; i++) {
		_Atomic uint64_t *slot = &t->slots[(entry + i) & t->mask];
		uint64_t there = entry;

		/* Not 0, which would cut the probe chains that go over it. */
		if (atomic_compare_exchange_strong(slot, &there, TAKEN_OUT) || there == 0)
			return;
	}
}

/* All but the first page, which has the mask that readers need. */
static void give_back(struct table *t)
{
	sys_madvise((char *)t + CPU_PAGE_LEAST, table_bytes(t->mask + 1) - CPU_PAGE_LEAST,
		    MADV_DONTNEED);
}

/* The old table stays mapped, for readers still in it, but gives its pages back: there they find
 * nothing and go on to the new one. */
static void grow_frame_table(struct table *old, uint64_t slots)
{
	uint32_t born = atomic_load(&generation);
	struct table *new, *expected = old;

	if (slots > TABLE_LARGEST || atomic_load(&sandboxed))
		return;
	new = new_table(slots);
	if (!new)
		return;
	for (uint64_t i = 0; i <= old->mask; i++) {
		uint64_t entry = atomic_load_explicit(&old->slots[i], memory_order_relaxed);

		if (entry != 0 && entry != TAKEN_OUT)
			put_entry(new, entry);
	}
	if (atomic_load(&generation) != born)
		empty_table(new);
	/* Another thread may have been faster. */
	if (!atomic_compare_exchange_strong(&table, &expected, new)) {
		sys_munmap(new, table_bytes(slots));
		return;
	}
	if (atomic_load(&generation) != born)
		walk_code_changed();
	give_back(old);
}

/* Enters a rule that was read from .eh_frame while `born` was the generation. If code has been
 * unmapped since then, it is taken out again. */
static void keep_entry(uint64_t entry, uint32_t born)
{
	struct table *t = atomic_load_explicit(&table, memory_order_acquire);

	if (atomic_load_explicit(&t->used, memory_order_relaxed) * 4 > t->mask) {
		grow_frame_table(t, 2 * (t->mask + 1));
		t = atomic_load_explicit(&table, memory_order_acquire);
	}
	if (atomic_load_explicit(&t->used, memory_order_relaxed) * 8 > t->mask * 7)
		return;
	put_entry(t, entry);
	if (atomic_load(&generation) != born)
		remove_entry(t, entry);
}

/* ---- the side table ---- */

static uint32_t wide_slot(uintptr_t pc, unsigned probe)
{
	return (uint32_t)((pc * 0x9e3779b97f4a7c15u >> 32) + probe) & (WIDE_SLOTS - 1);
}

static const struct cfi_rule *find_wide(uintptr_t pc)
{
	for (unsigned i = 0; i < PROBES_MOST; i++) {
		uint32_t index =
		    atomic_load_explicit(&wide->slots[wide_slot(pc, i)], memory_order_acquire);

		if (index == 0)
			return NULL;
		if (wide->rules[index - 1].pc == pc)
			return &wide->rules[index - 1].rule;
	}
	return NULL;
}

static bool keep_wide(uintptr_t pc, const struct cfi_rule *rule)
{
	uint32_t index;

	if (atomic_load(&wide->used) >= WIDE_RULES_MOST)
		return false;
	index = atomic_fetch_add(&wide->used, 1);
	if (index >= WIDE_RULES_MOST)
		return false;
	wide->rules[index].pc = pc;
	wide->rules[index].rule = *rule;
	for (unsigned i = 0; i < PROBES_MOST; i++) {
		uint32_t empty = 0;

		if (atomic_compare_exchange_strong(&wide->slots[wide_slot(pc, i)], &empty,
						   index + 1))
			return true;
	}
	return false;
}

void walk_code_changed(void)
{
	struct table *t = atomic_load_explicit(&table, memory_order_acquire);

	atomic_fetch_add(&generation, 1);
	if (!t)
		return;
	empty_table(t);
	for (unsigned i = 0; i < WIDE_SLOTS; i++) {
		if (atomic_load_explicit(&wide->slots[i], memory_order_relaxed) != 0)
			atomic_store(&wide->slots[i], 0);
	}
}

/* ---- rules ---- */

static uint64_t coded(uintptr_t pc, uint64_t code)
{
	return code << OFFSET_SHIFT | pc;
}

/* The 8-byte entry of a rule; its code is CODE_WIDE when it does not fit. */
static uint64_t encode(uintptr_t pc, const struct cfi_rule *rule)
{
	uint64_t saved;

	switch (rule->kind) {
	case CFI_UNKNOWN:
		return coded(pc, CODE_UNKNOWN);
	case CFI_ROOT:
		return coded(pc, CODE_ROOT);
	case CFI_SIGNAL:
		return coded(pc, CODE_SIGNAL);
	case CFI_FRAME:
		break;
	}
	if (rule->bp.how != CFI_SAME &&
	    (rule->bp.how != CFI_AT_OFFSET || rule->bp.offset % 8 != 0 || rule->bp.offset == 0))
		return coded(pc, CODE_WIDE);
	if (rule->cfa_is_expression || rule->cfa_offset % CPU_CFA_UNIT != 0 ||
	    rule->cfa_offset < CPU_CFA_UNIT || rule->cfa_offset > OFFSET_MOST ||
	    rule->ra.how != CFI_AT_OFFSET ||
	    !cpu_pack_saved(rule->cfa_offset, rule->ra.offset,
			    rule->bp.how == CFI_SAME ? 0 : rule->bp.offset, &saved))
		return coded(pc, CODE_WIDE);
	return (uint64_t)rule->cfa_offset / CPU_CFA_UNIT << OFFSET_SHIFT |
	       (rule->cfa_from_bp ? USES_BP : 0) | saved << RULE_SHIFT | pc;
}

static bool find_object(uintptr_t pc, struct dl_find_object *found)
{
	return pc != 0 && pc >> CPU_USER_BITS == 0 && _dl_find_object((void *)(pc - 1), found) == 0;
}

/* True: CPU_CODE_BYTES can be read at pc. */
static bool has_code(const struct dl_find_object *found, uintptr_t pc)
{
	uintptr_t end = (uintptr_t)found->dlfo_map_end;

	return pc <= end && end - pc >= CPU_CODE_BYTES;
}

static bool is_sigreturn(uintptr_t pc)
{
	return __builtin_memcmp((const void *)pc, CPU_SIGRETURN_CODE, CPU_CODE_BYTES) == 0;
}

/* An OCaml 5 function compares the size of its stack before it makes its frame. The code that then
 * has the stack enlarged stands at the function's end, with the rule of a whole frame. */
static void correct_stack_check(const struct dl_find_object *found, uintptr_t pc,
				struct cfi_rule *rule)
{
	if (pc - (uintptr_t)found->dlfo_map_start < CPU_STACK_CHECK_BEFORE ||
	    (uintptr_t)found->dlfo_map_end - pc < CPU_STACK_CHECK_AFTER ||
	    !cpu_is_stack_check((const uint8_t *)pc))
		return;
	rule->cfa_is_expression = rule->cfa_from_bp = false;
	rule->cfa_offset = CPU_STACK_CHECK_CFA;
	rule->bp.how = CFI_SAME;
}

static void read_rule(const struct dl_find_object *found, uintptr_t pc, struct cfi_rule *rule)
{
	uint64_t header = (uintptr_t)found->dlfo_eh_frame;
	uint64_t start = (uintptr_t)found->dlfo_map_start, end = (uintptr_t)found->dlfo_map_end;
	struct cfi_object object = {.header = NULL};

	if ((header >= start && header < end) || modules_segment(found, header, &start, &end)) {
		object.start = (const uint8_t *)start;
		object.end = (const uint8_t *)end;
		object.header = found->dlfo_eh_frame;
	}
	cfi_find(&object, pc - 1, rule);
	if (rule->kind == CFI_FRAME)
		correct_stack_check(found, pc, rule);
	/* Only the kernel's signal frame has a known layout. OCaml 5 marks the functions that change
	 * between the thread's stack and a fiber's (caml_c_call, caml_call_gc, caml_start_program,
	 * caml_runstack) as signal frames, too, since debuggers then expect another stack. */
	if (rule->kind == CFI_SIGNAL && !(has_code(found, pc) && is_sigreturn(pc)))
		rule->kind = rule->leads_elsewhere ? CFI_FRAME : CFI_UNKNOWN;
	/* Newer kernels of AArch64 have none for it. */
	else if (CPU_HAS_LINK && rule->kind == CFI_UNKNOWN && has_code(found, pc) &&
		 is_sigreturn(pc))
		rule->kind = CFI_SIGNAL;
	/* glibc leaves the root of a makecontext() stack without a rule of its own. */
	if ((rule->kind == CFI_UNKNOWN ||
	     (CPU_HAS_LINK && rule->kind == CFI_FRAME && rule->ra.how == CFI_SAME)) &&
	    has_code(found, pc) && cpu_is_context_end((const uint8_t *)pc))
		rule->kind = CFI_ROOT;
}

static bool can_read(uintptr_t address)
{
	return !atomic_load_explicit(&sandboxed, memory_order_relaxed) && sys_readable(address);
}

/* An address that is in no object: the emulator qemu has the code that signal handlers return to on a
 * page of its own. */
static uint64_t bare_entry(uintptr_t pc)
{
	if (CPU_SIGRETURN_ANYWHERE && can_read(pc & -8ul) && is_sigreturn(pc))
		return coded(pc, CODE_SIGNAL);
	return coded(pc, CODE_UNKNOWN);
}

/* The entry of an address that the frame table did not have where it should be. */
static __attribute__((noinline)) uint64_t look_up(uintptr_t pc)
{
	struct dl_find_object found;
	struct cfi_rule rule;
	uint64_t entry;
	uint32_t born;

	if (pc >> CPU_USER_BITS != 0)
		return (uint64_t)CODE_UNKNOWN << OFFSET_SHIFT;
	entry = find_entry(atomic_load_explicit(&table, memory_order_acquire), pc);
	if (entry != 0)
		return entry;
	born = atomic_load(&generation);
	/* Not kept: code may be loaded here later without our notice. */
	if (!find_object(pc, &found))
		return bare_entry(pc);
	if (modules_note(&found))
		walk_code_changed();
	read_rule(&found, pc, &rule);
	entry = encode(pc, &rule);
	if (entry >> OFFSET_SHIFT != CODE_WIDE || find_wide(pc) || keep_wide(pc, &rule))
		keep_entry(entry, born);
	return entry;
}

/* ---- which memory can be read ---- */

static bool on_main_stack(uintptr_t sp)
{
	return main_stack_end - sp - 1 < main_stack_limit;
}

/* The stack of a thread that glibc made ends at the thread's control block, and is one mapping.
 * Other stacks may lie below it, but only after a hole: so pages are tried from the top down, each
 * one once, and the lowest one reached is remembered. Some pages below sp are tried as well, as no
 * trial is possible later inside a sandbox. */
static bool on_thread_stack(struct walk *w, uintptr_t sp)
{
	uintptr_t top = cpu_thread_pointer();

	if (top == main_thread || sp >= top || top - sp > THREAD_STACK_MOST)
		return false;
	if (w->stack_high != top) {
		if (!can_read(top & -8ul))
			return false;
		w->stack_low = top & -CPU_PAGE_LEAST;
		w->stack_high = top;
	}
	while (w->stack_low > sp - PROBE_AHEAD && can_read(w->stack_low - 8))
		w->stack_low -= CPU_PAGE_LEAST;
	return w->stack_low <= sp;
}

/* The same in a walk that changes stacks: what lies outside of its leaf is mapped, and neighbours on
 * a page are tried once. */
static bool walk_can_read(struct pass *p, uintptr_t address)
{
	uintptr_t page = address & -CPU_PAGE_LEAST;

	if (page == p->page ||
	    (p->leaf && address >= p->leaf && address < (p->w->stack_high & -8ul)))
		return true;
	if (!can_read(address))
		return false;
	p->page = page;
	return true;
}

/* Finds out about the stack that p->sp points into. */
static __attribute__((noinline)) bool enter_stack(struct pass *p)
{
	struct walk *w = p->w;

	p->native = false;
	if (p->sp % 8 != 0 || p->sp > UINTPTR_MAX - CPU_PAGE_LEAST)
		return false;
	if (on_main_stack(p->sp)) {
		p->native = true;
		p->high = main_stack_end;
		if (cpu_thread_pointer() == main_thread) {
			w->stack_low = main_stack_end - main_stack_limit;
			w->stack_high = main_stack_end;
		}
	} else if ((p->sp >= w->stack_low && p->sp < w->stack_high) || on_thread_stack(w, p->sp)) {
		p->native = true;
		p->high = w->stack_high & -8ul;
	} else if (walk_can_read(p, p->sp)) {
		p->high = (p->sp & -CPU_PAGE_LEAST) + CPU_PAGE_LEAST;
	} else {
		return false;
	}
	return true;
}

/* Moves p->high up to cfa, on a stack whose bounds are not known. */
static __attribute__((noinline)) bool extend_stack(struct pass *p, uintptr_t sp, uintptr_t cfa)
{
	if (p->native || cfa <= sp || cfa - sp > FRAME_BYTES_MOST)
		return false;
	while (p->high < cfa) {
		if (!can_read(p->high))
			return false;
		p->high += CPU_PAGE_LEAST;
	}
	return true;
}

static bool read_word(void *context, uintptr_t address, uintptr_t *value)
{
	struct pass *p = context;

	if (address % 8 != 0)
		return false;
	if ((address < p->sp || address >= p->high) && !walk_can_read(p, address))
		return false;
	*value = *(const uintptr_t *)address;
	return true;
}

/* ---- steps that are not plain ---- */

/* The frames walked so far. */
static inline uint32_t walked(const struct pass *p)
{
	return (uint32_t)(p->out - p->w->scratch) + p->laps * WALK_ROOT;
}

/* The scratch array: the leaf part, then a ring that always has the root-most frames. */
static bool next_lap(struct pass *p)
{
	const struct walk_frame *f = p->w->scratch + WALK_LEAF_MOST;

	p->out = p->w->scratch + WALK_LEAF_MOST;
	if (p->laps < WALK_MARKS)
		p->w->deep.lap[p->laps] = (struct walk_mark){f->address, f->cfa, f->bp, 0};
	p->laps++;
	return p->laps < FRAMES_MOST / WALK_ROOT;
}

static bool advance_out(struct pass *p)
{
	p->out++;
	return p->out != p->w->scratch + WALK_KEEP || next_lap(p);
}

/* The step just made has read words that the next walk does not verify. */
static void set_barrier(struct pass *p)
{
	p->barrier = walked(p) + 1;
}

static bool step_signal(struct pass *p)
{
	uintptr_t pc, sp, bp;

	if (!read_word(p, p->sp + CPU_UCONTEXT_PC, &pc) ||
	    !read_word(p, p->sp + CPU_UCONTEXT_SP, &sp) ||
	    !read_word(p, p->sp + CPU_UCONTEXT_BP, &bp) ||
	    (CPU_HAS_LINK && !read_word(p, p->sp + CPU_UCONTEXT_LINK, &p->link)) || !advance_out(p))
		return false;
	set_barrier(p);
	if (CPU_HAS_LINK)
		p->link_sp = sp;
	p->from = (struct cpu_return){};
	p->w->interrupted = 1;
	p->pc = pc + 1;
	p->sp = sp;
	p->bp = bp;
	p->bp_slot = 0;
	return ++p->switches <= SWITCHES_MOST && enter_stack(p);
}

/* A register's value before the call that made the frame. *slot: where it was read, or 0. */
static bool recover(struct pass *p, const struct cfi_place *place, uintptr_t cfa, uintptr_t *value,
		    uintptr_t *slot)
{
	struct cfi_registers registers = {p->pc - 1, p->sp, p->bp, read_word, p};

	*slot = 0;
	switch (place->how) {
	case CFI_SAME:
		return true;
	case CFI_LOST:
		*value = 0;
		return true;
	case CFI_AT_OFFSET:
		*slot = cfa + (uintptr_t)place->offset;
		break;
	case CFI_IS_OFFSET:
		*value = cfa + (uintptr_t)place->offset;
		return true;
	case CFI_AT_EXPRESSION:
		if (!cfi_evaluate(&place->expression, &registers, &cfa, slot))
			return false;
		break;
	case CFI_IS_EXPRESSION:
		return cfi_evaluate(&place->expression, &registers, &cfa, value);
	}
	return read_word(p, *slot, value);
}

static bool wide_cfa(struct pass *p, const struct cfi_rule *rule, uintptr_t *cfa)
{
	struct cfi_registers registers = {p->pc - 1, p->sp, p->bp, read_word, p};

	if (rule->cfa_is_expression)
		return cfi_evaluate(&rule->cfa_expression, &registers, NULL, cfa);
	*cfa = (rule->cfa_from_bp ? p->bp : p->sp) + (uintptr_t)rule->cfa_offset;
	return true;
}

static bool step_wide(struct pass *p)
{
	const struct cfi_rule *rule = find_wide(p->pc);
	struct dl_find_object found;
	struct cfi_rule fresh;
	uintptr_t cfa, ra = p->pc, bp = p->bp, ra_slot, bp_slot, inner_sp = p->sp;
	bool moved, plain, leaf;

	if (!rule) {
		if (!find_object(p->pc, &found))
			return false;
		read_rule(&found, p->pc, &fresh);
		if (fresh.kind != CFI_FRAME)
			return false;
		rule = &fresh;
	}
	if (!wide_cfa(p, rule, &cfa) || cfa % 8 != 0)
		return false;
	/* The link register still has the return address: only where a signal interrupted. */
	leaf = CPU_HAS_LINK && rule->ra.how == CFI_SAME;
	if (leaf) {
		if (p->link_sp != p->sp || p->link == 0)
			return false;
		ra = p->link;
		p->link = 0;
	}
	/* A frame may lead to another stack, but only by an expression. */
	moved = (cfa <= p->sp && !(leaf && cfa == p->sp)) || cfa > p->high;
	if (moved && extend_stack(p, p->sp, cfa))
		moved = false;
	if (moved && !rule->cfa_is_expression)
		return false;
	if (!recover(p, &rule->ra, cfa, &ra, &ra_slot) ||
	    !recover(p, &rule->bp, cfa, &bp, &bp_slot))
		return false;
	plain = !moved && !rule->cfa_is_expression &&
		(CPU_HAS_LINK ? ra_slot >= inner_sp && ra_slot < cfa : ra_slot == cfa - 8) &&
		(rule->bp.how == CFI_SAME ||
		 (rule->bp.how == CFI_AT_OFFSET && bp_slot >= inner_sp && bp_slot < cfa));
	/* The CFA's base is marked for plain rules by the caller; mark all others. */
	p->out->bp_slot |= !rule->cfa_is_expression && rule->cfa_from_bp;
	if (!advance_out(p))
		return false;
	p->from = (struct cpu_return){};
	if (plain)
		cpu_read_return(ra_slot, &p->from);
	else
		set_barrier(p);
	p->pc = cpu_code_address(ra);
	p->sp = cfa;
	p->bp = bp;
	p->bp_slot = plain ? bp_slot : 0;
	return !moved || (++p->switches <= SWITCHES_MOST && enter_stack(p));
}

/* Through code without rules, such as a JIT compiler's, by its frame record if it has one. */
static bool step_record(struct pass *p)
{
	uintptr_t record = p->bp, end = record + 2 * sizeof(uintptr_t), cfa;

	if (record % 8 != 0 || record < p->sp || record - p->sp > FRAME_RECORD_WORDS_MOST * 8 ||
	    (end > p->high && !extend_stack(p, p->sp, end)))
		return false;
	cfa = frame_record_cfa(p->pc, p->sp, record,
			       atomic_load_explicit(&sandboxed, memory_order_relaxed));
	if (cfa == 0 || (cfa > p->high && !extend_stack(p, p->sp, cfa)))
		return false;
	p->out->bp_slot |= 1;
	if (!advance_out(p))
		return false;
	p->pc = cpu_read_return(record + sizeof(uintptr_t), &p->from);
	p->bp = *(const uintptr_t *)record;
	p->bp_slot = record;
	p->sp = cfa;
	return true;
}

enum ending { GO_ON, AT_ROOT, CUT };

static enum ending step_without_rule(struct pass *p)
{
	struct walk_start at = {p->pc, p->sp, p->bp};

	switch (walk_without_rule(&at, p->high)) {
	case WALK_OUTSIDE_UNKNOWN:
		return CUT;
	case WALK_OUTSIDE_NOTHING:
		p->out++;
		return AT_ROOT;
	case WALK_OUTSIDE_SIGNAL:
		return step_signal(p) ? GO_ON : CUT;
	case WALK_OUTSIDE_CALL:
		break;
	}
	if (!advance_out(p))
		return CUT;
	set_barrier(p);
	p->pc = at.pc;
	p->sp = at.sp;
	p->bp = at.bp;
	p->bp_slot = 0;
	return GO_ON;
}

/* One step by a rule of the largest offsets. */
static __attribute__((noinline)) enum ending step_coded(struct pass *p, uint64_t code)
{
	switch (code) {
	case CODE_ROOT:
		p->out++;
		return AT_ROOT;
	case CODE_SIGNAL:
		return step_signal(p) ? GO_ON : CUT;
	case CODE_WIDE:
		return step_wide(p) ? GO_ON : CUT;
	case CODE_UNKNOWN:
		if (p->pc >> CPU_USER_BITS != 0)
			return CUT;
		/* The loader's entry code has no CFI, but it is the root: its frame is the first on
		 * the main stack. */
		if (main_stack_end - p->sp <= ENTRY_FRAME_MOST) {
			p->out++;
			return AT_ROOT;
		}
		if (walk_without_rule)
			return step_without_rule(p);
		return step_record(p) ? GO_ON : CUT;
	}
	return CUT;
}

/* The first of the words [word, end) that is not what it was, or end. The loads do not depend on one
 * another. */
static inline const struct walk_word *first_changed(const struct walk_word *word,
						    const struct walk_word *end)
{
	const struct walk_word *end4;

#define CHANGED(i) (*(const uintptr_t *)word[i].at ^ word[i].value)
	for (end4 = end - 4; word <= end4; word += 4) {
		if (UNLIKELY(CHANGED(0) | CHANGED(1) | CHANGED(2) | CHANGED(3)))
			break;
	}
	while (word < end && !CHANGED(0))
		word++;
#undef CHANGED
	return word;
}

/* Only what lies above the stack pointer is sure to be mapped, and alive. */
static inline bool is_above(const struct walk_frame *f, uintptr_t sp)
{
	return cpu_return_from(f->cfa, &f->from) >= sp && (f->bp_slot & -8ul) - 1 >= sp - 1;
}

/* The number of boundaries of the last walk, from the root, that still hold: all words that were
 * read to get from one to the next have the same values. */
static inline uint32_t verify(const struct walk *w, uintptr_t sp)
{
	const struct walk_word *word, *end;
	uint32_t n = w->reusable;

	while (n && !is_above(&w->frames[n - 1], sp))
		n--;
	if (n == 0)
		return 0;
	end = w->words + w->words_end[n - 1];
	word = first_changed(w->words, end);
	return word == end ? n : w->word_frame[word - w->words];
}

/* The words that frames[0 .. i) follow from. */
static inline size_t words_before(const struct walk *w, uint32_t i)
{
	return i ? w->words_end[i - 1] : 0;
}

/*
 * ---- deep stacks ----
 *
 * The next walk finds these parts of a stack that is deeper than WALK_KEEP:
 *
 *	 frames[0 .. 512)	    not in frames[]		frames[LEAF .. depth)
 *	|   root part	  |  ...  |	   |	    |	     |	      leaf part       |
 *	0		       mark 0    mark 1   mark 2   mark 3 = first
 *				   segments
 *
 * A mark is a boundary. The latest segments have the words of the frames outside of their marks.
 *
 * If each capture compared all words, a recursion that allocates at each level would take time that
 * grows with the square of its depth. But equal words near the leaf prove nothing about those
 * further out: the program may have returned from all these frames, gone on elsewhere far outside, and made
 * the same calls again from there. What proves it is time. A frame that stands where another one
 * stood has been entered since the last capture, and so have all frames inside of it, each by a call. So
 * if a frame is another one than before, no more frames lie inside of it than calls were made,
 * and cpu_calls_most() says how many there can have been: `new_most`. The walk ends at a boundary that it
 * meets again once so many frames were walked or compared: outside of them all is as before. That
 * takes time in proportion to what the program itself has used, and not more than to walk the whole stack.
 *
 * - longjmp and exceptions leave any number of frames at once, but enter none.
 * - Code that copies a part of a stack back to where it was (as greenlets do) makes frames without
 *   calls. Thousands of frames, of 16 bytes or more, are saved and restored more slowly than 16 bytes for
 *   each call that counts, since they do not fit into the nearest cache.
 * - Signal handlers, tail calls and alloca() change the leaf's end only. Another stack than the thread's
 *   own (of coroutines, or for signals) is not reused at all.
 * - If the clock is not known to be steady, or the thread has come to a CPU that has another counter, there
 *   is no bound, and the walk goes to the root. So it does after a long time: more is walked then, not less.
 */

static uint64_t frames_since(const struct walk_deep *d)
{
	unsigned processor;
	uint64_t passed;

	if (!ticks_are_trusted)
		return UINT64_MAX;
	passed = cpu_ticks_at(&processor) - d->left;
	return processor != d->processor || passed >> 32 ? UINT64_MAX : cpu_calls_most(passed);
}

static __attribute__((noinline)) void begin_deep(struct pass *p)
{
	struct walk *w = p->w;
	struct walk_deep *d = &w->deep;

	d->new_most = frames_since(d);
	d->looked_at = 0;
	d->met.join = 0;
	p->candidates = LEAF_PART;
	p->join = d->reusable;
	while (p->join > LEAF && !is_above(&w->frames[p->join - 1], p->sp))
		p->join--;
}

/* True: `count` frames outside of the last one of the first `marks` marks, which must have this number,
 * are as they were. */
static bool middle_holds(struct walk_deep *d, uint32_t marks, uint32_t number, uint64_t count)
{
	if (count > WALK_SEGMENTS * WALK_SEGMENT)
		return false;
	for (; marks; marks--, number -= WALK_SEGMENT) {
		const struct walk_segment *s = &d->segment[(marks - 1) % WALK_SEGMENTS];

		d->looked_at += s->words;
		if (d->mark[marks - 1].number != number || s->of != marks ||
		    first_changed(s->word, s->word + s->words) < s->word + s->words)
			return false;
		if (count <= WALK_SEGMENT)
			return true;
		count -= WALK_SEGMENT;
	}
	return false;
}

/* The walk has met frames[join - 1]. Is all outside of it as it was, and the leaf part long enough?
 * If not, it goes on. */
static bool leaf_part_holds(struct pass *p)
{
	struct walk *w = p->w;
	struct walk_deep *d = &w->deep;
	uint32_t join = p->join, outside = join - 1 - LEAF, leaf = join - LEAF + walked(p);
	uint32_t from = outside > d->new_most ? join - 1 - (uint32_t)d->new_most : LEAF;
	const struct walk_word *word = w->words + words_before(w, from);
	const struct walk_word *end = w->words + words_before(w, join - 1);

	if (leaf < WALK_LEAF_LEAST || d->first + leaf <= WALK_KEEP) {
		p->join = LEAF;
		return false;
	}
	d->looked_at += (uint32_t)(end - word);
	word = first_changed(word, end);
	if (word < end) {
		p->join = w->word_frame[word - w->words];
		return false;
	}
	if (outside >= d->new_most || middle_holds(d, d->marks, d->first, d->new_most - outside))
		return true;
	if (walked(p) <= WALK_LEAF_MOST)
		d->met = (struct walk_met){join, walked(p), p->bp_slot, p->from};
	p->join = LEAF;
	return false;
}

/* The boundary that the walk has reached has this number: as many frames as before lie between it and the one
 * that it has met? */
static bool is_as_before(const struct pass *p, uint32_t number)
{
	const struct walk_deep *d = &p->w->deep;

	return number + walked(p) - d->met.walked == d->first + d->met.join - 1 - LEAF;
}

/* The same for mark[marks - 1]. Its frame is the last one walked. */
static bool mark_holds(struct pass *p)
{
	struct walk_deep *d = &p->w->deep;
	uint32_t count = walked(p) + 1;

	if (!is_as_before(p, d->mark[d->candidates - 1].number))
		d->met.join = 0;
	if (count < LEAF_FULL || (count < d->new_most &&
				  !middle_holds(d, d->candidates, d->mark[d->candidates - 1].number,
						d->new_most - count))) {
		d->candidates--;
		return false;
	}
	*p->out = (struct walk_frame){p->pc, p->sp, p->bp, p->bp_slot | 1, p->from};
	p->bp_slot = 0;
	return advance_out(p);
}

/* The walk has ended at a boundary of the last one. If all of them on the way were met, too, the middle,
 * of which only the number of frames is written, counts as it did: all that is kept of it stays. */
static void return_to_met(struct pass *p)
{
	struct walk_deep *d = &p->w->deep;
	const struct walk_met *m = &d->met;

	if (m->join == 0 || p->barrier > m->walked ||
	    (p->candidates == VERIFIED && (p->join != WALK_ROOT || !is_as_before(p, p->join - 1))))
		return;
	d->looked_at += walked(p) - m->walked;
	p->candidates = LEAF_PART;
	p->join = m->join;
	p->out = p->w->scratch + m->walked;
	p->laps = 0;
	p->bp_slot = m->bp_slot;
	p->from = m->from;
}

/* Is all outside of the boundary that the walk has met as it was? */
static inline bool holds(struct pass *p)
{
	if (LIKELY(p->candidates == VERIFIED))
		return true;
	return p->candidates == LEAF_PART ? leaf_part_holds(p) : mark_holds(p);
}

/* ---- the walk ---- */

/* From frames[join - 1] outwards: true when one is this boundary. */
static inline bool meets_frame(struct pass *p, uint32_t least, uintptr_t pc, uintptr_t sp,
			       uintptr_t bp)
{
	const struct walk_frame *frames = p->w->frames, *f;
	bool same = false;

	while (p->join > least && frames[p->join - 1].cfa < sp)
		p->join--;
	if (p->join > least && frames[p->join - 1].cfa == sp) {
		f = &frames[p->join - 1];
		/* A signal may have interrupted elsewhere in the function: compare pc too. */
		same = f->address == pc && (!(f->bp_slot & 1) || f->bp == bp);
		p->join -= !same;
	}
	return same;
}

static bool meets_mark(struct walk_deep *d, uintptr_t pc, uintptr_t sp, uintptr_t bp)
{
	const struct walk_mark *mark;

	for (; d->candidates && d->mark[d->candidates - 1].sp < sp; d->candidates--)
		d->met.join = 0;
	if (d->candidates == 0 || d->mark[d->candidates - 1].sp != sp)
		return false;
	mark = &d->mark[d->candidates - 1];
	if (mark->pc == pc && mark->bp == bp)
		return true;
	d->met.join = 0;
	d->candidates--;
	return false;
}

/* As joins(), for a stack that was deep. */
static __attribute__((noinline)) bool joins_deep(struct pass *p, uintptr_t pc, uintptr_t sp,
						 uintptr_t bp)
{
	struct walk_deep *d = &p->w->deep;

	if (p->candidates == LEAF_PART) {
		if (meets_frame(p, LEAF, pc, sp, bp))
			return true;
		if (p->join > LEAF)
			return false;
		p->candidates = MARKS;
		d->candidates = d->marks;
	}
	if (meets_mark(d, pc, sp, bp))
		return true;
	if (d->candidates)
		return false;
	p->candidates = VERIFIED;
	p->join = verify(p->w, sp);
	return meets_frame(p, 0, pc, sp, bp);
}

/* Where the next candidate is; 0: joins() shall look for it. */
static inline uintptr_t candidate_sp(const struct pass *p)
{
	const struct walk_deep *d = &p->w->deep;

	if (UNLIKELY(p->candidates == MARKS))
		return d->candidates ? d->mark[d->candidates - 1].sp : 0;
	return p->join ? p->w->frames[p->join - 1].cfa : UINTPTR_MAX;
}

/* True: the walk has reached a boundary of the last walk. holds() tells whether it ends there. */
static bool joins(struct pass *p, uintptr_t pc, uintptr_t sp, uintptr_t bp, uintptr_t *join_sp)
{
	bool same;

	if (UNLIKELY(p->candidates != VERIFIED)) {
		same = joins_deep(p, pc, sp, bp);
		*join_sp = candidate_sp(p);
		return same;
	}
	same = meets_frame(p, 0, pc, sp, bp);
	*join_sp = p->join ? p->w->frames[p->join - 1].cfa : UINTPTR_MAX;
	return same;
}

/* Atomic so that the compiler does not make vectors of several of them: pc and sp would go to a
 * vector register and back before the next lookup. */
static inline void store_word(uintptr_t *place, uintptr_t value)
{
	__atomic_store_n(place, value, __ATOMIC_RELAXED);
}

/*
 * The loop that decides what a walk costs. Its chain of dependent loads per frame is: return
 * address, table entry, next return address. A CFA that does not come from bp is above sp, as offsets
 * are positive and small.
 *
 * true: joined the verified part of the last walk. false: came to an end, see p.
 */
static inline bool run_walk(struct pass *p)
{
	uintptr_t pc = p->pc, sp = p->sp, bp = p->bp, bp_slot = p->bp_slot, high = p->high;
	uintptr_t join_sp = candidate_sp(p);
	struct cpu_return from = p->from;
	struct walk_frame *out = p->out, *const out_end = p->w->scratch + WALK_KEEP;
	const struct table *t = atomic_load_explicit(&table, memory_order_acquire);
	const _Atomic uint64_t *slots = t->slots;
	uint64_t mask = t->mask;

	for (;;) {
		uintptr_t base = sp, cfa, slot, saved;
		uint64_t entry, where;

		if (UNLIKELY(sp >= join_sp) && joins(p, pc, sp, bp, &join_sp)) {
			p->out = out, p->pc = pc, p->sp = sp, p->bp = bp;
			p->high = high, p->bp_slot = bp_slot, p->from = from;
			return true;
		}
		entry = atomic_load_explicit(&slots[pc & mask], memory_order_relaxed);
		if (UNLIKELY(key_bits(entry ^ pc) != 0)) {
			entry = atomic_load_explicit(&slots[(pc + 1) & mask], memory_order_relaxed);
			if (UNLIKELY(key_bits(entry ^ pc) != 0)) {
				entry = look_up(pc);
				t = atomic_load_explicit(&table, memory_order_acquire);
				slots = t->slots;
				mask = t->mask;
			}
		}
		store_word(&out->address, pc);
		store_word(&out->cfa, sp);
		store_word(&out->bp, bp);
		store_word(&out->bp_slot, bp_slot | (entry / USES_BP & 1));
		out->from = from;
		if (UNLIKELY(entry >> OFFSET_SHIFT >= CODE_FIRST)) {
			enum ending ending;

			out->bp_slot = bp_slot;
			store_word(&p->pc, pc);
			store_word(&p->sp, sp);
			store_word(&p->bp, bp);
			p->high = high;
			p->out = out;
			ending = step_coded(p, entry >> OFFSET_SHIFT);
			if (ending != GO_ON) {
				p->truncated = ending == CUT;
				/* A suspended coroutine's stack may hold no address of code here. */
				if (ending == CUT && p->out == out && pc >> CPU_USER_BITS == 0)
					advance_out(p);
				return false;
			}
			pc = p->pc, sp = p->sp, bp = p->bp, bp_slot = p->bp_slot;
			high = p->high, out = p->out, from = p->from;
			if (UNLIKELY(pc == 0))
				break;
			continue;
		}
		cfa = sp + (entry >> OFFSET_SHIFT) * CPU_CFA_UNIT;
		if (UNLIKELY(entry & USES_BP)) {
			base = bp;
			cfa += bp - sp;
			if (UNLIKELY(bp & 7) || UNLIKELY(cfa <= sp))
				goto cut;
		}
		if (UNLIKELY(cfa > high)) {
			p->high = high;
			if (!extend_stack(p, sp, cfa))
				goto cut;
			high = p->high;
		}
		where = entry >> RULE_SHIFT & SAVED_MASK;
		slot = cpu_bp_slot(where, base, cfa);
		/* In an epilogue the slot may already be popped. */
		if (UNLIKELY(slot < sp) && !can_read(slot))
			goto cut;
		pc = cpu_read_return(cpu_return_slot(where, base, cfa), &from);
		/* Restores bp if it was saved. A branch would often be mispredicted. */
		saved = 0 - (uintptr_t)cpu_saves_bp(where);
		CPU_KEEP(saved);
		bp ^= (bp ^ *(const uintptr_t *)slot) & saved;
		bp_slot = slot & saved;
		sp = cfa;
		if (UNLIKELY(++out == out_end)) {
			p->out = out;
			if (!next_lap(p)) {
				p->truncated = true;
				return false;
			}
			out = p->out;
		}
		if (UNLIKELY(pc == 0))
			break;
	}
	/* A return address of 0 is how some stacks end. It is not verified, so no reuse. */
	p->out = out;
	p->zero_root = true;
	return false;
cut:
	p->out = out;
	p->truncated = true;
	advance_out(p);
	return false;
}

/* Leaves out the frames of this library at the leaf end. */
static bool skip_own(struct pass *p)
{
	while (UNLIKELY(p->pc - 1 - own_start < own_size)) {
		uint64_t entry = look_up(p->pc);
		uint64_t where = entry >> RULE_SHIFT & SAVED_MASK;
		uintptr_t slot, base, cfa;

		if (entry >> OFFSET_SHIFT >= CODE_FIRST)
			return false;
		base = entry & USES_BP ? p->bp : p->sp;
		cfa = base + (entry >> OFFSET_SHIFT) * CPU_CFA_UNIT;
		if (cfa % 8 != 0 || cfa <= p->sp || (cfa > p->high && !extend_stack(p, p->sp, cfa)))
			return false;
		slot = cpu_bp_slot(where, base, cfa);
		if (slot < p->sp)
			return false;
		p->pc = cpu_read_return(cpu_return_slot(where, base, cfa), &p->from);
		p->sp = cfa;
		p->bp_slot = 0;
		if (cpu_saves_bp(where)) {
			p->bp = *(const uintptr_t *)slot;
			p->bp_slot = slot;
		}
	}
	return true;
}

/* ---- from scratch to frames ---- */

/* Where frames are put, from the root on. As long as w->common == at, all are as before. */
struct sink {
	struct walk *w;
	uint32_t at, old_depth;
};

/* After a mark no words are needed, as the next walk cannot join there. */
static void put_frame(struct sink *s, const struct walk_frame *frame)
{
	struct walk *w = s->w;

	w->words_end[s->at] = (uint16_t)words_before(w, s->at);
	if (w->common == s->at && s->at < s->old_depth &&
	    w->frames[s->at].address == frame->address)
		w->common++;
	w->frames[s->at++] = *frame;
}

/* The base pointer may matter to what was left out. */
static void put_mark(struct sink *s, uint64_t mark)
{
	struct walk_frame frame = {.address = mark, .bp_slot = 1};

	put_frame(s, &frame);
}

static inline size_t put_word(struct walk *w, size_t k, uint32_t frame, uintptr_t at,
			      uintptr_t value)
{
	w->words[k].at = at;
	w->words[k].value = value;
	w->word_frame[k] = (uint16_t)frame;
	return k + 1;
}

/* The words of frames[i]: its return address, and its base pointer if that matters and came from
 * memory. k: words_before(w, i). Returns the same of the next frame. */
static inline size_t put_words(struct walk *w, uint32_t i, size_t k)
{
	const struct walk_frame *f = &w->frames[i];

	k = put_word(w, k, i, cpu_return_from(f->cfa, &f->from),
		     cpu_return_word(f->address, &f->from));
	if (f->bp_slot > 7)
		k = put_word(w, k, i, f->bp_slot & -8ul, f->bp);
	w->words_end[i] = (uint16_t)k;
	return k;
}

/* Puts consecutive scratch frames, last[0] the root-most. Finds, from the outside in, where the
 * base pointer matters: to a frame that uses it, or that leaves it unchanged for one outside.
 * Returns the slot that the inner-most of them names. */
static inline __attribute__((always_inline)) uintptr_t
put_run(struct sink *s, const struct walk_frame *last, uint32_t count, uintptr_t outer_slot)
{
	struct walk *w = s->w;
	struct walk_frame *out = &w->frames[s->at];
	size_t k = words_before(w, s->at);
	uint32_t at = s->at;
	uintptr_t matters = s->at ? out[-1].bp_slot & 1 : 0;

	if (w->common == s->at) {
		uint32_t most = s->old_depth > s->at ? s->old_depth - s->at : 0, n = 0;

		most = most < count ? most : count;
		while (n < most && out[n].address == last[-(ptrdiff_t)n].address)
			n++;
		w->common += n;
	}
	s->at += count;
	for (; count; count--, last--, out++) {
		uintptr_t slot = last->bp_slot & -8ul;

		matters = (last->bp_slot & 1) | (outer_slot == 0 ? matters : 0);
		out->address = last->address;
		out->cfa = last->cfa;
		out->bp = last->bp;
		out->bp_slot = (slot | 1) & -matters;
		out->from = last->from;
		k = put_words(w, at++, k);
		outer_slot = slot;
	}
	return outer_slot;
}

/* Puts the walked frames [from, to), counted from the leaf, root-most first. */
static void put_walked(struct sink *s, uint32_t from, uint32_t to, uintptr_t outer_slot)
{
	const uint32_t leaf = WALK_KEEP - WALK_ROOT;

	while (to > from) {
		uint32_t ring = to > leaf ? (to - 1 - leaf) % WALK_ROOT : 0;
		const struct walk_frame *last = &s->w->scratch[to > leaf ? leaf + ring : to - 1];
		uint32_t count = to > leaf ? ring + 1 : to;

		count = count < to - from ? count : to - from;
		outer_slot = put_run(s, last, count, outer_slot);
		to -= count;
	}
}

/* Takes the outermost WALK_SEGMENT frames out of the leaf part, which begins with `kept` frames of the
 * last walk: a mark and a segment remain. */
static void shift_out(struct walk *w, uint32_t kept)
{
	struct walk_deep *d = &w->deep;
	const struct walk_frame *f = &w->frames[LEAF + WALK_SEGMENT];
	struct walk_segment *s = &d->segment[d->marks % WALK_SEGMENTS];
	size_t start = words_before(w, LEAF), words = words_before(w, LEAF + WALK_SEGMENT) - start;
	size_t end = words_before(w, kept);

	d->first += WALK_SEGMENT;
	if (d->marks < WALK_MARKS) {
		d->mark[d->marks] = (struct walk_mark){f->address, f->cfa, f->bp, d->first};
		memcpy(s->word, w->words + start, words * sizeof(*s->word));
		s->words = (uint32_t)words;
		s->of = ++d->marks;
	}
	memmove(w->frames + LEAF, f, (kept - LEAF - WALK_SEGMENT) * sizeof(*f));
	memmove(w->words + start, w->words + start + words,
		(end - start - words) * sizeof(*w->words));
	for (uint32_t i = LEAF; i < kept - WALK_SEGMENT; i++)
		w->words_end[i] = (uint16_t)(w->words_end[i + WALK_SEGMENT] - words);
	for (size_t k = start; k < end - words; k++)
		w->word_frame[k] = (uint16_t)(w->word_frame[k + words] - WALK_SEGMENT);
}

/* Marks of the walk's own, so that the next one need not go through all of these frames. */
static void put_marks(struct walk_deep *d, uint32_t laps, uint32_t total)
{
	if (laps > WALK_MARKS)
		laps = WALK_MARKS;
	while (laps-- && d->marks < WALK_MARKS) {
		uint32_t number = total - 1 - WALK_LEAF_MOST - laps * WALK_SEGMENT;

		if (number <= (d->marks ? d->mark[d->marks - 1].number : WALK_ROOT))
			continue;
		d->mark[d->marks] = d->lap[laps];
		d->mark[d->marks].number = number;
		d->segment[d->marks++ % WALK_SEGMENTS].of = 0;
	}
}

/* The leaf part from walked frames only; `outside` is the number of frames outside of all n of them. Where
 * it begins is not changed without need. */
static void put_leaf_part(struct pass *p, struct sink *s, uint32_t outside, uint32_t n)
{
	struct walk_deep *d = &p->w->deep;
	uint32_t total = outside + n, first = total - WALK_LEAF_MOST;

	if (n <= WALK_LEAF_MOST)
		first = outside;
	if (!p->w->is_deep || d->first < first || d->first + WALK_LEAF_LEAST > total)
		d->first = first;
	put_marks(d, p->laps, total);
	put_mark(s, SPOOL_MARK(SPOOL_MARK_ELIDED, d->first - WALK_ROOT));
	put_walked(s, 0, total - d->first, d->first == outside ? p->bp_slot : 0);
	p->total = total;
}

/* The n walked frames after `kept` ones of frames[], which are moved to make room. */
static void put_after_kept(struct pass *p, uint32_t kept, uint32_t n)
{
	struct walk *w = p->w;
	struct walk_deep *d = &w->deep;
	struct sink s = {w, kept, w->depth};

	if (!w->is_deep) {
		d->first = LEAF;
		d->marks = 0;
	}
	if (n > LEAF_FULL - 2) {
		while (kept > LEAF + WALK_SEGMENT) {
			shift_out(w, kept);
			kept -= WALK_SEGMENT;
		}
		s.at = w->common = w->kept = WALK_ROOT;
		put_leaf_part(p, &s, d->first - LEAF + kept, n);
	} else {
		while (!w->is_deep || kept + n > WALK_KEEP + 1) {
			shift_out(w, kept);
			kept -= WALK_SEGMENT;
			w->common = w->kept = s.at = WALK_ROOT;
			put_mark(&s, SPOOL_MARK(SPOOL_MARK_ELIDED, d->first - WALK_ROOT));
			w->is_deep = true;
		}
		s.at = kept;
		put_run(&s, &w->scratch[n - 1], n, p->bp_slot);
		p->total = d->first - LEAF + s.at;
	}
	w->depth = s.at;
}

/* All but what assemble() does itself. */
static __attribute__((noinline)) void assemble_deep(struct pass *p, uint32_t kept, uint32_t n)
{
	struct walk *w = p->w;
	struct walk_deep *d = &w->deep;
	struct sink s = {w, kept, w->depth};

	if (p->candidates == LEAF_PART || (kept > LEAF && kept + n > WALK_KEEP)) {
		w->common = w->kept = kept;
		put_after_kept(p, kept, n);
		return;
	}
	if (p->candidates == MARKS) {
		d->marks = d->candidates;
		s.at = w->common = w->kept = WALK_ROOT;
		put_leaf_part(p, &s, d->mark[d->candidates - 1].number, n);
	} else if (kept + n <= WALK_KEEP) {
		w->is_deep = false;
		w->common = w->kept = kept;
		put_walked(&s, 0, n, p->bp_slot);
		p->total = kept + n;
	} else {
		w->is_deep = false;
		d->marks = 0;
		if (kept > WALK_ROOT)
			s.at = WALK_ROOT;
		w->common = w->kept = s.at;
		if (s.at < WALK_ROOT)
			put_walked(&s, n - (WALK_ROOT - s.at), n, p->bp_slot);
		put_leaf_part(p, &s, kept, n);
	}
	w->depth = s.at;
}

/* Joins `kept` root frames of the last walk with the n walked ones. */
static inline void assemble(struct pass *p, uint32_t kept, uint32_t n)
{
	struct walk *w = p->w;
	struct sink s = {w, kept, w->depth};

	if (UNLIKELY(w->is_deep || kept + n > WALK_KEEP || n > WALK_LEAF_MOST)) {
		assemble_deep(p, kept, n);
		return;
	}
	w->common = w->kept = kept;
	if (n)
		put_run(&s, &w->scratch[n - 1], n, p->bp_slot);
	w->depth = p->total = s.at;
}

static void end_deep(struct pass *p)
{
	struct walk *w = p->w;
	struct walk_deep *d = &w->deep;

	w->is_deep = w->reusable && w->depth > p->barrier + LEAF;
	if (w->reusable > WALK_ROOT)
		w->reusable = WALK_ROOT;
	d->reusable = w->depth - p->barrier;
	w->looked_at = d->looked_at + walked(p);
	if (w->is_deep)
		d->left = cpu_ticks_at(&d->processor);
}

static inline void finish_walk(struct pass *p, bool joined)
{
	struct walk *w = p->w;
	uint32_t kept = joined && p->candidates != MARKS ? p->join : 0;
	struct walk_frame *last;

	if (p->truncated) {
		p->out->address = SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0);
		p->out->cfa = p->out->bp = p->out->bp_slot = 0;
		advance_out(p);
	}
	if (kept) {
		last = &w->frames[kept - 1];
		last->bp_slot = last->bp_slot & 1 ? p->bp_slot | 1 : 0;
		last->from = p->from;
		put_words(w, kept - 1, words_before(w, kept - 1));
	}
	assemble(p, kept, walked(p));
	w->truncated = p->truncated;
	w->reusable = 0;
	if (!p->truncated && !p->zero_root && p->native && p->total > p->barrier)
		w->reusable = p->total - p->barrier;
	if (UNLIKELY(p->total > WALK_KEEP))
		end_deep(p);
}

/* ---- interface ---- */

static inline bool begin_walk(struct pass *p, struct walk *w, const struct walk_start *start)
{
	uint32_t now = atomic_load_explicit(&generation, memory_order_acquire);

	if (w->generation != now) {
		w->generation = now;
		w->reusable = 0;
		w->depth = 0;
		w->is_deep = false;
	}
	/* Frames that are reused have no signal frame among them, since that is a barrier. */
	w->interrupted = 0;
	*p = (struct pass){.w = w, .pc = start->pc, .sp = start->sp, .bp = start->bp};
	p->out = w->scratch;
	/* Usually it is the stack of the last walk. */
	if (LIKELY(p->sp - w->stack_low < w->stack_high - w->stack_low && p->sp % 8 == 0)) {
		p->native = true;
		p->leaf = p->sp;
		p->high = w->stack_high & -8ul;
	} else if (!enter_stack(p)) {
		p->truncated = true;
	}
	if (UNLIKELY(p->truncated || !skip_own(p))) {
		p->out->address = p->pc;
		p->out->cfa = p->out->bp = p->out->bp_slot = 0;
		p->out++;
		p->truncated = true;
		return false;
	}
	if (p->native && UNLIKELY(w->is_deep))
		begin_deep(p);
	else if (p->native && w->reusable)
		p->join = verify(w, p->sp);
	return true;
}

static __attribute__((noinline)) uint32_t capture(struct walk *w, const struct walk_start *start)
{
	struct pass p;
	bool joined;
	int tries = 0;

	/* Once more if the code has changed meanwhile. A loop, so that all is inlined once. */
	do {
		joined = begin_walk(&p, w, start);
		while (joined && (joined = run_walk(&p)) && !holds(&p)) {
		}
		if (UNLIKELY(w->is_deep) && joined)
			return_to_met(&p);
	} while (
	    UNLIKELY(atomic_load_explicit(&generation, memory_order_acquire) != w->generation) &&
	    tries++ == 0);
	finish_walk(&p, joined);
	return w->common;
}

/* True: a call from the same place as the last one, with the same stack outside, as in a loop. The
 * inner-most boundary is given by start; verify() covers those outside of it. */
static inline bool same_again(struct walk *w, const struct walk_start *start)
{
	uint32_t n = w->reusable;
	struct walk_frame *last;

	if (n == 0 || n != w->depth)
		return false;
	last = &w->frames[n - 1];
	if (last->cfa != start->sp || last->address != start->pc ||
	    ((last->bp_slot & 1) && last->bp != start->bp) ||
	    w->generation != atomic_load_explicit(&generation, memory_order_acquire) ||
	    verify(w, start->sp) != n - 1)
		return false;
	w->common = w->kept = n;
	return true;
}

uint32_t walk_capture(struct walk *w, const struct walk_start *start)
{
	if (same_again(w, start))
		return w->common;
	return capture(w, start);
}

void walk_trust_ticks(bool trusted)
{
	ticks_are_trusted = trusted;
}

void walk_forget(struct walk *w)
{
	w->depth = w->common = w->kept = w->truncated = w->reusable = 0;
	w->is_deep = false;
	w->stack_low = w->stack_high = 0;
}

void walk_enter_sandbox(void)
{
	struct table *t = atomic_load(&table);

	if (t && t->mask + 1 < TABLE_SANDBOXED)
		grow_frame_table(t, TABLE_SANDBOXED);
	atomic_store(&sandboxed, true);
}

bool walk_init(void)
{
	uint64_t limit = sys_soft_limit(RLIMIT_STACK);
	struct dl_find_object found;

	if (atomic_load(&table))
		return true;
	if (!_dl_find_object || _dl_find_object((void *)walk_init, &found) != 0)
		return false;
	/* Not the whole of a static program that we are linked into. */
	if (found.dlfo_link_map && *found.dlfo_link_map->l_name) {
		own_start = (uintptr_t)found.dlfo_map_start;
		own_size = (uintptr_t)found.dlfo_map_end - own_start;
	}
	main_thread = cpu_thread_pointer();
	main_stack_end = &__libc_stack_end ? (uintptr_t)__libc_stack_end & -8ul : 0;
	/* The kernel lays out memory for the limit that is in force at exec. */
	main_stack_limit = limit < MAIN_STACK_LEAST  ? MAIN_STACK_LEAST
			   : limit > MAIN_STACK_MOST ? MAIN_STACK_MOST
						     : limit;
	wide = sys_memory(sizeof(*wide));
	if (!wide)
		return false;
	modules_init();
	atomic_store(&table, new_table(TABLE_SMALLEST));
	return atomic_load(&table) != NULL;
}
