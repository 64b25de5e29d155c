/* SPDX-License-Identifier: Apache-2.0 */
/* Files below /proc/PID: see process_file.h. */
#include "record/process_file.h"

#include <fcntl.h>
#include <stdio.h>
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
