/* SPDX-License-Identifier: Apache-2.0 */
/* What track events of a type may be. */
#ifndef MAYFLY_TRACK_KINDS_H
#define MAYFLY_TRACK_KINDS_H

#include <mayfly/trace.h>

/* Whether a type of this enum mayfly_type_kind may have events of this enum mayfly_track_kind. */
static inline bool track_kind_fits(uint32_t type, uint32_t event)
{
	switch ((enum mayfly_type_kind)type) {
	case MAYFLY_TYPE_SPAN:
		return event == MAYFLY_TRACK_BEGIN || event == MAYFLY_TRACK_END;
	case MAYFLY_TYPE_INSTANT:
		return event == MAYFLY_TRACK_INSTANT;
	case MAYFLY_TYPE_COUNTER:
		return event == MAYFLY_TRACK_COUNT;
	}
	return false;
}

/* A counter's value, which every event of one has. */
static inline double track_value(const struct mayfly_track_event *e,
				 const struct mayfly_track_type *type)
{
	if (type->field[0].type == MAYFLY_FIELD_FLOAT)
		return e->value[0].f;
	return type->field[0].type == MAYFLY_FIELD_INT ? (double)e->value[0].i
						       : (double)e->value[0].u;
}

#endif
