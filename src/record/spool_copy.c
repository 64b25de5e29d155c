/* SPDX-License-Identifier: Apache-2.0 */
/* A spool that is not mapped: see spool_copy.h. */
#include "record/spool_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The bytes that were read: fewer where the file ends. */
static size_t read_at(int fd, void *to, size_t size, uint64_t offset)
{
	size_t done = 0;
	ssize_t n = 1;

	while (done < size && n > 0) {
		n = pread(fd, (char *)to + done, size - done, (off_t)(offset + done));
		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	return done;
}

int spool_copy_header(int fd, struct spool_header *to)
{
	if (read_at(fd, to, sizeof(*to), 0) < sizeof(*to) ||
	    memcmp(to->magic, SPOOL_MAGIC, sizeof(to->magic)) || to->version != SPOOL_VERSION ||
	    to->header_bytes != SPOOL_HEADER_BYTES || to->packet_bytes != SPOOL_PACKET_BYTES ||
	    to->features & ~SPOOL_FEATURES_KNOWN)
		return EINVAL;
	return 0;
}

int spool_copy(int fd, uint64_t most, void **data, size_t *size)
{
	struct spool_header h;
	uint64_t packets, bytes;
	int error = spool_copy_header(fd, &h);

	if (error)
		return error;
	packets = atomic_load(&h.packets_claimed);
	if (packets > atomic_load(&h.packets_reserved))
		packets = atomic_load(&h.packets_reserved);
	if (packets > most / SPOOL_PACKET_BYTES)
		return EFBIG;
	bytes = SPOOL_HEADER_BYTES + packets * SPOOL_PACKET_BYTES;
	/* As the header asks for; else its reader would copy it once more. */
	*data = aligned_alloc(_Alignof(struct spool_header), bytes);
	if (!*data)
		return ENOMEM;
	*size = read_at(fd, *data, bytes, 0);
	return 0;
}

static bool put(int fd, size_t offset, uint32_t value)
{
	return pwrite(fd, &value, sizeof(value), (off_t)offset) == sizeof(value);
}

#define PUT(fd, field, value) put(fd, offsetof(struct spool_header, field), value)

/* As in spool_control.c, each word in one write. */
int spool_copy_steer(int fd, bool on, uint32_t log2)
{
	struct spool_header h;
	int error = spool_copy_header(fd, &h);
	bool was_on, turn;

	if (error)
		return error;
	was_on = atomic_load(&h.control_enabled) != 0;
	turn = on && h.mode != SPOOL_EXACT && atomic_load(&h.control_interval_log2) != log2;
	if (was_on == on && !turn)
		return 0;
	if ((turn && !PUT(fd, control_interval_log2, log2)) ||
	    (was_on && !on && !PUT(fd, control_was_off, 1)) || !PUT(fd, control_enabled, on) ||
	    !PUT(fd, control_generation, atomic_load(&h.control_generation) + 1))
		return errno;
	return 0;
}
