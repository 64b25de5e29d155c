/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record --stream: see record_stream.h. */
#include "cli/record_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/message.h"
#include "record/clock.h"
#include "cli/output.h"

#define DEFAULT_BUFFER	   (64ull << 20)
#define LEAST_BUFFER	   (64ull << 10)
#define MOST_BUFFER	   (64ull << 30)
#define DEFAULT_TIMEOUT_NS 10000000000ll
#define DEFAULT_SPOOL_DIR  "/dev/shm"

/* A break that is over so soon is not worth a word. */
#define OUTAGE_NS 2000000000ll

/* ---- keys and addresses ---- */

bool read_key_file(struct stream_key *key, const char *path)
{
	if (!stream_keys_start()) {
		cli_error("--key: no random numbers can be had here");
		return false;
	}
	if (!stream_keys_supported()) {
		cli_error("--key: this build of mayfly lacks libsodium; install libsodium-dev and "
			  "build it again");
		return false;
	}
	switch (stream_key_read(key, path)) {
	case STREAM_KEY_GOOD:
		return true;
	case STREAM_KEY_UNREADABLE:
		cli_error("cannot read the key '%s': %s", path, strerror(errno));
		break;
	case STREAM_KEY_NO_FILE:
		cli_error("the key '%s' is no ordinary file", path);
		break;
	case STREAM_KEY_OPEN:
		cli_error("the key '%s' is no secret: others may read or change it; "
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

	if (problem) {
		cli_usage("the address '%s': %s", text, problem);
		return false;
	}
	if (a->local || keyed)
		return true;
	cli_usage("'%s' is not on this machine: that needs a key that both ends have, %s", text,
		  stream_keys_supported() ? "--key FILE"
					  : "and this build of mayfly lacks libsodium for it");
	return false;
}

/* ---- options ---- */

const struct option_row record_stream_rows[] = {
    {"stream", .argument = "ADDRESS", OPTION_TEXT(struct record_stream, to),
     .help =
	 "send the trace to 'mayfly receive' at unix:PATH or HOST:PORT; without -o, only there"},
    {"key", .argument = "FILE", OPTION_TEXT(struct record_stream, key_file), .words = OPTION_FILES,
     .help = "the key that the receiver also has; needed for other machines"},
    {"stream-buffer", .argument = "BYTES", .least = LEAST_BUFFER, .most = MOST_BUFFER,
     OPTION_BYTES(struct record_stream, buffer_bytes),
     .help = "without -o, size of the trace that may wait in memory (default 64M); after that the "
	     "spool grows, up to --max-spool"},
    {"stream-timeout", .argument = "TIME", .least = 1,
     OPTION_TIME(struct record_stream, timeout_ns),
     .help = "how long to wait for a lost receiver at the end (default 10s)"},
    {"spool-dir", .argument = "DIR", OPTION_TEXT(struct record_stream, spool_dir),
     .words = OPTION_FOLDERS, .help = "without -o, the folder of the spool (default /dev/shm)"},
    OPTION_END,
};

bool record_stream_check(struct record_stream *s, const char *output)
{
	if (!s->to) {
		if (s->key_file || s->buffer_bytes || s->timeout_ns || s->spool_dir)
			cli_usage("%s is of use with --stream only",
				  s->key_file	    ? "--key"
				  : s->buffer_bytes ? "--stream-buffer"
				  : s->timeout_ns   ? "--stream-timeout"
						    : "--spool-dir");
		return !s->key_file && !s->buffer_bytes && !s->timeout_ns && !s->spool_dir;
	}
	if (output && s->spool_dir) {
		cli_usage(
		    "--spool-dir is for --stream without -o; with it, the spool is beside the "
		    "file");
		return false;
	}
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

bool record_stream_open(struct record_stream *s)
{
	struct stream_sender_options options = {
	    .address = &s->address,
	    .key = s->key_file ? &s->key : NULL,
	    .ring_bytes = s->buffer_bytes,
	    .timeout_ns = s->timeout_ns,
	};
	int error;

	if (!s->to)
		return true;
	error = stream_keys_start() ? stream_sender_new(&options, &s->sender) : EIO;
	if (error)
		cli_error("cannot stream: %s", strerror(error));
	return !error;
}

void record_stream_close(struct record_stream *s)
{
	stream_sender_free(s->sender);
	s->sender = NULL;
	stream_key_clear(&s->key);
}

/* ---- what is said ---- */

static const char *reason(const struct stream_sender_status *status)
{
	switch (status->fault) {
	case STREAM_FINE:
		break;
	case STREAM_OTHER_VERSION:
		return "the receiver is of another version of mayfly";
	case STREAM_NO_KEY_THERE:
		return "the receiver has no key";
	case STREAM_KEY_NEEDED:
		return "the receiver wants a key, --key FILE";
	case STREAM_WRONG_KEY:
		return "the receiver has another key";
	case STREAM_BUSY:
		return "the receiver has another recording";
	case STREAM_BEGINNING_GONE:
		return "the receiver does not have the beginning of the trace, nor do we any more";
	case STREAM_NO_STREAM:
		return "what answers is no 'mayfly receive'";
	case STREAM_BROKEN:
		return "the receiver answers what makes no sense";
	case STREAM_NO_MEMORY:
		return "out of memory";
	}
	if (status->error == ECONNREFUSED || status->error == ENOENT)
		return "no receiver is there";
	return status->error ? strerror(status->error) : "no answer";
}

char *record_stream_news(struct record_stream *s)
{
	struct stream_sender_status status;
	char *text = NULL;

	if (!s->sender)
		return NULL;
	stream_sender_status(s->sender, &status);
	if (status.connected && s->said_lost) {
		s->said_lost = false;
		if (asprintf(&text, "the receiver at %s is there again", s->to) < 0)
			text = NULL;
	} else if (!status.connected && !s->said_lost && (status.error || status.fault) &&
		   now_ns() - status.since_ns > OUTAGE_NS) {
		s->said_lost = true;
		if (asprintf(&text, "no connection to %s: %s; it is tried again and again", s->to,
			     reason(&status)) < 0)
			text = NULL;
	}
	return text;
}

bool record_stream_finish(struct record_stream *s, bool whole)
{
	struct stream_sender_status status;
	char most[FIGURE_TEXT];

	if (!s->sender)
		return true;
	stream_sender_status(s->sender, &status);
	if (!status.connected && s->said_lost && isatty(STDERR_FILENO))
		cli_error("waiting for the receiver, for %s at most; Ctrl-C stops waiting",
			  text_duration(most, sizeof(most), (double)s->timeout_ns));
	if (!stream_sender_finish(s->sender, whole) || !whole)
		s->failed = true;
	return !s->failed;
}

char *record_stream_why(const struct record_stream *s)
{
	char got[FIGURE_TEXT], waited[FIGURE_TEXT], *text;
	struct stream_sender_status status;

	stream_sender_status(s->sender, &status);
	if (asprintf(&text, "%s has %s%s of the trace after %s: %s", s->to,
		     status.stored ? "only " : "nothing",
		     status.stored ? text_bytes(got, sizeof(got), (double)status.stored) : "",
		     text_duration(waited, sizeof(waited), (double)s->timeout_ns),
		     reason(&status)) < 0)
		return NULL;
	return text;
}
