/* SPDX-License-Identifier: Apache-2.0 */
/* Files below /proc/PID: see process_file.h. */
#include "base/system/process_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int process_file_open(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

bool process_file_read(pid_t pid, const char *name, char *text, size_t size)
{
	int fd = process_file_open(pid, name);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	return true;
}

bool process_file_status(pid_t pid, char *text, size_t size)
{
	int fd = process_file_open(pid, "status");
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	size_t used = 0, room = 0;
	char *line = NULL;
	ssize_t n;

	if (!file) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while ((n = getline(&line, &room, file)) > 0)
		if (strncmp(line, "Groups:", strlen("Groups:")) && used + (size_t)n < size) {
			memcpy(text + used, line, (size_t)n);
			used += (size_t)n;
		}
	free(line);
	fclose(file);
	text[used] = 0;
	return used > 0;
}

pid_t process_number_inside(pid_t pid)
{
	char text[PROCESS_STATUS_BYTES];
	const char *at;
	long number = pid;
	int length;

	if (!process_file_status(pid, text, sizeof(text)) || !(at = strstr(text, "\nNSpid:")))
		return pid;
	for (at += strlen("\nNSpid:"); sscanf(at, "%*[\t ]%ld%n", &number, &length) == 1;
	     at += length)
		;
	return (pid_t)number;
}

const char *process_file_behind_name(const char *stat)
{
	const char *close = strrchr(stat, ')');

	return close && close[1] == ' ' ? close + 1 : NULL;
}

#define STATE_FIELD 3
#define START_FIELD 22

bool process_file_start(pid_t pid, uint64_t *start)
{
	char text[2048];
	const char *at;
	bool ended;

	if (!process_file_read(pid, "stat", text, sizeof(text)))
		return false;
	at = process_file_behind_name(text);
	ended = at && (at[1] == 'Z' || at[1] == 'X');
	for (int field = STATE_FIELD; at && field < START_FIELD; field++)
		at = strchr(at + 1, ' ');
	*start = at && !ended ? strtoull(at, NULL, 10) : 0;
	return at;
}

uint64_t process_resident(pid_t pid)
{
	unsigned long long pages;
	char text[256];

	if (!pid || !process_file_read(pid, "statm", text, sizeof(text)) ||
	    sscanf(text, "%*u %llu", &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint32_t inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint32_t)st.st_ino;
}

uint32_t process_file_own_namespace(void)
{
	return inode_of("/proc/self/ns/pid");
}

uint32_t process_file_own_users(void)
{
	return inode_of("/proc/self/ns/user");
}
