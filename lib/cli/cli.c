/* cli.c -- reads the command line by tables of options.  getopt_long is not used because it accepts
 * abbreviations, and an abbreviation in a script changes its meaning when a new option begins alike. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/number.h"
#include "base/print.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "io/loaded.h"
#include "io/skip.h"
#include "io/tempfile.h"
#include "stream/stream.h"

volatile sig_atomic_t rf_cli_stop;
static const char *progname = "rf";

/* A list of options: of those that the command line gave, or of those that have no effect. */
enum { MAX_OPTS = 64 };
struct options {
	const struct rf_opt *opt[MAX_OPTS];
	int n;
};
static struct options given, idle;

static void write_message(const char *fmt, va_list ap)
{
	char text[sizeof(struct rf_err) + 100], line[PIPE_BUF];
	int n = snprintf(text, sizeof text, "%s: ", progname);
	size_t length;

	n += vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
	length = rf_print_line(line, sizeof line - 1, text, strlen(text));
	line[length++] = '\n';
	fflush(stdout);
	/* a single write, so that lines of several programs in a pipe do not mix */
	if (write(STDERR_FILENO, line, length) < 0)
		return;
}

static bool hushed;
static struct {
	bool (*tell)(void *arg, struct rf_err *e);
	void (*part)(void *arg);
	void *arg;
} at_failure;

void rf_cli_hush(void)
{
	hushed = true;
	rf_progress_hush();
}

void rf_cli_at_failure(bool (*tell)(void *arg, struct rf_err *e), void (*part)(void *arg), void *arg)
{
	at_failure.tell = tell;
	at_failure.part = part;
	at_failure.arg = arg;
}

static void say_text(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_message(fmt, ap);
	va_end(ap);
}

noreturn void rf_die(int status, const char *fmt, ...)
{
	bool (*tell)(void *arg, struct rf_err *e) = at_failure.tell;
	const enum rf_code code = rf_exit_code(status);
	struct rf_err e = { .code = code };
	bool speaks = true;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.msg, sizeof e.msg, fmt, ap);
	va_end(ap);
	at_failure.tell = NULL; /* a failure inside tell() must not call it again */
	if (tell)
		speaks = tell(at_failure.arg, &e);
	/* only after the other ranks were told, because this waits while a terminal is stopped */
	rf_progress_hush();
	if (speaks)
		say_text("%s", e.msg);
	rf_tempfile_unlink();
	if (tell)
		at_failure.part(at_failure.arg);
	exit(e.code == code ? status : rf_exit_status(e.code));
}

noreturn void rf_die_err(const struct rf_err *e) { rf_die(rf_exit_status(e->code), "%s", e->msg); }

void rf_say(const char *fmt, ...)
{
	va_list ap;

	if (hushed)
		return;
	va_start(ap, fmt);
	write_message(fmt, ap);
	va_end(ap);
}

void rf_cli_skip(const char *sentence)
{
	rf_say("warning: %s; lines like this one are skipped (--skip-bad)", sentence);
}

void rf_cli_skipped(const struct rf_skip *s)
{
	if (s->n)
		rf_say("%llu bad line%s skipped", (unsigned long long)s->n, s->n == 1 ? " was" : "s were");
}

void rf_cli_finish(void)
{
	if (fflush(stdout) || ferror(stdout) || (close(STDOUT_FILENO) && errno != EBADF))
		rf_die(EX_IOERR, "<stdout>: write: %s", strerror(errno));
}

