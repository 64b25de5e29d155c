/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that the agent needs to know of the CPU. A port is one header, cpu_NAME.h, that provides what
 * is listed here; system calls by their names are in sys.h, on top of it. Integers are little
 * endian and pointers have 64 bits, as in the spool's format.
 *
 * System calls: the kernel's result, or -errno.
 *	sys_call3, sys_call4, sys_call6(number, arguments...)
 *
 * Registers:
 *	cpu_thread_pointer()	the address of glibc's control block of the thread, where a
 *				thread's stack ends
 *	cpu_caller(pc, sp, bp)	the state in the caller of the function that this is inlined
 *				into, right after that function returns
 *	cpu_here(pc, sp, bp)	the state right here: a walk from here goes through the frames of
 *				this library first
 *	CPU_KEEP(value)		makes the compiler hold the value in a register, so that what
 *				follows cannot become a branch on how it was computed
 *	cpu_count_down(left, size)
 *				*left -= size; false when it was not more than size: *left has
 *				wrapped then. In one instruction where the CPU can, so that a
 *				signal handler comes before it or after it
 *	cpu_is_zero(byte)	loads and tests *byte, in one instruction where the CPU can
 *	cpu_relax()		in a loop that waits for another thread
 *
 * Hooks that leave no frame of ours:
 *	CPU_JUMP_HOOK(name, real, first)
 *				exports the function `name`: calls `first`, then jumps to *real.
 *				For functions that look at their caller (dlopen: whose RUNPATH) or
 *				return twice on one stack (vfork)
 *	cpu_jump_caller(return_address, pc, sp, bp)
 *				in `first`, which has no arguments on the stack: the state in the
 *				caller of the hook
 *	CPU_ANSWER_HOOK(name, real, first)
 *				the same, but where `first` returns a pointer other than NULL, that is
 *				the result
 *	CPU_SYSCALL_HOOK	exports syscall(): jumps to *cpu_real_syscall with registers and
 *				stack as they came (a child of clone or vfork returns through
 *				them). Before SYS_seccomp and those that make a process, and while
 *				cpu_real_syscall is NULL, it calls hook_syscall_first(number, first
 *				argument). If that returns an address, it jumps there instead
 *
 * Time:
 *	cpu_ticks()		a counter
 *	cpu_ticks_in_order()	the same, read after all earlier loads are done: if one of them
 *				has seen another thread's store, that store came first
 *	cpu_ticks_at(processor)	the same, and which of the counters it is, if CPUs have one each that
 *				may differ by less than the time that memory takes between them
 *	cpu_calls_most(ticks)	more functions than a thread can have called, in one another, between
 *				two readings of the same counter that differ by so much
 *	cpu_ticks_are_invariant() whether it runs at one rate on all cores, in all sleep states
 *	CPU_CLOCKSOURCE		what the kernel calls the counter when it uses it as its clock
 *	CPU_TICKS_PER_NS	roughly, for limits
 *
 *	CPU_SLOT_IS_DATA(relocation), _CONST, _LAZY
 *				the loader puts a symbol's address into such a word: a variable of the
 *				program's, which may change; one that only the loader writes; of these
 *				one that may hold the object's own code until it is first called
 *
 * Frames:
 *	CPU_DWARF_BP, _SP	DWARF numbers of the registers that a walk follows
 *	CPU_DWARF_PC		that of the return address
 *	CPU_HAS_LINK		a call leaves the return address in a register, CPU_DWARF_PC, and each
 *				frame's rule says where it was saved. Otherwise it is at CFA - 8
 *	CPU_CFI_SIGNED		DW_CFA 0x2d says only that the return address is signed from here on
 *	CPU_UCONTEXT_BP, _SP, _PC, _LINK
 *				where the kernel's signal frame has the interrupted registers,
 *				from the stack pointer with which the handler has returned
 *				(_LINK only if CPU_HAS_LINK)
 *	CPU_SIGRETURN_ANYWHERE	CPU_SIGRETURN_CODE may be outside of all loaded objects
 *	cpu_frame_record(record, return_address)
 *				reads the frame record that a base pointer points to, as compilers
 *				make it with -fno-omit-frame-pointer: the caller's base pointer, and
 *				the address that the frame returns to
 *	cpu_code_address(word)	the address in a word of the stack that holds a return address
 *
 * Where a plain frame saved the return address and the base pointer, in a few bits. `base` is what the
 * rule's offset is added to, and CFA = base + offset:
 *	CPU_SAVED_BITS		how many
 *	CPU_CFA_UNIT		the offsets of plain frames are multiples of this
 *	cpu_pack_saved(cfa_offset, ra, bp, saved)
 *				from the offsets to the CFA (bp: 0 if it was not saved); false: it
 *				does not fit
 *	cpu_saves_bp(saved)
 *	cpu_return_slot(saved, base, cfa)
 *	cpu_bp_slot(saved, base, cfa)
 *				the addresses. Without a saved base pointer, the second one is that of
 *				any word between the first one and `base`
 *
 *	struct cpu_return	what a walk remembers of a return address that it has read, besides
 *				the address itself and the CFA
 *	cpu_read_return(slot, from)
 *				reads it: the result is a cpu_code_address
 *	cpu_return_from(cfa, from), cpu_return_word(address, from)
 *				where it was read, and the word there. Address 0: nowhere
 *	CPU_SIGRETURN_CODE	the code that a signal handler returns to, CPU_CODE_BYTES long
 *	cpu_is_context_end(code)
 *				whether these CPU_CODE_BYTES are what the first function of a
 *				makecontext() returns to
 *	cpu_is_stack_check(pc)	whether the code around a return address is where an OCaml 5 function
 *				has its stack enlarged: then the CFA is the stack pointer plus
 *				CPU_STACK_CHECK_CFA. Reads CPU_STACK_CHECK_BEFORE bytes before pc
 *				and CPU_STACK_CHECK_AFTER from it
 *	CPU_CODE_STEP		instructions begin at multiples of this
 *	CPU_CALL_BYTES, cpu_is_call_before(code)
 *				whether the bytes before an address end with a call
 *	CPU_RETURN_ENTRY_BYTES, cpu_is_return_entry(code)
 *				whether these bytes are where an interpreter, whose frames have
 *				records of 16 bytes, has functions return to without a call
 *	CPU_CLUE_BYTES, cpu_record_clue(code)
 *				whether these bytes make or use a frame record: then the number of
 *				bytes from it to the CFA; -1: they save the register otherwise; 0:
 *				they say nothing
 *	CPU_STEP_BYTES, cpu_step_code(code, next)
 *				looks at one instruction. CPU_STEP_LEAVES: the function leaves its
 *				frame by way of the base pointer; CPU_STEP_DROPS: by way of the
 *				stack pointer, which it moves over next.locals bytes of locals;
 *				CPU_STEP_ON: the base pointer stays as it is, and execution can
 *				go on as `next` says; CPU_STEP_STOP: anything else
 *	cpu_called_by_pointer(pc)
 *				whether the call that returns to pc went to an address in a register
 *				or on the stack
 *
 *	CPU_ELF_MACHINE		e_machine of this CPU's ELF files
 *
 * Addresses:
 *	CPU_ADDRESS_BITS	a return address fits into this number of bits
 *	CPU_USER_BITS		addresses of programs are below 1 << this
 *	CPU_PAGE_LEAST		the smallest page that the kernel may use. Enough to step through
 *				memory without skipping a page; where the size itself matters, use
 *				getauxval(AT_PAGESZ)
 *
 * Code:
 *	CPU_JUMP_BYTES, cpu_put_jump(code, to)
 *				a jump to any address, which changes no register that a function's
 *				arguments are in
 *	CPU_NEAR_MOST, CPU_NEAR_JUMP_BYTES, CPU_MOVED_BYTES, cpu_move_entry(to, entry, size)
 *				only where functions of the executable can be led to ours: what its first
 *				instructions do, at another place that is no farther than CPU_NEAR_MOST;
 *				cpu_put_near_jump(code, to) can then take their place
 *	cpu_code_unit, CPU_CODE_LOOP
 *				an integer as long as an instruction that jumps to itself, and that
 *				instruction; a store of one to code changes it as a whole for others
 *	CPU_OCAML_THUNK(name, function)
 *				a hidden function `name` that OCaml 4 code calls with one argument:
 *				goes on as the C function, with the argument and the closure
 *	CPU_OCAML5_THUNK(name, function, call)
 *				the same for OCaml 5 code, which has a stack of its own: jumps to
 *				the address in the hidden variable `call`, caml_c_call, with the
 *				arguments and the C function where that wants them
 *	cpu_offset_read(function)
 *				the offset of the word that a function reads first of what a pointer
 *				leads to; 0: not known
 *
 * Besides the agent, these depend on the CPU: include/mayfly/mayfly.h (how a program finds the
 * agent's table), src/record/machine.h (the recorder), src/attach/injection.c (attaching, on x86-64 only),
 * ocaml/build-stubs and ocaml/refusing.c.
 */
#ifndef MAYFLY_CPU_H
#define MAYFLY_CPU_H

#if defined(__x86_64__)
#include "agent/cpu/cpu_x86_64.h"
#include "agent/cpu/entry_x86_64.h"
#elif defined(__aarch64__)
#include "agent/cpu/cpu_aarch64.h"
#else
#error "this CPU has no header yet: see the list above"
#endif

#endif
