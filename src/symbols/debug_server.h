/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separate debug files from debuginfod servers, by build-id. The servers are those of
 * DEBUGINFOD_URLS; libdebuginfod asks them and keeps what they send in the user's cache. It is
 * loaded when a file is first asked for: other commands need neither it nor libcurl.
 *
 *	debug_server_open() --> is it known? --> thread: debuginfod_find_debuginfo()
 *	      ^                                    |
 *	      +---- waits until the limit <--------+
 *
 * All requests together take at most the limit; then nothing is asked any more.
 */
#ifndef MAYFLY_DEBUG_SERVER_H
#define MAYFLY_DEBUG_SERVER_H

#include "symbols/elf_file.h"

struct debug_server;

/* Where the files that belong to an object are looked for. */
struct debug_files {
	struct debug_dirs dirs;
	struct debug_server *server; /* or NULL */
};

/* Called from time to time while a file is downloaded, and with "" once at the end. */
typedef void debug_server_progress(void *context, const char *text);

/* NULL: DEBUGINFOD_URLS names no server, or out of memory. */
struct debug_server *debug_server_new(int64_t limit_ns, debug_server_progress *progress,
				      void *context);
void debug_server_free(struct debug_server *d); /* NULL is allowed */

/* Opens the debug file with this build-id; path: the module's, for the progress. Each file is asked
 * for once. *f is zeroed when it is not there. d may be NULL. */
bool debug_server_open(struct debug_server *d, struct elf_file *f, const char *path,
		       const uint8_t *id, size_t length);

/* Opens the separate debug file of an object that is open: by its build-id, by its name, or from a server. path: where
 * the object was loaded from. *f is zeroed when there is none. */
bool debug_files_open(const struct debug_files *files, struct elf_file *f,
		      const struct elf_file *object, const char *path);

/* What the user should know of the requests; NULL: nothing. Lives until the next call. */
const char *debug_server_problem(struct debug_server *d);

#endif
