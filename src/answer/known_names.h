/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of modules and functions that are not the program's own: lists that end with NULL. language.c
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
/* Code compiled at run time: V8's and Java's own pieces, files of node, packages. */
extern const char *const python_generated[];
extern const char *const v8_generated[];
extern const char *const node_generated[];
extern const char *const java_generated_runtime[];
extern const char *const java_generated[];
extern const char *const libc_functions[];
extern const char *const libc_prefixes[];
extern const char *const start_functions[];
extern const char *const rust_start[];
extern const char *const ocaml_starts[];
extern const char *const ocaml_libraries[];
extern const char *const python_entries[];
extern const char *const python_inside[];
extern const char *const python_evaluators[];
extern const char *const python_inner_sources[];
/* Code without a file: the user's own; what libraries make; functions in there that are always theirs. */
extern const char *const python_typed[];
extern const char *const python_made[];
extern const char *const python_made_functions[];
extern const char *const ruby_suffixes[];
extern const char *const ruby_without_file[];
extern const char *const ruby_inside[];
extern const char *const ruby_evaluators[];
extern const char *const ruby_folders[];
extern const char *const ruby_entries[];

#endif
