/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes of a host are recorded, and when.
 *
 * A process that matches a rule has periods of the rule's length from its start on. Each is its turn with
 * the probability of the share, as a hash of the process says where in the round it stands:
 *
 *	place of period k:  the fraction of  hash + k x share
 *	                    0 ┃▓▓▓▓ share ▓▓▓▓┃                                  ┃ 1
 *	                       its turn: the place is below the share
 *
 * So whoever asks gets the same answer, the turns of processes are spread evenly, and each one's comes
 * once in 1 / share periods.
 */
#ifndef MAYFLY_HOST_RULES_H
#define MAYFLY_HOST_RULES_H

#include "fleet/host/host_config.h"

/* What rules look at. NULL: not known, which matches no pattern. */
struct host_facts {
	const char *service, *program, *cgroup;
	const struct mayfly_label *label;
	size_t labels;
};

/* The first rule that matches, or NULL. */
const struct host_rule *host_rule_for(const struct host_config *c, const struct host_facts *facts);

/* identity: a good hash of the process. */
bool host_turn(const struct host_rule *rule, uint64_t identity, uint64_t period);

#endif
