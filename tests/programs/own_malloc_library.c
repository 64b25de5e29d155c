/* SPDX-License-Identifier: Apache-2.0 */
/* A library of an executable with its own malloc: it uses each function of malloc's family. */
#include <stdlib.h>
#include <string.h>

int library_work(unsigned long count);

static int one(unsigned long i)
{
	void *blocks[8] = {
	    malloc(i + 1), calloc(2, i + 3), NULL, NULL, aligned_alloc(64, 64), NULL, NULL, NULL};
	int sum = 0;

	blocks[2] = realloc(malloc(10), 20 + i);
	if (posix_memalign(&blocks[3], 128, 100))
		return 1;
	blocks[5] = strdup("libc calls malloc"); /* and asks the program's for it */
	blocks[6] = reallocarray(NULL, 3, 7);
	blocks[7] = reallocarray(malloc(5), 2, 9);
	for (int k = 0; k < 8; k++) {
		sum += blocks[k] != NULL;
		if ((i + k) % 4)
			free(blocks[k]);
	}
	return sum;
}

/* How many blocks there were at last. */
int library_work(unsigned long count)
{
	int sum = 0;

	for (unsigned long i = 0; i < count; i++)
		sum += one(i);
	return sum;
}
