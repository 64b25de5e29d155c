/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame records: see frame_record.h.
 *
 * The base pointer may as well be a number, or the record of a function further outside, where the
 * function at pc keeps no record of its own. Then callers would be left out, so all of this must
 * hold:
 *
 *	- the nearest instruction before pc that tells makes a record or uses one;
 *	- the word after the saved base pointer is a return address: the code before it is a call, or it
 *	  is where an interpreter has its functions return to;
 *	- no word between sp and bp is one, as that would be the function's own. Frames can have old
 *	  ones, in words that were not written so far. So it is also enough when the code from pc on
 *	  comes to where the function leaves its frame by way of the base pointer; or by way of the
 *	  stack pointer, if the base pointer is where it then takes the caller's from.
 *
 * Code can be unmapped at any time, so the kernel copies it. What was seen is kept by address:
 *
 *	 63            16   15           8   7              2   1          0
 *	| address        | bytes of the   | bytes from the   | leaves   | after   |
 *	|  (of 48 bits)  | locals / 8, by | record to the    | by the   | a call  |
 *	|                | how it leaves; | CFA / 16; 0: no  | base     |         |
 *	|                | 0: not known   | record           | pointer  |         |
 */
#include "agent/unwind/frame_record.h"

#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"

#include <stdatomic.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define AFTER_CALL 1u
#define LEAVES	   2u
#define SIZE_SHIFT 2
#define SIZE_UNIT  16u
#define SIZE_MOST  63u
#define DROP_SHIFT 8
#define DROP_UNIT  8u
#define DROP_MOST  255u
#define FACTS_BITS 16
#define FACTS	   ((1u << FACTS_BITS) - 1)
#define KNOWN	   4096u	 /* a power of two */
#define CODE_NEAR  (128ul << 20) /* code of one compiler: calls reach that far */
#define LOWEST	   65536u	 /* no code is below it */
#define PIECE	   512ul	 /* bytes of code that are copied at a time */
#define PIECES	   128u
#define STEPS	   2000u /* instructions */
#define SEEN_BYTES 8192u /* of code, from pc on, where it is noted what was looked at */
#define WAYS	   64u
#define STEP_PIECE 128u /* bytes of them that are copied at a time */

static _Atomic uint64_t known[KNOWN];

/* Emulators lack process_vm_readv. (Where it is refused, as in some containers, nothing is read: a
 * program must not see a descriptor come and go.) */
