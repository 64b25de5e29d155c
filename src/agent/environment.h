/* SPDX-License-Identifier: Apache-2.0 */
/* What the program sees of us in its environment: see environment.c. */
#ifndef MAYFLY_ENVIRONMENT_H
#define MAYFLY_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#define ENVIRONMENT_PRELOAD "LD_PRELOAD="
#define ENVIRONMENT_MOST    20000u /* entries; a longer environment stays as it is */
#define ENVIRONMENT_BYTES   8192   /* the most of one variable of ours */

/* Removes our variables from the environment, in place, before anything has read it. */
void environment_hide(void);

/* True: what was hidden is to be put back for this exec. */
bool environment_goes_on(void);

/* env with what is ours put back into larger[], which has room for 3 entries more. theirs: the
 * value of the program's own LD_PRELOAD, or NULL; both: room for it and ENVIRONMENT_BYTES + 2. */
char *const *environment_put_ours(char **larger, char *both, char *const *env, const char *theirs);

/* While children are followed: the number of pointers of env, with its end, when the next program
 * cannot take our libraries, as it does not fit or they are not there (chroot); otherwise 0. *text:
 * bytes of the entry LD_PRELOAD. name, search: as exec_file_fits() wants them. */
size_t environment_unfit(char *const *env, const char *name, bool search, size_t *text);
/* env without our libraries, in copy[], with that many pointers, and text[], with that many bytes. */
char *const *environment_drop_ours(char **copy, char *text, char *const *env);

#endif
