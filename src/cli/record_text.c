/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: texts that it makes. */
#include "cli/record.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/message.h"

char *record_format(const char *text, ...)
{
	va_list arguments;
	char *made;
	int length;

	va_start(arguments, text);
	length = vasprintf(&made, text, arguments);
	va_end(arguments);
	if (length < 0) {
		cli_error("out of memory");
		exit(RECORD_FAILED);
	}
	return made;
}
