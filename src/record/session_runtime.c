/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record: the files in which the runtime of an OCaml 5 program writes its events.
 *
 *	FILE.events/	made when the program is OCaml 5, removed at the end
 *	  PID.events	of the program: made here, with its blocks on the disk, as a full disk
 *			would otherwise end the program by SIGBUS; of followed children: theirs
 *
 * The runtime ends the program when it cannot make its file. So it is asked to make one only where
 * nothing is in the way, and the folder stays while a process has a file in it.
 */
#include "record/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ocaml_rings.h"

#define PRESERVE "OCAML_RUNTIME_EVENTS_PRESERVE"

#define LONGEST_FOLDER 900 /* the runtime has 1024 bytes for the file's name */

static bool is_unlimited(int which)
{
	struct rlimit limit;

	return !getrlimit((__rlimit_resource_t)which, &limit) && limit.rlim_cur == RLIM_INFINITY;
}

/* mayfly has raised its own limit of file sizes. */
static bool is_wanted(const struct record *r)
{
	return r->program.ordinary && r->program.ocaml_events && !r->ocaml_off &&
	       !r->runtime_events_off && !getenv(OCAML_RINGS_START) &&
	       !getenv(OCAML_RINGS_FOLDER) && r->child.file_size.rlim_cur == RLIM_INFINITY &&
	       is_unlimited(RLIMIT_AS);
}

/* With the full path: the program may change its folder. */
static char *folder_name(const struct record *r)
{
	return *r->file == '/' ? record_format("%s.events", r->file)
			       : record_format("%s/%s.events", r->folder, r->file);
}

/* Returns the open file, or -1 and errno. */
static int make_file(const struct record *r, const char *folder, uint64_t bytes)
{
	char *path = record_format("%s/%ld.events", folder, (long)r->child.pid);
	int fd, error;

	if (!path)
		return -1;
	unlink(path); /* left by an earlier recording */
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0) {
		error = fallocate(fd, 0, 0, (off_t)bytes) ? errno : 0;
		if (error) {
			unlink(path);
			close(fd);
			fd = -1;
			errno = error;
		}
	}
	free(path);
	return fd;
}

void record_make_events(struct record *r, struct recorder *first)
{
	char *folder = is_wanted(r) ? folder_name(r) : NULL;
	enum ocaml_rings rings;
	uint64_t bytes;
	int fd = -1;

	if (!folder)
		return;
	rings = ocaml_rings_size(&bytes);
	if (rings == OCAML_RINGS_SMALL)
		record_say(r,
			   "events of OCaml's runtime are not recorded: it can hang with rings of "
			   "fewer than "
			   "%d words; set e=%d or more in OCAMLRUNPARAM",
			   1 << OCAML_RINGS_LEAST_LOG2, OCAML_RINGS_LEAST_LOG2);
	if (strlen(folder) > LONGEST_FOLDER || rings != OCAML_RINGS_GOOD) {
		free(folder);
		return;
	}
	if (!mkdir(folder, 0700) || errno == EEXIST)
		fd = make_file(r, folder, bytes);
	if (fd < 0) {
		record_say(r,
			   "events of OCaml's runtime are not recorded: cannot make a file in "
			   "'%s': %s",
			   folder, strerror(errno));
		rmdir(folder);
		free(folder);
		return;
	}
	r->events_folder = folder;
	recorder_watch_events(first, folder, fd);
}

bool record_set_events(struct record *r)
{
	char *folder = is_wanted(r) ? folder_name(r) : NULL, *path = NULL;
	bool made;

	if (folder)
		path = record_format("%s/%ld.events", folder, (long)r->child.pid);
	made = path && strlen(folder) <= LONGEST_FOLDER && !access(path, R_OK | W_OK) &&
	       !setenv(OCAML_RINGS_FOLDER, folder, 1) && !setenv(OCAML_RINGS_START, "1", 1);
	/* A followed child may end before its file is seen. */
	if (made && r->follow)
		made = !setenv(PRESERVE, "1", 1);
	free(path);
	free(folder);
	return made;
}

void record_tell_events(const struct record *r, struct recorder *one)
{
	if (!one->runtime.unknown || one->runtime.said)
		return;
	one->runtime.said = true;
	record_say(r,
		   "events of OCaml's runtime are not recorded: '%s' is of an unsupported version",
		   one->events_path);
}

/* Whether the process that made the file still needs the folder: its children make files, too. */
static bool is_alive(const struct record *r, const char *name)
{
	long pid = strtol(name, NULL, 10);

	return pid > 0 && !(pid == r->child.pid && r->child.ended) &&
	       (!kill((pid_t)pid, 0) || errno != ESRCH);
}

void record_remove_events(struct record *r)
{
	DIR *folder = r->events_folder ? opendir(r->events_folder) : NULL;
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		size_t length = strlen(entry->d_name);

		if (length > 7 && !strcmp(entry->d_name + length - 7, ".events") &&
		    !is_alive(r, entry->d_name))
			unlinkat(dirfd(folder), entry->d_name, 0);
	}
	if (folder)
		closedir(folder);
	if (r->events_folder)
		rmdir(r->events_folder); /* fails while a file is in it */
	free(r->events_folder);
	r->events_folder = NULL;
}
