/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly receive: takes the trace that `mayfly record --stream` sends.
 *
 *	connections ──> stream_receive() ──> FILE.part ──> FILE
 *	                                     FILE.part.id: the recording that it belongs to
 *
 * Between two connections, and after a receiver that was killed, the part and its id are all that
 * is needed to go on.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/option_table.h"
#include "terminal/output.h"
#include "record/part.h"
#include "cli/record/record_stream.h"
#include "stream/receiver.h"

#define DEFAULT_OUTPUT	   "received.mayfly"
#define DEFAULT_TIMEOUT_NS 600000000000ll
#define ID_FORMAT	   "mayfly receive 1 "
#define ID_TEXT		   128

struct receive {
	const char *to; /* the address, as given */
	const char *output, *key_file;
	bool force, quiet;
	int64_t timeout_ns;

	struct stream_address address;
	struct stream_key key;
	struct part part;
	char *part_path, *id_path;
	struct stream_intake intake;
	uint32_t refused;  /* faults that were told, a bit for each */
	bool begun_before; /* a connection */
	bool said_lost;
	uint64_t lost_at; /* stored when the connection was lost */
};

/* ---- which recording the part is of ---- */

static bool write_id(struct receive *r, const uint8_t *id, uint32_t generation)
{
	char text[ID_TEXT];
	size_t used = (size_t)snprintf(text, sizeof(text), ID_FORMAT), done = 0;
	int fd;

	for (size_t i = 0; i < STREAM_ID; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%02x", id[i]);
	used += (size_t)snprintf(text + used, sizeof(text) - used, " %u\n", generation);
	fd = open(r->id_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return false;
	while (done < used) {
		ssize_t n = write(fd, text + done, used - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	close(fd);
	return done == used;
}

static bool read_id(struct receive *r)
{
	struct stream_intake *in = &r->intake;
	char text[ID_TEXT] = "", *at = text + sizeof(ID_FORMAT) - 1, *end;
	int fd = open(r->id_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got < (ssize_t)(sizeof(ID_FORMAT) + 2 * STREAM_ID) ||
	    memcmp(text, ID_FORMAT, sizeof(ID_FORMAT) - 1) != 0)
		return false;
	for (size_t i = 0; i < STREAM_ID; i++, at += 2) {
		char byte[3] = {at[0], at[1], 0};

		in->id[i] = (uint8_t)strtoul(byte, &end, 16);
		if (*end || byte[0] == ' ')
			return false;
	}
	in->generation = (uint32_t)strtoul(at, &end, 10);
	return *end == '\n';
}

/* ---- the part ---- */

/* The part of a stopped receiver is continued; that of a running one would be damaged. */
static bool go_on_with_part(struct receive *r)
{
	char size[FIGURE_TEXT];
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int error = part_reopen(&r->part, r->part_path);
	bool known = !error && read_id(r);

	if (!error && !known && r->part.written)
		return cli_fail("'%s' is there, and is not of a recording that was being received; "
				"'mayfly report' reads it; remove it or use --force",
				r->part_path);
	if (error)
		return cli_fail("cannot go on with '%s': %s", r->part_path, strerror(error));
	if (fcntl(r->part.fd, F_SETLK, &lock))
		return cli_fail("'%s' is being received by another 'mayfly receive'", r->part_path);
	if (!known)
		return true; /* nothing had come */
	r->intake.begun = true;
	r->intake.taken = r->intake.stored = r->part.written;
	if (!r->quiet)
		cli_error("going on with '%s' after %s", r->part_path,
			  text_bytes(size, sizeof(size), (double)r->part.written));
	return true;
}

static bool receive_open_part(struct receive *r)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int error;

	if (asprintf(&r->part_path, "%s.part", r->output) < 0 ||
	    asprintf(&r->id_path, "%s.part.id", r->output) < 0)
		return cli_fail("out of memory");
	if (r->force) {
		unlink(r->part_path);
		unlink(r->id_path);
	}
	error = part_open(&r->part, r->part_path);
	if (error == EEXIST)
		return go_on_with_part(r);
	if (error)
		return cli_fail("cannot make '%s': %s", r->part_path, strerror(error));
	fcntl(r->part.fd, F_SETLK, &lock); /* so that another one sees that it is in use */
	return true;
}

static bool take_restart(void *context, const uint8_t id[STREAM_ID], uint32_t generation)
{
	struct receive *r = context;

	return !part_clear(&r->part) && write_id(r, id, generation);
}

static bool take_bytes(void *context, const void *bytes, size_t size)
{
	struct receive *r = context;

	return part_sink(&r->part, bytes, size) == 0;
}

static void forget_rest(void *context)
{
	struct receive *r = context;

	r->part.used = 0;
}

static int flush(void *context)
{
	struct receive *r = context;
	int error = part_flush(&r->part);

	r->intake.stored = r->part.written;
	return error;
}

static bool receive_finish(void *context, bool whole)
{
	struct receive *r = context;
	int error;

	if (!whole)
		return true; /* told at the end */
	error = part_become(&r->part, r->output, NULL, NULL);
	if (error)
		cli_error("cannot write '%s': %s; it is complete in '%s'", r->output,
			  strerror(error), r->part_path);
	return !error;
}

/* ---- what is said ---- */

static void say_refused(struct receive *r, const char *peer, enum stream_fault fault)
{
	static const char *const text[] = {
	    [STREAM_OTHER_VERSION] = "is another version of mayfly",
	    [STREAM_NO_KEY_THERE] = "has a key and this receiver has none",
	    [STREAM_KEY_NEEDED] = "has no key",
	    [STREAM_WRONG_KEY] = "has another key",
	    [STREAM_BUSY] = "sends another recording, while one is being received",
	    [STREAM_BEGINNING_GONE] = "sends a trace whose beginning went elsewhere",
	    [STREAM_NO_STREAM] = "is not 'mayfly record'",
	};

	/* Each kind is reported once: repeated connections must not fill a log. */
	if (fault > STREAM_NO_STREAM || r->refused >> fault & 1)
		return;
	r->refused |= 1u << fault;
	cli_error("refused %s, which %s", peer, text[fault]);
}

static void say_event(void *context, enum stream_event event, const char *peer,
		      enum stream_fault fault, int error)
{
	struct receive *r = context;
	char size[FIGURE_TEXT];

	if (event == STREAM_EVENT_REFUSED) {
		say_refused(r, peer, fault);
	} else if (event == STREAM_EVENT_FULL) {
		cli_error("cannot write '%s': %s; the sender waits; trying again", r->part_path,
			  strerror(error));
	} else if (r->quiet) {
		return;
	} else if (event == STREAM_EVENT_ROOM) {
		cli_error("'%s' can be written again", r->part_path);
	} else if (event == STREAM_EVENT_BEGUN && !r->begun_before) {
		r->begun_before = true;
		cli_error("receiving from %s", peer);
	} else if (event == STREAM_EVENT_LOST &&
		   !(r->said_lost && r->lost_at == r->intake.stored)) {
		r->said_lost = true;
		r->lost_at = r->intake.stored;
		cli_error("the connection was lost after %s; waiting for the sender",
			  text_bytes(size, sizeof(size), (double)r->intake.stored));
	}
}

static void say_result(const struct receive *r, uint64_t bytes)
{
	char size[FIGURE_TEXT];

	if (!r->quiet)
		cli_error("received %s (%s); next: mayfly report %s", r->output,
			  text_bytes(size, sizeof(size), (double)bytes), r->output);
}

/* Reports the part of a trace that did not come to its end. */
static int say_cut_off(struct receive *r, enum stream_outcome outcome)
{
	const char *why = outcome == STREAM_STOPPED	? "stopped"
			  : outcome == STREAM_TIMED_OUT ? "the sender has not come back"
			  : r->intake.ended		? "the sender could not complete it"
							: strerror(errno);
	uint64_t stored = r->part.written;
	char size[FIGURE_TEXT];

	part_close(&r->part, !stored);
	if (!stored || r->intake.ended)
		unlink(r->id_path);
	if (!stored)
		return cli_error("no trace has arrived: %s", why);
	return cli_error("the trace is cut off after %s: %s; 'mayfly report %s' reads that",
			 text_bytes(size, sizeof(size), (double)stored), why, r->part_path);
}

/* ---- the command ---- */

static int take_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN); /* the reader of our messages may go away; the trace continues */
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int receive_with(struct receive *r, int listener, int stop)
{
	struct stream_receiver_options options = {
	    .listener = listener,
	    .stop = stop,
	    .key = r->key_file ? &r->key : NULL,
	    .timeout_ns = r->timeout_ns,
	    .intake = &r->intake,
	    .flush = flush,
	    .finish = receive_finish,
	    .event = say_event,
	    .context = r,
	};
	enum stream_outcome outcome;

	if (!r->quiet)
		cli_error("waiting for 'mayfly record --stream' at %s", r->to);
	outcome = stream_receive(&options);
	if (outcome == STREAM_FAILED && !errno)
		return CLI_FAILED;
	if (outcome != STREAM_RECEIVED || !r->intake.whole)
		return say_cut_off(r, outcome);
	unlink(r->id_path);
	say_result(r, r->part.written);
	return CLI_OK;
}

static int receive(struct receive *r)
{
	int listener, stop, status = CLI_FAILED;
	const char *obstacle;

	if (!stream_keys_start())
		return cli_error("no random numbers are available");
	if (r->key_file && !read_key_file(&r->key, r->key_file))
		return CLI_FAILED;
	obstacle = part_obstacle(r->output, r->force);
	if (obstacle)
		return cli_error("'%s' %s", r->output, obstacle);
	listener = stream_listen(&r->address);
	if (listener < 0)
		return cli_error("cannot listen at %s: %s", r->to,
				 errno == EEXIST ? "a file of that name exists" : strerror(errno));
	r->intake.context = r;
	r->intake.restart = take_restart;
	r->intake.store = take_bytes;
	r->intake.forget = forget_rest;
	r->part.fd = -1;
	stop = take_signals();
	if (stop < 0)
		cli_error("cannot take signals: %s", strerror(errno));
	else if (receive_open_part(r))
		status = receive_with(r, listener, stop);
	part_close(&r->part, false);
	stream_unlisten(&r->address, listener);
	stream_key_clear(&r->key);
	if (stop >= 0)
		close(stop);
	free(r->part_path);
	free(r->id_path);
	return status;
}

static const struct option_row receive_rows[] = {
    {"output", 'o', "FILE", OPTION_FILE(struct receive, output), .words = OPTION_FILES,
     .help = "the trace (default " DEFAULT_OUTPUT ")"},
    {"force", .help = "replace FILE even when it is not a trace, and FILE.part",
     OPTION_FLAG(struct receive, force)},
    {"key", .argument = "FILE", OPTION_TEXT(struct receive, key_file), .words = OPTION_FILES,
     .help = "the key that the sender also has; needed for other machines"},
    {"timeout", .argument = "TIME", OPTION_TIME(struct receive, timeout_ns),
     .help = "how long to wait for a lost sender (default 10m; 0: for ever)"},
    {"quiet", 'q', .help = "report only errors", OPTION_FLAG(struct receive, quiet)},
    OPTION_END,
};

const struct option_table receive_option_table = {
    .usage = "receive [OPTIONS] ADDRESS",
    .about =
	"Takes the trace that 'mayfly record --stream ADDRESS' sends from a host without a disk,\n"
	"or from one that may die. ADDRESS is unix:PATH, :PORT on this machine, or HOST:PORT.\n"
	"Ends when the trace is complete. Until then FILE.part is a trace of what has arrived.\n",
    .rows = receive_rows,
};

int cmd_receive(int argc, char **argv)
{
	struct receive r = {.output = DEFAULT_OUTPUT, .timeout_ns = DEFAULT_TIMEOUT_NS};
	int status = options_take(&receive_option_table, &r, argc, argv);

	if (status != OPTIONS_TAKEN)
		return status;
	if (strcmp(r.output, "-") == 0)
		return cli_usage("--output: a trace that may come in parts needs a file");
	if (optind == argc)
		return cli_usage("no address given; use unix:PATH or :PORT");
	if (optind + 1 < argc)
		return cli_usage("only one address can be given, not also '%s'", argv[optind + 1]);
	r.to = argv[optind];
	if (!read_stream_address(&r.address, r.to, r.key_file != NULL))
		return CLI_USAGE;
	return receive(&r);
}
