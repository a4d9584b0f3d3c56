/* SPDX-License-Identifier: Apache-2.0 */
/* Links outlast a network that loses packets, and a peer over TCP that reads nothing. */
#include "hca/soft/soft_peer_test.h"

#include <poll.h>

#include "hca/soft/soft_link.h"

#define LARGE (UINT32_C(8) << 20) /* bytes, more than the buffers of two sockets hold */
#define CALLERS 8u

/*
 * A listener whose queue is full: the kernel ignores further connections (listen(2)), as if their
 * packets were lost. The connections of @fds fill it, -1 where there is none.
 */
static int listen_fully(uint16_t *port, int fds[CALLERS])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = listen_silently(port);
	bool is_full = false;

	assert_int_equal(listen(fd, 0), 0);
	a.sin_port = htons(*port);
	for (unsigned i = 0; i < CALLERS; i++) {
		struct pollfd p = {.fd = -1, .events = POLLOUT};

		fds[i] = -1;
		if (is_full)
			continue;
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		p.fd = fds[i];
		(void)connect(fds[i], (const struct sockaddr *)&a, sizeof(a));
		is_full = poll(&p, 1, 100) == 0;
	}
	assert_true(is_full);
	return fd;
}

/* The callers leave, so that the kernel listens again. */
static void let_in(int listener, int fds[CALLERS])
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	int fd;

	for (unsigned i = 0; i < CALLERS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	while (poll(&p, 1, 0) > 0 && (fd = accept(listener, NULL, NULL)) >= 0)
		close(fd);
}

/* The side of another QP, which is connected to the port of @listener. */
static struct stage another_peer(const struct stage *s, int listener, uint16_t port)
{
	struct ori_hca_qp_address peer;
	struct stage other = *s;

	side_open(&other.side,
		  &(struct side_attr){.hca = s->hca, .slot = 1, .depth = 16, .length = LARGE});
	other.mine.cookie++;
	other.mine.port = port;
	other.listener = listener;
	peer = other.side.address;
	memcpy(peer.hca_address, &other.mine, sizeof(other.mine));
	peer.qpn = QPN;
	peer.psn = PSN;
	assert_int_equal(HCA.connect_qp(other.side.qp, &peer), ORIEL_OK);
	return other;
}

static bool is_lost(const struct stage *s)
{
	struct soft_engine *e = engine_of(s);
	const struct soft_link *link;
	bool is_lost;

	ori_soft_engine_lock(e);
	link = soft_link_find(e, s->mine.cookie);
	is_lost = !link || soft_link_is_lost(link);
	ori_soft_engine_unlock(e);
	return is_lost;
}

/* The engine tries ::1 too, where no process listens: one address that is silent is enough. */
static void test_an_address_that_the_network_does_not_reach_is_dialled_again(void **state)
{
	struct ori_key key = key_of(KEY);
	struct soft_header h;
	struct stage other;
	int fds[CALLERS];
	struct end end;
	uint16_t port;
	int listener = listen_fully(&port, fds);

	other = another_peer(*state, listener, port);
	side_signal(&other.side, &other.side, 0);
	/* More than the first attempt has. */
	usleep(3000000);
	assert_false(is_lost(&other));
	let_in(listener, fds);
	assert_int_equal(accept_with(&other, take_call(&other), &key, &end, NULL), ORIEL_OK);
	assert_int_equal(end_read(&end, &h, sizeof(h)), ORIEL_OK);
	assert_int_equal(h.type, SOFT_ADD);
	end_close(&end);
	side_close(&other.side);
	close(listener);
}

static void test_a_port_at_which_no_process_listens_ends_the_link(void **state)
{
	struct stage other;
	uint16_t port;
	uint64_t index;

	/* No other socket gets the number before it is dialled: the kernel has just used it. */
	close(listen_silently(&port));
	other = another_peer(*state, -1, port);
	index = side_signal(&other.side, &other.side, 0);
	assert_int_not_equal(side_wait(&other.side, index), ORIEL_OK);
	assert_int_equal(side_syndrome(&other.side), ORIEL_SYNDROME_RETRY_EXCEEDED);
	assert_true(is_lost(&other));
	side_close(&other.side);
}

static void set_patience(const struct stage *s, unsigned looks)
{
	struct soft_engine *e = engine_of(s);

	ori_soft_engine_lock(e);
	e->silent_looks_max = looks;
	ori_soft_engine_unlock(e);
}

/* The window of TCP is closed, and the kernel of the peer answers the probes of it. */
static void test_a_peer_that_reads_nothing_is_waited_for(void **state)
{
	struct ori_key key = key_of(NULL);
	struct stage *s = *state;
	struct stage other;
	struct soft_header h;
	struct end end;
	uint16_t port;
	char *bytes = malloc(LARGE);
	int listener = listen_silently(&port);

	assert_non_null(bytes);
	other = another_peer(s, listener, port);
	set_patience(&other, 2);
	memset(other.side.memory, 0x5a, LARGE);
	assert_int_equal(accept_with(&other, take_call(&other), &key, &end, NULL), ORIEL_OK);
	side_write(&other.side, &other.side, 0, 0, LARGE, 0);
	usleep(5000000);
	assert_false(is_lost(&other));
	for (uint64_t at = 0; at < LARGE; at += h.length) {
		do
			assert_int_equal(end_read(&end, &h, sizeof(h)), ORIEL_OK);
		while (h.type == SOFT_ASK);
		assert_int_equal(h.type, SOFT_WRITE);
		assert_true(h.operand == at && h.length <= LARGE - at);
		assert_int_equal(end_read(&end, bytes, h.length), ORIEL_OK);
		assert_memory_equal(bytes, other.side.memory + at, h.length);
	}
	end_close(&end);
	side_close(&other.side);
	close(listener);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(KEY, test_an_address_that_the_network_does_not_reach_is_dialled_again),
		WITH(KEY, test_a_port_at_which_no_process_listens_ends_the_link),
		WITH(NULL, test_a_peer_that_reads_nothing_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
