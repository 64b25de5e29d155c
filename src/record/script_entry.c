/* SPDX-License-Identifier: Apache-2.0 */
/* What a console script of Python calls: see script_entry.h. */
#include "record/script_entry.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRIPT_BYTES  8192 /* installers write some hundred */
#define COMMAND_BYTES 4096

/* ---- the text ---- */

static size_t name_length(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '.' ||
	       (text[n] & 0x80))
		n++;
	return n;
}

/* What is called in "sys.exit(main())", up to the first point: "main". Length 0: nothing. */
static const char *called_name(const char *script, size_t *length)
{
	static const char *const exits[] = {"sys.exit(", "raise SystemExit("};

	*length = 0;
	for (size_t i = 0; i < 2 && !*length; i++) {
		const char *at = strstr(script, exits[i]);

		if (!at)
			continue;
		script = at + strlen(exits[i]);
		if (script[name_length(script)] == '(')
			*length = strcspn(script, ".(");
	}
	return script;
}

/* "from shop.web import main": the module, if it is where the name is from. */
static bool imports(const char *line, const char *name, size_t length, char *entry, size_t size)
{
	size_t module;

	if (strncmp(line, "from ", 5) != 0)
		return false;
	line += 5;
	module = name_length(line);
	if (!module || module >= size || strncmp(line + module, " import ", 8) != 0 ||
	    strncmp(line + module + 8, name, length) != 0 ||
	    name_length(line + module + 8) != length)
		return false;
	memcpy(entry, line, module);
	entry[module] = 0;
	return true;
}

static void find_entry(char *entry, size_t size, const char *script)
{
	size_t length;
	const char *name = called_name(script, &length);

	for (const char *line = script; length && line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (imports(line + strspn(line, " \t"), name, length, entry, size))
			return;
	}
}

/* ---- the file ---- */

/* The process, or whoever can write to its folder, may have put anything there. */
static bool read_script(const char *path, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < SCRIPT_BYTES)
		n = pread(fd, text, SCRIPT_BYTES - 1, 0);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	return true;
}

static bool open_script(pid_t pid, const char *path, char *text)
{
	char there[COMMAND_BYTES + 64];

	snprintf(there, sizeof(there), "/proc/%d/%s/%s", (int)pid, *path == '/' ? "root" : "cwd",
		 path);
	return read_script(there, text) || read_script(path, text);
}

/* The first argument that is a path, if all before it are options: the kernel puts the path of a script that is
 * run there. */
void script_entry(char *entry, size_t size, const struct spool_header *header, pid_t pid)
{
	uint32_t offset = header->command_offset, length = header->command_length;
	char command[COMMAND_BYTES + 1], script[SCRIPT_BYTES];
	const char *at = command, *end;

	*entry = 0;
	if (offset >= SPOOL_HEADER_BYTES)
		return;
	if (length > SPOOL_HEADER_BYTES - offset)
		length = SPOOL_HEADER_BYTES - offset;
	if (length > COMMAND_BYTES)
		length = COMMAND_BYTES;
	memcpy(command, (const char *)header + offset, length);
	command[length] = 0;
	end = command + length;
	do
		at += strlen(at) + 1;
	while (at < end && *at == '-');
	if (at < end && strchr(at, '/') && open_script(pid, at, script))
		find_entry(entry, size, script);
}
