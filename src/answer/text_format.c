/* SPDX-License-Identifier: Apache-2.0 */
/* Text into a caller's buffer. */
#include "answer/text_format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

char *text_format(char *buffer, size_t size, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(buffer, size, format, arguments);
	va_end(arguments);
	return buffer;
}

char *text_append(char *buffer, size_t size, const char *format, ...)
{
	size_t used = strlen(buffer);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(buffer + used, size - used, format, arguments);
	va_end(arguments);
	return buffer;
}
