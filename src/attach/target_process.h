/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the agent may be loaded into a process: its user, kind, and what the kernel allows. */
#ifndef MAYFLY_TARGET_PROCESS_H
#define MAYFLY_TARGET_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* False: why[] says why not, and what may help. */
bool target_process_check(pid_t pid, const char *library, char *why, size_t size);

/* Whether its memory may be read while it is stopped. *may_call: also whether a thread of it may make a
 * system call that is not its own: a sandbox or a shadow stack forbids that. */
bool target_process_check_reading(pid_t pid, bool *may_call, char *why, size_t size);

struct target_mapping {
	uint64_t start;
	bool writable, shared;
	bool grows; /* the main thread's stack */
};

/* What the address is in; false: nothing, or it cannot be read. */
bool target_process_mapping(pid_t pid, uint64_t address, struct target_mapping *m);

/* Whether the stack has room for so many bytes below this stack pointer. */
bool target_process_has_room(pid_t pid, uint64_t sp, size_t bytes);

/* Its parent may not have waited for it yet. */
bool target_process_ended(pid_t pid);

/* What to say when ptrace() has failed with this errno. */
void target_process_explain(pid_t pid, int error, char *why, size_t size);

#endif
