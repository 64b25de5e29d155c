/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record --stream: see record_stream.h. */
#include "cli/record/record_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "terminal/message.h"

#define DEFAULT_BUFFER	   (64ull << 20)
#define LEAST_BUFFER	   (64ull << 10)
#define MOST_BUFFER	   (64ull << 30)
#define DEFAULT_TIMEOUT_NS 10000000000ll
#define DEFAULT_SPOOL_DIR  "/dev/shm"

bool read_key_file(struct stream_key *key, const char *path)
{
	if (!stream_keys_start())
		return cli_fail("--key: no random numbers are available");
	if (!stream_keys_supported())
		return cli_fail(
		    "--key: this build of mayfly lacks libsodium; install libsodium-dev and "
		    "build it again");
	switch (stream_key_read(key, path)) {
	case STREAM_KEY_GOOD:
		return true;
	case STREAM_KEY_UNREADABLE:
		cli_error("cannot read the key '%s': %s", path, strerror(errno));
		break;
	case STREAM_KEY_NO_FILE:
		cli_error("the key '%s' is not a regular file", path);
		break;
	case STREAM_KEY_OPEN:
		cli_error("the key '%s' is not secret: other users may read or change it; "
			  "'chmod 600' it",
			  path);
		break;
	case STREAM_KEY_SHORT:
		cli_error("the key '%s' is too short: it must have %u bytes or more, as from "
			  "'head -c 32 /dev/urandom'",
			  path, STREAM_KEY_LEAST);
		break;
	case STREAM_KEY_LONG:
		cli_error("the key '%s' is too long: more than %u bytes", path, STREAM_KEY_MOST);
		break;
	}
	return false;
}

bool read_stream_address(struct stream_address *a, const char *text, bool keyed)
{
	const char *problem = stream_address_read(a, text);

	if (problem)
		return cli_refuse("the address '%s': %s", text, problem);
	if (a->local || keyed)
		return true;
	return cli_refuse("'%s' is not on this machine: both ends need the same key, %s", text,
			  stream_keys_supported()
			      ? "--key FILE"
			      : "and this build of mayfly lacks libsodium for it");
}

const struct option_row record_stream_rows[] = {
    {"stream", .argument = "ADDRESS", OPTION_TEXT(struct record_stream, to),
     .help =
	 "send the trace to 'mayfly receive' at unix:PATH or HOST:PORT; without -o, only there"},
    {"key", .argument = "FILE", OPTION_TEXT(struct record_stream, key_file), .words = OPTION_FILES,
     .help = "the key that the receiver also has; needed for other machines"},
    {"stream-buffer", .rare = true, .argument = "BYTES", .least = LEAST_BUFFER, .most = MOST_BUFFER,
     OPTION_BYTES(struct record_stream, buffer_bytes),
     .help = "without -o, size of the trace that may wait in memory (default 64M); after that the "
	     "spool grows, up to --max-spool"},
    {"stream-timeout", .rare = true, .argument = "TIME", .least = 1,
     OPTION_TIME(struct record_stream, timeout_ns),
     .help = "how long to wait for a lost receiver at the end (default 10s)"},
    {"spool-dir", .rare = true, .argument = "DIR", OPTION_TEXT(struct record_stream, spool_dir),
     .words = OPTION_FOLDERS, .help = "without -o, the folder of the spool (default /dev/shm)"},
    OPTION_END,
};

bool record_stream_check(struct record_stream *s, const char *output)
{
	if (!s->to) {
		if (s->key_file || s->buffer_bytes || s->timeout_ns || s->spool_dir)
			cli_usage("%s needs --stream", s->key_file	 ? "--key"
						       : s->buffer_bytes ? "--stream-buffer"
						       : s->timeout_ns	 ? "--stream-timeout"
									 : "--spool-dir");
		return !s->key_file && !s->buffer_bytes && !s->timeout_ns && !s->spool_dir;
	}
	if (output && s->spool_dir)
		return cli_refuse("--spool-dir cannot be combined with -o, which puts the spool "
				  "beside the file");
	s->only = !output;
	if (!s->buffer_bytes)
		s->buffer_bytes = DEFAULT_BUFFER;
	if (!s->timeout_ns)
		s->timeout_ns = DEFAULT_TIMEOUT_NS;
	if (!s->spool_dir)
		s->spool_dir = DEFAULT_SPOOL_DIR;
	return read_stream_address(&s->address, s->to, s->key_file != NULL) &&
	       (!s->key_file || read_key_file(&s->key, s->key_file));
}
