/* SPDX-License-Identifier: Apache-2.0 */
/* WRITEs of the host by the heartbeat queue of a link. */
#include "base/clock.h"
#include "rdma/pair_test.h"
#include "rdma/rdma_heartbeat.h"

#define PIECES 4u

static enum oriel_status heartbeat_await(struct side *s)
{
	uint64_t deadline = ori_deadline(LONG_NS);
	enum oriel_status status;

	do
		status = ori_rdma_heartbeat_poll(ori_rdma_link_heartbeat(s->link));
	while (status == ORIEL_AGAIN && !ori_deadline_passed(deadline));
	return status;
}

/* Posts words of @value to up to four offsets, the last of them first in memory. */
static enum oriel_status heartbeat_write(struct pair *p, const uint64_t *value, unsigned count)
{
	struct ori_rdma_piece pieces[PIECES];
	unsigned i;

	for (i = 0; i < count; i++)
		pieces[i] = (struct ori_rdma_piece){DATA - 8 * i, value, sizeof(*value)};
	return ori_rdma_heartbeat_post(ori_rdma_link_heartbeat(p->a.link), &p->b.rkeys, pieces,
				       count);
}

/* The last word says that all are there; it may wait for a poll to be posted. */
static void pieces_arrive_in_their_order(const char *config)
{
	struct pair *p = pair_open(config);
	uint64_t value, deadline;
	unsigned i;

	for (value = 1; value <= 100; value++) {
		deadline = ori_deadline(LONG_NS);
		assert_int_equal(heartbeat_write(p, &value, PIECES), ORIEL_OK);
		while (ori_dev_link_read_signal(word(&p->b, DATA - 8 * (PIECES - 1))) != value) {
			(void)ori_rdma_heartbeat_poll(ori_rdma_link_heartbeat(p->a.link));
			assert_false(ori_deadline_passed(deadline));
		}
		for (i = 0; i < PIECES; i++)
			assert_int_equal(ori_dev_link_read_signal(word(&p->b, DATA - 8 * i)),
					 value);
		assert_int_equal(heartbeat_await(&p->a), ORIEL_OK);
	}
	pair_close(p);
}

static void test_pieces_arrive_in_their_order(void **state)
{
	(void)state;
	pieces_arrive_in_their_order("delay=200us");
	pieces_arrive_in_their_order("reorder=200us");
}

/* Pieces of up to ORI_RDMA_PIECE bytes, which the caller may change at once. */
static void test_a_piece_is_copied(void **state)
{
	struct pair *p = pair_open("delay=5ms");
	char bytes[ORI_RDMA_PIECE];
	struct ori_rdma_piece piece = {DATA, bytes, sizeof(bytes)};
	unsigned i;

	(void)state;
	memset(bytes, 7, sizeof(bytes));
	assert_int_equal(ori_rdma_heartbeat_post(ori_rdma_link_heartbeat(p->a.link), &p->b.rkeys,
						 &piece, 1),
			 ORIEL_OK);
	memset(bytes, 8, sizeof(bytes));
	assert_int_equal(heartbeat_await(&p->a), ORIEL_OK);
	for (i = 0; i < sizeof(bytes); i++)
		assert_int_equal(p->b.memory[DATA + i], 7);
	assert_int_equal(p->b.memory[DATA + sizeof(bytes)], 0);
	pair_close(p);
}

/* The peer answers late: no post is taken in part, and none is lost. */
static void test_a_full_queue_takes_all_of_a_post_or_nothing(void **state)
{
	struct pair *p = pair_open("delay=200ms");
	uint64_t value = 0;

	(void)state;
	do
		value++;
	while (heartbeat_write(p, &value, 3) == ORIEL_OK);
	assert_int_equal(value, ORI_RDMA_HEARTBEAT_DEPTH / 3 + 1);
	assert_int_equal(ori_rdma_heartbeat_poll(ori_rdma_link_heartbeat(p->a.link)), ORIEL_AGAIN);
	assert_int_equal(heartbeat_await(&p->a), ORIEL_OK);
	assert_int_equal(ori_dev_link_read_signal(word(&p->b, DATA)), value - 1);
	assert_int_equal(ori_dev_link_read_signal(word(&p->b, DATA - 16)), value - 1);
	assert_int_equal(heartbeat_write(p, &value, 3), ORIEL_OK);
	assert_int_equal(heartbeat_await(&p->a), ORIEL_OK);
	assert_int_equal(ori_dev_link_read_signal(word(&p->b, DATA - 16)), value);
	pair_close(p);
}

