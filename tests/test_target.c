/* SPDX-License-Identifier: Apache-2.0 */
/* What commands write is there whole or not at all, and nothing is lost on the way. */
#include "cli/target.h"

#include "terminal/border.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static char said[512];

/* Stands in for that of the program. */
int cli_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(said, sizeof(said), format, arguments);
	va_end(arguments);
	return 1;
}

FILE *border_data(void)
{
	return stdout;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static bool holds(const char *path, const char *text)
{
	char found[64] = "";
	FILE *f = fopen(path, "r");

	if (!f)
		return false;
	found[fread(found, 1, sizeof(found) - 1, f)] = 0;
	fclose(f);
	return strcmp(found, text) == 0;
}

static void put_into(const struct target *t, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", t->temporary, name);
	put(path, text);
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* In a folder of its own, so that left-overs are found. */
static int things_here(void)
{
	FILE *list = popen("ls -A | wc -l", "r");
	int count = -1;

	if (list && fscanf(list, "%d", &count) != 1)
		count = -1;
	if (list)
		pclose(list);
	return count;
}

static void named(void)
{
	struct target t;

	CHECK(target_open_named(&t, "a", false) && !is_there("a"), "no name before the end");
	put(t.temporary, "one");
	CHECK(target_finish(&t) && holds("a", "one") && things_here() == 1, "takes its name");
	CHECK(!target_open_named(&t, "a", false) && strstr(said, "exists"),
	      "nothing overwritten: %s", said);
	CHECK(target_open_named(&t, "a", true), "--force");
	put(t.temporary, "two");
	CHECK(holds("a", "one"), "the old one stays until the end");
	target_drop(&t, 0);
	CHECK(holds("a", "one") && things_here() == 1,
	      "dropped: the old one is left, and nothing else");
	CHECK(target_open_named(&t, "a", true), "again");
	put(t.temporary, "two");
	CHECK(target_finish(&t) && holds("a", "two") && things_here() == 1, "replaced");
	CHECK(target_open_named(&t, "b", false), "a name that another takes");
	put("b", "other's");
	CHECK(!target_finish(&t) && holds("b", "other's") && things_here() == 2,
	      "is not taken from it");
	put("b", "");
	CHECK(target_open_named(&t, "b", false), "an empty file, as from mktemp");
	put(t.temporary, "mine");
	CHECK(target_finish(&t) && holds("b", "mine"), "is filled");
	CHECK(symlink("b", "link") == 0 && target_open_named(&t, "link", true), "through a link");
	put(t.temporary, "linked");
	CHECK(target_finish(&t) && holds("b", "linked") && things_here() == 3, "to the file");
	CHECK(!target_open_named(&t, "-", true) && strstr(said, "standard output"), "%s", said);
	CHECK(!target_open_named(&t, "/dev/null", true) && strstr(said, "regular"), "%s", said);
	CHECK(!target_open_named(&t, ".", true) && strstr(said, "folder"), "%s", said);
	CHECK(!target_open_named(&t, "no/where", true) && strstr(said, "cannot write"), "%s", said);
	CHECK(system("rm a b link") == 0 && things_here() == 0, "nothing left over");
}

static void folders(void)
{
	struct target t;

	CHECK(target_open_folder(&t, "f/", "metadata", false) && !is_there("f"), "no name yet");
	put_into(&t, "metadata", "one");
	put_into(&t, "stream_0", "s");
	CHECK(target_finish(&t) && holds("f/metadata", "one") && things_here() == 1,
	      "takes its name");
	CHECK(!target_open_folder(&t, "f", "metadata", false) && strstr(said, "exists"), "%s",
	      said);
	CHECK(target_open_folder(&t, "f", "metadata", true), "--force");
	put_into(&t, "metadata", "two");
	CHECK(holds("f/metadata", "one"), "the old one stays until the end");
	target_drop(&t, ENOSPC);
	CHECK(strstr(said, "No space") && holds("f/metadata", "one") && things_here() == 1,
	      "dropped: %s", said);
	CHECK(target_open_folder(&t, "f", "metadata", true), "again");
	put_into(&t, "metadata", "two");
	CHECK(target_finish(&t) && holds("f/metadata", "two") && !is_there("f/stream_0") &&
		  things_here() == 1,
	      "replaced as a whole");
	CHECK(!target_open_folder(&t, "f", "other", true) && strstr(said, "other things"), "%s",
	      said);
	CHECK(mkdir("f/inner", 0777) == 0 && !target_open_folder(&t, "f", "metadata", true) &&
		  strstr(said, "other things"),
	      "folders with folders are nobody's to remove: %s", said);
	CHECK(mkdir("g", 0777) == 0 && target_open_folder(&t, "g", "metadata", false),
	      "an empty one");
	put_into(&t, "metadata", "three");
	CHECK(target_finish(&t) && holds("g/metadata", "three"), "is filled");
	put("h", "");
	CHECK(!target_open_folder(&t, "h", "metadata", true) && strstr(said, "no folder"), "%s",
	      said);
	CHECK(!target_open_folder(&t, "-", "metadata", true) && strstr(said, "is a folder"), "%s",
	      said);
	CHECK(!target_open_folder(&t, "no/where", "metadata", true) && strstr(said, "cannot write"),
	      "%s", said);
	CHECK(system("rm -r f g h") == 0 && things_here() == 0, "nothing left over");
}

int main(void)
{
	char folder[] = "/tmp/mayfly-test.XXXXXX";

	if (!mkdtemp(folder) || chdir(folder) != 0)
		return 1;
	RUN(named);
	RUN(folders);
	if (chdir("/") == 0)
		rmdir(folder);
	DONE();
}
