/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly attach: what a recorder that has died has left of the process.
 *
 *	FILE.part	what it had read of the spool, if it was much
 *	FILE.keys	how the two belong together
 *	FILE.spool	the rest, unless somebody has removed it
 */
#include "record/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/keys_file.h"

#define MOST_OLD 1000 /* names */

/* NULL: there is none. */
static char *part_of(const char *spool)
{
	char *part = spool_part_name(spool);

	if (part && access(part, F_OK)) {
		free(part);
		part = NULL;
	}
	return part;
}

static const char died[] = "the recorder of the process has died";

static void say_where(const struct record *r, const char *spool, const char *part)
{
	if (spool && part)
		record_say(r,
			   "%s; what it had recorded is in '%s' and, from there on, '%s'; 'mayfly "
			   "report' reads both",
			   died, part, spool);
	else if (spool || part)
		record_say(r, "%s; what it had recorded is in '%s'; 'mayfly report' reads it%s",
			   died, spool ? spool : part, spool ? "" : "; the spool is gone");
	else
		record_say(r, "%s, and its spool is gone: what it had recorded is lost", died);
}

/* FILE.old, FILE.old2, ...: one of which there is neither a spool nor a part. NULL: there is none. */
static char *free_spool_name(const struct record *r)
{
	for (unsigned int number = 1; number < MOST_OLD; number++) {
		char tail[32] = ".old", *file, *spool, *part;
		bool free_name;

		if (number > 1)
			snprintf(tail, sizeof(tail), ".old%u", number);
		file = record_name_with(r->file, tail);
		spool = file ? record_format("%s.spool", file) : NULL;
		part = spool ? part_of(spool) : NULL;
		free_name = spool && !part && access(spool, F_OK);
		free(part);
		free(file);
		if (free_name)
			return spool;
		free(spool);
	}
	return NULL;
}

/* Moves the part's keys too: without them, part and spool could not be read as one recording. */
static bool move_part(const char *part, const char *new_part)
{
	char *keys = keys_file_name(part), *new_keys = keys_file_name(new_part);
	bool good = keys && new_keys && (!rename(keys, new_keys) || errno == ENOENT) &&
		    !rename(part, new_part);

	free(keys);
	free(new_keys);
	return good;
}

/* *spool and *part, where they are not NULL, get other names. */
static bool move_aside(const struct record *r, char **spool, char **part)
{
	char *new_spool = free_spool_name(r);
	char *new_part = new_spool ? spool_part_name(new_spool) : NULL;
	bool good = new_spool && new_part;

	good = good && (!*part || move_part(*part, new_part)) &&
	       !(*spool && rename(*spool, new_spool));
	if (!good) {
		record_say(r, "cannot rename '%s', which a recorder that has died has left: %s",
			   r->spool, strerror(errno));
		free(new_spool);
		free(new_part);
		return false;
	}
	if (*spool) {
		free(*spool);
		*spool = new_spool;
	} else {
		free(new_spool);
	}
	if (*part) {
		free(*part);
		*part = new_part;
	} else {
		free(new_part);
	}
	return true;
}

bool record_keep_lost(const struct record *r, const struct process_spool *lost)
{
	char *name = spool_real_name(r->spool, "");
	bool same = name && !strcmp(name, lost->path);
	char *spool = lost->gone ? NULL : strdup(lost->path), *part = part_of(lost->path);
	bool good = true;

	free(name);
	if (same && r->force && (spool || part)) {
		record_say(r, "%s; '%s', in which it had recorded, is replaced", died,
			   spool ? spool : part);
	} else {
		good = !same || !(spool || part) || move_aside(r, &spool, &part);
		if (good)
			say_where(r, spool, part);
	}
	free(spool);
	free(part);
	return good;
}
