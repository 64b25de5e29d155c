/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: takes any bytes for the two files that a JIT compiler makes for perf. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "record/jit_names.h"

#include "fuzz_main.h"

#define FRAMES 256

static void name_by(enum jit_file which, int fd)
{
	struct jit_files files = {.fd = {-1, -1}, .owner = geteuid()};
	struct recording *r = recording_new();
	size_t sum = 0;

	if (!r)
		abort();
	/* In and around the code that the first inputs describe. */
	for (uint64_t i = 0; i < FRAMES; i++) {
		uint64_t far = i % 16 == 15 ? i << 56 : 0;

		if (recording_frame(r, MAYFLY_FRAME_CODE, RECORDING_NONE, 0x10000 + 7 * i + far) ==
		    RECORDING_NONE)
			abort();
	}
	files.fd[which] = fd;
	if (jit_names_add(r, &files))
		abort();
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_frame *f = &r->frame[i];

		for (size_t k = 0; k < f->locations; k++) {
			const struct recording_location *l = &r->location[f->first_location + k];

			sum += strlen(recording_text(r, l->function));
			sum += strlen(recording_text(r, l->file));
		}
	}
	if (sum == SIZE_MAX)
		abort();
	recording_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	name_by(JIT_MAP, fd);
	name_by(JIT_DUMP, fd);
	close(fd);
	return 0;
}
