/* SPDX-License-Identifier: Apache-2.0 */
/* The C half of ocaml.ml: blocks from malloc, allocated below OCaml functions. */
#include <stdlib.h>
#include <string.h>

#include <caml/mlvalues.h>

static void *kept[100000];
static int count;

value stub_blocks(value blocks, value size);
value stub_drop(value unit);

__attribute__((noinline)) static void *take(size_t size)
{
	void *block = malloc(size);

	memset(block, 1, size);
	return block;
}

value stub_blocks(value blocks, value size)
{
	for (long i = 0; i < Long_val(blocks) && count < 100000; i++)
		kept[count++] = take((size_t)Long_val(size));
	return blocks;
}

/* Half of them go. */
value stub_drop(value unit)
{
	for (int half = count / 2; count > half;)
		free(kept[--count]);
	return unit;
}
