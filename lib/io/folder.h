/* folder.h -- the streams that a folder holds, for programs that take a folder instead of many files. */
#ifndef RF_FOLDER_H
#define RF_FOLDER_H

#include "base/err.h"

struct rf_folder {
	char **path;
	int n;
};

/* Lists `path` if it is not a folder.  Otherwise lists the regular files in it, and links to such files,
 * whose names end in .rf and do not begin with a dot, in the order of their names' bytes.  A link that leads
 * nowhere is listed, so that opening it reports it.  rf_folder_free() releases the list, also after an error.
 * Errors: RF_EIO: the folder cannot be read; RF_ENOINPUT: it has no such file; RF_ENOMEM. */
enum rf_code rf_folder_open(struct rf_folder *f, const char *path, struct rf_err *e);
void rf_folder_free(struct rf_folder *f);

#endif
