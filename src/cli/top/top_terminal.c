/* SPDX-License-Identifier: Apache-2.0 */
/* top_terminal.c: the terminal, by ncurses: see top_terminal.h. */
#include "cli/top/top_terminal.h"

#include <curses.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "terminal/border.h"
#include "terminal/message.h"
#include "terminal/output.h"
#include "cli/top/top_frame.h"

/* Last, as its macros have the names of other things. */
#include <term.h>
#undef columns
#undef lines

#define ESCAPE_MS 50 /* after which an ESC is not the beginning of a key */

static SCREEN *screen;
static int said_file = -1, true_stderr = -1;
static off_t said_until;

/* ---- the terminal as it was ---- */

static struct termios modes;	    /* from before */
static char restoring[256];	    /* what the terminal gets to be as it was */
static volatile sig_atomic_t shown; /* curses has it */

static void add_string(const char *name)
{
	const char *text = tigetstr(name);
	size_t used = strlen(restoring);

	if (text && text != (char *)-1 && used + strlen(text) < sizeof(restoring))
		strcpy(restoring + used, text);
}

/* Safe in signal handlers. */
static void restore_at_once(void)
{
	ssize_t written;

	if (!shown)
		return;
	shown = 0;
	written = write(STDOUT_FILENO, restoring, strlen(restoring));
	(void)written;
	tcsetattr(STDIN_FILENO, TCSANOW, &modes);
	if (true_stderr >= 0)
		dup2(true_stderr, STDERR_FILENO);
}

static struct sigaction on_bus; /* before us */

/* SA_RESETHAND: the signal ends mayfly when this returns. Not SIGBUS, for which open_trace.c has a
 * line to print. */
static void on_ending_signal(int number)
{
	restore_at_once();
	if (number == SIGBUS)
		sigaction(SIGBUS, &on_bus, NULL);
	else
		raise(number);
}

static void watch_signals(void)
{
	static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
				      SIGSEGV, SIGABRT, SIGFPE, SIGBUS};
	struct sigaction action = {.sa_handler = on_ending_signal, .sa_flags = (int)SA_RESETHAND};
	struct sigaction old;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (sigaction(numbers[i], NULL, &old) || old.sa_handler == SIG_IGN)
			continue;
		if (numbers[i] == SIGBUS)
			on_bus = old;
		sigaction(numbers[i], &action, NULL);
	}
}

/* ---- standard error ---- */

static void take_stderr(void)
{
	if (!isatty(STDERR_FILENO))
		return;
	fflush(stderr);
	said_file = memfd_create("mayfly-top", MFD_CLOEXEC);
	true_stderr = said_file < 0 ? -1 : dup(STDERR_FILENO);
	if (true_stderr >= 0)
		dup2(said_file, STDERR_FILENO);
	said_until = 0;
}

static void give_stderr_back(void)
{
	if (true_stderr >= 0) {
		dup2(true_stderr, STDERR_FILENO);
		close(true_stderr);
	}
	if (said_file >= 0)
		close(said_file);
	said_file = true_stderr = -1;
}

void screen_said(char *text, size_t size)
{
	static char all[4096];
	ssize_t got;
	char *line;

	*text = 0;
	if (said_file < 0)
		return;
	fflush(stderr);
	while ((got = pread(said_file, all, sizeof(all) - 1, said_until)) > 0) {
		said_until += got;
		all[got] = 0;
		if (all[got - 1] == '\n')
			all[got - 1] = 0;
		line = strrchr(all, '\n');
		snprintf(text, size, "%s", line ? line + 1 : all);
	}
}

/* ---- begin and end ---- */

/* In the order of enum style. */
static const struct look {
	short colour; /* -1: the terminal's own */
	attr_t coloured, plain;
} looks[] = {
    [STYLE_PLAIN] = {-1, A_NORMAL, A_NORMAL},
    [STYLE_BOLD] = {-1, A_BOLD, A_BOLD},
    [STYLE_DIM] = {-1, A_DIM, A_NORMAL},
    [STYLE_BAR] = {COLOR_CYAN, A_NORMAL, A_NORMAL},
    [STYLE_NOTE] = {COLOR_YELLOW, A_BOLD, A_BOLD},
    [STYLE_MORE] = {COLOR_RED, A_NORMAL, A_NORMAL},
    [STYLE_LESS] = {COLOR_GREEN, A_NORMAL, A_NORMAL},
};
static bool coloured;

