/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks that a database has, so that they are not sent again. A stack is there only after its frames
 * are. What is known is forgotten after a while, as somebody may make the tables anew.
 */
#ifndef MAYFLY_KNOWN_STACKS_H
#define MAYFLY_KNOWN_STACKS_H

#include "fleet/database/clickhouse.h"
#include "base/interner.h"

/* All zero: none are known. */
struct known_stacks {
	struct interner ids;
};

/* Finds out which of those that are not known are there. False: c->why. */
bool known_stacks_ask(struct known_stacks *known, struct clickhouse *c, const struct interner *ids);
/* They are there. */
void known_stacks_add(struct known_stacks *known, const struct interner *ids);
void known_stacks_forget(struct known_stacks *known);

static inline bool known_stacks_has(const struct known_stacks *known, struct key id)
{
	return interner_find(&known->ids, id) != INTERNER_NONE;
}

#endif