static void kill_cleanly(int sig)
{
	rf_tempfile_unlink();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void note_stop(int sig) { rf_cli_stop = sig; }

static void on_signals(void (*handler)(int))
{
	struct sigaction sa = { .sa_handler = handler }, old;

	for (const int *sig = rf_ending; *sig; sig++)
		if (*sig == SIGTERM || *sig == SIGINT ||
		    (sigaction(*sig, NULL, &old) == 0 && old.sa_handler != SIG_IGN)) /* nohup(1) */
			sigaction(*sig, &sa, NULL);
}

void rf_cli_catch(void) { on_signals(note_stop); }

void rf_cli_stopped(void)
{
	if (rf_cli_stop)
		rf_die(128 + rf_cli_stop, "interrupted before the commit; the run is at its last commit");
}

void rf_cli_uncatch(void)
{
	on_signals(kill_cleanly);
	if (rf_cli_stop)
		rf_die(128 + rf_cli_stop, "interrupted after a batch");
}

void rf_cli_ignore_pipe(void) { signal(SIGPIPE, SIG_IGN); }

static noreturn void usage_error(const char *fmt, ...)
{
	char what[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	rf_die(EX_USAGE, "%s (try --help)", what);
}

static noreturn void unknown_option(const char *option, size_t n)
{
	usage_error("unknown option '%s'", rf_quote((char[80]){ 0 }, 80, option, n));
}

static const struct rf_opt *find_option(const struct rf_cli *cli, const char *name, size_t n, char letter)
{
	for (const struct rf_opt *const *t = cli->opts; *t; t++)
		for (const struct rf_opt *o = *t; o->name; o++)
			if (letter ? o->letter == letter : strlen(o->name) == n && !memcmp(o->name, name, n))
				return o;
	return NULL;
}

static void print_default(const struct rf_opt *o)
{
	uint64_t size = o->kind == RF_OPT_SIZE ? *(uint64_t *)o->to : 0;
	char buf[RF_OPT_VALUE];
	const char *text;
	size_t n;

	if (o->kind == RF_OPT_SIZE && size)
		printf(" [%lluM]", (unsigned long long)size >> 20);
	else if (o->kind != RF_OPT_SIZE && o->kind != RF_OPT_FLAG && (text = rf_opt_value(o, 6, buf, &n)))
		printf(" [%.*s]", (int)n, text);
}

static void help_option(const struct rf_opt *o)
{
	char left[100];
	int n = o->letter ? snprintf(left, sizeof left, "  -%c, --%s", o->letter, o->name)
	                  : snprintf(left, sizeof left, "      --%s", o->name);

	if (o->kind != RF_OPT_FLAG)
		snprintf(left + n, sizeof left - (size_t)n, " %s", o->arg);
	printf(strlen(left) < 34 ? "%-34s %s" : "%s\n%34s %s", left, strlen(left) < 34 ? o->help : "",
	       o->help);
	print_default(o);
	putchar('\n');
}

static void help_sections(const struct rf_cli *cli)
{
	for (const struct rf_cli_section *s = cli->sections; s->heading; s++) {
		printf("%s%s:\n", s == cli->sections ? "" : "\n", s->heading);
		for (const char *name = s->options; *name; name += strspn(name, " ")) {
			size_t n = strcspn(name, " ");
			const struct rf_opt *o = find_option(cli, name, n, 0);

			assert(o);
			help_option(o);
			name += n;
		}
	}
}

static noreturn void print_help(const struct rf_cli *cli)
{
	printf("usage: %s %s\n\n%s\n\n", cli->name, cli->usage, cli->summary);
	if (cli->sections)
		help_sections(cli);
	else
		for (const struct rf_opt *const *t = cli->opts; *t; t++)
			for (const struct rf_opt *o = *t; o->name; o++)
				help_option(o);
	printf("%-34s %s\n%-34s %s\n", "      --help", "print this help", "      --version",
	       "print the version");
	printf("\nexample:\n  %s\n\nsee also: %s\n", cli->example, cli->also);
	rf_cli_finish();
	exit(0);
}

static void list_library(void *arg, const char *name, const char *version)
{
	const char **sep = arg;

	printf("%s%s %s", *sep, name, version);
	*sep = ", ";
}

/* Prints the version of the program and of what it computes with; the first line is that of the program. */
static noreturn void print_version(const struct rf_cli *cli)
{
	struct rf_buf text = { 0 };
	const char *sep = "libraries    ";

	printf("%s %s (%s)\n", cli->name, rf_cli_version, rf_cli_built_from);
	rf_loaded(list_library, &sep);
	putchar('\n');
	if (cli->about) {
		cli->about(&text);
		fwrite(text.p, 1, text.n, stdout);
		rf_buf_free(&text);
	}
	rf_cli_finish();
	exit(0);
}

/* Reads a whole number with an optional suffix; k, M and G are powers of 1024. */
static bool read_whole(const char *s, uint64_t max, uint64_t *v)
{
	size_t n = strspn(s, "0123456789");
	const char *end = s + n;
	int shift = 0;

	if (!n || !rf_number(s, n, v))
		return false;
	if (*end == 'k' || *end == 'M' || *end == 'G')
		shift = *end == 'k' ? 10 : *end == 'M' ? 20 : 30, end++;
	if (*end || *v > max >> shift)
		return false;
	*v <<= shift;
	return true;
}

static bool read_real(const char *s, char stop, double min, double max, double *v, const char **rest)
{
	char *end;

	if (*s == ' ' || *s == '\t' || *s == '\n')
		return false;
	errno = 0;
	*v = strtod(s, &end);
	*rest = end;
	/* refuses hexadecimal numbers, which strtod() accepts, and numbers that are too small for a double */
	return end != s && !errno && !memchr(s, 'x', (size_t)(end - s)) &&
	       !memchr(s, 'X', (size_t)(end - s)) && *end == stop && isfinite(*v) && *v >= min && *v <= max;
}

/* Returns the dashes before an option's name in messages: one before a single letter. */
static const char *dashes(const struct rf_opt *o) { return o->name[1] ? "--" : "-"; }

static void set_option(const struct rf_opt *o, const char *s)
{
	uint64_t u;
	const char *rest;
	struct rf_opt_list *list = o->to;
	double *p = o->to, x, y;
	int i;

	switch (o->kind) {
	case RF_OPT_FLAG: *(bool *)o->to = true; return;
	case RF_OPT_INT:
		if (*s == '-' ? !read_whole(s + 1, 1ull << 31, &u) || -(double)u < o->min
		              : !read_whole(s, (uint64_t)(o->max < 0 ? 0 : o->max), &u) || (double)u < o->min)
			usage_error("%s%s: '%s' is not a whole number from %.0f to %.0f", dashes(o), o->name,
			            s, o->min, o->max);
		*(int *)o->to = *s == '-' ? (int)-(int64_t)u : (int)u;
		return;
	case RF_OPT_U64:
	case RF_OPT_SIZE:
		/* the limit of a size leaves room for products with small numbers */
		if (!read_whole(s, o->kind == RF_OPT_SIZE ? 1ull << 50 : ~0ull, &u))
			usage_error("%s%s: '%s' is not a whole number%s", dashes(o), o->name, s,
			            o->kind == RF_OPT_SIZE ? " of at most 1024 tebibytes" : "");
		*(uint64_t *)o->to = u;
		return;
	case RF_OPT_REAL:
		if (!read_real(s, 0, o->min, o->max, p, &rest))
			usage_error("%s%s: '%s' is not a number from %.9g to %.9g", dashes(o), o->name, s,
			            o->min, o->max);
		return;
	case RF_OPT_PAIR:
		if (!read_real(s, ',', o->min, o->max, &x, &rest) ||
		    !read_real(rest + 1, 0, o->min, o->max, &y, &rest))
			usage_error("%s%s: '%s' is not a pair of numbers from %.9g to %.9g, like 0.9,0.999",
			            dashes(o), o->name, s, o->min, o->max);
		p[0] = x;
		p[1] = y;
		return;
	case RF_OPT_TEXT:
	case RF_OPT_LIST:
		if (!*s)
			usage_error("%s%s: the value is empty", dashes(o), o->name);
		if (o->kind == RF_OPT_LIST && list->n == RF_OPT_LISTED)
			usage_error("%s%s: given more than %d times", dashes(o), o->name, RF_OPT_LISTED);
		*(o->kind == RF_OPT_LIST ? &list->s[list->n++] : (const char **)o->to) = s;
		return;
	case RF_OPT_ENUM:
		if ((i = rf_opt_index(o->arg, s)) < 0)
			usage_error("%s%s: '%s' is not one of %s", dashes(o), o->name, s, o->arg);
		*(int *)o->to = i;
	}
}

static bool is_listed(const struct options *list, const struct rf_opt *o)
{
	for (int i = 0; i < list->n; i++)
		if (list->opt[i] == o)
			return true;
	return false;
}

static void add_to_list(struct options *list, const struct rf_opt *o)
{
	if (is_listed(list, o))
		return;
	assert(list->n < MAX_OPTS);
	list->opt[list->n++] = o;
}

void rf_cli_without(const struct rf_opt *table, const char *name, const char *why)
{
	for (const struct rf_opt *o = table; o->name; o++) {
		if (name && strcmp(name, o->name))
			continue;
		if (is_listed(&given, o))
			usage_error("%s%s %s", dashes(o), o->name, why);
		add_to_list(&idle, o);
	}
}

static const struct rf_opt *option_named(const struct rf_opt *table, const char *name)
{
	while (strcmp(table->name, name))
		table++;
	return table;
}

const char *rf_cli_one_of(const struct rf_opt *table, const char *const *names)
{
	static char why[64];
	const char *const *one = NULL;

	for (const char *const *name = names; *name; name++)
		if (is_listed(&given, option_named(table, *name)))
			one = name;
	if (!one)
		return NULL;
	snprintf(why, sizeof why, "cannot be combined with --%s", *one);
	for (const char *const *name = names; *name; name++)
		if (name != one)
			rf_cli_without(table, *name, why);
	return why;
}

bool rf_cli_in_force(const struct rf_opt *o) { return !is_listed(&idle, o); }

/* Opens /dev/null for each standard descriptor that is closed, in the direction that the descriptor is not
 * used in, so that using it is an error.  Otherwise the next opened file would get this descriptor, and
 * messages or records would be written to it. */
static void hold_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			_exit(EX_IOERR);
}

/* Turns off oneDNN's messages, which go to standard output, unless the program's output goes to a file. */
static void silence_library(const struct rf_cli *cli)
{
	const struct rf_opt *o = find_option(cli, "output", 6, 0);

	if (!find_option(cli, "device", 6, 0)) /* a program without a model may start others that have one */
		return;
	if (o && *(const char **)o->to && strcmp(*(const char **)o->to, "-"))
		return;
	unsetenv("DNNL_VERBOSE");
	unsetenv("ONEDNN_VERBOSE");
}

/* Checks that the stack may grow.  Paths and the like lie on the stack, and a program that exceeds its limit
 * would end without a message. */
static void need_stack(void)
{
	enum { LEAST = 1 << 20, GOOD = 8 << 20 };
	struct rlimit may;

	if (getrlimit(RLIMIT_STACK, &may) || may.rlim_cur == RLIM_INFINITY || may.rlim_cur >= GOOD)
		return;
	may.rlim_cur = may.rlim_max == RLIM_INFINITY || may.rlim_max > GOOD ? GOOD : may.rlim_max;
	if (may.rlim_cur < LEAST)
		rf_die(EX_OSERR, "the stack limit is %llu KiB, but %d KiB are needed (ulimit -s)",
		       (unsigned long long)may.rlim_cur >> 10, LEAST >> 10);
	setrlimit(RLIMIT_STACK, &may);
}

int rf_cli_parse(const struct rf_cli *cli, int argc, char *argv[])
{
	const struct rf_opt *o;
	int words = 0;
	sigset_t pipe;

	progname = cli->name;
	hold_standard_descriptors();
	need_stack();
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigprocmask(SIG_UNBLOCK, &pipe, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_IGN); /* exceeding the file-size limit fails the write, and does not kill */
	on_signals(kill_cleanly);

	for (int i = 1; i < argc; i++) {
		char *a = argv[i];
		const char *value = NULL;

		if (a[0] != '-' || !a[1]) {
			argv[++words] = a;
			continue;
		}
		if (!strcmp(a, "--")) {
			while (++i < argc)
				argv[++words] = argv[i];
			break;
		}
		if (!strcmp(a, "--help"))
			print_help(cli);
		if (!strcmp(a, "--version"))
			print_version(cli);
		if (a[1] == '-') {
			size_t n = strcspn(a + 2, "=");
			if (!(o = find_option(cli, a + 2, n, 0)))
				unknown_option(a, n + 2);
			if (a[2 + n] == '=')
				value = a + 3 + n;
			if (value && o->kind == RF_OPT_FLAG)
				usage_error("%s%s takes no value", dashes(o), o->name);
		} else {
			if (!(o = find_option(cli, NULL, 0, a[1])))
				unknown_option(a, strlen(a));
			if (a[2] && o->kind == RF_OPT_FLAG)
				unknown_option(a, strlen(a));
			if (a[2])
				value = a + 2;
		}
		if (!value && o->kind != RF_OPT_FLAG) {
			if (i + 1 == argc)
				usage_error("%s%s needs a value", dashes(o), o->name);
			value = argv[++i];
		}
		set_option(o, value);
		add_to_list(&given, o);
	}
	silence_library(cli);
	if (words < cli->min_args)
		usage_error("missing argument; usage: %s %s", cli->name, cli->usage);
	if (cli->max_args >= 0 && words > cli->max_args)
		usage_error("unexpected argument '%s'", rf_quote((char[80]){ 0 }, 80, argv[cli->max_args + 1],
		                                                 strlen(argv[cli->max_args + 1])));
	return words;
}

enum rf_code rf_cli_history(const struct rf_cli *cli, struct rf_head *head, struct rf_err *e)
{
	enum rf_code rc = rf_head_stage(head, cli->name, RF_VERSION, e);

	for (const struct rf_opt *const *t = cli->opts; *t && rc == RF_OK; t++)
		for (const struct rf_opt *o = *t; o->name && rc == RF_OK; o++)
			if ((o->noted & RF_OPT_RESULT) && rf_cli_in_force(o))
				rc = rf_head_option(head, o, e);
	return rc;
}
