/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame records: see frame_record.h.
 *
 * The base pointer may as well be a number, or the record of a function further outside, where the
 * function at pc keeps no record of its own. Then callers would be left out, so all of this must
 * hold:
 *
 *	- the nearest instruction before pc that tells makes a record or uses one;
 *	- the word after the saved base pointer is a return address: the code before it is a call;
 *	- no word between sp and bp is one, as that would be the function's own.
 *
 * Code can be unmapped at any time, so the kernel copies it. What was seen is kept by address:
 *
 *	 63                    2   1         0
 *	| address               | has a  | after   |
 *	|  (of 62 bits)         | record | a call  |
 */
#include "agent/unwind/frame_record.h"

#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"

#include <stdatomic.h>
#include <dlfcn.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifdef CPU_CALL_BYTES

#define AFTER_CALL 1u
#define HAS_RECORD 2u
#define FACTS	   3u
#define KNOWN	   4096u	 /* a power of two */
#define CODE_NEAR  (128ul << 20) /* code of one compiler: calls reach that far */
#define LOWEST	   65536u	 /* no code is below it */
#define PIECE	   512ul	 /* bytes of code that are copied at a time */
#define PIECES	   128u

static _Atomic uint64_t known[KNOWN];

static bool copy_code(void *to, uintptr_t from, size_t bytes)
{
	struct iovec here = {to, bytes}, there = {(void *)from, bytes};

	return sys_call6(SYS_process_vm_readv, sys_call3(SYS_getpid, 0, 0, 0), (long)&here, 1,
			 (long)&there, 1, 0) == (long)bytes;
}

/* What the nearest clue before pc says. */
static bool has_record(uintptr_t pc)
{
	uint8_t code[PIECE + CPU_CLUE_BYTES - 1];
	uintptr_t end = pc - (CPU_CLUE_BYTES - 1);

	/* Pieces do not cross pages: the page before the first function may be unreadable. */
	for (unsigned i = 0; i < PIECES && end > LOWEST; i++) {
		uintptr_t start = (end - 1) & -(uintptr_t)PIECE;
		size_t bytes = end - start;

		if (!copy_code(code, start, bytes + CPU_CLUE_BYTES - 1))
			return false;
		while (bytes-- > 0) {
			int clue = cpu_record_clue(code + bytes);

			if (clue != 0)
				return clue > 0;
		}
		end = start;
	}
	return false;
}

static unsigned look_at_code(uintptr_t pc, bool sandboxed)
{
	_Atomic uint64_t *slot = &known[(pc ^ pc >> 12) % KNOWN];
	uint64_t there = atomic_load_explicit(slot, memory_order_relaxed);
	uint8_t call[CPU_CALL_BYTES];
	unsigned facts = 0;

	if (there >> 2 == pc)
		return there & FACTS;
	if (sandboxed)
		return 0;
	if (copy_code(call, pc - sizeof(call), sizeof(call)) && cpu_is_call_before(call)) {
		facts = AFTER_CALL;
		if (has_record(pc))
			facts |= HAS_RECORD;
	}
	atomic_store_explicit(slot, (uint64_t)pc << 2 | facts, memory_order_relaxed);
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

bool frame_record_at(uintptr_t pc, uintptr_t sp, uintptr_t bp, bool sandboxed)
{
	const uintptr_t *record = (const uintptr_t *)bp;
	uintptr_t size = bp - sp;

	if (size / 8 > FRAME_RECORD_WORDS_MOST ||
	    look_at_code(pc, sandboxed) != (AFTER_CALL | HAS_RECORD) || record[1] < LOWEST ||
	    record[1] >> CPU_USER_BITS != 0 || !(look_at_code(record[1], sandboxed) & AFTER_CALL))
		return false;
	for (const uintptr_t *word = (const uintptr_t *)sp; word < record; word++) {
		/* What points into the frame itself is no code. */
		if (*word - sp < size + 2 * sizeof(*word))
			continue;
		if (is_return_address(*word, pc, sandboxed))
			return false;
	}
	return true;
}

#else

bool frame_record_at(uintptr_t pc, uintptr_t sp, uintptr_t bp, bool sandboxed)
{
	(void)pc, (void)sp, (void)bp, (void)sandboxed;
	return false;
}

#endif
