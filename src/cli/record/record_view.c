/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record --view: shows the recording while it goes on, and then its trace. The program does
 * not notice: it is started before the server is.
 */
#include "cli/record/record.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/view/follow.h"
#include "terminal/message.h"

static struct viewing viewing;
static struct follow *follow;

void record_view_start(const struct record_command *c)
{
	const struct viewing_settings settings = {.port = c->view_port};

	if (!c->view || !viewing_start(&viewing, &settings))
		return;
	if (follow_start(&viewing, c->record.spool, true, &follow))
		viewing_announce(&viewing, stderr, "mayfly: ", c->record.argv[0], "");
	else
		viewing_end(&viewing, RECORD_FAILED);
}

/* The program has ended: whoever reads its output, or writes its input, must notice that now. */
static void leave_pipes(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	close(fd);
}

void record_view_finish(const struct record_command *c, int status)
{
	sigset_t ending;
	int number;

	if (!follow)
		return;
	viewing_signals(&ending);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	leave_pipes();
	if (follow_last(follow)) {
		cli_error("%s has ended; its trace stays at %s until Ctrl-C", c->record.argv[0],
			  server_url(viewing.server));
		sigwait(&ending, &number);
		if (isatty(STDERR_FILENO))
			fputc('\n', stderr);
	}
	follow_stop(follow, status);
	viewing_end(&viewing, status);
	follow_free(follow);
}
