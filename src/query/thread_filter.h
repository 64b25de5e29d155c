/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the filter by thread of a query chooses a thread: its name or its number matches. */
#ifndef MAYFLY_THREAD_FILTER_H
#define MAYFLY_THREAD_FILTER_H

#include <mayfly/trace.h>

bool query_thread_matches(const struct mayfly_match *match, const struct mayfly_thread *thread);

#endif
