/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles in the child of a fork. See forks.c. */
#ifndef MAYFLY_FORKS_H
#define MAYFLY_FORKS_H

struct profile;

/* From here to forks_remove() its threads draw samples of their own in a child. */
void forks_add(struct profile *p);
void forks_remove(struct profile *p);

#endif
