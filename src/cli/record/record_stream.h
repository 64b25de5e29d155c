/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record --stream: the options; also those of the receiver.
 */
#ifndef MAYFLY_RECORD_STREAM_H
#define MAYFLY_RECORD_STREAM_H

#include <stdbool.h>

#include "cli/option_table.h"
#include "record/outgoing.h"

/* The options; their struct is struct record_stream. */
extern const struct option_row record_stream_rows[];

/* When all are known; output: of -o, or NULL. False after a line on stderr. */
bool record_stream_check(struct record_stream *s, const char *output);

/* Reads a key file; false after a line on stderr. Also for the receiver. */
bool read_key_file(struct stream_key *key, const char *path);

/* Reads --stream's or the receiver's address. Without a key it must not lead off this machine.
 * False after a line on stderr. */
bool read_stream_address(struct stream_address *a, const char *text, bool keyed);

#endif
