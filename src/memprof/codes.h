/* SPDX-License-Identifier: Apache-2.0 */
/* What the host's frame codes mean; each code is decoded once. */
#ifndef MAYFLY_CODES_H
#define MAYFLY_CODES_H

#include "mayfly/memprof.h"

struct codes;

/* NULL: no memory. */
struct codes *codes_new(void);
void codes_free(struct codes *codes);

const struct mayfly_memprof_place *codes_places(struct codes *codes,
						const struct mayfly_memprof_host *host,
						uint64_t code, uint32_t *count);
void codes_forget(struct codes *codes, uint64_t code);
/* The agent's address for a code, which is made once in each generation. */
uint64_t codes_address(struct codes *codes, const struct mayfly_memprof_host *host, uint64_t code,
		       const struct mayfly_agent_heaps *agent);
/* The number of calls of `decode`. */
uint64_t codes_decoded(struct codes *codes);

#endif
