/* SPDX-License-Identifier: Apache-2.0 */
/* The C stubs of ocaml_package.ml. Some of their names are those of functions and variables inside
 * the library, which a program may use as it likes. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caml/mlvalues.h>

int self = 40, sink = 1, spool_header = 1;

int agent_ticks(void);
int spool_open(void);
value stub_fork(value unit);
value stub_wait(value child);
value stub_kill_self(value unit);
value stub_names(value unit);

int agent_ticks(void)
{
	return self;
}

int spool_open(void)
{
	return sink + spool_header;
}

value stub_names(value unit)
{
	(void)unit;
	return Val_int(agent_ticks() + spool_open());
}

value stub_fork(value unit)
{
	(void)unit;
	return Val_int(fork());
}

value stub_wait(value child)
{
	int status = 0;

	waitpid(Int_val(child), &status, 0);
	return Val_int(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

value stub_kill_self(value unit)
{
	kill(getpid(), SIGKILL);
	return unit;
}
