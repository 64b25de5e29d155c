/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lists of suppressions. */
#include "cli/suppression_lists.h"

#include <stdlib.h>
#include <string.h>

#include "cli/list_file.h"
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

bool suppressions_add_file(struct suppressions *s, const char *path)
{
	size_t size;
	char *text = list_file_read(path, &size);
	bool done = text && add_list(s, text, size, path);

	free(text);
	return done;
}
