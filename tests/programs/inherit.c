/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parent allocates, its children inherit: what each process allocates, frees and keeps is known.
 *
 *	parent	site_a: 300 blocks of 10,000	forks		frees 300 of a
 *	child				frees 100 of a   site_b: 40 blocks of 20,000, each freed at once
 *				site_r: realloc of one of a to 30,000   site_b: keeps 60 of 20,000
 *	its child			frees 50 of a and 10 of b   site_b: keeps 5 of 20,000
 *
 * The first argument is the number of children; with a second one, the first child forks, too.
 * Blocks are larger than the interval of the tests, so sampled traces have all of them. Children
 * free their first blocks at once, when the parent's last allocation was theirs: nothing of what
 * they inherit is temporary.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

enum { A = 300, FREED = 100, B_AT_ONCE = 40, B_KEPT = 60 };

static void *block[A], *kept[B_KEPT];

NOINLINE static void *site_a(void)
{
	void *made = malloc(10000);

	__asm__ volatile("" : "+r"(made)::"memory");
	return made;
}

NOINLINE static void *site_b(void)
{
	void *made = malloc(20000);

	__asm__ volatile("" : "+r"(made)::"memory");
	return made;
}

NOINLINE static void *site_r(void *old)
{
	void *made = realloc(old, 30000);

	__asm__ volatile("" : "+r"(made)::"memory");
	return made;
}

static void grandchild(void)
{
	for (int i = FREED; i < FREED + 50; i++)
		free(block[i]);
	for (int i = 0; i < 10; i++)
		free(kept[i]);
	for (int i = 0; i < 5; i++)
		kept[i] = site_b();
	_exit(0);
}

static void child(int forks)
{
	for (int i = A - 1; i >= A - FREED; i--)
		free(block[i]);
	memmove(block + FREED, block, (A - FREED) * sizeof(*block));
	for (int i = 0; i < B_AT_ONCE; i++)
		free(site_b());
	block[A - 1] = site_r(block[A - 1]);
	for (int i = 0; i < B_KEPT; i++)
		kept[i] = site_b();
	if (forks && !fork())
		grandchild();
	while (wait(NULL) > 0)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	for (int i = 0; i < A; i++)
		block[i] = site_a();
	for (int i = 0; i < atoi(argv[1]); i++)
		if (!fork())
			child(argc > 2 && i == 0);
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < A; i++)
		free(block[i]);
	return 0;
}
