/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that the page itself can write. */
#ifndef MAYFLY_WASM_EXPORTS_H
#define MAYFLY_WASM_EXPORTS_H

#include "convert/export/exporter.h"

/* A table as export_formats(): those without another library. */
const struct export_format *wasm_exports(void);

#endif
