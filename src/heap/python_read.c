/* SPDX-License-Identifier: Apache-2.0 */
/* Reads texts and dictionaries of Python's: see python_read.h. */
#include "heap/python_read.h"

#include <ctype.h>
#include <string.h>

#include "base/bytes.h"

#define READ_ON 1024u /* what is wanted next is often near */
/* PyASCIIObject (Include/cpython/unicodeobject.h). */
#define TEXT_LENGTH   16u
#define TEXT_STATE    32u
#define COMPACT_ASCII 0x60u
#define DICT_TABLE    32u
#define DICT_VALUES   40u
#define TABLE_HEAD    32u
#define INDEX_LOG2    40u
#define ENTRIES_MOST  (1ull << 32)
#define SEARCH_MOST   4096u
#define SEARCHED_MOST (1u << 22) /* by all searches together: most find what they want at once */

static const uint8_t *see(struct python_reader *r, uint64_t at, size_t bytes)
{
	return at >> 47 ? NULL : heap_window_see(&r->w, at, bytes, at + READ_ON);
}

bool python_read_word(struct python_reader *r, uint64_t at, uint64_t *word)
{
	const uint8_t *bytes = see(r, at, sizeof(*word));

	if (bytes)
		*word = bytes_load(bytes);
	return bytes != NULL;
}

static bool is_name(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_.<>", *c))
			return false;
	return *text;
}

/* Where the characters are of a text that has only ASCII ones. */
static uint32_t ascii_at(const struct python_reader *r)
{
	return r->python->version < 312 ? 48 : 40;
}

uint32_t python_text_head(const struct python_reader *r, const uint8_t *text)
{
	return (bytes_load(text + TEXT_STATE) & COMPACT_ASCII) == COMPACT_ASCII ? ascii_at(r) : 0;
}

bool python_read_text(struct python_reader *r, uint64_t string, char *to, size_t size)
{
	uint64_t length, state;
	const uint8_t *bytes;

	if (!python_read_word(r, string + TEXT_LENGTH, &length) ||
	    !python_read_word(r, string + TEXT_STATE, &state) ||
	    (state & COMPACT_ASCII) != COMPACT_ASCII || length >= size)
		return false;
	bytes = see(r, string + ascii_at(r), (size_t)length);
	if (!bytes)
		return false;
	memcpy(to, bytes, (size_t)length);
	to[length] = 0;
	return strlen(to) == length && is_name(to);
}

bool python_read_c_text(struct python_reader *r, uint64_t at, char *to, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		const uint8_t *byte = see(r, at + i, 1);

		if (!byte)
			return false;
		to[i] = (char)*byte;
		if (!*byte)
			return is_name(to);
	}
	return false;
}

void python_read_join(char *to, size_t size, const char *a, const char *b, const char *c)
{
	const char *const part[] = {a, b, c};
	size_t length = 0;

	for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++)
		for (const char *at = part[i]; *at && length + 1 < size; at++)
			to[length++] = *at;
	to[length] = 0;
}

bool python_read_table(struct python_reader *r, uint64_t dict, struct python_table *t)
{
	uint64_t values;
	const uint8_t *head;

	if (!python_read_word(r, dict + DICT_TABLE, &t->at) ||
	    !python_read_word(r, dict + DICT_VALUES, &values) || values)
		return false;
	head = see(r, t->at, TABLE_HEAD);
	if (!head || head[9] > INDEX_LOG2 || head[10] > 2)
		return false;
	t->entries = bytes_load(head + 24);
	t->entries_at = t->at + TABLE_HEAD + (1ull << head[9]);
	t->entry_bytes = head[10] ? 16 : 24;
	return t->entries < ENTRIES_MOST;
}

bool python_read_entry(struct python_reader *r, const struct python_table *t, uint64_t entry,
		       uint64_t *key, uint64_t *value)
{
	const uint8_t *at = see(r, t->entries_at + entry * t->entry_bytes, t->entry_bytes);

	if (!at)
		return false;
	at += t->entry_bytes - 16;
	*key = bytes_load(at);
	*value = bytes_load(at + 8);
	return *key && *value;
}

uint64_t python_look_up(struct python_reader *r, uint64_t dict, const char *key)
{
	struct python_table t;

	if (!dict || !python_read_table(r, dict, &t))
		return 0;
	for (uint64_t i = 0; i < t.entries && i < SEARCH_MOST && r->searched < SEARCHED_MOST; i++) {
		char text[PYTHON_NAME];
		uint64_t name, value;

		r->searched++;
		/* A table that cannot be read has no more. */
		if (!see(r, t.entries_at + i * t.entry_bytes, t.entry_bytes))
			return 0;
		if (python_read_entry(r, &t, i, &name, &value) &&
		    python_read_text(r, name, text, sizeof(text)) && !strcmp(text, key))
			return value;
	}
	return 0;
}
