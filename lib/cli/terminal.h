/* terminal.h -- what a program that shows text asks of its terminal.  Only tools/ includes this. */
#ifndef RF_TERMINAL_H
#define RF_TERMINAL_H

#include <stdbool.h>

enum { RF_COLOUR_AUTO, RF_COLOUR_ALWAYS, RF_COLOUR_NEVER };
#define RF_COLOUR_WORDS "auto|always|never"

/* Whether standard output may have colours; of auto, if it is a terminal that has them and $NO_COLOR is
 * empty. */
bool rf_terminal_colours(int option);
/* Columns of a line: those of $COLUMNS, else of the terminal, else 100; 40 to 1000. */
int rf_terminal_width(void);

#endif
