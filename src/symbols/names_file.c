/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about objects in files: see names_file.h. */
#include "symbols/names_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/bytes.h"
#include "format/format.h"
#include "base/varint.h"

#define MAGIC	     "mayflynm"
#define VERSION	     2 /* also to be raised when the answers change */
#define HEAD_BYTES   16
#define LARGEST_FILE (16u << 20)
#define MOST_INLINED 1000 /* symbols of one address */

const char *names_cache_folder(char *path)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	bool own = cache && *cache == '/';
	const char *base = own ? cache : home;
	struct stat st;

	if (!base || *base != '/' || (!stat(base, &st) && st.st_uid != geteuid()) ||
	    snprintf(path, PATH_MAX, own ? "%s/mayfly" : "%s/.cache/mayfly", base) >= PATH_MAX)
		return NULL;
	return path;
}

/* ---- reading ---- */

/* A list of strings, each given by its place; 0 is none. */
struct strings {
	const char **text;
	size_t count;
};

static const char *string_at(const struct strings *s, uint64_t place, bool *bad)
{
	if (place > s->count)
		*bad = true;
	return place && place <= s->count ? s->text[place - 1] : NULL;
}

static bool read_strings(struct varint_in *in, struct demangle *names, struct strings *s)
{
	uint64_t count = varint_u(in);

	if (in->bad || count > varint_left(in))
		return false;
	s->text = calloc(count + 1, sizeof(*s->text));
	if (!s->text)
		return false;
	for (; s->count < count; s->count++) {
		uint64_t length = varint_u(in);
		const uint8_t *text = varint_bytes(in, length);

		if (in->bad || memchr(text, 0, length))
			return false;
		s->text[s->count] = demangle_intern(names, (const char *)text, length);
		if (!s->text[s->count])
			return false;
	}
	return true;
}

/* Goes through the answers. cache NULL: only checks them. */
static bool read_answers(struct varint_in in, const struct strings *strings,
			 struct symbol_cache *cache, const char *key)
{
	struct symbol list[MOST_INLINED];
	uint64_t answers = varint_u(&in), address = 0;

	for (; answers && !in.bad; answers--) {
		uint64_t count;
		bool bad = false;

		address += varint_u(&in);
		count = varint_u(&in);
		if (!count || count > MOST_INLINED)
			return false;
		for (size_t i = 0; i < count; i++) {
			uint64_t line, column;

			list[i].function = string_at(strings, varint_u(&in), &bad);
			list[i].file = string_at(strings, varint_u(&in), &bad);
			line = varint_u(&in);
			column = varint_u(&in);
			bad |= line > UINT32_MAX || column > UINT32_MAX;
			list[i].line = (uint32_t)line;
			list[i].column = (uint32_t)column;
			list[i].inlined = i + 1 < count;
		}
		if (bad || in.bad)
			return false;
		if (cache)
			symbol_cache_put(cache, key, address, list, count);
	}
	return !in.bad && !varint_left(&in);
}

bool names_bytes_read(const uint8_t *bytes, size_t size, const char *content,
		      struct demangle *names, struct symbol_cache *cache, const char *key)
{
	struct varint_in in = varint_begin(bytes, size);
	struct strings strings = {0};
	const uint8_t *text;
	uint64_t length;
	bool good;

	if (size < HEAD_BYTES || memcmp(varint_bytes(&in, 8), MAGIC, 8) ||
	    varint_fixed(&in, 4) != VERSION ||
	    varint_fixed(&in, 4) != trace_checksum(0, bytes + HEAD_BYTES, size - HEAD_BYTES))
		return false;
	length = varint_u(&in);
	text = varint_bytes(&in, length);
	if (in.bad || length != strlen(content) || memcmp(text, content, length))
		return false;
	good = read_strings(&in, names, &strings) && read_answers(in, &strings, NULL, NULL) &&
	       read_answers(in, &strings, cache, key);
	free(strings.text);
	return good;
}

/* FOLDER/names/BUILD-ID. */
static bool path_of(char path[PATH_MAX], const struct names_file *f)
{
	int used = snprintf(path, PATH_MAX, "%s/names/", f->folder);

	if (used < 0 || (size_t)used + 2 * f->id_length + 32 > PATH_MAX)
		return false;
	for (size_t i = 0; i < f->id_length; i++)
		used += sprintf(path + used, "%02x", f->id[i]);
	return true;
}

void names_file_read(const struct names_file *f, struct demangle *names, struct symbol_cache *cache,
		     const char *key)
{
	uint8_t *bytes = NULL;
	char path[PATH_MAX];
	struct stat st;
	FILE *file;
	int fd;

	if (!path_of(path, f))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	file = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!file) {
		if (fd >= 0)
			close(fd);
		return;
	}
	/* Nobody else may tell us names. */
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    st.st_size <= LARGEST_FILE)
		bytes = malloc((size_t)st.st_size + 1);
	if (bytes && fread(bytes, 1, (size_t)st.st_size, file) == (size_t)st.st_size &&
	    names_bytes_read(bytes, (size_t)st.st_size, f->content, names, cache, key))
		futimens(fd, NULL); /* used now */
	free(bytes);
	fclose(file);
}

/* ---- writing ---- */

struct string_place {
	const char *text; /* interned */
	size_t place;
};

static int compare_strings(const void *a, const void *b)
{
	const struct string_place *x = a, *y = b;

	return x->text < y->text ? -1 : x->text > y->text;
}

static int compare_answers(const void *a, const void *b)
{
	const struct symbol_slot *const *x = a, *const *y = b;

	return (*x)->address < (*y)->address ? -1 : (*x)->address > (*y)->address;
}

