/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of what a relay between two HCAs sees, and of what it may change. */
#include "hca/soft/soft_peer_test.h"

#define MARK "the marker of a payload"
#define MARKED 4080u /* bytes of a payload of markers */

/* Put MARK by the engine to the test, which has @key; returns whether it is among the bytes. */
static bool is_seen_on_the_way(struct stage *s, const struct ori_key *key)
{
	struct soft_header h;
	struct relay relay;
	struct end end;
	char *payload;
	bool is_seen;

	for (size_t i = 0; i + sizeof(MARK) <= MARKED; i += sizeof(MARK))
		memcpy(s->side.memory + i, MARK, sizeof(MARK));
	payload = malloc(MARKED);
	assert_non_null(payload);
	side_write(&s->side, &s->side, 0, 0, MARKED, 0);
	assert_int_equal(accept_with(s, relay_open(&relay, take_call(s)), key, &end, &relay),
			 ORIEL_OK);
	assert_int_equal(end_read(&end, &h, sizeof(h)), ORIEL_OK);
	assert_int_equal(h.type, SOFT_WRITE);
	assert_int_equal(h.length, MARKED);
	assert_int_equal(end_read(&end, payload, MARKED), ORIEL_OK);
	assert_memory_equal(payload, s->side.memory, MARKED);
	assert_true(relay.moved[0] >= MARKED && relay.moved[0] <= SEEN);
	is_seen = memmem(relay.seen, relay.moved[0], MARK, sizeof(MARK)) != NULL;
	end_close(&end);
	relay_close(&relay);
	free(payload);
	return is_seen;
}

static void test_a_sniffer_sees_no_payload(void **state)
{
	struct ori_key key = key_of(KEY);

	assert_false(is_seen_on_the_way(*state, &key));
}

static void test_a_job_without_a_key_sends_plainly(void **state)
{
	struct ori_key none = key_of(NULL);

	assert_true(is_seen_on_the_way(*state, &none));
}

/* The WRITE is dropped, and the connection, the other direction of which the engine has lost. */
static void test_a_byte_altered_on_the_way_in_writes_nothing(void **state)
{
	struct ori_key key = key_of(KEY);
	struct stage *s = *state;
	struct relay relay;
	struct end end;
	char byte;

	enter_at(s, relay_open(&relay, dial(s)), &key, &end, &relay);
	say_write(s, &end, 5);
	while (value_of(s) != 5)
		end_wait(&end, ori_deadline(PATIENCE_NS));
	relay.flip[1] = (long)relay.moved[1] + 30;
	say_write(s, &end, 6);
	assert_true(end_read(&end, &byte, 1) != ORIEL_OK);
	assert_true(value_of(s) == 5);
	await_log(s, "a connection is lost: the connection has bytes that were altered on the way");
	end_close(&end);
	relay_close(&relay);
}

/* The peer notices, and its alert names the reason to the engine. */
static void test_a_byte_altered_on_the_way_out_fails_the_queue(void **state)
{
	struct ori_key key = key_of(KEY);
	struct ori_hca_event event = {.text = ""};
	struct stage *s = *state;
	struct relay relay;
	enum oriel_status status;
	struct soft_header h;
	struct end end;
	uint64_t index;

	index = side_signal(&s->side, &s->side, 0);
	assert_int_equal(accept_with(s, relay_open(&relay, take_call(s)), &key, &end, &relay),
			 ORIEL_OK);
	assert_int_equal(end_read(&end, &h, sizeof(h)), ORIEL_OK);
	relay.flip[0] = (long)relay.moved[0] + 30;
	/* The engine repeats a frame that has no reply: the relay may have moved it already. */
	do
		status = end_read(&end, &h, sizeof(h));
	while (status == ORIEL_OK);
	assert_int_equal(status, ORIEL_ERR_AUTH);
	for (unsigned i = 0; i < 100; i++)
		end_wait(&end, ori_deadline(PATIENCE_NS));
	await_log(s, "a connection is lost: the connection has bytes that were altered on the way");
	end_close(&end);
	assert_int_not_equal(side_wait(&s->side, index), ORIEL_OK);
	assert_int_equal(side_syndrome(&s->side), ORIEL_SYNDROME_RETRY_EXCEEDED);
	assert_int_equal(HCA.poll_event(s->hca, &event), ORIEL_OK);
	assert_non_null(strstr(event.text, "altered"));
	relay_close(&relay);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(KEY, test_a_sniffer_sees_no_payload),
		WITH(NULL, test_a_job_without_a_key_sends_plainly),
		WITH(KEY, test_a_byte_altered_on_the_way_in_writes_nothing),
		WITH(KEY, test_a_byte_altered_on_the_way_out_fails_the_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
