/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates while a return address on the stack is none: as below a coroutine whose caller's part of the
 * stack holds other things now. */
#include <stdint.h>
#include <stdlib.h>

/* A stack protector's number, a number with the bit of Python's code, and -1. */
static const uintptr_t no_address[] = {0xdb9d210a1833af00, 0x4000000000000123, UINTPTR_MAX};

__attribute__((noinline)) static void *allocate(size_t size, uintptr_t address)
{
	volatile uintptr_t *returns_to = (volatile uintptr_t *)__builtin_frame_address(0) + 1;
	uintptr_t kept = *returns_to;
	void *block;

	*returns_to = address;
	block = malloc(size);
	*returns_to = kept;
	return block;
}

int main(void)
{
	for (size_t i = 0; i < 3000; i++)
		free(allocate(1000 + i, no_address[i % 3]));
	return 0;
}
