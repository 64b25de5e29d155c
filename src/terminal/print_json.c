/* SPDX-License-Identifier: Apache-2.0 */
/* Prints JSON. */
#include "terminal/print_json.h"

#include <stdio.h>

#include "terminal/border.h"
#include "terminal/message.h"

int json_print_line(struct json *j)
{
	bool failed;

	json_end(j);
	failed = j->bytes.failed;
	if (!failed) {
		fwrite(j->bytes.at, 1, j->bytes.used, border_data());
		putc('\n', border_data());
	}
	bytes_free(&j->bytes);
	return failed ? cli_error("out of memory") : CLI_OK;
}

int json_print(struct json *j)
{
	return json_print_line(j) ? CLI_FAILED : cli_finish();
}
