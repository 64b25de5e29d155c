/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that the page itself can write: see wasm_exports.h. */
#include "page/wasm_exports.h"

#include "convert/export/exports.h"

static const struct export_format exports[] = {
    {.name = "folded", .text = true, .metrics = EXPORT_ALL_METRICS, .convert = export_folded},
    {.name = "csv", .text = true, .metrics = EXPORT_ALL_METRICS, .convert = export_csv},
    {.name = "flamegraph",
     .text = true,
     .metrics = EXPORT_ALL_METRICS,
     .convert = export_flamegraph},
    {NULL},
};

const struct export_format *wasm_exports(void)
{
	return exports;
}
