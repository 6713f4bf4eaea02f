/* terminal.h -- colours and width of the terminal, for programs that show text.  Only tools/ includes
 * this. */
#ifndef RF_TERMINAL_H
#define RF_TERMINAL_H

#include <stdbool.h>

enum { RF_COLOUR_AUTO, RF_COLOUR_ALWAYS, RF_COLOUR_NEVER };
#define RF_COLOUR_WORDS "auto|always|never"

/* Returns whether standard output may have colours.  For auto: whether it is a terminal with colours and
 * $NO_COLOR is empty. */
bool rf_terminal_colours(int option);
/* Returns the columns of a line: $COLUMNS, else the terminal's width, else 100; from 40 to 1000. */
int rf_terminal_width(void);

#endif