static bool copy_by_file(void *to, uintptr_t from, size_t bytes)
{
	long fd = sys_call4(SYS_openat, AT_FDCWD, (long)"/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
	long got;

	if (fd < 0)
		return false;
	got = sys_call4(SYS_pread64, fd, (long)to, (long)bytes, (long)from);
	sys_call3(SYS_close, fd, 0, 0);
	return got == (long)bytes;
}

static bool copy_code(void *to, uintptr_t from, size_t bytes)
{
	struct iovec here = {to, bytes}, there = {(void *)from, bytes};
	long got = sys_call6(SYS_process_vm_readv, sys_call3(SYS_getpid, 0, 0, 0), (long)&here, 1,
			     (long)&there, 1, 0);

	if (got == -ENOSYS)
		return copy_by_file(to, from, bytes);
	return got == (long)bytes;
}

/* What the nearest clue before pc says: the size of what the record is the low end of, or 0. */
static unsigned record_size(uintptr_t pc)
{
	uint8_t code[PIECE + CPU_CLUE_BYTES - 1];
	uintptr_t end = pc - (CPU_CLUE_BYTES - 1);

	/* Pieces do not cross pages: the page before the first function may be unreadable. */
	for (unsigned i = 0; i < PIECES && end > LOWEST; i++) {
		uintptr_t start = (end - 1) & -(uintptr_t)PIECE;
		size_t bytes = end - start;

		if (!copy_code(code, start, bytes + CPU_CLUE_BYTES - 1))
			return 0;
		while (bytes-- > 0) {
			int clue = bytes % CPU_CODE_STEP ? 0 : cpu_record_clue(code + bytes);

			if (clue != 0)
				return clue > 0 ? (unsigned)clue : 0;
		}
		end = start;
	}
	return 0;
}

/* Places that branches lead to: each is taken once. */
struct ways {
	uintptr_t place[WAYS];
	bool moved[WAYS], called[WAYS]; /* on the way there: the stack pointer; a call was passed */
	unsigned count, taken;
	uint8_t seen[4][SEEN_BYTES / 8]; /* bits; [moved + 2 * called] */
};

/* Whether this instruction was looked at before, in a state in which the same or more could be found:
 * less can be found once the stack pointer has moved or a call was passed. */
static bool seen_before(struct ways *w, uintptr_t offset, bool moved, bool called)
{
	uint8_t bit = (uint8_t)(1u << offset % 8), all;

	if (offset >= SEEN_BYTES)
		return false;
	offset /= 8;
	all = w->seen[0][offset] | (moved ? w->seen[1][offset] : 0) |
	      (called ? w->seen[2][offset] : 0) | (moved && called ? w->seen[3][offset] : 0);
	w->seen[moved + 2 * called][offset] |= bit;
	return all & bit;
}

static bool add_way(struct ways *w, uintptr_t place, bool moved, bool called)
{
	for (unsigned i = 0; i < w->count; i++)
		if (w->place[i] == place && w->moved[i] <= moved && w->called[i] <= called)
			return false;
	if (w->count == WAYS)
		return false;
	w->moved[w->count] = moved;
	w->called[w->count] = called;
	w->place[w->count++] = place;
	return true;
}

/* How the function leaves its frame, if execution from pc on can come to its end: LEAVES, or the bytes
 * of its locals by DROP_SHIFT; otherwise 0. A call on the way may never return, and then other code
 * follows it. So LEAVES does not count behind one; a number of bytes does, as the caller compares it
 * with the registers. Pieces may cross pages: there is more code after a call. */
static unsigned way_out(uintptr_t pc)
{
	struct ways ways = {.count = 0};
	uintptr_t from = pc;
	bool moved = false, called = false;
	uint8_t code[STEP_PIECE];
	uintptr_t start = 0;
	struct cpu_next next;

	for (unsigned i = 0; i < STEPS; i++) {
		enum cpu_step step;

		if (pc - start > sizeof(code) - CPU_STEP_BYTES) {
			start = pc;
			if (!copy_code(code, start, sizeof(code)))
				return 0;
		}
		next = (struct cpu_next){0};
		step = seen_before(&ways, pc - from, moved, called)
			   ? CPU_STEP_STOP
			   : cpu_step_code(code + (pc - start), &next);
		if (step == CPU_STEP_LEAVES && !called)
			return LEAVES;
		if (step == CPU_STEP_DROPS && !moved && next.locals % DROP_UNIT == 0 &&
		    next.locals / DROP_UNIT <= DROP_MOST)
			return next.locals / DROP_UNIT << DROP_SHIFT;
		moved |= next.moves_sp;
		called |= next.calls;
		if (step == CPU_STEP_ON && next.branch != 0 &&
		    !add_way(&ways, pc + (uintptr_t)next.branch, moved, called) && next.on == 0)
			step = CPU_STEP_STOP;
		if (step == CPU_STEP_ON && next.on != 0) {
			pc += (uintptr_t)next.on;
			continue;
		}
		if (ways.taken == ways.count)
			return 0;
		moved = ways.moved[ways.taken];
		called = ways.called[ways.taken];
		pc = ways.place[ways.taken++];
	}
	return 0;
}

static unsigned look_at_code(uintptr_t pc, bool sandboxed)
{
	_Atomic uint64_t *slot = &known[(pc ^ pc >> 12) % KNOWN];
	uint64_t there = atomic_load_explicit(slot, memory_order_relaxed);
	uint8_t call[CPU_CALL_BYTES];
	uint8_t entry[CPU_RETURN_ENTRY_BYTES];
	unsigned facts = 0, size;

	if (there >> FACTS_BITS == pc)
		return there & FACTS;
	if (sandboxed || pc % CPU_CODE_STEP != 0)
		return 0;
	if (copy_code(call, pc - sizeof(call), sizeof(call)) && cpu_is_call_before(call)) {
		size = record_size(pc) / SIZE_UNIT;
		facts = AFTER_CALL | (size <= SIZE_MOST ? size << SIZE_SHIFT : 0);
		if (facts >> SIZE_SHIFT)
			facts |= way_out(pc);
	} else if (copy_code(entry, pc, sizeof(entry)) && cpu_is_return_entry(entry)) {
		facts = AFTER_CALL | LEAVES | 1u << SIZE_SHIFT;
	}
	atomic_store_explicit(slot, (uint64_t)pc << FACTS_BITS | facts, memory_order_relaxed);
	return facts;
}

/* Only addresses near pc, or in an object, as any number could be one in memory that a compiler
 * has for code. */
static bool is_return_address(uintptr_t word, uintptr_t pc, bool sandboxed)
{
	struct dl_find_object found;

	if (word < LOWEST || word >> CPU_USER_BITS != 0)
		return false;
	if (word - pc + CODE_NEAR >= 2 * CODE_NEAR && _dl_find_object((void *)word, &found) != 0)
		return false;
	return look_at_code(word, sandboxed) & AFTER_CALL;
}

uintptr_t frame_record_cfa(uintptr_t pc, uintptr_t sp, uintptr_t bp, bool sandboxed)
{
	const uintptr_t *record = (const uintptr_t *)bp;
	uintptr_t locals = bp - sp, outer, address, cfa;
	unsigned facts;

	if (locals / 8 > FRAME_RECORD_WORDS_MOST)
		return 0;
	facts = look_at_code(pc, sandboxed);
	outer = cpu_frame_record(record, &address);
	cfa = bp + (facts >> SIZE_SHIFT & SIZE_MOST) * SIZE_UNIT;
	/* The caller's record is not inside this frame. */
	if (cfa == bp || outer - sp < cfa - sp || address < LOWEST ||
	    address >> CPU_USER_BITS != 0 || !(look_at_code(address, sandboxed) & AFTER_CALL))
		return 0;
	if (facts & LEAVES || (facts >> DROP_SHIFT && locals == (facts >> DROP_SHIFT) * DROP_UNIT))
		return cfa;
	for (const uintptr_t *word = (const uintptr_t *)sp; word < record; word++) {
		/* What points into the frame itself is no code. */
		if (*word - sp < locals + 2 * sizeof(*word))
			continue;
		if (is_return_address(*word, pc, sandboxed))
			return 0;
	}
	return cfa;
}
