/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed and memory of symbols_resolve() on one ELF file.
 *
 *   bench_symbols FILE [COUNT]           time COUNT (10000) addresses
 *   bench_symbols --list FILE [COUNT]    print those addresses instead
 *
 * The addresses are call sites as a stack has them (return address minus one), spread evenly over
 * the file's code. To compare with LLVM's symboliser, which starts as a program of its own:
 *
 *   bench_symbols --list FILE 10000 > a
 *   /usr/bin/time -f '%e s %M KB' llvm-symbolizer-14 --inlines --obj=FILE < a > b
 *   /usr/bin/time -f '%e s %M KB' bench_symbols FILE 10000
 */
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "symbols/symbols.h"

struct sites {
	uint64_t *address;
	size_t count, size;
};

struct totals {
	size_t answers, functions, lines, inlined;
};

static void add_site(struct sites *s, uint64_t address)
{
	if (s->count == s->size) {
		s->size = s->size ? s->size * 2 : 4096;
		s->address = realloc(s->address, s->size * sizeof(*s->address));
		if (!s->address)
			exit(1);
	}
	s->address[s->count++] = address;
}

/* Calls by relative displacement whose target is code too; a byte e8 of something else seldom
 * looks so. */
static void find_calls(struct sites *s, const uint8_t *code, uint64_t size, uint64_t address,
		       uint64_t low, uint64_t high)
{
	for (uint64_t i = 0; i + 5 <= size; i++) {
		uint64_t target = address + i + 5;
		int32_t displacement;

		if (code[i] != 0xe8)
			continue;
		memcpy(&displacement, code + i + 1, sizeof(displacement));
		target += (uint64_t)(int64_t)displacement;
		if (target >= low && target < high)
			add_site(s, address + i + 4);
	}
}

static bool is_code(Elf_Scn *section, GElf_Shdr *header)
{
	return gelf_getshdr(section, header) && header->sh_flags & SHF_EXECINSTR;
}

static int find_sites(const char *path, struct sites *s)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t low = UINT64_MAX, high = 0;
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	if (!elf)
		return -1;
	while ((section = elf_nextscn(elf, section))) {
		if (!is_code(section, &header))
			continue;
		low = header.sh_addr < low ? header.sh_addr : low;
		if (header.sh_addr + header.sh_size > high)
			high = header.sh_addr + header.sh_size;
	}
	while ((section = elf_nextscn(elf, section))) {
		Elf_Data *data = is_code(section, &header) ? elf_rawdata(section, NULL) : NULL;

		if (data && data->d_buf)
			find_calls(s, data->d_buf, data->d_size, header.sh_addr, low, high);
	}
	elf_end(elf);
	close(fd);
	return 0;
}

static void thin_out(struct sites *s, size_t wanted)
{
	if (s->count <= wanted)
		return;
	for (size_t i = 0; i < wanted; i++)
		s->address[i] = s->address[i * s->count / wanted];
	s->count = wanted;
}

static void found(void *context, size_t index, const struct symbol *list, size_t count)
{
	struct totals *t = context;

	(void)index;
	t->answers++;
	t->functions += list[0].function != NULL;
	t->lines += list[0].line != 0;
	t->inlined += count - 1;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int measure(const char *path, const struct sites *s)
{
	struct symbols *symbols = symbols_new(NULL);
	struct totals t = {0};
	struct rusage usage;
	const char *why;
	double begin, time;

	if (!symbols)
		return 1;
	begin = seconds();
	symbols_resolve(symbols, path, NULL, 0, s->address, s->count, found, &t, &why);
	time = seconds() - begin;
	getrusage(RUSAGE_SELF, &usage);
	printf("%s: %zu addresses, %zu functions, %zu lines, %zu inlined frames\n", path, t.answers,
	       t.functions, t.lines, t.inlined);
	printf("%.3f s, %.0f ns per address, peak RSS %.1f MB%s%s\n", time,
	       s->count ? time * 1e9 / (double)s->count : 0, (double)usage.ru_maxrss / 1024,
	       why ? ": " : "", why ? why : "");
	symbols_free(symbols);
	return why != NULL;
}

int main(int argc, char **argv)
{
	bool list = argc > 1 && !strcmp(argv[1], "--list");
	struct sites s = {0};
	size_t wanted = 10000;
	int status = 0;

	argv += list;
	argc -= list;
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: bench_symbols [--list] FILE [COUNT]\n");
		return 2;
	}
	if (argc == 3)
		wanted = strtoull(argv[2], NULL, 0);
	if (find_sites(argv[1], &s)) {
		fprintf(stderr, "bench_symbols: %s cannot be read as an ELF file\n", argv[1]);
		return 1;
	}
	thin_out(&s, wanted);
	if (list) {
		for (size_t i = 0; i < s.count; i++)
			printf("0x%llx\n", (unsigned long long)s.address[i]);
	} else {
		status = measure(argv[1], &s);
	}
	free(s.address);
	return status;
}
