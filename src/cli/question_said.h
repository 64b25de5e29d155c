/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of the command line: what is wrong with one is a line on stderr. */
#ifndef MAYFLY_QUESTION_SAID_H
#define MAYFLY_QUESTION_SAID_H

#include "question/question.h"

/* question_check(); false after a line on stderr. */
bool question_agrees(struct question *q);

/* question_is_in_time(); false after a line on stderr. */
bool question_fits_time(const struct question *q, const char *path, const struct mayfly_info *info);

/* What a message that the trace lacks something ends with, where a question to a fleet's database would
 * have times; or "". */
const char *times_remedy(const char *path, uint32_t absent);

/* Whether the question needs what the trace lacks because of the file that it was converted from:
 * then a line on stderr has said so. */
bool absent_said(const char *path, const struct mayfly_trace *trace, const struct question *q);

#endif
