/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: takes any bytes for an ELF file and looks up addresses all over it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/symbols.h"

#include "fuzz_main.h"

#define ADDRESSES 64

static void found(void *context, size_t index, const struct symbol *list, size_t count)
{
	size_t *sum = context;

	if (index >= ADDRESSES || count == 0)
		abort();
	for (size_t i = 0; i < count; i++)
		*sum += (list[i].function ? strlen(list[i].function) : 0) +
			(list[i].file ? strlen(list[i].file) : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct symbols *s = symbols_new(NULL);
	uint64_t addresses[ADDRESSES];
	const char *why;
	char path[64];
	size_t sum = 0;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (!s || fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* Code of small objects lies between 4 KiB and 8 KiB; a few addresses are far away. */
	for (size_t i = 0; i < ADDRESSES; i++)
		addresses[i] = i % 16 == 15 ? (uint64_t)i << 58 : 0x1000 + 64 * i;
	symbols_resolve(s, path, NULL, 0, addresses, ADDRESSES, found, &sum, &why);
	symbols_free(s);
	close(fd);
	return 0;
}
