/* version.h -- the version of rf-tools.  The programs, the history of streams and the Makefile take it from
 * here.  A release changes this line, and the other places that t/docs/version.bats names. */
#ifndef RF_VERSION_H
#define RF_VERSION_H

#define RF_VERSION "0.2"

#endif
