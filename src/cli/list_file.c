/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that users write: see list_file.h. */
#include "cli/list_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/message.h"

#define MOST_BYTES ((size_t)16 << 20)
#define STEP_BYTES ((size_t)65536)

static char *read_all(FILE *file, const char *path, size_t *size)
{
	size_t room = 0, got;
	char *text = NULL;

	*size = 0;
	do {
		if (*size == room) {
			char *bigger = room < MOST_BYTES ? realloc(text, room + STEP_BYTES) : NULL;

			if (!bigger) {
				cli_error("%s: too large for a list", path);
				free(text);
				return NULL;
			}
			text = bigger;
			room += STEP_BYTES;
		}
		got = fread(text + *size, 1, room - *size, file);
		*size += got;
	} while (got);
	if (!ferror(file))
		return text;
	cli_error("%s: %s", path, strerror(errno));
	free(text);
	return NULL;
}

char *list_file_read(const char *path, size_t *size)
{
	FILE *file = fopen(path, "re");
	char *text;

	if (!file) {
		cli_error("%s: %s", path, strerror(errno));
		return NULL;
	}
	text = read_all(file, path, size);
	fclose(file);
	return text;
}
