/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record --push: see record_push.h. */
#include "cli/record/record_push.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fleet/http/server_url.h"

#define DEFAULT_EVERY "60s"
#define START_NS      1000000000 /* a shorter program is pushed at its end only */

/* Goes on to mayfly push. */
static bool take_word(const struct given *given, void *to)
{
	static const char *const options[] = {"--service", "--host", "--label", "--auth"};
	struct record_push *p = to;

	if (p->words + 2 > RECORD_PUSH_MOST)
		return error_say(given->error_line, "%s: there are too many", given->option);
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (!strcmp(given->option, options[i]))
			p->word[p->words++] = options[i];
	p->word[p->words++] = given->value;
	if (!strcmp(given->option, "--service"))
		p->service = given->value;
	return true;
}

static bool take_every(const struct given *given, void *to)
{
	int64_t ns;

	((struct record_push *)to)->every = given->value;
	return option_take_time(given, &ns);
}

const struct option_row record_push_rows[] = {
    {"push", .argument = "URL", OPTION_TEXT(struct record_push, to),
     .help = "push windows of the recording to a server, as 'mayfly push --every' does"},
    {"push-every", .rare = true, .argument = "TIME", .least = 1000000000, OPTION_OWN(take_every),
     .help = "how often (default 60s)"},
    {"service", .argument = "NAME", OPTION_OWN(take_word),
     .help = "what the program is part of (default MAYFLY_SERVICE, else the program's name)"},
    {"host", .rare = true, .argument = "NAME", OPTION_OWN(take_word),
     .help = "where it runs (default this machine)"},
    {"label", .argument = "KEY=VALUE", OPTION_OWN(take_word),
     .help = "a label of the process, to ask by; may be repeated"},
    {"auth", .argument = "FILE", OPTION_OWN(take_word), .words = OPTION_FILES,
     .help = "a file, yours alone, with USER:PASSWORD of the server"},
    OPTION_END,
};

bool record_push_check(const struct record_push *p, bool listens)
{
	if (p->to)
		return server_url_is(p->to) ||
		       cli_refuse("--push: '%s' is no address of a server, as " SERVER_URL_FORMS,
				  strchr(p->to, '@') ? "..." : p->to);
	if (p->every || p->words > (listens && p->service ? 2 : 0))
		return cli_refuse("--push-every, --host, --service, --label and --auth need "
				  "--push (--service, or --listen)");
	return true;
}

/* Runs mayfly push with the options, for a spool or a trace. Ctrl-C is for the program; what it does then
 * is recorded and pushed. */
static pid_t start_push(const struct record_push *p, bool every, const char *what)
{
	static const int ignored[] = {SIGINT, SIGQUIT, SIGHUP};
	const char *argument[RECORD_PUSH_MOST + 12] = {"mayfly", "push", "-q", "--to", p->to};
	size_t count = 5;
	sigset_t none;
	pid_t recorder = getpid(), pid;

	if (every) {
		argument[count++] = "--every";
		argument[count++] = p->every ? p->every : DEFAULT_EVERY;
		argument[count++] = "--from-start";
	}
	for (size_t i = 0; i < p->words; i++)
		argument[count++] = p->word[i];
	argument[count++] = "--";
	argument[count++] = what;
	pid = fork();
	if (pid < 0)
		cli_error("--push: cannot start a process: %s", strerror(errno));
	if (pid)
		return pid;
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Not without the recorder: then it ends after a last window. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != recorder)
		_exit(1);
	execv("/proc/self/exe", (char **)(size_t)argument);
	cli_error("--push: cannot run mayfly push: %s", strerror(errno));
	_exit(127);
}

void record_push_now_and_then(struct record_push *p, const char *spool, int64_t running_ns)
{
	if (p->to && !p->pid && running_ns >= START_NS)
		p->pid = start_push(p, true, spool);
}

/* Whether a trace can be pushed whole after windows of it. */
static bool can_be_asked(const struct record_push *p)
{
	return server_url_kind(p->to) == SERVER_CLICKHOUSE;
}

/* False: it failed, or took too long. */
static bool ends_well(pid_t pid)
{
	struct timespec tenth = {.tv_nsec = 100000000};
	int status;

	for (int i = 0; i < 10 * RECORD_PUSH_WAIT_S; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return !status;
		nanosleep(&tenth, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return false;
}

void record_push_finish(struct record_push *p, const char *trace)
{
	pid_t pid;

	/* It sees that the recording has ended, and pushes the last window. */
	if (p->pid > 0 && trace && !can_be_asked(p)) {
		if (!ends_well(p->pid))
			cli_error("not all of it is pushed to %s", p->to);
		return;
	}
	/* A window that it has begun does not count; the trace has all of it. */
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
	}
	if (!p->to || !trace)
		return;
	pid = start_push(p, false, trace);
	if (pid < 0 || !ends_well(pid))
		cli_error("not all of it is pushed; 'mayfly push --to %s %s' adds the rest", p->to,
			  trace);
}
