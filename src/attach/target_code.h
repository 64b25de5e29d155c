/* SPDX-License-Identifier: Apache-2.0 */
/* Where the functions of a process are: its loaded libraries, as libdwfl reads them. */
#ifndef MAYFLY_TARGET_CODE_H
#define MAYFLY_TARGET_CODE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct target_code {
	Dwfl *dwfl;
	Dwfl_Module *libc;
};

/* False: its libraries cannot be read. */
bool target_code_open(struct target_code *t, pid_t pid);
/* Also where there is no C library of its own: a program may be static. */
bool target_code_open_any(struct target_code *t, pid_t pid);
void target_code_close(struct target_code *t);

/* The library at this path; NULL: it is not loaded. */
Dwfl_Module *target_code_module(const struct target_code *t, const char *path);

/* The address of a function that the library exports; 0: it has none of this name. */
uint64_t target_code_function(Dwfl_Module *module, const char *name);

/* The program itself; NULL: it is not among them. */
Dwfl_Module *target_code_program(const struct target_code *t, pid_t pid);

/* Whether others may call this function of the module by its name. */
bool target_code_exports(Dwfl_Module *module, const char *name);

/* The address of these bytes in the library's code; 0: they are not there. */
uint64_t target_code_bytes(Dwfl_Module *module, const void *bytes, size_t size);

#endif
