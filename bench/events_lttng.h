/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of events.c as LTTng-UST tracepoints. Read several times by its headers.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER mayfly_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./events_lttng.h"

#if !defined(MAYFLY_EVENTS_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define MAYFLY_EVENTS_LTTNG_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(mayfly_bench, begin, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT(mayfly_bench, end, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT(mayfly_bench, counter, LTTNG_UST_TP_ARGS(int64_t, value),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int64_t, value, value)))
LTTNG_UST_TRACEPOINT_EVENT(mayfly_bench, instant, LTTNG_UST_TP_ARGS(int64_t, place, uint64_t, size),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int64_t, place, place)
						   lttng_ust_field_integer(uint64_t, size, size)))

#endif

#include <lttng/tracepoint-event.h>
