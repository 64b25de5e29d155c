/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_spool MODE BLOCKS FILE: writes a small spool with about everything that one may hold. MODE:
 * sampled or exact.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "varied_spool.h"

int main(int argc, char **argv)
{
	struct spool_file *f;
	FILE *out;
	bool good;

	if (argc != 4) {
		fprintf(stderr, "usage: make_spool sampled|exact BLOCKS FILE\n");
		return 2;
	}
	f = varied_spool(!strcmp(argv[1], "exact"), atoi(argv[2]));
	out = fopen(argv[3], "wb");
	good = out && fwrite(f->data, 1, f->size, out) == f->size;
	if (out && fclose(out))
		good = false;
	if (!good)
		fprintf(stderr, "make_spool: %s: %s\n", argv[3], strerror(errno));
	spool_file_free(f);
	return !good;
}
