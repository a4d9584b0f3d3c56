/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of env.c: jobs as launchers describe them, errors, ports and inherited listeners. */
#include <oriel/bootstrap.h>
#include <oriel/status.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/endpoint.h"

#define SHORT 100000000u /* ns */

static const char *const names[] = {"RANK",
				    "WORLD_SIZE",
				    "MASTER_ADDR",
				    "MASTER_PORT",
				    "ORIEL_PORT",
				    "ORIEL_LISTEN_FD",
				    "ORIEL_TIMEOUT",
				    "ORIEL_JOB_KEY",
				    "ORIEL_TIMOUT",
				    "TORCHELASTIC_USE_AGENT_STORE",
				    "ORIEL_BOOTSTRAP",
				    "PMIX_RANK",
				    "JOB_COMPLETION_INDEX",
				    "SLURM_STEP_ID",
				    "PMI_SIZE",
				    "SLURM_STEP_NUM_TASKS",
				    "OMPI_COMM_WORLD_SIZE"};

static int forget_all(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	return 0;
}

/* @environment is "NAME=value NAME=value ..."; for ORIEL_OK @part is "". */
static void check_open(const char *environment, enum oriel_status expected, const char *part)
{
	char copy[200], *word, *rest = copy;
	struct oriel_bootstrap b;
	enum oriel_status status;

	forget_all(NULL);
	strcpy(copy, environment);
	while ((word = strsep(&rest, " "))) {
		char *value = strchr(word, '=');

		if (value) {
			*value = '\0';
			setenv(word, value + 1, 1);
		}
	}
	status = oriel_bootstrap_open_env(SHORT, &b);
	if (status != expected || !strstr(oriel_last_error(), part))
		print_error("'%s': %s\n", environment, oriel_last_error());
	assert_int_equal(status, expected);
	assert_non_null(strstr(oriel_last_error(), part));
	if (status == ORIEL_OK) {
		assert_int_equal(b.size, 1);
		assert_int_equal(b.rank, 0);
		assert_int_equal(b.ops->barrier(b.context, SHORT), ORIEL_OK);
		oriel_bootstrap_close(&b);
	}
}

static void test_one_rank_needs_no_peer(void **state)
{
	(void)state;
	check_open("", ORIEL_OK, "");
	check_open("RANK=0 WORLD_SIZE=1", ORIEL_OK, "");
	check_open("RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=1", ORIEL_OK, "");
	assert_int_equal(oriel_bootstrap_open_env(0, NULL), ORIEL_ERR_INVALID);
}

static char warning[300];

static void keep_warning(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	if (level == ORIEL_LOG_WARN)
		snprintf(warning, sizeof(warning), "%s", message);
}

/* @environment causes a warning with @part in it; NULL: it causes none. */
static void check_warning(const char *environment, const char *part)
{
	warning[0] = '\0';
	oriel_log_set_sink(keep_warning, NULL);
	check_open(environment, ORIEL_OK, "");
	oriel_log_set_sink(NULL, NULL);
	if (part)
		assert_non_null(strstr(warning, part));
	else
		assert_string_equal(warning, "");
}

static void test_an_unknown_launcher_causes_a_warning(void **state)
{
	(void)state;
	check_warning("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_SIZE is '4'");
	check_warning("PMI_SIZE=2", "PMI_SIZE is '2'");
	check_warning("SLURM_STEP_NUM_TASKS=8", "SLURM_STEP_NUM_TASKS is '8'");
	check_warning("OMPI_COMM_WORLD_SIZE=1 PMI_SIZE= SLURM_STEP_NUM_TASKS=x", NULL);
	check_warning("RANK=0 WORLD_SIZE=1 OMPI_COMM_WORLD_SIZE=4", NULL);
}

