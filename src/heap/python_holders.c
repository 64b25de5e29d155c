/* SPDX-License-Identifier: Apache-2.0 */
/* Adds holders to Python's objects: see python_holders.h. */
#include "heap/python_holders.h"

#include "base/array.h"

#define HOLDERS_MOST (1u << 22)

bool python_holders_add(struct python_objects *o, const char *name, enum python_rank rank)
{
	uint32_t number = python_types_add_name(&o->types, name);

	return number != HEAP_NONE && ARRAY_ADD(o->holder, o->holder_capacity, o->holders,
						(struct python_holder){number, rank});
}

bool python_holders_add_value(struct python_objects *o, uint64_t value)
{
	return ARRAY_ADD(o->value, o->value_capacity, o->values,
			 (struct python_value){value, (uint32_t)o->holders - 1});
}

bool python_holders_hold(struct python_objects *o, const char *name, uint64_t value,
			 enum python_rank rank)
{
	return o->holders >= HOLDERS_MOST ||
	       (python_holders_add(o, name, rank) && python_holders_add_value(o, value));
}
