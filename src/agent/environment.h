/* SPDX-License-Identifier: Apache-2.0 */
/* What the program sees of us in its environment: see environment.c. */
#ifndef MAYFLY_ENVIRONMENT_H
#define MAYFLY_ENVIRONMENT_H

#include <alloca.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "agent/exec_file.h"

#define ENVIRONMENT_PRELOAD "LD_PRELOAD="
#define ENVIRONMENT_MOST    20000u /* entries; a longer environment stays as it is */
#define ENVIRONMENT_BYTES   8192   /* the most of one variable of ours */

/* Removes our variables from the environment, in place, before anything has read it. */
void environment_hide(void);

/* Remembers them, and leaves them there. */
void environment_keep(void);
/* env has both. */
bool environment_is_whole(char *const *env);
/* The value of LD_PRELOAD without our libraries; NULL: nothing is left. */
const char *environment_theirs(const char *value);

/* In a program that was attached to, which has nothing of ours in its environment: what the programs
 * need that take its place, or, when children are followed, that they start. Does nothing when library,
 * the path of the agent, is not a file. */
void environment_bring(const char *library, const char *settings);
void environment_bring_nothing(void);

/* True: what was hidden, or is to be brought, belongs in the environment of this process's exec. */
bool environment_goes_on(void);
/* The same of a process that it starts. */
bool environment_follows(void);

/* env with what is ours put back into larger[], which has room for 3 entries more. theirs: the
 * value of the program's own LD_PRELOAD, or NULL; both: room for it and ENVIRONMENT_BYTES + 2. */
char *const *environment_put_ours(char **larger, char *both, char *const *env, const char *theirs);

/* While children are followed: the number of pointers of env, with its end, when the next program
 * cannot take our libraries, as it does not fit or they are not there (chroot); otherwise 0. *text:
 * bytes of the entry LD_PRELOAD. name, search: as exec_file_fits() wants them. */
size_t environment_unfit(char *const *env, const char *name, bool search, size_t *text);
/* env without our libraries, in copy[], with that many pointers, and text[], with that many bytes. */
char *const *environment_drop_ours(char **copy, char *text, char *const *env);

/* Makes env, of a program that is to be run, one with our variables when they are wanted, or one without
 * our library where the program cannot take it; in the caller's frame, as memory may be short. */
#define ENVIRONMENT_OF_NEXT(env, name, search, wanted)                                             \
	do {                                                                                       \
		size_t entries_ = 0;                                                               \
		const char *theirs_ = NULL;                                                        \
		while ((env) && (env)[entries_] && entries_ < ENVIRONMENT_MOST) {                  \
			if (!strncmp((env)[entries_], ENVIRONMENT_PRELOAD,                         \
				     sizeof(ENVIRONMENT_PRELOAD) - 1))                             \
				theirs_ = (env)[entries_] + sizeof(ENVIRONMENT_PRELOAD) - 1;       \
			entries_++;                                                                \
		}                                                                                  \
		size_t text_bytes_ = 0,                                                            \
		       copied_ = environment_unfit((env), (name), (search), &text_bytes_);         \
		if (copied_) {                                                                     \
			char **copy_ = alloca(copied_ * sizeof(*copy_));                           \
			(env) = environment_drop_ours(copy_, alloca(text_bytes_), (env));          \
		} else if (entries_ < ENVIRONMENT_MOST && (wanted) &&                              \
			   !environment_is_whole(env) && exec_file_fits((name), (search))) {       \
			theirs_ = environment_theirs(theirs_);                                     \
			char **larger_ = alloca((entries_ + 3) * sizeof(*larger_));                \
			char *both_ =                                                              \
			    alloca(ENVIRONMENT_BYTES + 2 + (theirs_ ? strlen(theirs_) : 0));       \
			(env) = environment_put_ours(larger_, both_, (env), theirs_);              \
		}                                                                                  \
	} while (0)

#endif
