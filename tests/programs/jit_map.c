/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions made at run time, which call one another and then malloc, and the files about them that
 * are made for perf: main -> moved -> plain_compiled -> compiled (app.js:12) -> make_block.
 *
 *	map	writes /tmp/perf-PID.map
 *	dump	writes jit-PID.dump, and maps it
 *	tmp	the same in /tmp, not mapped
 *	wait	ends when there is a file "go"
 *	remove	removes the files at the end
 *	low	the code is at 0x10000
 *
 * The names of the files are printed.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCKS 100
#define APART  64   /* bytes from one function to the next */
#define OLD    2048 /* where one was at first */

void *kept[BLOCKS];
static int blocks;

static __attribute__((noinline)) void make_block(void)
{
	kept[blocks++] = malloc(1000);
}

#ifdef __aarch64__
#define CODE_BYTES 32
#define CALL_AT	   12
#define RETURN_AT  16
/* stp x29, x30, [sp, #-16]!; mov x29, sp; ldr x16, .+16; blr x16; ldp x29, x30, [sp], #16; ret */
static void make_function(uint8_t *code, const void *next)
{
	const uint32_t words[] = {0xa9bf7bfd, 0x910003fd, 0x58000090,
				  0xd63f0200, 0xa8c17bfd, 0xd65f03c0};

	memcpy(code, words, sizeof(words));
	memcpy(code + sizeof(words), &next, 8);
}
#else
#define CODE_BYTES 18
#define CALL_AT	   14
#define RETURN_AT  16
/* push %rbp; mov %rsp, %rbp; mov $next, %rax; call *%rax; pop %rbp; ret */
static void make_function(uint8_t *code, const void *next)
{
	memcpy(code, "\x55\x48\x89\xe5\x48\xb8", 6);
	memcpy(code + 6, &next, 8);
	memcpy(code + 14, "\xff\xd0\x5d\xc3", 4);
}
#endif

static void write_map(FILE *map, const uint8_t *code)
{
	unsigned long at = (unsigned long)code;

	fprintf(map, "not a line\n%lx ffffffffffffffffff too long\n\n", at);
	fprintf(map, "%lx 1000 replaced later\n", at);
	fprintf(map, "%lx %x JS:*compiled /srv/my app.js:12:16\n", at, CODE_BYTES);
	fprintf(map, "0x%lx %x LazyCompile:~plain_compiled /srv/old.js:7\n", at + APART,
		CODE_BYTES);
	fprintf(map, "%lx %x moved\n", at + 2 * APART, CODE_BYTES);
	fprintf(map, "%lx 12 cut of", at + 4096);
}

/* ---- jitdump ---- */

static void put(FILE *to, uint64_t number, int bytes)
{
	fwrite(&number, (size_t)bytes, 1, to);
}

static void begin_record(FILE *dump, unsigned int kind, size_t size)
{
	put(dump, kind, 4);
	put(dump, 16 + size, 4);
	put(dump, 0, 8);
}

static void load_code(FILE *dump, const char *name, const uint8_t *code, const uint8_t *at)
{
	size_t length = strlen(name) + 1;

	begin_record(dump, 0, 40 + length + CODE_BYTES);
	put(dump, (uint64_t)getpid(), 4);
	put(dump, (uint64_t)getpid(), 4);
	put(dump, (uint64_t)(uintptr_t)at, 8);
	put(dump, (uint64_t)(uintptr_t)at, 8);
	put(dump, CODE_BYTES, 8);
	put(dump, (uint64_t)(at - code), 8);
	fwrite(name, length, 1, dump);
	fwrite(code, CODE_BYTES, 1, dump);
}

static void put_line(FILE *dump, const uint8_t *at, int line, const char *file)
{
	put(dump, (uint64_t)(uintptr_t)at, 8);
	put(dump, (uint64_t)line, 4);
	put(dump, 0, 4);
	fwrite(file, strlen(file) + 1, 1, dump);
}

static void write_lines(FILE *dump, const uint8_t *code)
{
	static const char file[] = "/srv/my app.js";

	begin_record(dump, 2, 16 + 4 * 16 + sizeof(file) + 3 * 2);
	put(dump, (uint64_t)(uintptr_t)code, 8);
	put(dump, 4, 8);
	put_line(dump, code, 11, file);
	put_line(dump, code + RETURN_AT, 13, "\xff");
	put_line(dump, code + CALL_AT, 12, "\xff");
	put_line(dump, code + CODE_BYTES, 14, "\xff");
}

static void write_dump(FILE *dump, const uint8_t *code)
{
	put(dump, 0x4a695444, 4);
	put(dump, 1, 4);
	put(dump, 48, 4); /* 8 more than are known today */
	put(dump, 0, 8);
	put(dump, (uint64_t)getpid(), 4);
	for (int i = 0; i < 3; i++)
		put(dump, 0, 8);
	load_code(dump, "replaced later", code, code);
	begin_record(dump, 99, 5);
	fwrite("extra", 5, 1, dump);
	write_lines(dump, code);
	load_code(dump, "compiled", code, code);
	load_code(dump, "plain_compiled", code, code + APART);
	load_code(dump, "moved", code, code + OLD);
	begin_record(dump, 1, 48);
	put(dump, (uint64_t)getpid(), 4);
	put(dump, (uint64_t)getpid(), 4);
	put(dump, 0, 8);
	put(dump, (uint64_t)(uintptr_t)(code + OLD), 8);
	put(dump, (uint64_t)(uintptr_t)(code + 2 * APART), 8);
	put(dump, CODE_BYTES, 8);
	put(dump, 0, 8);
	begin_record(dump, 0, 1000); /* cut off */
}

int main(int argc, char **argv)
{
	int low = argc > 1 && !strcmp(argv[1], "low");
	uint8_t *code = mmap(low ? (void *)0x10000 : NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[4][64] = {{0}};
	int wait_for_go = 0, remove_them = 0;

	if (code == MAP_FAILED)
		return 1;
	make_function(code, (const void *)make_block);
	make_function(code + APART, code);
	make_function(code + 2 * APART, code + APART);
	__builtin___clear_cache((char *)code, (char *)code + 4096);
	for (int i = 1; i < argc && i < 5; i++) {
		const char *what = argv[i];
		char *name = path[i - 1];
		FILE *file;

		wait_for_go |= !strcmp(what, "wait");
		remove_them |= !strcmp(what, "remove");
		if (!strcmp(what, "map"))
			snprintf(name, sizeof(path[0]), "/tmp/perf-%d.map", getpid());
		else if (!strcmp(what, "dump") || !strcmp(what, "tmp"))
			snprintf(name, sizeof(path[0]), "%sjit-%d.dump",
				 *what == 't' ? "/tmp/" : "", getpid());
		else
			continue;
		file = fopen(name, "w+");
		if (!file)
			return 1;
		if (*what == 'm')
			write_map(file, code);
		else
			write_dump(file, code);
		fflush(file);
		if (*what == 'd' && mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE,
					 fileno(file), 0) == MAP_FAILED)
			return 1;
		fclose(file);
		puts(name);
	}
	fflush(stdout);
	for (int i = 0; i < BLOCKS; i++)
		((void (*)(void))(code + 2 * (size_t)APART))();
	while (wait_for_go && access("go", F_OK))
		usleep(20000);
	for (int i = 0; remove_them && i < 4; i++)
		if (*path[i])
			unlink(path[i]);
	return 0;
}
