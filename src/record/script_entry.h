/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a console script of Python calls. Installers write such scripts, which have no code of their own:
 *
 *	from shop.web import main
 *	if __name__ == "__main__":
 *	    sys.exit(main())
 *
 * Its application is a package among all that are installed, and nothing else says which one.
 */
#ifndef MAYFLY_SCRIPT_ENTRY_H
#define MAYFLY_SCRIPT_ENTRY_H

#include <stddef.h>
#include <sys/types.h>

#include "format/spool_format.h"

/* The module in `entry`, "shop.web"; "" if the process runs no such script, or the script cannot be read. The
 * process may have ended. */
void script_entry(char *entry, size_t size, const struct spool_header *header, pid_t pid);

#endif
