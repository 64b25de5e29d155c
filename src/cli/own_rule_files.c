/* SPDX-License-Identifier: Apache-2.0 */
/* The user's rules, from files: see own_rule_files.h. */
#include "cli/own_rule_files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/list_file.h"
#include "cli/message.h"

bool own_rules_add_file(struct own_rules *rules, const char *path)
{
	struct own_rules_problem problem;
	size_t size;
	char *text = list_file_read(path, &size);
	bool done = text && own_rules_add(rules, text, size, &problem);

	if (text && !done) {
		if (problem.line)
			cli_error("%s:%zu: %s", path, problem.line, problem.text);
		else
			cli_error("out of memory");
	}
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
