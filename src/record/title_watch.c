/* SPDX-License-Identifier: Apache-2.0 */
/* What a process calls itself: see title_watch.h. */
#include "record/title_watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/process_file.h"
#include "spool/spool_stream.h"
#include "base/system/clock.h"

#define SECOND_NS 1000000000ll
#define EARLY_PART                                                                                 \
	4 /* of the time passed, until it is looked at again, while that is not a second */

static void take_title(struct title_watch *t, const struct process_watch *process,
		       const char *spool)
{
	char text[SPOOL_TITLE_BYTES], *copy;
	int fd = process_file_open(process->pid, "cmdline");
	ssize_t bytes = fd < 0 ? 0 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	/* Empty: the process has ended. */
	if (bytes <= 0 ||
	    (t->text && t->bytes == (size_t)bytes && !memcmp(t->text, text, (size_t)bytes)) ||
	    !process_watch_writes(process, spool))
		return;
	copy = realloc(t->text, (size_t)bytes);
	if (!copy)
		return;
	memcpy(copy, text, (size_t)bytes);
	t->text = copy;
	t->bytes = (uint32_t)bytes;
}

void title_watch_look(struct title_watch *t, const struct process_watch *process, const char *spool)
{
	int64_t now = now_ns(), passed;

	if (now < t->next_ns)
		return;
	if (!t->begun_ns)
		t->begun_ns = now;
	passed = (now - t->begun_ns) / EARLY_PART;
	t->next_ns = now + (passed < SECOND_NS ? passed : SECOND_NS);
	take_title(t, process, spool);
}

void title_watch_free(struct title_watch *t)
{
	free(t->text);
	t->text = NULL;
}
