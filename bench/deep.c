/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deep recursion, as that of parsers and of lists that are built from the end.
 *
 *	bench_deep LEVELS	allocates a block at each level
 *	bench_deep LEVELS N	allocates N blocks at the innermost level
 */
#include <stdint.h>
#include <stdlib.h>

#define AFTER_CALL() __asm__ volatile("" : : : "memory")

struct node {
	struct node *next;
	long value;
};

static __attribute__((noinline)) struct node *build(long levels)
{
	struct node *made;

	if (levels == 0)
		return NULL;
	made = malloc(sizeof(*made));
	if (!made)
		exit(1);
	made->value = levels;
	made->next = build(levels - 1);
	AFTER_CALL();
	return made;
}

static __attribute__((noinline)) void go_down(long levels, long blocks)
{
	if (levels > 1)
		go_down(levels - 1, blocks);
	else
		while (blocks--)
			((volatile struct node *)malloc(sizeof(struct node)))->value = blocks;
	AFTER_CALL();
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (argc > 2)
		go_down(atol(argv[1]), atol(argv[2]));
	else if (!build(atol(argv[1])))
		return 1;
	return 0;
}
