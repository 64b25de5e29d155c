/* SPDX-License-Identifier: Apache-2.0 */
/* A part and its spool as one recording: see rejoin.h. */
#include "record/rejoin.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/keys_file.h"
#include "record/spool_watch.h"
#include "trace/read/reader.h"
#include "trace/rewrite/thin.h"

bool map_whole_file(const char *path, struct mapped_file *map)
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

/* FILE.part of FILE.spool. NULL: there is none, or the spool has all of it. */
static char *part_of(const void *spool, size_t size, const char *path)
{
	struct spool_header h;

	if (size < sizeof(h) || !path)
		return NULL;
	memcpy(&h, spool, sizeof(h));
	return spool_has_part(&h) ? spool_part_name(path) : NULL;
}

/* Opens as much of the part as FILE.keys goes on from. 0, MAYFLY_E_MEMORY, or another error: it does
 * not say. */
static int take_up(struct rejoined *j, const char *part)
{
	struct mapped_file keys;
	char *name = keys_file_name(part);
	int error = name ? MAYFLY_E_EMPTY : MAYFLY_E_MEMORY;

	if (name && map_whole_file(name, &keys)) {
		error =
		    spool_resume_read(&j->resume, keys.data, keys.size, j->part.data, j->part.size);
		munmap(keys.data, keys.size);
	}
	free(name);
	if (!error)
		error = mayfly_trace_open(j->part.data, (size_t)j->resume.part_bytes, &j->trace);
	if (!error)
		error = spool_resume_blocks(&j->resume, j->trace);
	if (error) {
		spool_resume_free(&j->resume);
		mayfly_trace_close(j->trace);
		j->trace = NULL;
	}
	return error;
}

int rejoin_open(struct rejoined *j, const void *spool, size_t size, const char *path)
{
	char *part = part_of(spool, size, path);
	int error;

	*j = (struct rejoined){0};
	if (!part || !map_whole_file(part, &j->part)) {
		free(part);
		j->part.data = NULL;
		return 0;
	}
	error = take_up(j, part);
	free(part);
	j->goes_on = !error;
	if (error && error != MAYFLY_E_MEMORY &&
	    mayfly_trace_open(j->part.data, j->part.size, &j->trace))
		j->trace = NULL;
	if (error != MAYFLY_E_MEMORY)
		return 0;
	rejoin_close(j);
	return error;
}

void rejoin_close(struct rejoined *j)
{
	mayfly_trace_close(j->trace);
	spool_resume_free(&j->resume);
	if (j->part.data)
		munmap(j->part.data, j->part.size);
	*j = (struct rejoined){0};
}

/* ---- tables ---- */

/* What a writer has written is distinct, so it gets the numbers that it had. */
int rejoin_tables(const struct rejoined *j, struct recording *to)
{
	const struct mayfly_trace *from = j->trace;
	size_t sets = from->info.label_sets;
	bool same = true;

	for (size_t i = 0; i < from->info.modules; i++) {
		struct recording_module row = recording_copy_module(to, &from->module[i]);

		recording_module(to, &row);
	}
	for (size_t i = 0; i < from->info.threads; i++)
		recording_thread(to, from->thread[i].tid, recording_name(to, from->thread[i].name));
	for (size_t i = 0; i < from->info.frames; i++) {
		const struct mayfly_frame *f = &from->frame[i];

		same &= recording_frame(to, f->kind, f->module, f->address) == i;
	}
	for (size_t i = 1; same && i < from->info.nodes; i++)
		same = recording_node(to, from->node[i].parent, from->node[i].frame) == i;
	for (size_t i = 1; i < sets; i++) {
		size_t count;
		const struct mayfly_label *label = mayfly_trace_labels(from, i, &count);

		recording_copy_labels(to, label, count);
	}
	return to->failed ? MAYFLY_E_MEMORY : same ? 0 : MAYFLY_E_DAMAGED;
}

int rejoin_events(const struct rejoined *j, struct trace_writer *to)
{
	struct thin_map *numbers;
	int error = trace_thin(j->trace, 0, 0, to, &numbers);

	if (!error)
		thin_map_free(numbers);
	return error;
}