static void begin_colour(void)
{
	coloured = has_colors() && start_color() == OK && use_default_colors() == OK;
	for (short i = 0; coloured && i <= STYLE_LESS; i++)
		init_pair((short)(i + 1), looks[i].colour, -1);
}

static bool terminal_fits(void)
{
	const char *name = getenv("TERM");
	int problem;

	if (setupterm(NULL, STDOUT_FILENO, &problem) != OK)
		return cli_fail("the terminal type '%s' is not known here; use --once or --json",
				name ? name : "");
	if (tigetstr("cup") && tigetstr("cup") != (char *)-1 && tigetstr("clear"))
		return true;
	return cli_fail("a terminal of type '%s' cannot show this; use --once or --json",
			name ? name : "");
}

bool screen_begin(bool colour)
{
	if (!terminal_fits())
		return false;
	if (tcgetattr(STDIN_FILENO, &modes))
		return cli_fail("the terminal cannot be used: %s", strerror(errno));
	use_tioctl(TRUE);
	screen = newterm(NULL, border_terminal(), stdin);
	if (!screen)
		return cli_fail("the terminal cannot be used; use --once or --json");
	shown = 1;
	restoring[0] = 0;
	add_string("sgr0");
	add_string("cnorm");
	add_string("rmkx");
	add_string("rmcup");
	strcat(restoring, "\r\n");
	watch_signals();
	take_stderr();
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	curs_set(0);
	coloured = false;
	if (colour)
		begin_colour();
	return true;
}

void screen_end(void)
{
	if (!screen)
		return;
	endwin();
	shown = 0;
	delscreen(screen);
	screen = NULL;
	give_stderr_back();
}

/* ---- lines and keys ---- */

void screen_size(size_t *columns, size_t *lines)
{
	*columns = COLS > 0 ? (size_t)COLS : 1;
	*lines = LINES > 0 ? (size_t)LINES : 1;
}

static void set_style(enum style style, bool chosen)
{
	attr_t attributes = coloured ? looks[style].coloured : looks[style].plain;

	attr_set((attributes & ~(chosen ? A_DIM : 0)) | (chosen ? A_REVERSE : 0),
		 coloured ? (short)(style + 1) : 0, NULL);
}

void screen_put(size_t line, const char *text, bool chosen)
{
	const char *end;

	move((int)line, 0);
	set_style(STYLE_PLAIN, chosen);
	for (; *text; text = end) {
		if ((unsigned char)*text <= FRAME_STYLE + STYLE_LESS)
			set_style((enum style)(*text++ - FRAME_STYLE), chosen);
		for (end = text; (unsigned char)*end > FRAME_STYLE + STYLE_LESS;)
			end++;
		addnstr(text, (int)(end - text));
	}
	/* After a full line the cursor is on the next one. */
	if (getcury(stdscr) == (int)line && getcurx(stdscr) < COLS) {
		set_style(STYLE_PLAIN, chosen);
		if (chosen)
			hline(' ' | A_REVERSE, COLS - getcurx(stdscr));
		else
			clrtoeol();
	}
}

void screen_show(size_t line)
{
	bool hidden = line == SIZE_MAX;

	curs_set(!hidden);
	if (!hidden) {
		int column = COLS - 1;

		while (column > 0 && (mvinch((int)line, column - 1) & A_CHARTEXT) == ' ')
			column--;
		move((int)line, column < COLS - 1 ? column + 1 : column);
	}
	refresh();
}

int screen_key(int wait_ms)
{
	int key;

	timeout(wait_ms);
	key = getch();
	switch (key) {
	case ERR:
		return SCREEN_NONE;
	case KEY_UP:
		return SCREEN_UP;
	case KEY_DOWN:
		return SCREEN_DOWN;
	case KEY_PPAGE:
		return SCREEN_PAGE_UP;
	case KEY_NPAGE:
		return SCREEN_PAGE_DOWN;
	case KEY_HOME:
		return SCREEN_HOME;
	case KEY_END:
		return SCREEN_END;
	case KEY_ENTER:
	case '\r':
	case '\n':
		return SCREEN_ENTER;
	case KEY_BACKSPACE:
	case '\b':
	case 127:
		return SCREEN_BACKSPACE;
	case 27:
		return SCREEN_ESCAPE;
	case KEY_RESIZE:
	case 'L' - '@':
		clearok(stdscr, TRUE);
		return SCREEN_REDRAW;
	default:
		return key < 256 ? key : SCREEN_OTHER;
	}
}
