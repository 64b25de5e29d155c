/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of mayfly's own agent in a process that is recorded: what it remembers of blocks holds none. */
#ifndef MAYFLY_OWN_MEMORY_H
#define MAYFLY_OWN_MEMORY_H

#include "picture/holder_list.h"

/* Claims it for nobody. False: out of memory. */
bool own_memory_claim(struct holder_list *l, struct memory_source *s,
		      const struct loaded_modules *m);

#endif
