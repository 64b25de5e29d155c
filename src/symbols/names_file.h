/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What earlier sessions have answered about an object, in the user's cache folder: a file for each
 * build-id, "names/1234abcd". With it, a short program's recording need not inflate the debug
 * information of its libraries again.
 *
 *	"mayflynm" version crc32 | content | strings | for each address: its symbols
 *
 * Numbers are LEB128, but for version and crc32 (4 bytes each, of what follows it). `content` tells
 * which files the answers are from; with other files than these, they do not count. A file is
 * replaced as a whole, so of two writers one is the last. All of a file is checked before any of it
 * counts.
 */
#ifndef MAYFLY_NAMES_FILE_H
#define MAYFLY_NAMES_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/demangle.h"
#include "symbols/symbol_cache.h"

/* The cache folder of this user, $XDG_CACHE_HOME/mayfly or ~/.cache/mayfly, into room for PATH_MAX
 * bytes. NULL: none, also when HOME is somebody else's (sudo). */
const char *names_cache_folder(char *path);

/* One object, in the cache folder. */
struct names_file {
	const char *folder; /* of the cache; is made when it is missing */
	const uint8_t *id;
	size_t id_length;
	const char *content; /* a text */
};

/* Puts the answers of the file, if there is one with this content, into a session's cache, under
 * the key. */
void names_file_read(const struct names_file *f, struct demangle *names, struct symbol_cache *cache,
		     const char *key);

/* Replaces the file by the cache's answers under the key. Removes files that were not used for
 * longest while all have more than NAMES_MOST_BYTES together. What cannot be written is left. */
void names_file_write(const struct names_file *f, const struct symbol_cache *cache,
		      const char *key);

#define NAMES_MOST_BYTES (64u << 20)

/* The same as names_file_read() for bytes, which may be anything. False: they are no such file, or
 * of other content. */
bool names_bytes_read(const uint8_t *bytes, size_t size, const char *content,
		      struct demangle *names, struct symbol_cache *cache, const char *key);

#endif
