/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command line of Python runs. Code of these packages is the program's own, although it is installed
 * where libraries are:
 *
 *	python -m shop.web			shop
 *	/venv/bin/python /venv/bin/shop-web	the package of the function that the script calls
 *	gunicorn -w 2 shop.web:app		shop, and not gunicorn, which is there to run others
 */
#ifndef MAYFLY_PYTHON_RUN_H
#define MAYFLY_PYTHON_RUN_H

#include <mayfly/trace.h>
#include <stdbool.h>

#define RUN_PACKAGES 16 /* more are left out */

/* The names point into the trace. */
struct run_packages {
	struct run_package {
		const char *name;
		size_t length;
	} package[RUN_PACKAGES];
	size_t count;
	bool has_text; /* -c: the program is "<string>" */
};

void python_find_run(struct run_packages *run, const struct mayfly_info *info);

/* Is the file, of Python or an extension, one of such a package? */
bool python_is_run(const struct run_packages *run, const char *path);

/* Where Python's own library begins in a path, behind ".../lib/python3.11/" or ".../lib/python311.zip/"; NULL:
 * it is not in there. */
const char *python_library_part(const char *path);

#endif
