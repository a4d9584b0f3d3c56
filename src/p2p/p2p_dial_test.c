/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses at which a context is dialled, by family and in their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <oriel/status.h>

#include "base/clock.h"
#include "p2p/p2p_dial.h"

#define LONG_NS UINT64_C(60000000000)

static const struct p2p_address here = {.kernel = 1, .node = 1, .pid = 1};

/* A socket that listens at @host of @family alone; its port. */
static int listen_at(int family, const char *host, uint16_t *port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr *address =
		family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t length = family == AF_INET ? sizeof(v4) : sizeof(v6);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		return -1;
	if (family == AF_INET6)
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)), 0);
	inet_pton(family, host, family == AF_INET ? (void *)&v4.sin_addr : (void *)&v6.sin6_addr);
	if (bind(fd, address, length) != 0) {
		close(fd);
		return -1;
	}
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, address, &length), 0);
	*port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
	return fd;
}

/* Probes @to until that is known, and closes @listener. */
static enum oriel_status probe(int listener, const struct p2p_address *to)
{
	uint64_t deadline = ori_deadline(LONG_NS);
	const struct timespec pause = {.tv_nsec = 1000000};
	struct p2p_dial dial = {0};
	struct ori_net_conn conn;
	enum oriel_status status;

	ori_net_open(&conn, -1, NULL);
	while ((status = ori_p2p_probe(&dial, &conn, &here, to)) == ORIEL_AGAIN) {
		assert_false(ori_deadline_passed(deadline));
		nanosleep(&pause, NULL);
	}
	ori_net_close(&conn);
	if (listener >= 0)
		close(listener);
	return status;
}

static struct p2p_address remote(uint16_t port)
{
	return (struct p2p_address){.kernel = 2, .node = 2, .pid = 7, .port = port};
}

static void test_a_node_of_this_machine_is_dialled_at_both_loopbacks(void **state)
{
	struct p2p_address to = {.kernel = 1, .node = 2, .pid = 7};
	int fd = listen_at(AF_INET, "127.0.0.1", &to.port);

	(void)state;
	assert_int_equal(probe(fd, &to), ORIEL_OK);
	fd = listen_at(AF_INET6, "::1", &to.port);
	if (fd >= 0)
		assert_int_equal(probe(fd, &to), ORIEL_OK);
	assert_int_equal(probe(-1, &to), ORIEL_ERR_PEER);
}

static void test_another_machine_is_dialled_at_each_ipv4_address(void **state)
{
	struct p2p_address to = remote(0);
	int fd = listen_at(AF_INET, "127.0.0.2", &to.port);
	char name[P2P_NAME], expected[P2P_NAME];

	(void)state;
	/* The last one answers; the others refuse. */
	to.hosts.of[0] = inet_addr("127.0.0.1");
	to.hosts.of[1] = inet_addr("127.0.0.2");
	ori_p2p_name(&here, &to, name);
	snprintf(expected, sizeof(expected), "process 7 at 127.0.0.1:%u", to.port);
	assert_string_equal(name, expected);
	assert_int_equal(probe(fd, &to), ORIEL_OK);
	/* Nothing else answers, such as the loopback of this machine. */
	to.hosts.of[1] = 0;
	fd = listen_at(AF_INET, "127.0.0.2", &to.port);
	assert_int_equal(probe(fd, &to), ORIEL_ERR_PEER);
}

static void test_another_machine_with_ipv6_is_dialled_by_that_alone(void **state)
{
	struct p2p_address to = remote(0);
	int fd = listen_at(AF_INET6, "::1", &to.port);
	char name[P2P_NAME], expected[P2P_NAME];

	(void)state;
	if (fd < 0)
		skip();
	to.hosts.is_ipv6 = 1;
	memcpy(to.hosts.of, &in6addr_loopback, sizeof(in6addr_loopback));
	ori_p2p_name(&here, &to, name);
	snprintf(expected, sizeof(expected), "process 7 at [::1]:%u", to.port);
	assert_string_equal(name, expected);
	assert_int_equal(probe(fd, &to), ORIEL_OK);
}

static void test_a_machine_without_an_address_is_not_dialled(void **state)
{
	struct p2p_address to = remote(9);
	char name[P2P_NAME];

	(void)state;
	ori_p2p_name(&here, &to, name);
	assert_string_equal(name, "process 7");
	assert_int_equal(probe(-1, &to), ORIEL_ERR_PEER);
	assert_string_equal(oriel_last_error(),
			    "process 7 has no address that other machines reach");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_node_of_this_machine_is_dialled_at_both_loopbacks),
		cmocka_unit_test(test_another_machine_is_dialled_at_each_ipv4_address),
		cmocka_unit_test(test_another_machine_with_ipv6_is_dialled_by_that_alone),
		cmocka_unit_test(test_a_machine_without_an_address_is_not_dialled),
	};

	return cmocka_run_group_tests_name("p2p_dial", tests, NULL, NULL);
}
