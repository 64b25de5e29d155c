/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions made at run time, which call one another and then malloc, and a map of them for perf:
 * main -> plain_compiled -> compiled (app.js:12) -> make_block. The map is written if there is an
 * argument; its name is printed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCKS 100

void *kept[BLOCKS];
static int blocks;

static __attribute__((noinline)) void make_block(void)
{
	kept[blocks++] = malloc(1000);
}

/* push %rbp; mov %rsp, %rbp; mov $next, %rax; call *%rax; pop %rbp; ret */
static size_t make_function(uint8_t *code, const void *next)
{
	memcpy(code, "\x55\x48\x89\xe5\x48\xb8", 6);
	memcpy(code + 6, &next, 8);
	memcpy(code + 14, "\xff\xd0\x5d\xc3", 4);
	return 18;
}

int main(int argc, __attribute__((unused)) char **argv)
{
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	FILE *map;

	if (code == MAP_FAILED)
		return 1;
	make_function(code, (const void *)make_block);
	make_function(code + 64, code);
	if (argc > 1) {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
		map = fopen(path, "w");
		if (!map)
			return 1;
		fprintf(map, "not a line\n%lx ffffffffffffffffff too long\n\n", (long)code);
		fprintf(map, "%lx 1000 replaced later\n", (long)code);
		fprintf(map, "%lx 12 JS:*compiled /srv/my app.js:12:16\n", (long)code);
		fprintf(map, "0x%lx 12 plain_compiled\n", (long)code + 64);
		fprintf(map, "%lx 12 cut of", (long)code + 4096);
		fclose(map);
		puts(path);
	}
	for (int i = 0; i < BLOCKS; i++)
		((void (*)(void))(code + 64))();
	return 0;
}
