/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that carry the agent: see recorded_processes.h. */
#include "cli/input/recorded_processes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer/trace_names.h"
#include "cli/input/ongoing.h"
#include "base/array.h"
#include "base/system/process_file.h"
#include "record/spool_watch.h"

#define COMMAND_BYTES 4096

/* Its recorder and a forked child have the spool mapped, too. */
static bool writes_spool(pid_t pid, const char *spool)
{
	struct spool_glance g;

	return spool_glance(spool, &g) && (g.pid == pid || g.pid == process_number_inside(pid));
}

/* The arguments with spaces between. *program: the last part of the first one's path. */
static void read_command(pid_t pid, char *text, size_t size, char *program, size_t program_size)
{
	char path[64];
	size_t used = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	file = fopen(path, "re");
	if (file) {
		used = fread(text, 1, size - 1, file);
		fclose(file);
	}
	text[used] = 0;
	snprintf(program, program_size, "%s", path_base(text));
	while (used && !text[used - 1])
		used--;
	for (size_t i = 0; i < used; i++)
		if (!text[i])
			text[i] = ' ';
}

static bool is_called(pid_t pid, const char *program, const char *name)
{
	char comm[64];

	if (strcmp(program, name) == 0)
		return true;
	if (!process_file_read(pid, "comm", comm, sizeof(comm)))
		return false;
	comm[strcspn(comm, "\n")] = 0;
	return strcmp(comm, name) == 0;
}

/* Takes the spool over. */
static bool add(struct recorded_processes *c, pid_t pid, const char *command, char *spool)
{
	struct recorded_process found = {.pid = pid, .command = strdup(command), .spool = spool};

	if (!found.command ||
	    !array_reserve(&c->process, &c->room, c->count, sizeof(*c->process))) {
		free(found.command);
		free(spool);
		return false;
	}
	c->process[c->count++] = found;
	return true;
}

static bool look_at(struct recorded_processes *c, pid_t pid, const char *name)
{
	char command[COMMAND_BYTES], program[COMMAND_BYTES], *spool;
	const char *why;

	read_command(pid, command, sizeof(command), program, sizeof(program));
	if (name && !is_called(pid, program, name))
		return true;
	spool = ongoing_of_process(pid, &why);
	if (spool && writes_spool(pid, spool))
		return add(c, pid, command, spool);
	free(spool);
	return true;
}

static int by_pid(const void *a, const void *b)
{
	const struct recorded_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

bool recorded_processes_find(struct recorded_processes *c, const char *name)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	bool good = true;

	*c = (struct recorded_processes){0};
	while (dir && good && (d = readdir(dir))) {
		pid_t pid = d->d_name[0] >= '1' && d->d_name[0] <= '9' ? atoi(d->d_name) : 0;

		good = !pid || look_at(c, pid, name);
	}
	if (dir)
		closedir(dir);
	if (c->count)
		qsort(c->process, c->count, sizeof(*c->process), by_pid);
	return good;
}

void recorded_processes_free(struct recorded_processes *c)
{
	for (size_t i = 0; i < c->count; i++) {
		free(c->process[i].command);
		free(c->process[i].spool);
	}
	free(c->process);
	*c = (struct recorded_processes){0};
}
