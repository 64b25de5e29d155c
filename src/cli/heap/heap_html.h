/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly heap --html: a picture of a heap as the page of mayfly view, in one file. */
#ifndef MAYFLY_HEAP_HTML_H
#define MAYFLY_HEAP_HTML_H

#include "picture/picture.h"

/* output: "-": standard output; no file that is there. Returns an exit status, after a line on stderr when it failed. */
int heap_write_html(const struct picture *p, const char *output);

#endif
