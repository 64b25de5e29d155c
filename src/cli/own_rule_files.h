/* SPDX-License-Identifier: Apache-2.0 */
/* The user's rules for what is the program's own code, from files. */
#ifndef MAYFLY_OWN_RULE_FILES_H
#define MAYFLY_OWN_RULE_FILES_H

#include "answer/own_rules.h"

/* False after a line on stderr. */
bool own_rules_add_file(struct own_rules *rules, const char *path);
/* The file in the user's folder for settings, if there is one: ~/.config/mayfly/mine. */
bool own_rules_add_default(struct own_rules *rules);

#endif
