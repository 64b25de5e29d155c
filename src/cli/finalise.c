/* SPDX-License-Identifier: Apache-2.0 */
/* A spool becomes a trace: see finalise.h. Also how a file is written whole or not at all. */
#include "finalise.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/symbols.h"
#include "trace/spool_format.h"

/* A child of a child of ...: each level's spool is read for the samples that were inherited. Deeper
 * than this, or in a circle that a hostile file describes, the inherited samples stay unknown. */
#define MAX_ANCESTORS 64

/* ---- symbols ---- */

struct adding { /* what symbols_resolve() fills, for one module */
	struct recording *r;
	const uint32_t *frame; /* frame of each address that was asked for */
	bool out_of_memory;
};

static uint32_t intern(struct adding *a, const char *text)
{
	uint32_t string;

	if (!text || !*text)
		return 0;
	string = recording_string(a->r, text, strlen(text));
	if (string == RECORDING_NONE)
		a->out_of_memory = true;
	return string;
}

static void found(void *context, size_t index, const struct symbol *list, size_t count)
{
	struct adding *a = context;
	struct recording_frame *frame = &a->r->frame[a->frame[index]];
	uint32_t first = RECORDING_NONE;

	if (a->out_of_memory || frame->locations)
		return;
	/* Nothing known is no location, so that what has a name can be counted. */
	if (count == 1 && !list[0].function && !list[0].file)
		return;
	for (size_t i = 0; i < count; i++) {
		struct recording_location location = {
		    .function = intern(a, list[i].function),
		    .file = intern(a, list[i].file),
		    .line = list[i].line,
		    .inlined = list[i].inlined && i + 1 < count,
		};
		uint32_t at;

		if (a->out_of_memory)
			return;
		at = recording_location(a->r, &location);
		if (at == RECORDING_NONE) {
			a->out_of_memory = true;
			return;
		}
		if (!i)
			first = at;
	}
	frame->first_location = first;
	frame->locations = (uint32_t)count;
}

/* The frames of each module, next to one another: order[begin[m] .. begin[m + 1]). */
static bool group_frames(const struct recording *r, uint32_t **order, size_t **begin)
{
	size_t *start = calloc(r->modules + 2, sizeof(*start));
	uint32_t *list = malloc((r->frames + 1) * sizeof(*list));

	if (!start || !list) {
		free(start);
		free(list);
		return false;
	}
	/* A counting sort. Counts are kept two places ahead, so that filling ends with start[m] at
	 * the first frame of m. */
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_frame *f = &r->frame[i];

		if (f->kind == MAYFLY_FRAME_CODE && f->module < r->modules && !f->locations)
			start[f->module + 2]++;
	}
	for (size_t m = 2; m <= r->modules + 1; m++)
		start[m] += start[m - 1];
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_frame *f = &r->frame[i];

		if (f->kind == MAYFLY_FRAME_CODE && f->module < r->modules && !f->locations)
			list[start[f->module + 1]++] = (uint32_t)i;
	}
	*order = list;
	*begin = start;
	return true;
}

static int resolve_module(struct symbols *session, struct recording *r, size_t index,
			  const uint32_t *frame, size_t count)
{
	const struct recording_module *m = &r->module[index];
	struct adding adding = {.r = r, .frame = frame};
	const char *why = NULL;
	uint64_t *address;
	char *path;

	/* A copy: interning moves the strings. */
	path = strdup(recording_text(r, m->path));
	address = malloc(count * sizeof(*address));
	if (!path || !address) {
		free(path);
		free(address);
		return MAYFLY_E_MEMORY;
	}
	for (size_t i = 0; i < count; i++)
		address[i] = r->frame[frame[i]].address;
	symbols_resolve(session, path, m->build_id_length ? m->build_id : NULL, m->build_id_length,
			address, count, found, &adding, &why);
	if (why)
		r->module[index].problem = intern(&adding, why);
	free(address);
	free(path);
	return adding.out_of_memory ? MAYFLY_E_MEMORY : 0;
}

int finalise_symbols(struct recording *r, const char *debug_dir)
{
	struct symbols_options options = {.debug_dir = debug_dir};
	struct symbols *session;
	uint32_t *order;
	size_t *begin;
	int error = 0;

	if (!group_frames(r, &order, &begin))
		return MAYFLY_E_MEMORY;
	session = symbols_new(&options);
	if (!session)
		error = MAYFLY_E_MEMORY;
	for (size_t m = 0; m < r->modules && !error; m++)
		if (begin[m + 1] > begin[m])
			error = resolve_module(session, r, m, order + begin[m],
					       begin[m + 1] - begin[m]);
	symbols_free(session);
	free(order);
	free(begin);
	return error;
}

/* ---- spools ---- */

struct mapping {
	void *data;
	size_t size;
};

static bool map_file(const char *path, struct mapping *map)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return false;
	map->data = MAP_FAILED;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
		map->size = (size_t)st.st_size;
		map->data = mmap(NULL, map->size, PROT_READ, MAP_SHARED, fd, 0);
	}
	close(fd);
	return map->data != MAP_FAILED;
}

