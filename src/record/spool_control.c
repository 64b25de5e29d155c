/* SPDX-License-Identifier: Apache-2.0 */
/* The control words of a spool: see spool_control.h. */
#include "record/spool_control.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map_header(struct spool_control *c, int fd, bool change)
{
	struct stat status;
	void *header;

	if (fstat(fd, &status))
		return errno;
	if (!S_ISREG(status.st_mode) || status.st_size < (off_t)sizeof(*c->header))
		return EINVAL;
	header = mmap(NULL, sizeof(*c->header), change ? PROT_READ | PROT_WRITE : PROT_READ,
		      MAP_SHARED, fd, 0);
	if (header == MAP_FAILED)
		return errno;
	c->header = header;
	if (!memcmp(c->header->magic, SPOOL_MAGIC, sizeof(c->header->magic)) &&
	    c->header->version == SPOOL_VERSION && !(c->header->features & ~SPOOL_FEATURES_KNOWN))
		return 0;
	spool_control_close(c);
	return EINVAL;
}

int spool_control_open(struct spool_control *c, const char *path, bool change)
{
	int fd = open(path, (change ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int error;

	*c = (struct spool_control){0};
	if (fd < 0)
		return errno;
	error = map_header(c, fd, change);
	close(fd);
	return error;
}

void spool_control_close(struct spool_control *c)
{
	if (c->header)
		munmap(c->header, sizeof(*c->header));
	c->header = NULL;
}

void spool_control_enable(struct spool_control *c, bool on)
{
	if (!on && atomic_load(&c->header->control_enabled))
		atomic_store(&c->header->control_was_off, 1);
	if (atomic_exchange(&c->header->control_enabled, on) != on)
		atomic_fetch_add(&c->header->control_generation, 1);
}

void spool_control_interval(struct spool_control *c, uint32_t log2)
{
	if (atomic_exchange(&c->header->control_interval_log2, log2) != log2)
		atomic_fetch_add(&c->header->control_generation, 1);
}
