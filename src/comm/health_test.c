/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/wait.h>

#include "comm/comm.h"

static struct oriel_dev_rank ranks[4] = {{.path = ORIEL_PATH_SELF},
					 {.path = ORIEL_PATH_MAPPED},
					 {.path = ORIEL_PATH_MAPPED},
					 {.path = ORIEL_PATH_MAPPED}};

static struct oriel_comm *make_comm(void)
{
	struct oriel_comm *comm = calloc(1, sizeof(*comm));

	assert_non_null(comm);
	comm->control = calloc(1, sizeof(*comm->control));
	assert_non_null(comm->control);
	comm->size = 4;
	comm->of = ranks;
	return comm;
}

static void free_comm(struct oriel_comm *comm)
{
	free(comm->control);
	free(comm);
}

static void test_a_new_communicator_is_well(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_health health;
	char text[64];

	(void)state;
	assert_int_equal(ori_comm_check(comm), ORIEL_OK);
	assert_int_equal(oriel_comm_health(comm, &health), ORIEL_OK);
	assert_int_equal(health.status, ORIEL_OK);
	assert_int_equal(health.rank, -1);
	oriel_health_text(&health, text, sizeof(text));
	assert_string_equal(text, "all is well");
	free_comm(comm);
}

static void test_the_first_cause_stays(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_health health;

	(void)state;
	ori_comm_break(comm, ORIEL_ERR_PEER, ORIEL_DEV_LOST, 2);
	ori_comm_break(comm, ORIEL_ERR_TIMEOUT, ORIEL_DEV_EXCHANGE, 1);
	oriel_comm_health(comm, &health);
	assert_int_equal(health.status, ORIEL_ERR_PEER);
	assert_int_equal(health.rank, 2);
	assert_int_equal(health.path, ORIEL_PATH_MAPPED);
	assert_int_equal(ori_comm_check(comm), ORIEL_ERR_PEER);
	assert_string_equal(oriel_last_error(), "rank 2 has gone without the others");
	free_comm(comm);
}

static void test_a_timeout_says_who_waited_for_what(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_dev_fault record = {.status = ORIEL_ERR_TIMEOUT,
					 .what = ORIEL_DEV_WAIT_SIGNAL_FROM,
					 .peer = 3,
					 .window = 1,
					 .id = 7,
					 .expected = 5,
					 .seen = 4,
					 .age_ns = 30000000000u};
	struct oriel_health health;
	char text[256];

	(void)state;
	oriel_dev_leave(&comm->control->health, &record);
	oriel_comm_health(comm, &health);
	oriel_health_text(&health, text, sizeof(text));
	assert_string_equal(text, "wait_signal_from waited 30.0 s in vain for rank 3 (mapped): "
				  "window 1, id 7, expected 5, seen 4");
	oriel_health_json(&health, text, sizeof(text));
	assert_string_equal(text, "{\"status\":\"ORIEL_ERR_TIMEOUT\",\"what\":\"wait_signal_from\","
				  "\"rank\":3,\"path\":\"mapped\",\"object\":1,\"id\":7,"
				  "\"expected\":5,\"seen\":4,\"age_ns\":30000000000}");
	free_comm(comm);
}

static void test_nonsense_written_by_a_peer_is_no_crash(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_dev_fault record = {.status = 12345, .what = 99999, .peer = 4000000000u};
	struct oriel_health health;

	(void)state;
	oriel_dev_leave(&comm->control->health, &record);
	oriel_comm_health(comm, &health);
	assert_int_equal(health.status, ORIEL_ERR_PROTOCOL);
	assert_string_equal(health.what, "unknown");
	assert_int_equal(health.rank, -1);
	free_comm(comm);
}

static void test_text_tells_the_length_it_needs(void **state)
{
	struct oriel_health health = {.status = ORIEL_OK, .what = "nothing", .rank = -1};
	char text[4];

	(void)state;
	assert_int_equal(oriel_health_text(&health, text, sizeof(text)), strlen("all is well"));
	assert_string_equal(text, "all");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_new_communicator_is_well),
		cmocka_unit_test(test_the_first_cause_stays),
		cmocka_unit_test(test_a_timeout_says_who_waited_for_what),
		cmocka_unit_test(test_nonsense_written_by_a_peer_is_no_crash),
		cmocka_unit_test(test_text_tells_the_length_it_needs),
	};

	return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
