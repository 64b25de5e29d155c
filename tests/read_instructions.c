/* SPDX-License-Identifier: Apache-2.0 */
/* For each line of hexadecimal digits, the instruction that they begin with, as the agent reads it: its length, and
 * how far from its beginning it branches. "0 0": it is not known. Used by test_own_malloc.py. */
#include <stdio.h>
#include <string.h>

#include "agent/cpu/cpu.h"

int main(void)
{
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
#ifdef CPU_NEAR_MOST
		uint8_t code[64] = {0};
		struct cpu_instruction i;
		unsigned byte, n = 0;
		long branch = 0;

		for (const char *at = line; n < 32 && sscanf(at, "%2x", &byte) == 1; at += 2)
			code[n++] = (uint8_t)byte;
		if (!cpu_read_instruction(code, &i)) {
			puts("0 0");
			continue;
		}
		if (i.kind == CPU_BRANCH || i.kind == CPU_SHORT || i.kind == CPU_CALL)
			branch = cpu_target_of(code, &i) - code;
		printf("%u %ld\n", i.length, branch);
#else
		puts("0 0");
#endif
	}
	return 0;
}