static void test_a_bad_address_ends_the_heartbeat_queue_alone(void **state)
{
	struct pair *p = pair_open(NULL);
	struct ori_rdma_piece pieces[] = {{DATA, "12345678", 8}, {LENGTH, "12345678", 8}};
	struct oriel_dev_fault record;
	uint64_t value = 1;

	(void)state;
	assert_int_equal(heartbeat_write(p, &value, 2), ORIEL_OK);
	assert_int_equal(heartbeat_await(&p->a), ORIEL_OK);
	assert_int_equal(ori_rdma_heartbeat_post(ori_rdma_link_heartbeat(p->a.link), &p->b.rkeys,
						 pieces, 2),
			 ORIEL_OK);
	assert_int_equal(heartbeat_await(&p->a), ORIEL_ERR_ACCESS);
	assert_int_equal(heartbeat_write(p, &value, 1), ORIEL_ERR_ACCESS);
	assert_int_equal(ori_rdma_heartbeat_poll(ori_rdma_link_heartbeat(p->a.link)),
			 ORIEL_ERR_ACCESS);
	ori_rdma_heartbeat_fault(ori_rdma_link_heartbeat(p->a.link), &record);
	assert_int_equal(record.status, ORIEL_ERR_ACCESS);
	assert_int_equal(record.what, ORIEL_DEV_LINK);
	assert_int_equal(record.peer, 1);
	assert_int_equal(record.id, p->a.qps.heartbeat_qpn);
	assert_int_equal(ori_dev_queue_err_syndrome(record.seen), ORIEL_SYNDROME_REMOTE_ACCESS);
	assert_int_equal(ori_dev_queue_err_index(record.seen), 3);

	assert_true(ori_dev_link_signal(p->a.dev, oriel_dev_thread(), remote(&p->b, SIGNAL), 1) >=
		    0);
	assert_int_equal(ori_dev_link_fence(p->a.dev, oriel_dev_thread(), 0), ORIEL_OK);
	pair_close(p);
}

static void test_a_peer_with_a_closed_link_is_lost(void **state)
{
	struct pair *p = pair_open("ack=2ms");
	struct oriel_dev_fault record;
	uint64_t value = 1;

	(void)state;
	ori_rdma_link_close(p->b.link);
	assert_int_equal(heartbeat_write(p, &value, 1), ORIEL_OK);
	assert_int_equal(heartbeat_await(&p->a), ORIEL_ERR_PEER);
	ori_rdma_heartbeat_fault(ori_rdma_link_heartbeat(p->a.link), &record);
	assert_int_equal(record.status, ORIEL_ERR_PEER);
	assert_int_equal(record.what, ORIEL_DEV_LOST);
	pair_close(p);
}

/* Waits for the next event of the HCA that is of @qpn. */
static void heartbeat_event(struct side *s, uint32_t qpn, struct ori_rdma_event *event)
{
	uint64_t deadline = ori_deadline(LONG_NS);

	do
		assert_false(ori_deadline_passed(deadline));
	while (ori_rdma_poll_event(s->rdma, event) != ORIEL_OK || event->of.qpn != qpn);
}

/* At both ends: the one that posted, and the one that rejected it and has posted nothing. */
static void test_an_event_of_a_heartbeat_queue_is_explained(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_keys wrong = {{0}};
	struct ori_rdma_piece piece = {DATA, "12345678", 8};
	struct oriel_dev_fault record;
	struct ori_rdma_event event;

	(void)state;
	assert_int_equal(ori_rdma_heartbeat_post(ori_rdma_link_heartbeat(p->a.link), &wrong, &piece,
						 1),
			 ORIEL_OK);
	heartbeat_event(&p->a, p->a.qps.heartbeat_qpn, &event);
	assert_true(ori_rdma_link_explain(p->a.link, &event, &record));
	assert_int_equal(record.status, ORIEL_ERR_ACCESS);
	assert_int_equal(record.what, ORIEL_DEV_LINK);
	assert_int_equal(record.id, p->a.qps.heartbeat_qpn);
	event.rail = 1;
	assert_false(ori_rdma_link_explain(p->a.link, &event, &record));

	event = (struct ori_rdma_event){
		.of = {.status = ORIEL_ERR_PEER,
		       .qpn = p->b.qps.heartbeat_qpn,
		       .syndrome = ORIEL_SYNDROME_RETRY_EXCEEDED},
	};
	assert_true(ori_rdma_link_explain(p->b.link, &event, &record));
	assert_int_equal(record.status, ORIEL_ERR_PEER);
	assert_int_equal(record.what, ORIEL_DEV_LOST);
	assert_int_equal(record.peer, 0);
	pair_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_arrive_in_their_order),
		cmocka_unit_test(test_a_piece_is_copied),
		cmocka_unit_test(test_a_full_queue_takes_all_of_a_post_or_nothing),
		cmocka_unit_test(test_a_bad_address_ends_the_heartbeat_queue_alone),
		cmocka_unit_test(test_a_peer_with_a_closed_link_is_lost),
		cmocka_unit_test(test_an_event_of_a_heartbeat_queue_is_explained),
	};

	return cmocka_run_group_tests_name("rdma_heartbeat", tests, NULL, NULL);
}
