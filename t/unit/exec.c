/* exec -- tests commands that run as child processes: their lines, their end, the time limit, and that no
 * process and no file descriptor is left.  Prints TAP. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/exec.h"
#include "unit/tap.h"

static struct rf_err err;

/* Returns the number of open file descriptors. */
static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Returns whether no child runs or waits to be reaped, and the signals have their default actions. */
static bool nothing_left(void)
{
	static const int sig[] = { SIGTERM, SIGINT, SIGHUP, SIGPIPE };
	bool clean = waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;

	for (int i = 0; i < 4; i++) {
		struct sigaction sa;

		sigaction(sig[i], NULL, &sa);
		clean &= sa.sa_handler == SIG_DFL;
	}
	return clean;
}

static struct rf_exec *start(const char *command, double timeout)
{
	struct rf_exec *x;

	if (rf_exec_start(&x, command, timeout, &err) != RF_OK) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	return x;
}

static void send_text(struct rf_exec *x, const char *text) { rf_exec_send(x, strdup(text), strlen(text)); }

static void test_ends(void)
{
	int before = descriptors();
	struct rf_exec *x;
	const char *line;
	size_t len;
	bool well;

	for (int i = 0; i < 3; i++) {
		x = start(i == 0 ? "sleep 60" : i == 1 ? "sleep 60 & sleep 60; :" : "exit 0", 1);
		rf_exec_stop(x);
		ok(nothing_left() && descriptors() == before,
		   "stopping a command immediately leaves no process and no descriptor (%d)", i);
	}
	x = start("cat; exit 3", 5);
	rf_exec_close_input(x);
	ok(rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_EOF,
	   "a command that writes nothing has closed its output");
	ok(!strcmp(rf_exec_fate(x, 5, &well), "exited with status 3") && !well,
	   "the exit status of the command is reported");
	rf_exec_stop(x);
	ok(nothing_left() && descriptors() == before,
	   "a command that ended itself leaves no process and no descriptor");
	rf_exec_stop(NULL);

	signal(SIGCHLD, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	x = start("exit 3", 5);
	raise(SIGHUP);
	rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err);
	ok(!strcmp(rf_exec_fate(x, 5, &well), "exited with status 3"),
	   "the exit status is reported also if the parent ignores SIGCHLD");
	rf_exec_stop(x);
	ok(signal(SIGHUP, SIG_DFL) == SIG_IGN, "the parent still ignores SIGHUP");

	struct rlimit old, none;
	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = 5;
	setrlimit(RLIMIT_NOFILE, &none);
	ok(rf_exec_start(&x, "true", 0, &err) == RF_EIO && !x && nothing_left(),
	   "starting a command fails without free descriptors: %s", err.msg);
	setrlimit(RLIMIT_NOFILE, &old);
	ok(descriptors() == before, "the failed start leaves no descriptor open");
}

static void test_lines(void)
{
	struct rf_exec *x = start("cat", 5);
	const char *line;
	size_t len;
	bool good = true;
	char text[20];

	ok(rf_exec_receive(x, RF_EXEC_NOW, &line, &len, &err) == RF_OK && !line,
	   "RF_EXEC_NOW returns without a line, and without waiting");
	for (int i = 0; i < 5000 && good; i++) {
		snprintf(text, sizeof text, "%d", i);
		send_text(x, text);
		good &= rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_OK &&
		        !strcmp(line, text) && len == strlen(text) && !rf_exec_sending(x);
	}
	ok(good, "5000 lines are answered one after the other");

	char *big = malloc((4 << 20) + 1);
	memset(big, 'x', 4 << 20);
	big[4 << 20] = 0;
	rf_exec_send(x, big, 4 << 20);
	ok(rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_OK && len == 4 << 20 &&
	           strlen(line) == len,
	   "a line of 4 MiB, which fits into no pipe, is sent and received");

	/* another descriptor that can be read ends the wait, but not before the command has the whole line */
	int p[2];
	if (pipe(p) || write(p[1], "", 1) != 1)
		abort();
	good = rf_exec_receive(x, p[0], &line, &len, &err) == RF_OK && !line;
	send_text(x, "last");
	good &= rf_exec_receive(x, p[0], &line, &len, &err) == RF_OK && (line || !rf_exec_sending(x));
	ok(good, "the wait ends when the other descriptor can be read");
	close(p[0]);
	close(p[1]);
	if (!line)
		rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err);
	rf_exec_close_input(x);
	ok(line && !strcmp(line, "last") && rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_EOF &&
	           rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_EOF,
	   "the end of the output is reported again by a second call");
	rf_exec_stop(x);

	/* three lines in one write, the last without a newline */
	x = start("printf 'a\\n\\nc'", 5);
	good = rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_OK && !strcmp(line, "a");
	good &= rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_OK && !strcmp(line, "") &&
	        len == 0;
	good &= rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_OK && !strcmp(line, "c") &&
	        len == 1;
	ok(good && rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_EOF,
	   "a last line without a newline is received");
	rf_exec_stop(x);
}

static void test_patience(void)
{
	struct rf_exec *x = start("sleep 60", 0.1);
	const char *line;
	size_t len;

	ok(rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_EDATA &&
	           strstr(err.msg, "0.1 s (--timeout)"),
	   "a command that does not answer in time is an error: %s", err.msg);
	rf_exec_stop(x);

	/* a command that writes slowly does not hang */
	x = start("for i in 1 2 3 4 5 6; do sleep .5; printf x; done; echo", 2.5);
	ok(rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_OK && !strcmp(line, "xxxxxx"),
	   "each received byte starts the time limit again");
	rf_exec_stop(x);

	/* a command that closed its input cannot answer, but may print the reason */
	x = start("exec <&-; sleep .1; echo sorry; exit 1", 5);
	char *big = calloc(1, 1 << 20);
	memset(big, 'x', (1 << 20) - 1);
	rf_exec_send(x, big, (1 << 20) - 1);
	ok(rf_exec_receive(x, RF_EXEC_ALONE, &line, &len, &err) == RF_OK && !strcmp(line, "sorry"),
	   "the last line of a command that closed its input is received");
	rf_exec_stop(x);
	ok(nothing_left(), "no process is left after the last command");
}

int main(void)
{
	test_ends();
	test_lines();
	test_patience();
	return tap_end();
}