/* The path that a forked child's spool gives for its parent's, or NULL. */
static char *parent_path(const void *data, size_t size)
{
	struct spool_header h;
	uint64_t end;

	if (size < sizeof(h))
		return NULL;
	memcpy(&h, data, sizeof(h));
	end = (uint64_t)h.parent_spool_offset + h.parent_spool_length;
	if (!h.fork_parent_pid || !h.parent_spool_length || end > size || end > h.header_bytes ||
	    h.parent_spool_offset < sizeof(h))
		return NULL;
	return strndup((const char *)data + h.parent_spool_offset, h.parent_spool_length);
}

/* Maps the parent's spool: from beside the child's when one of that name is there, else from where
 * it was. *name is the path that worked. */
static bool map_parent(const char *child, const char *parent, struct mapping *map, char **name)
{
	const char *slash = child ? strrchr(child, '/') : NULL;
	const char *base = strrchr(parent, '/');
	int folder = slash ? (int)(slash - child) + 1 : 0;

	*name = NULL;
	if (child && asprintf(name, "%.*s%s", folder, child, base ? base + 1 : parent) < 0)
		*name = NULL;
	if (*name && strcmp(*name, child) && map_file(*name, map))
		return true;
	free(*name);
	*name = strdup(parent);
	if (*name && (!child || strcmp(parent, child)) && map_file(parent, map))
		return true;
	free(*name);
	*name = NULL;
	return false;
}

static int read_with_ancestors(const void *data, size_t size, const char *path,
			       const struct spool_ending *ending, unsigned int depth,
			       struct recording **out)
{
	struct recording *parent = NULL;
	struct mapping map;
	char *wanted = NULL, *name;
	int error;

	if (depth < MAX_ANCESTORS && spool_recognise(data, size))
		wanted = parent_path(data, size);
	if (wanted && map_parent(path, wanted, &map, &name)) {
		/* Not being able to read it costs the inherited samples, no more. */
		if (spool_recognise(map.data, map.size) &&
		    read_with_ancestors(map.data, map.size, name, NULL, depth + 1, &parent))
			parent = NULL;
		munmap(map.data, map.size);
		free(name);
	}
	free(wanted);
	error = spool_read(data, size, ending, parent, out);
	recording_free(parent);
	return error;
}

int finalise_spool(const void *data, size_t size, const struct finalise_options *options,
		   struct finalised *out)
{
	static const struct finalise_options defaults;
	struct spool_ending unknown = {0};
	struct recording *r = NULL;
	int error;

	memset(out, 0, sizeof(*out));
	if (!options)
		options = &defaults;
	error = read_with_ancestors(data, size, options->path,
				    options->ending ? options->ending : &unknown, 0, &r);
	if (error)
		return error;
	if (!options->no_symbols)
		error = finalise_symbols(r, options->debug_dir);
	if (!error)
		error = trace_encode(r, options->level, &out->bytes, &out->size);
	if (error) {
		memset(out, 0, sizeof(*out));
	} else {
		out->samples = r->samples;
		out->dropped = r->info.dropped_samples;
		out->modules = r->modules;
		for (size_t i = 0; i < r->modules; i++)
			out->modules_without_symbols += r->module[i].problem != 0;
	}
	recording_free(r);
	return error;
}

/* ---- files ---- */

static char temporary[PATH_MAX]; /* "" when there is none */

void finalise_abandon(void)
{
	if (temporary[0])
		unlink(temporary);
}

static int write_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

static int write_to(int fd, const void *bytes, size_t size)
{
	int error = 0;

	if (write_all(fd, bytes, size))
		error = errno;
	if (close(fd) && !error)
		error = errno;
	errno = error;
	return error ? -1 : 0;
}

static int write_replacing(const char *path, const void *bytes, size_t size)
{
	int fd, error;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid()) >=
	    sizeof(temporary)) {
		temporary[0] = 0;
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0 && errno == EEXIST && !unlink(temporary)) /* of a process that was killed */
		fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		temporary[0] = 0;
		return -1;
	}
	if (write_to(fd, bytes, size) || rename(temporary, path)) {
		error = errno;
		unlink(temporary);
		temporary[0] = 0;
		errno = error;
		return -1;
	}
	temporary[0] = 0;
	return 0;
}

int finalise_try_write(const char *path, const void *bytes, size_t size)
{
	char *real = NULL;
	struct stat st;
	int fd, failed, error;

	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		failed = fd < 0 || write_to(fd, bytes, size);
	} else {
		real = realpath(path, NULL);
		failed = write_replacing(real ? real : path, bytes, size);
	}
	error = failed ? errno : 0;
	free(real);
	return error;
}

int finalise_write(const char *path, const void *bytes, size_t size)
{
	int error = finalise_try_write(path, bytes, size);

	if (!error)
		return 0;
	fprintf(stderr, "mayfly: cannot write '%s': %s\n", path, strerror(error));
	return -1;
}

int finalise_reuse_spool(const char *spool, const char *path, const void *bytes, size_t size)
{
	int fd = open(spool, O_WRONLY | O_CLOEXEC);
	struct stat st;
	int error;

	if (fd < 0)
		return errno;
	/* Only within the blocks that it has can writing not fail. */
	if (fstat(fd, &st) || (uint64_t)st.st_size < size || (uint64_t)st.st_blocks * 512 < size) {
		close(fd);
		return ENOSPC;
	}
	if (write_all(fd, bytes, size) || ftruncate(fd, (off_t)size)) {
		error = errno;
		close(fd);
		return error;
	}
	return close(fd) || rename(spool, path) ? errno : 0;
}
