/* SPDX-License-Identifier: Apache-2.0 */
/* What the language of a unit of DWARF means for names. */
#ifndef MAYFLY_DWARF_LANGUAGE_H
#define MAYFLY_DWARF_LANGUAGE_H

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdbool.h>

/* https://dwarfstd.org/languages.html; Debian 12's <dwarf.h> does not have them. */
#define DWARF_C17 0x2c
#define DWARF_C23 0x3e

/* Whether a name also says what its entry is in, as in C++: not in C. */
static inline bool dwarf_has_qualified_names(Dwarf_Die *unit)
{
	switch (dwarf_srclang(unit)) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DWARF_C17:
	case DWARF_C23:
	case DW_LANG_Mips_Assembler:
		return false;
	default:
		return true;
	}
}

#endif
