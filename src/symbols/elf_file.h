/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files: opening, build-ids, separate debug files, symbol tables.
 */
#ifndef MAYFLY_ELF_FILE_H
#define MAYFLY_ELF_FILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file {
	Elf *elf;
	void *image; /* the bytes: mapped, or (vdso) malloc'ed */
	size_t size;
	bool mapped;
	const uint8_t *build_id; /* points into image; NULL: none */
	size_t build_id_length;
	size_t inflated_bytes; /* of compressed sections, once they have been read */
};

enum elf_file_status {
	ELF_FILE_OPEN,
	ELF_FILE_MISSING,
	ELF_FILE_UNREADABLE,
	ELF_FILE_NOT_ELF,
};

/* On any status other than ELF_FILE_OPEN, *f is zeroed, and may be closed. */
enum elf_file_status elf_file_open(struct elf_file *f, const char *path);
enum elf_file_status elf_file_open_vdso(struct elf_file *f); /* the vdso of this process */
void elf_file_close(struct elf_file *f);
/* Opens the file if it has this build-id. */
bool elf_file_open_if(struct elf_file *f, const char *path, const uint8_t *id, size_t length);

bool elf_file_has_build_id(const struct elf_file *f, const uint8_t *id, size_t length);
bool elf_file_has_dwarf(const struct elf_file *f);
/* Part of its DWARF may be in other files: dwz's, or .dwo. */
bool elf_file_is_split(const struct elf_file *f);

/* Releases the pages read so far; they are read again when needed. */
void elf_file_release_pages(const struct elf_file *f);

/*
 * Folders in which files are looked for beside the places where they were in the recording. Each may be
 * a folder of debug files (/usr/lib/debug), or of files by name, or another machine's root.
 */
struct debug_dirs {
	const char *const *dir;
	size_t count;
};

/* Opens the separate debug file with this build-id, from these folders or the system's: below
 * .build-id, or below usr/lib/debug/.build-id. */
bool elf_file_open_by_build_id(struct elf_file *f, const struct debug_dirs *dirs, const uint8_t *id,
			       size_t length);

/* Opens a file with this build-id that was at `path` in the recording: from these folders, below
 * which it has the same path, its name alone, or its build-id. found: has room for PATH_MAX bytes. */
bool elf_file_open_elsewhere(struct elf_file *f, const struct debug_dirs *dirs, const char *path,
			     const uint8_t *id, size_t length, char *found);

/* Opens the file named by .gnu_debuglink of f (loaded from path), if it fits f. */
bool elf_file_open_debuglink(struct elf_file *debug, const struct elf_file *f, const char *path,
			     const struct debug_dirs *dirs);

/* Opens the small symbol table that a stripped file may have inside (.gnu_debugdata): an ELF file,
 * compressed by xz. */
bool elf_file_open_inner(struct elf_file *inner, const struct elf_file *f);

/* The code to which a signal handler returns is at this address: the system call rt_sigreturn, as glibc, musl and
 * the kernel's vdso write it. Few libraries have a symbol for it. */
bool elf_file_returns_from_signal(const struct elf_file *f, uint64_t address);

/* The best symbol for one address. name points into the file: valid while it is open. */
struct elf_match {
	const char *name; /* NULL: no symbol covers the address; may end in @VERSION */
	uint64_t start;
	/* private */
	uint32_t rank;
	uint32_t open_rank;
	const char *open_name; /* the nearest symbol that starts at or before the address ... */
	uint64_t open_start;
	uint64_t open_end; /* ... and its latest possible end */
};

/* Matches the symbols of the table of this type (SHT_SYMTAB, SHT_DYNSYM) with the addresses
 * (sorted, distinct) and updates match[], which the caller zeroes first. False: there is no such
 * table. */
bool elf_file_match(const struct elf_file *f, uint32_t type, const uint64_t *address, size_t count,
		    struct elf_match *match);
/* Call it after all tables: resolves the addresses that only symbols without a size may cover. */
void elf_file_match_end(const uint64_t *address, size_t count, struct elf_match *match);

/* The index of the first of the sorted addresses that is not below value; count: there is none. */
size_t elf_file_lower_bound(const uint64_t *address, size_t count, uint64_t value);

#endif
