/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF of one object: functions, inlined functions and lines for a set of addresses.
 */
#ifndef MAYFLY_DWARF_INDEX_H
#define MAYFLY_DWARF_INDEX_H

#include "symbols/debug_server.h"
#include "symbols/demangle.h"
#include "symbols/elf_file.h"
#include "symbols/symbols.h"

/* The result for address[index]. count is at least 1; the function of the last symbol is NULL if
 * only the line is known. */
typedef void dwarf_index_found(void *context, size_t index, const struct symbol *list,
			       size_t count);

/* Looks up sorted, distinct addresses in the DWARF of file (loaded from path). Calls found() in any
 * order for the addresses with some information. files: where others are. alt: zeroed, or
 * what an earlier call for the same file has opened; the caller closes it. */
void dwarf_index_resolve(struct elf_file *file, struct elf_file *alt, const char *path,
			 const struct debug_files *files, struct demangle *names,
			 const uint64_t *address, size_t count, dwarf_index_found *found,
			 void *context);

#endif
