/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that users write: see list_file.h. */
#include "cli/input/list_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "terminal/message.h"
#include "base/array.h"

#define MOST_BYTES ((size_t)16 << 20)

/* The whole file, to be freed; NULL after a line on stderr. */
static char *read_all(FILE *file, const char *path, size_t *size)
{
	size_t room = 0, got;
	char *text = NULL;
	bool large = false, memory = true;

	*size = 0;
	do {
		large = *size > MOST_BYTES;
		memory = large || array_reserve(&text, &room, *size, 1);
		got = large || !memory ? 0 : fread(text + *size, 1, room - *size, file);
		*size += got;
	} while (got);
	if (!large && memory && !ferror(file))
		return text;
	cli_error("%s: %s", path,
		  large	    ? "too large for a list"
		  : !memory ? "out of memory"
			    : strerror(errno));
	free(text);
	return NULL;
}

static char *list_file_read(const char *path, size_t *size)
{
	FILE *file = fopen(path, "re");
	char *text = file ? read_all(file, path, size) : NULL;

	if (file)
		fclose(file);
	else
		cli_error("%s: %s", path, strerror(errno));
	return text;
}

/* ---- suppressions ---- */

static bool add_list(struct suppressions *s, const char *text, size_t size, const char *file)
{
	struct suppression_line bad;

	if (suppressions_add(s, text, size, file, &bad))
		return true;
	if (!bad.text)
		return cli_fail("out of memory");
	return cli_fail(
	    "%s:%zu: '%.*s' does not suppress a leak; write leak:PATTERN, or # and a comment", file,
	    bad.number, (int)(bad.length < 60 ? bad.length : 60), bad.text);
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

/* ---- rules for the program's own code ---- */

bool own_rules_add_file(struct own_rules *rules, const char *path)
{
	struct own_rules_problem problem;
	size_t size;
	char *text = list_file_read(path, &size);
	bool done = text && own_rules_add(rules, text, size, &problem);

	if (text && !done && problem.line)
		cli_error("%s:%zu: %s", path, problem.line, problem.text);
	else if (text && !done)
		cli_error("out of memory");
	free(text);
	return done;
}

bool own_rules_add_default(struct own_rules *rules)
{
	const char *settings = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char path[PATH_MAX];

	if (settings && *settings == '/')
		snprintf(path, sizeof(path), "%s/mayfly/mine", settings);
	else if (home && *home == '/')
		snprintf(path, sizeof(path), "%s/.config/mayfly/mine", home);
	else
		return true;
	return access(path, F_OK) != 0 || own_rules_add_file(rules, path);
}
