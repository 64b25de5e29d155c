/* SPDX-License-Identifier: Apache-2.0 */
/* The program and its libraries, where they are loaded, and their variables. */
#ifndef MAYFLY_LOADED_MODULES_H
#define MAYFLY_LOADED_MODULES_H

#include "picture/memory_source.h"
#include "symbols/data_symbols.h"

struct loaded_module {
	const char *path, *name; /* the name without its folder */
	const char *file;	 /* where it can be opened */
	uint64_t bias;		 /* address in the process less ELF address */
	struct data_symbols symbols;
	bool is_libc;
	uint64_t
	    tls_number; /* as the loader numbers those with thread-local variables, from 1; 0: none */
};

struct loaded_modules {
	struct loaded_module *module; /* the program first */
	size_t count, capacity;
	unsigned int libc_version; /* 236; 0: not known */
	const char *other_malloc;  /* a library that is known to bring another allocator; NULL */
	bool musl;
};

/* Names and paths live in `names`. False: out of memory. */
bool loaded_modules_find(struct loaded_modules *l, struct memory_source *s,
			 const struct debug_files *files, struct demangle *names);
/* Reads memory, or the file of a module where a core file leaves out what the program cannot have changed. */
bool loaded_modules_read(const struct loaded_modules *l, struct memory_source *s, uint64_t address,
			 void *to, size_t bytes);
void loaded_modules_free(struct loaded_modules *l);

#endif
