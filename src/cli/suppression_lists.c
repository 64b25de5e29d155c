/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lists of suppressions. */
#include "cli/suppression_lists.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/message.h"

static bool add_list(struct suppressions *s, const char *text, size_t size, const char *file)
{
	struct suppression_line bad;

	if (suppressions_add(s, text, size, file, &bad))
		return true;
	if (bad.text)
		cli_error("%s:%zu: '%.*s' does not suppress a leak; write leak:PATTERN, or # and a "
			  "comment",
			  file, bad.number, (int)(bad.length < 60 ? bad.length : 60), bad.text);
	else
		cli_error("out of memory");
	return false;
}

bool suppressions_add_default(struct suppressions *s)
{
	return add_list(s, suppressions_default, strlen(suppressions_default), NULL);
}

#define MOST_BYTES ((size_t)16 << 20)

bool suppressions_add_file(struct suppressions *s, const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t size = 0, room = 0;
	bool done;

	if (!file)
		return cli_fail("%s: %s", path, strerror(errno));
	for (;;) {
		if (size == room) {
			char *bigger = room < MOST_BYTES ? realloc(text, room + 65536) : NULL;

			if (!bigger) {
				cli_error("%s: too large for a list of suppressions", path);
				break;
			}
			text = bigger;
			room += 65536;
		}
		size_t got = fread(text + size, 1, room - size, file);

		if (!got)
			break;
		size += got;
	}
	done = feof(file) && !ferror(file);
	if (ferror(file))
		cli_error("%s: %s", path, strerror(errno));
	done = done && add_list(s, text, size, path);
	fclose(file);
	free(text);
	return done;
}
