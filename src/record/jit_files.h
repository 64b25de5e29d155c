/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files in which a process says what it compiles at run time: /tmp/perf-PID.map, and jit-PID.dump,
 * which it has mapped. PID is the number that the process has in its own namespace, and /tmp is its
 * own. So they are opened while it lives, and read when it has ended.
 */
#ifndef MAYFLY_JIT_FILES_H
#define MAYFLY_JIT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum jit_file { JIT_MAP, JIT_DUMP, JIT_FILES };

struct jit_files {
	int fd[JIT_FILES]; /* or -1 */
	uid_t owner;	   /* of the process: its files are trusted as it is */
	uint64_t next_ns;  /* when the next look is due, on CLOCK_MONOTONIC */
	uint64_t pause_ns;
};

void jit_files_start(struct jit_files *f);
/* Looks for them, now and then. pid: the process's number here; inner: as it has it itself. */
void jit_files_look(struct jit_files *f, pid_t pid, pid_t inner);
/* The process has ended, and was in our namespaces: looks for files that it left. */
void jit_files_last(struct jit_files *f, pid_t inner);
/* The contents, to be freed; NULL: there are none, they are another user's or older than this moment
 * (of a process that had the same number before), or there is no memory. */
char *jit_files_read(const struct jit_files *f, enum jit_file which, int64_t start_real_ns,
		     size_t *size);
void jit_files_close(struct jit_files *f);

#endif
