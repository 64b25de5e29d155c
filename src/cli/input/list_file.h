/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that users write: lists of suppressions, rules for what is the program's own code. All
 * functions return false after a line on stderr. */
#ifndef MAYFLY_LIST_FILE_H
#define MAYFLY_LIST_FILE_H

#include "answer/own_rules.h"
#include "answer/suppressions.h"

/* The list that is built in; one of the user's. The name of the file must stay. */
bool suppressions_add_default(struct suppressions *s);
bool suppressions_add_file(struct suppressions *s, const char *path);

bool own_rules_add_file(struct own_rules *rules, const char *path);
/* The file in the user's folder for settings, if there is one: ~/.config/mayfly/mine. */
bool own_rules_add_default(struct own_rules *rules);

#endif
