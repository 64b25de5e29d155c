/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line table (.debug_line) of one compilation unit, DWARF 2 to 5.
 *
 * libdw stores and sorts all rows of a table; this reader runs the line program once and keeps only
 * the rows of the wanted addresses.
 */
#ifndef MAYFLY_DWARF_LINES_H
#define MAYFLY_DWARF_LINES_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dwarf_bytes {
	const uint8_t *at;
	size_t size;
};

struct dwarf_line_sections {
	struct dwarf_bytes line, line_str, str;
};

struct dwarf_line_row {
	uint32_t file, line, column;
	bool found;
};

struct dwarf_line_file {
	const char *name;
	const char *path; /* for the caller's use; initially NULL */
	uint64_t directory;
};

struct dwarf_lines {
	const struct dwarf_line_sections *sections;
	const char **directory;
	size_t directories, directories_size;
	struct dwarf_line_file *file;
	size_t files, files_size;
	unsigned version;
};

/* Call it after libdw has opened the file (this decompresses sections). The bytes belong to elf. */
void dwarf_lines_sections(struct dwarf_line_sections *s, Elf *elf);

/* Reads the table at this offset: its files, and for each address (sorted, distinct) the row that
 * covers it. The caller zeroes row[]. False: the table is damaged; rows read before are valid. */
bool dwarf_lines_read(struct dwarf_lines *l, const struct dwarf_line_sections *s, uint64_t offset,
		      const uint64_t *address, size_t count, struct dwarf_line_row *row);
void dwarf_lines_free(struct dwarf_lines *l);

/* The file with this number, as in rows and DW_AT_call_file; NULL: there is none. */
struct dwarf_line_file *dwarf_lines_file(struct dwarf_lines *l, uint32_t number);

/* The directory of a file; NULL: that of the compilation, to which others may be relative (in DWARF
 * 5, directory 0 is that of the compilation). */
const char *dwarf_lines_directory(const struct dwarf_lines *l, const struct dwarf_line_file *file);

#endif
