/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded into mayfly: a folder's listing has a child's first spool only after another listing has
 * had its second one, as a listing can while files are made. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

static bool ends_in(const char *name, const char *tail)
{
	size_t length = strlen(name), most = strlen(tail);

	return length > most && !strcmp(name + length - most, tail);
}

struct dirent64 *readdir64(DIR *dir)
{
	static struct dirent64 *(*next)(DIR *);
	static unsigned int listings, second_in;
	struct dirent64 *entry;

	if (!next)
		next = (struct dirent64 * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir64");
	do
		entry = next(dir);
	while (entry && ends_in(entry->d_name, ".0.spool") &&
	       !(second_in && second_in <= listings));
	if (!entry)
		listings++;
	else if (!second_in && ends_in(entry->d_name, ".1.spool"))
		second_in = listings + 1;
	return entry;
}
