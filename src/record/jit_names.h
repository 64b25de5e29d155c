/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that the program compiled at run time, from the file /tmp/perf-PID.map that node
 * (--perf-basic-prof), java (jcmd PID Compiler.perfmap), python and others write for perf.
 */
#ifndef MAYFLY_JIT_NAMES_H
#define MAYFLY_JIT_NAMES_H

#include "trace/write/recording.h"

/* Names the frames of r in no module by the map of its process in this folder. Without a file, or if
 * it is another user's or older than the recording, nothing is named. Returns 0 or
 * MAYFLY_E_MEMORY. */
int jit_names_add(struct recording *r, const char *folder);

#endif
