/* SPDX-License-Identifier: Apache-2.0 */
/* What the recorder needs to know of the CPU; a new one is added here. */
#ifndef MAYFLY_MACHINE_H
#define MAYFLY_MACHINE_H

#include <elf.h>
#include <stdint.h>

#if defined(__x86_64__)

#include <x86intrin.h>
#define MACHINE_ELF	  EM_X86_64 /* of the programs that the agent can be loaded into */
#define MACHINE_HAS_TICKS 1	    /* it has the clock SPOOL_CLOCK_TSC */

static inline uint64_t machine_ticks(void)
{
	return __rdtsc();
}

#elif defined(__aarch64__)

#define MACHINE_ELF	  EM_AARCH64
#define MACHINE_HAS_TICKS 1

static inline uint64_t machine_ticks(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

#else
#error "the ELF machine of this CPU is not known"
#endif

#endif
