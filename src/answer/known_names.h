/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of modules and functions that are not the program's own: lists that end with NULL. own_code.c
 * tells how they are compared.
 */
#ifndef MAYFLY_KNOWN_NAMES_H
#define MAYFLY_KNOWN_NAMES_H

/* How names of files begin. */
extern const char *const library_modules[];
/* Those among them that only allocate, or load. */
extern const char *const runtime_modules[];
extern const char *const cxx_namespaces[];
extern const char *const rust_crates[];
extern const char *const rust_paths[];
extern const char *const ocaml_modules[];
extern const char *const ocaml_runtime[];
extern const char *const python_allocators[];
extern const char *const malloc_wrappers[];
/* Of code compiled at run time: names of V8's own pieces and of Java's, files of node, packages. */
extern const char *const jit_runtime[];
extern const char *const jit_libraries[];
extern const char *const libc_functions[];
extern const char *const libc_prefixes[];
extern const char *const start_functions[];
extern const char *const rust_start[];
extern const char *const starts_main[];

#endif
