/* SPDX-License-Identifier: Apache-2.0 */
/* The C half of ocaml5.ml: C functions that call OCaml, and blocks from malloc. */
#include <stdlib.h>
#include <string.h>

#include <caml/callback.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>

value stub_take(value size);
value stub_call(value function, value argument);
value stub_catch(value function, value argument);

static void *kept[1000];
static _Atomic unsigned count;

/* A block of malloc's, the latest 1000 of which stay. */
__attribute__((noinline)) static void take(size_t size)
{
	void **place = &kept[count++ % 1000];

	free(*place);
	*place = malloc(size);
	memset(*place, 1, size);
}

value stub_take(value size)
{
	take((size_t)Long_val(size));
	return Val_unit;
}

value stub_call(value function, value argument)
{
	CAMLparam2(function, argument);

	CAMLreturn(caml_callback(function, argument));
}

/* 0: it raised an exception. */
value stub_catch(value function, value argument)
{
	CAMLparam2(function, argument);
	CAMLlocal1(result);

	result = caml_callback_exn(function, argument);
	CAMLreturn(Is_exception_result(result) ? Val_long(0) : result);
}
