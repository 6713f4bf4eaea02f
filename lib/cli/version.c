/* version.c -- the version of the programs and the commit of their sources, which the Makefile passes as
 * RF_COMMIT. */
#include "base/version.h"
#include "cli/cli.h"

#ifndef RF_COMMIT
#define RF_COMMIT "unknown"
#endif

const char rf_cli_version[] = RF_VERSION;
const char rf_cli_built_from[] = RF_COMMIT;
