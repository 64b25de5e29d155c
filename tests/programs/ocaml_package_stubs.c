/* SPDX-License-Identifier: Apache-2.0 */
/* The C stubs of ocaml_package.ml. Some of their names are those of functions and variables inside
 * the library, which a program may use as it likes. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caml/version.h>
#include <caml/mlvalues.h>

int self = 40, sink = 1, spool_header = 1;

int agent_ticks(void);
int spool_open(void);
#if OCAML_VERSION >= 50000
extern void (*caml_atfork_hook)(void);
#endif
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
	pid_t child = fork();

	(void)unit;
#if OCAML_VERSION >= 50000
	if (!child)
		caml_atfork_hook(); /* as Unix.fork: the domain's lock belongs to the parent's thread */
#endif
	return Val_int(child);
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
