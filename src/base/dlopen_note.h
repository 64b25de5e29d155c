/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A note in the program that names a library which it opens by dlopen, so that tools which make packages
 * find it (`dh_dlopendeps`, `rpm`). Use it once for each library, outside of functions.
 *
 * Source of the format: "ELF Dlopen Metadata", https://uapi-group.org/specifications/specs/elf_dlopen_metadata/
 */
#ifndef MAYFLY_DLOPEN_NOTE_H
#define MAYFLY_DLOPEN_NOTE_H

#include <stdint.h>

#define DLOPEN_NOTE_TYPE 0x407c0c0au
#define DLOPEN_NOTE_TEXT(library, feature, text, priority)                                         \
	"[{\"soname\":[\"" library "\"],\"feature\":\"" feature "\",\"description\":\"" text       \
	"\",\"priority\":\"" priority "\"}]"

/* priority: "recommended" or "suggested". */
#define DLOPEN_NOTE(name, library, feature, text, priority)                                        \
	static const struct {                                                                      \
		uint32_t owner_bytes, text_bytes, type;                                            \
		char owner[4];                                                                     \
		_Alignas(4) char json[sizeof(DLOPEN_NOTE_TEXT(library, feature, text, priority))]; \
	} name __attribute__((used, aligned(4), section(".note.dlopen"))) = {                      \
	    4, sizeof(DLOPEN_NOTE_TEXT(library, feature, text, priority)), DLOPEN_NOTE_TYPE,       \
	    "FDO", DLOPEN_NOTE_TEXT(library, feature, text, priority)}

#endif
