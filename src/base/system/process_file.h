/* SPDX-License-Identifier: Apache-2.0 */
/* Files below /proc/PID. */
#ifndef MAYFLY_PROCESS_FILE_H
#define MAYFLY_PROCESS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A file descriptor, or -1 with errno. */
int process_file_open(pid_t pid, const char *name);

/* A small file as text; false: it does not exist or is empty. */
bool process_file_read(pid_t pid, const char *name, char *text, size_t size);

/* /proc/PID/status, but for the line of groups, which alone may be of 700 KB. False: it does not exist. */
bool process_file_status(pid_t pid, char *text, size_t size);
#define PROCESS_STATUS_BYTES 4096 /* room for it */

/* The process's number in the innermost of its PID namespaces; pid: not known. */
pid_t process_number_inside(pid_t pid);

/* The text of /proc/PID/stat behind the program's name, which may hold anything: a space and the third field,
 * the state. NULL: there is no name. */
const char *process_file_behind_name(const char *stat);

/* When the process was started, in the unit of /proc/PID/stat; 0: it has ended, and nobody has waited for
 * it. False: it cannot be seen. */
bool process_file_start(pid_t pid, uint64_t *start);

/* Resident bytes; 0: the process has ended, or cannot be seen. */
uint64_t process_resident(pid_t pid);

/* The inode of our PID namespace; 0: not known. */
uint32_t process_file_own_namespace(void);
/* The same for our user namespace. */
uint32_t process_file_own_users(void);

#endif