/* Sorts, and keeps one of each. */
static size_t distinct_strings(struct string_place *s, size_t count)
{
	size_t kept = 0;

	qsort(s, count, sizeof(*s), compare_strings);
	for (size_t i = 0; i < count; i++)
		if (s[i].text && (!kept || s[i].text != s[kept - 1].text))
			s[kept++] = s[i];
	for (size_t i = 0; i < kept; i++)
		s[i].place = i + 1;
	return kept;
}

static uint64_t place_of(const struct string_place *s, size_t count, const char *text)
{
	const struct string_place wanted = {text, 0};
	const struct string_place *found =
	    text ? bsearch(&wanted, s, count, sizeof(*s), compare_strings) : NULL;

	return found ? found->place : 0;
}

static void put_text(struct bytes *out, const char *text)
{
	size_t length = strlen(text);

	bytes_put_u(out, length);
	bytes_put(out, text, length);
}

static void put_answers(struct bytes *out, const struct symbol_slot **answer, size_t count,
			struct string_place *string)
{
	uint64_t address = 0;
	size_t strings = 0;

	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < answer[i]->count; k++) {
			string[strings++].text = answer[i]->list[k].function;
			string[strings++].text = answer[i]->list[k].file;
		}
	}
	strings = distinct_strings(string, strings);
	bytes_put_u(out, strings);
	for (size_t i = 0; i < strings; i++)
		put_text(out, string[i].text);
	bytes_put_u(out, count);
	for (size_t i = 0; i < count; i++) {
		bytes_put_u(out, answer[i]->address - address);
		address = answer[i]->address;
		bytes_put_u(out, answer[i]->count);
		for (size_t k = 0; k < answer[i]->count; k++) {
			const struct symbol *s = &answer[i]->list[k];

			bytes_put_u(out, place_of(string, strings, s->function));
			bytes_put_u(out, place_of(string, strings, s->file));
			bytes_put_u(out, s->line);
			bytes_put_u(out, s->column);
		}
	}
}

/* The file's bytes. False: no memory. */
static bool make_bytes(struct bytes *out, const struct names_file *f,
		       const struct symbol_cache *cache, const char *key)
{
	const struct symbol_slot **answer = calloc(cache->places.count + 1, sizeof(*answer));
	struct string_place *string = calloc(2 * cache->symbols + 1, sizeof(*string));
	size_t count = 0;

	if (answer && string) {
		for (size_t i = 0; i < cache->places.count; i++)
			if (cache->slot[i].file == key && cache->slot[i].count <= MOST_INLINED)
				answer[count++] = &cache->slot[i];
		qsort(answer, count, sizeof(*answer), compare_answers);
		bytes_put(out, MAGIC, 8);
		bytes_put_fixed(out, VERSION, 4);
		bytes_put_fixed(out, 0, 4);
		put_text(out, f->content);
		put_answers(out, answer, count, string);
	}
	free(answer);
	free(string);
	if (!count || out->failed)
		return false;
	for (unsigned i = 0, sum = trace_checksum(0, out->at + HEAD_BYTES, out->used - HEAD_BYTES);
	     i < 4; i++)
		out->at[HEAD_BYTES - 4 + i] = (uint8_t)(sum >> (8 * i));
	return true;
}

/* Makes a folder and those above it that are missing. */
static bool make_folder(const char *path)
{
	char part[PATH_MAX];
	size_t length = strlen(path);

	if (length >= sizeof(part))
		return false;
	memcpy(part, path, length + 1);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(part, 0700) && errno != EEXIST)
			return false;
		*slash = '/';
	}
	return true;
}

struct old_file {
	char name[NAME_MAX + 1];
	struct timespec used;
	uint64_t bytes;
};

static int compare_used(const void *a, const void *b)
{
	const struct timespec *x = &((const struct old_file *)a)->used;
	const struct timespec *y = &((const struct old_file *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* Keeps the folder bounded. What a writer left that was killed goes like the others. */
static void remove_oldest(const char *folder)
{
	DIR *dir = opendir(folder);
	struct old_file *file = NULL;
	size_t files = 0, room = 0;
	const struct dirent *entry;
	uint64_t bytes = 0;
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode))
			continue;
		if (!array_reserve(&file, &room, files, sizeof(*file)))
			break;
		strcpy(file[files].name, entry->d_name);
		file[files].used = st.st_mtim;
		file[files++].bytes = (uint64_t)st.st_size;
		bytes += (uint64_t)st.st_size;
	}
	if (bytes > NAMES_MOST_BYTES) {
		qsort(file, files, sizeof(*file), compare_used);
		for (size_t i = 0; i < files && bytes > NAMES_MOST_BYTES / 4 * 3; i++)
			if (!unlinkat(dirfd(dir), file[i].name, 0))
				bytes -= file[i].bytes;
	}
	free(file);
	if (dir)
		closedir(dir);
}

void names_file_write(const struct names_file *f, const struct symbol_cache *cache, const char *key)
{
	char path[PATH_MAX], part[PATH_MAX + 32];
	struct bytes out = {0};
	FILE *file;
	int fd;

	if (!path_of(path, f) || !make_folder(path) || !make_bytes(&out, f, cache, key) ||
	    out.used > LARGEST_FILE) {
		bytes_free(&out);
		return;
	}
	snprintf(part, sizeof(part), "%s.%ld.tmp", path, (long)getpid());
	unlink(part); /* of a process that was killed */
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (file) {
		bool good = fwrite(out.at, 1, out.used, file) == out.used;

		if (fclose(file) || !good || rename(part, path))
			unlink(part);
		*strrchr(path, '/') = 0;
		remove_oldest(path);
	} else if (fd >= 0) {
		close(fd);
		unlink(part);
	}
	bytes_free(&out);
}
