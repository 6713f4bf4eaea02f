/* terminal.c -- asks for the terminal's colours and width. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/terminal.h"

bool rf_terminal_colours(int option)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	if (option != RF_COLOUR_AUTO)
		return option == RF_COLOUR_ALWAYS;
	return isatty(STDOUT_FILENO) && !(none && *none) && term && strcmp(term, "dumb");
}

int rf_terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	long n = columns ? strtol(columns, NULL, 10) : 0;
	struct winsize size;

	if (n <= 0 && isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		n = size.ws_col;
	return n <= 0 ? 100 : n < 40 ? 40 : n > 1000 ? 1000 : (int)n;
}
