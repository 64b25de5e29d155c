/* SPDX-License-Identifier: Apache-2.0 */
/* A program that no agent can be loaded into: statically linked, or setuid. Says who it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	for (int i = 0; i < 1000; i++)
		free(malloc((size_t)i * 100));
	printf("%s %d\n", argc > 1 ? argv[1] : "-", geteuid() == getuid());
	return 17;
}
