/* libraries.c -- the versions of the loaded libraries as an object of JSON. */
#include <stdbool.h>

#include <msgpack.h>

#include "engine/libraries.h"
#include "io/loaded.h"

/* The versions found so far; failed: whether memory ran out. */
struct versions {
	json_t *all;
	bool failed;
};

static void add(void *arg, const char *name, const char *version)
{
	struct versions *to = arg;

	to->failed |= json_object_set_new(to->all, name, json_string(version)) < 0;
}

json_t *rf_libraries(void)
{
	struct versions v = { .all = json_object() };

	rf_loaded(add, &v);
	/* other files use only inline functions of msgpack; this call links the program with the library */
	add(&v, "msgpack", msgpack_version());
	if (v.failed) {
		json_decref(v.all);
		v.all = NULL;
	}
	return v.all;
}