static void test_a_bad_environment_is_an_error_that_names_it(void **state)
{
	static const char *const bad[][2] = {
		{"RANK=0 WORLD_SIZE=four", "WORLD_SIZE is 'four'"},
		{"RANK=0 WORLD_SIZE=-1", "WORLD_SIZE is '-1'"},
		{"RANK=0 WORLD_SIZE=0", "WORLD_SIZE is 0"},
		{"RANK=0 WORLD_SIZE=", "WORLD_SIZE is empty"},
		{"RANK=0 WORLD_SIZE=99999999", "WORLD_SIZE is '99999999'"},
		{"RANK=4 WORLD_SIZE=4", "RANK is 4, but WORLD_SIZE is 4"},
		{"RANK=x WORLD_SIZE=4", "RANK is 'x'"},
		{"WORLD_SIZE=4", "RANK is not set, but WORLD_SIZE is '4'"},
		{"RANK=1", "WORLD_SIZE is not set, but RANK is '1'"},
		{"MASTER_ADDR=localhost", "WORLD_SIZE is not set, but MASTER_ADDR is 'localhost'"},
		{"RANK=1 WORLD_SIZE=4", "MASTER_ADDR is not set"},
		{"RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1", "MASTER_PORT is not set"},
		{"RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=0", "MASTER_PORT is 0"},
		{"RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=65536",
		 "MASTER_PORT is '65536'"},
		{"RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 ORIEL_PORT=x", "ORIEL_PORT is 'x'"},
		{"RANK=0 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 ORIEL_LISTEN_FD=0",
		 "ORIEL_LISTEN_FD is 0"},
		{"RANK=0 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 ORIEL_LISTEN_FD=999",
		 "ORIEL_LISTEN_FD is 999: Bad file descriptor"},
		{"RANK=0 WORLD_SIZE=4 ORIEL_TIMOUT=1", "is ORIEL_TIMEOUT meant?"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_open(bad[i][0], ORIEL_ERR_CONFIG, bad[i][1]);
}

/* A bound socket that does not listen reserves a port, which refuses connections. */
static int reserve(uint16_t *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static void test_the_port_is_where_torchrun_leaves_room(void **state)
{
	char environment[200], text[60];
	uint16_t port;
	int fd = reserve(&port);

	(void)state;
	snprintf(environment, sizeof(environment),
		 "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=%u "
		 "TORCHELASTIC_USE_AGENT_STORE=True",
		 port - 1);
	snprintf(text, sizeof(text), "rank 1 of 2 cannot connect to rank 0 at 127.0.0.1:%u", port);
	check_open(environment, ORIEL_ERR_TIMEOUT, text);
	snprintf(environment, sizeof(environment),
		 "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 ORIEL_PORT=%u "
		 "TORCHELASTIC_USE_AGENT_STORE=True",
		 port);
	check_open(environment, ORIEL_ERR_TIMEOUT, text);
	close(fd);
}

static void test_a_used_port_is_named(void **state)
{
	char environment[200], text[60];
	uint16_t port;
	int fd = reserve(&port);

	(void)state;
	snprintf(environment, sizeof(environment),
		 "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=%u", port);
	snprintf(text, sizeof(text), "127.0.0.1:%u: Address already in use", port);
	check_open(environment, ORIEL_ERR_SYSTEM, text);
	close(fd);
}

static void test_an_inherited_listener_is_used(void **state)
{
	char environment[200];
	uint16_t port;
	int fd = reserve(&port);

	(void)state;
	assert_int_equal(listen(fd, 1), 0);
	snprintf(environment, sizeof(environment),
		 "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=%u ORIEL_LISTEN_FD=%d",
		 port, fd);
	check_open(environment, ORIEL_ERR_TIMEOUT, "rank 1 of 2 did not join within 0.1 s");
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_null(getenv("ORIEL_LISTEN_FD"));
	/* The process retains it for the next job at the port, so no other process gets the port.
	 */
	*strstr(environment, " ORIEL_LISTEN_FD") = '\0';
	check_open(environment, ORIEL_ERR_TIMEOUT, "rank 1 of 2 did not join within 0.1 s");
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	check_open(environment, ORIEL_ERR_TIMEOUT, "rank 1 of 2 did not join within 0.1 s");
}

/* After the first job the number is that of another file, which the next job does not touch. */
static void test_an_inherited_listener_is_taken_once(void **state)
{
	char number[16], port_text[16];
	struct oriel_bootstrap b;
	uint16_t port;
	int fd = reserve(&port);

	(void)state;
	assert_int_equal(listen(fd, 1), 0);
	forget_all(NULL);
	snprintf(number, sizeof(number), "%d", fd);
	snprintf(port_text, sizeof(port_text), "%u", port);
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("MASTER_PORT", port_text, 1);
	setenv("ORIEL_LISTEN_FD", number, 1);
	assert_int_equal(oriel_bootstrap_open_env(SHORT, &b), ORIEL_ERR_TIMEOUT);
	assert_int_equal(dup2(STDERR_FILENO, fd), fd);
	assert_int_equal(oriel_bootstrap_open_env(SHORT, &b), ORIEL_ERR_TIMEOUT);
	assert_non_null(strstr(oriel_last_error(), "rank 1 of 2 did not join within 0.1 s"));
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
}

/* A descriptor that is not a listener at the job's port stays as it is, and the error names it. */
static void test_another_listener_is_not_taken(void **state)
{
	char environment[200], text[80];
	int other, plain, unix_one, kinds[3];
	uint16_t port, other_port;
	size_t i;

	(void)state;
	other = reserve(&other_port);
	assert_int_equal(listen(other, 1), 0);
	plain = reserve(&port);
	unix_one = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	kinds[0] = other;
	kinds[1] = plain;
	kinds[2] = unix_one;
	for (i = 0; i < 3; i++) {
		static const char *const why[] = {"which listens at 127.0.0.1:",
						  "which does not listen",
						  "which is no TCP socket"};

		snprintf(environment, sizeof(environment),
			 "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=%u "
			 "ORIEL_LISTEN_FD=%d",
			 port, kinds[i]);
		snprintf(text, sizeof(text), "ORIEL_LISTEN_FD is %d, %s", kinds[i], why[i]);
		check_open(environment, ORIEL_ERR_CONFIG, text);
		assert_non_null(getenv("ORIEL_LISTEN_FD"));
		assert_int_equal(fcntl(kinds[i], F_GETFL) & O_NONBLOCK, 0);
		close(kinds[i]);
	}
}

static bool has_ipv6(void)
{
	const struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool is_there = fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof(a)) == 0;

	if (fd >= 0)
		close(fd);
	return is_there;
}

static unsigned keyless_warnings;

static void count_keyless(void *context, enum oriel_log_level level, const char *text)
{
	(void)context;
	if (level == ORIEL_LOG_WARN && strstr(text, "this job has no key and listens at "))
		keyless_warnings++;
}

static void open_at(const char *host, const char *more, enum oriel_status expected,
		    const char *part)
{
	char environment[200];
	uint16_t port;

	close(reserve(&port));
	snprintf(environment, sizeof(environment),
		 "RANK=0 WORLD_SIZE=2 MASTER_ADDR=%s MASTER_PORT=%u %s", host, port, more);
	check_open(environment, expected, part);
}

static void test_a_job_without_a_key_warns_once_or_is_forbidden(void **state)
{
	static const char joins[] = "rank 1 of 2 did not join within 0.1 s",
			  key[] = "ORIEL_JOB_KEY=00112233445566778899aabbccddeeff";

	(void)state;
	oriel_log_set_sink(count_keyless, NULL);
	open_at("127.0.0.1", "", ORIEL_ERR_TIMEOUT, joins);
	open_at("127.8.0.1", "", ORIEL_ERR_TIMEOUT, joins);
	if (has_ipv6()) {
		open_at("::1", "", ORIEL_ERR_TIMEOUT, joins);
		open_at("::ffff:127.0.0.1", "", ORIEL_ERR_TIMEOUT, joins);
	}
	open_at("0.0.0.0", key, ORIEL_ERR_TIMEOUT, joins);
	assert_int_equal(keyless_warnings, 0);
	open_at("0.0.0.0", "ORIEL_JOB_KEY=required", ORIEL_ERR_CONFIG,
		"ORIEL_JOB_KEY is 'required', but this job has no key: set ORIEL_JOB_KEY to 32 or "
		"more random hex digits");
	open_at("127.0.0.1", "ORIEL_JOB_KEY=required", ORIEL_ERR_CONFIG, "no key");
	assert_int_equal(keyless_warnings, 0);
	open_at("0.0.0.0", "", ORIEL_ERR_TIMEOUT, joins);
	assert_int_equal(keyless_warnings, 1);
	open_at("0.0.0.0", "", ORIEL_ERR_TIMEOUT, joins);
	assert_int_equal(keyless_warnings, 1);
	oriel_log_set_sink(NULL, NULL);
	/* A job of one rank listens nowhere. */
	check_open("RANK=0 WORLD_SIZE=1 ORIEL_JOB_KEY=required", ORIEL_OK, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_rank_needs_no_peer),
		cmocka_unit_test(test_an_unknown_launcher_causes_a_warning),
		cmocka_unit_test(test_a_bad_environment_is_an_error_that_names_it),
		cmocka_unit_test(test_the_port_is_where_torchrun_leaves_room),
		cmocka_unit_test(test_a_used_port_is_named),
		cmocka_unit_test(test_an_inherited_listener_is_used),
		cmocka_unit_test(test_an_inherited_listener_is_taken_once),
		cmocka_unit_test(test_another_listener_is_not_taken),
		cmocka_unit_test(test_a_job_without_a_key_warns_once_or_is_forbidden),
	};

	return cmocka_run_group_tests(tests, forget_all, forget_all);
}
