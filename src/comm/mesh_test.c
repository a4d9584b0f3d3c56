/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that a rank drops while it waits for its peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/mesh.h"

#define FLOOD 20u
#define LIMIT_NS 500000000u

struct heard {
	unsigned records;
	char message[200];
};

static void hear(void *context, enum oriel_log_level level, const char *message)
{
	struct heard *heard = context;

	(void)level;
	heard->records++;
	snprintf(heard->message, sizeof(heard->message), "%s", message);
}

/* This process, which no rank is in, connects @count times; the rank waits until its limit. */
static void flood(struct oriel_comm *comm, const uint8_t *name, unsigned count)
{
	int fd[FLOOD];
	unsigned i;

	for (i = 0; i < count; i++)
		assert_int_equal(ori_fdsock_connect(name, getuid(), getpid(),
						    ori_deadline(LIMIT_NS), &fd[i]),
				 ORIEL_OK);
	assert_int_equal(ori_mesh_connect(comm, NULL, 0, ori_deadline(LIMIT_NS)),
			 ORIEL_ERR_TIMEOUT);
	for (i = 0; i < count; i++)
		close(fd[i]);
}

static void test_a_flood_of_strange_connections_is_one_warning_a_second(void **state)
{
	struct ori_host hosts[2] = {{.token = 1, .pid = 1}, {.token = 2, .pid = 1}};
	struct oriel_dev_rank of[2] = {{.path = ORIEL_PATH_SELF}, {.path = ORIEL_PATH_MAPPED}};
	struct oriel_comm comm = {.size = 2, .hosts = hosts, .host_paths.of = of};
	uint8_t name[ORI_FDSOCK_NAME];
	struct heard heard = {0};
	char text[100];

	(void)state;
	assert_int_equal(ori_mesh_open(&comm, name), ORIEL_OK);
	oriel_log_set_sink(hear, &heard);
	flood(&comm, name, FLOOD);
	assert_int_equal(heard.records, 1);
	snprintf(text, sizeof(text), "rank 0: dropped a connection of process %d", (int)getpid());
	assert_string_equal(heard.message, text);

	usleep(1000000);
	flood(&comm, name, 1);
	assert_int_equal(heard.records, 2);
	snprintf(text, sizeof(text), "rank 0: dropped a connection of process %d, and %u before it",
		 (int)getpid(), FLOOD - 1);
	assert_string_equal(heard.message, text);
	oriel_log_set_sink(NULL, NULL);
	ori_mesh_close(&comm, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_flood_of_strange_connections_is_one_warning_a_second),
	};

	return cmocka_run_group_tests_name("mesh", tests, NULL, NULL);
}
