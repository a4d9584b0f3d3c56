/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that a rank drops while it waits for its peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/exchange.h"
#include "comm/mesh.h"
#include "net/conn.h"

#define FLOOD 20u
#define LIMIT_NS 500000000u

struct heard {
	unsigned records;
	char message[200]; /* the last one */
};

static void hear(void *context, enum oriel_log_level level, const char *message)
{
	struct heard *heard = context;

	(void)level;
	heard->records++;
	snprintf(heard->message, sizeof(heard->message), "%s", message);
}

/* This process, which no rank is in, connects @count times; the rank waits until its limit. */
static void flood(struct oriel_comm *comm, const uint8_t *name, unsigned count, bool is_silent)
{
	const uint32_t hello[2] = {ORI_COMM_WIRE, 1}; /* as rank 1 sends it */
	static struct ori_net_conn conn[FLOOD];
	unsigned i;
	int fd;

	for (i = 0; i < count; i++) {
		assert_int_equal(ori_fdsock_connect(name, getuid(), getpid(),
						    ori_deadline(LIMIT_NS), &fd),
				 ORIEL_OK);
		ori_net_open(&conn[i], fd, NULL);
		if (!is_silent)
			assert_int_equal(ori_net_send(&conn[i], 1, hello, sizeof(hello)), ORIEL_OK);
	}
	assert_int_equal(ori_mesh_connect(comm, NULL, 0, ori_deadline(LIMIT_NS)),
			 ORIEL_ERR_TIMEOUT);
	for (i = 0; i < count; i++)
		ori_net_close(&conn[i]);
}

/* A connection that sends nothing may still become a peer's. */
static void test_a_flood_of_strange_connections_is_a_warning_a_second(void **state)
{
	struct ori_host hosts[2] = {{.token = 1, .pid = 1}, {.token = 2, .pid = 1}};
	struct oriel_dev_rank of[2] = {{.path = ORIEL_PATH_SELF}, {.path = ORIEL_PATH_MAPPED}};
	struct oriel_comm comm = {.size = 2, .hosts = hosts, .host_paths.of = of};
	uint8_t name[ORI_FDSOCK_NAME];
	struct heard heard = {0};
	char text[200];

	(void)state;
	assert_int_equal(ori_mesh_open(&comm, name), ORIEL_OK);
	oriel_log_set_sink(hear, &heard);
	flood(&comm, name, FLOOD, true);
	assert_int_equal(heard.records, 0);
	flood(&comm, name, FLOOD, false);
	assert_int_equal(heard.records, 1);
	snprintf(text, sizeof(text),
		 "a connection from process %d of user %u is dropped: it is of no rank that this "
		 "rank awaits",
		 (int)getpid(), (unsigned)getuid());
	assert_string_equal(heard.message, text);

	usleep(1000000);
	flood(&comm, name, 0, false);
	assert_int_equal(heard.records, 2);
	snprintf(text, sizeof(text), "%u more connections ended as those of the lines before",
		 FLOOD - 1);
	assert_string_equal(heard.message, text);
	oriel_log_set_sink(NULL, NULL);
	ori_mesh_close(&comm, false);
}

/* Rank 1 is a child of this process, and exits instead of connecting. */
static void test_a_rank_that_exits_is_not_awaited(void **state)
{
	struct ori_host hosts[2] = {{.token = 1, .pid_ns = 1}, {.token = 2, .pid_ns = 1}};
	struct oriel_dev_rank of[2] = {{.path = ORIEL_PATH_SELF}, {.path = ORIEL_PATH_MAPPED}};
	struct oriel_comm comm = {.size = 2, .hosts = hosts, .host_paths.of = of};
	uint64_t begun = ori_clock_ns();
	uint8_t name[ORI_FDSOCK_NAME];
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		usleep(LIMIT_NS / 1000);
		_exit(0);
	}
	hosts[1].pid = (uint32_t)child;
	assert_int_equal(ori_mesh_open(&comm, name), ORIEL_OK);
	assert_int_equal(ori_mesh_connect(&comm, NULL, 0, ori_deadline(20u * LIMIT_NS)),
			 ORIEL_ERR_PEER);
	assert_non_null(strstr(oriel_last_error(), "rank 1 (process "));
	assert_non_null(strstr(oriel_last_error(), "exited"));
	assert_true(ori_clock_ns() - begun < 10u * LIMIT_NS);
	ori_mesh_close(&comm, false);
	assert_int_equal(waitpid(child, NULL, 0), child);

	/* Its number is no process any more. */
	assert_int_equal(ori_mesh_open(&comm, name), ORIEL_OK);
	assert_int_equal(ori_mesh_connect(&comm, NULL, 0, ori_deadline(20u * LIMIT_NS)),
			 ORIEL_ERR_PEER);
	ori_mesh_close(&comm, false);
}

/* Rank 1 is a thread of this process, which does not connect. */
static void test_a_rank_that_is_missing_is_named(void **state)
{
	struct ori_host hosts[3] = {{.token = 1, .pid = 1},
				    {.token = 1, .pid = 1},
				    {.token = 2, .pid = 1}};
	struct oriel_dev_rank of[3] = {{.path = ORIEL_PATH_SELF},
				       {.path = ORIEL_PATH_MAPPED},
				       {.path = ORIEL_PATH_MAPPED}};
	struct oriel_comm comm = {.size = 3, .hosts = hosts, .host_paths.of = of};
	uint8_t name[ORI_FDSOCK_NAME];

	(void)state;
	assert_int_equal(ori_mesh_open(&comm, name), ORIEL_OK);
	assert_int_equal(ori_mesh_connect(&comm, NULL, 0, ori_deadline(LIMIT_NS / 10)),
			 ORIEL_ERR_TIMEOUT);
	assert_non_null(strstr(oriel_last_error(), "rank 2"));
	ori_mesh_close(&comm, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_flood_of_strange_connections_is_a_warning_a_second),
		cmocka_unit_test(test_a_rank_that_exits_is_not_awaited),
		cmocka_unit_test(test_a_rank_that_is_missing_is_named),
	};

	return cmocka_run_group_tests_name("mesh", tests, NULL, NULL);
}
