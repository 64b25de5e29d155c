/* SPDX-License-Identifier: Apache-2.0 */
/* The file with the parts of DWARF that dwz has moved out of several files. */
#ifndef MAYFLY_DWARF_ALT_H
#define MAYFLY_DWARF_ALT_H

#include <elfutils/libdw.h>

#include "symbols/debug_server.h"

/* NULL: there is none, or it is not found. alt: zeroed, or what an earlier call for the same file has opened; the
 * caller closes it after the result. path: where the file with dbg was loaded from. */
Dwarf *dwarf_alt_open(Dwarf *dbg, struct elf_file *alt, const char *path,
		      const struct debug_files *files);

#endif
