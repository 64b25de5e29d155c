/* SPDX-License-Identifier: Apache-2.0 */
/* What cpu_step_code() says about an instruction: see cpu.h. */
#ifndef MAYFLY_CPU_STEP_H
#define MAYFLY_CPU_STEP_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_next {
	int64_t on, branch; /* bytes to the next instruction and to a branch's target; 0: none */
	bool moves_sp;
	bool calls;	 /* the called function may never return */
	uint32_t locals; /* CPU_STEP_DROPS: bytes */
};

enum cpu_step { CPU_STEP_STOP, CPU_STEP_ON, CPU_STEP_LEAVES, CPU_STEP_DROPS };

#endif
