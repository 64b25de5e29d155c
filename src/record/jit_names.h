/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that the program compiled at run time, from the files that node (--perf-basic-prof,
 * --perf-prof), java (jcmd PID Compiler.perfmap), python and others write for perf.
 */
#ifndef MAYFLY_JIT_NAMES_H
#define MAYFLY_JIT_NAMES_H

#include "record/jit_files.h"
#include "trace/write/recording.h"

/* Names the frames of r in no module. Without files nothing is named. Returns 0 or MAYFLY_E_MEMORY. */
int jit_names_add(struct recording *r, const struct jit_files *files);

#endif
