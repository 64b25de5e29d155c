/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what names need of Python's objects: texts that are identifiers, and dictionaries (PyDictObject in
 * Include/cpython/dictobject.h, PyDictKeysObject in Include/internal/pycore_dict.h).
 *
 *	dict		+32 table   +40 values, of a dictionary that shares its table
 *	table		+9 log2 of the bytes of its index   +10 kind   +24 entries   +32 index, then entries:
 *			{hash, key, value} of kind 0, else {key, value}
 */
#ifndef MAYFLY_PYTHON_READ_H
#define MAYFLY_PYTHON_READ_H

#include "heap/heap_image.h"
#include "heap/python_interpreter.h"

#define PYTHON_NAME 120u

struct python_reader {
	struct heap_window w;
	const struct python_interpreter *python;
	unsigned int searched; /* entries, by all calls of python_look_up() */
};

bool python_read_word(struct python_reader *r, uint64_t at, uint64_t *word);
/* How many bytes of a text are before its characters, if all of them are ASCII and in it; 0: they are not. `text` has
 * its first 40 bytes. */
uint32_t python_text_head(const struct python_reader *r, const uint8_t *text);

/* Names of a module, a class or a variable; false: it is none, or not in ASCII. */
bool python_read_text(struct python_reader *r, uint64_t string, char *to, size_t size);
bool python_read_c_text(struct python_reader *r, uint64_t at, char *to, size_t size);

/* Puts three texts into one, as far as there is room. */
void python_read_join(char *to, size_t size, const char *a, const char *b, const char *c);

struct python_table {
	uint64_t at, entries_at, entries;
	unsigned int entry_bytes;
};

/* False: it is no dictionary that has its values in its own table. */
bool python_read_table(struct python_reader *r, uint64_t dict, struct python_table *t);
/* False: the entry is empty. */
bool python_read_entry(struct python_reader *r, const struct python_table *t, uint64_t entry,
		       uint64_t *key, uint64_t *value);
/* The value of a key that is a text; 0: there is none, or the searches so far have taken too long. */
uint64_t python_look_up(struct python_reader *r, uint64_t dict, const char *key);

#endif
