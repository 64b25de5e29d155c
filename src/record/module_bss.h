/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a module needs beyond its file:
 *
 *	file	|.data...|		mapped
 *	memory	|.data...|bss |bss |	the whole pages after it: anonymous memory
 */
#ifndef MAYFLY_MODULE_BSS_H
#define MAYFLY_MODULE_BSS_H

#include "record/smaps.h"

/* path: as in the maps of process pid. 0: none, or the file cannot be read. Each path is read once. */
uint64_t module_bss_bytes(struct module_cache *cache, pid_t pid, const char *path);

#endif
