/* SPDX-License-Identifier: Apache-2.0 */
/* HCAs of two processes, over a unix socket and over TCP. */
#include "hca/soft/soft_bench_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "hca/soft/soft_address.h"

#define LENGTH (8u << 20)
#define PING 64u /* word of the child, signaled by the parent */
#define PONG 128u
#define LEAVE 192u /* word of the child: destroy the QP, stay */
#define ROUNDS 2000u
#define STOP UINT64_MAX
#define FLOOD 200u     /* connections that send nothing */
#define DESCRIPTORS 6u /* that the flooded process may still open */

/* The addresses and keys that the two exchange. */
struct card {
	struct ori_hca_qp_address address;
	struct ori_hca_keys keys;
};

struct duo {
	pid_t child;
	int fd;
	struct ori_hca *hca;
	struct side side;
	struct side peer; /* only its keys */
	/* Runs in the parent when the child listens, and cannot connect yet. */
	void (*on_card)(struct duo *d, const struct soft_address *peer);
	int flood[FLOOD];
};

static void swap_cards(struct duo *d)
{
	struct card mine = {.address = d->side.address, .keys = d->side.keys}, theirs;
	struct soft_address peer;
	char byte = 0;

	if (!d->on_card)
		assert_int_equal(send(d->fd, &mine, sizeof(mine), MSG_NOSIGNAL), sizeof(mine));
	assert_int_equal(recv(d->fd, &theirs, sizeof(theirs), MSG_WAITALL), sizeof(theirs));
	if (d->on_card) {
		memcpy(&peer, theirs.address.hca_address, sizeof(peer));
		d->on_card(d, &peer);
		assert_int_equal(send(d->fd, &mine, sizeof(mine), MSG_NOSIGNAL), sizeof(mine));
	}
	assert_int_equal(HCA.connect_qp(d->side.qp, &theirs.address), ORIEL_OK);
	d->peer.keys = theirs.keys;
	assert_int_equal(send(d->fd, &byte, 1, MSG_NOSIGNAL), 1);
	assert_int_equal(recv(d->fd, &byte, 1, MSG_WAITALL), 1);
}

static void duo_side(struct duo *d, const char *config)
{
	assert_int_equal(HCA.open(config, 0, &d->hca), ORIEL_OK);
	side_open(&d->side, &(struct side_attr){.hca = d->hca, .depth = 64, .length = LENGTH});
	swap_cards(d);
}

/* The child has the job key @key, or none. */
static void duo_start(struct duo *d, const char *config, const char *key)
{
	char number[16];
	int ends[2];

	d->child = -1;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	snprintf(number, sizeof(number), "%d", ends[1]);
	d->child = fork();
	assert_true(d->child >= 0);
	if (d->child == 0) {
		close(ends[0]);
		if (key)
			setenv("ORIEL_JOB_KEY", key, 1);
		execl("/proc/self/exe", "soft_process_test", number, config, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	d->fd = ends[0];
}

static void duo_open(struct duo *d, const char *config)
{
	*d = (struct duo){.child = -1};
	duo_start(d, config, NULL);
	duo_side(d, config);
}

/* @is_killed: the child does not exit by itself. */
static void duo_close(struct duo *d, bool is_killed)
{
	int status;

	close(d->fd);
	side_close(&d->side);
	HCA.close(d->hca);
	assert_int_equal(waitpid(d->child, &status, 0), d->child);
	assert_true(is_killed ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status));
}

/* Destroy the QP and keep the HCA open until the parent has exited. */
static void child_leave(struct duo *d)
{
	char byte;

	HCA.destroy_qp(d->side.qp);
	(void)!recv(d->fd, &byte, 1, 0);
	_exit(0);
}

/* Answer each PING with a PONG until the parent has exited. */
static int child_main(int fd, const char *config)
{
	struct duo d = {.fd = fd};
	uint64_t seen = 0, waited = 0;
	char byte;

	duo_side(&d, config);
	for (;;) {
		uint64_t now = oriel_dev_load_acquire(side_word(&d.side, PING));

		if (now != seen) {
			seen = now;
			waited = 0;
			side_signal(&d.side, &d.peer, PONG);
			continue;
		}
		if (oriel_dev_load_acquire(side_word(&d.side, LEAVE)))
			child_leave(&d);
		if (++waited % 1024 == 0 && recv(fd, &byte, 1, MSG_DONTWAIT) == 0)
			break;
		oriel_cpu_back_off(waited * 100);
	}
	side_close(&d.side);
	HCA.close(d.hca);
	return 0;
}

static void await_word(uint64_t *word, uint64_t value)
{
	uint64_t deadline = ori_deadline(PATIENCE_NS);

	for (uint64_t i = 0; oriel_dev_load_acquire(word) != value; i++) {
		assert_false(ori_deadline_passed(deadline));
		if (i > 100)
			oriel_cpu_back_off(i * 100);
	}
}

static void check_all_sizes(struct duo *d)
{
	static const uint32_t sizes[] = {0, 1, 8, 13, 28, 4095, 4096, 4097, 3 * 4096 + 1, 1 << 20};
	char *memory = d->side.memory;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t k = 0; k < sizes[i]; k++)
			memory[4096 + k] = (char)(k * 7 + k / 4096 + i);
		memset(memory + (4u << 20), 0, sizes[i] + 1);
		side_write(&d->side, &d->peer, 5000, 4096, sizes[i], 0);
		assert_int_equal(side_wait(&d->side, side_read(&d->side, &d->peer, 5000, 4u << 20,
							       sizes[i], 0)),
				 ORIEL_OK);
		assert_memory_equal(memory + (4u << 20), memory + 4096, sizes[i]);
		assert_int_equal(memory[(4u << 20) + sizes[i]], 0);
	}
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t index = side_add(&d->side, &d->peer, 0, side_at(&d->side, 0), 1);

		assert_int_equal(side_wait(&d->side, index), ORIEL_OK);
		assert_int_equal(*side_word(&d->side, 0), i);
	}
}

static void ping(struct duo *d, uint64_t first, uint64_t last)
{
	for (uint64_t i = first; i <= last; i++) {
		side_signal(&d->side, &d->peer, PING);
		await_word(side_word(&d->side, PONG), i);
	}
}

static void run_over(const char *config)
{
	struct duo d;

	duo_open(&d, config);
	check_all_sizes(&d);
	ping(&d, 1, 50);
	duo_close(&d, false);
}

static void test_two_processes_connect_over_a_unix_socket(void **state)
{
	(void)state;
	run_over("");
}

static void test_two_processes_connect_over_tcp(void **state)
{
	(void)state;
	run_over("tcp=1");
}

/* A route by IPv6 is not needed: the loopback is enough. */
static bool has_ipv6(void)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool is_there = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;

	if (fd >= 0)
		close(fd);
	return is_there;
}

static void test_two_processes_connect_over_ipv6(void **state)
{
	(void)state;
	if (!has_ipv6()) {
		print_message("this machine has no IPv6\n");
		skip();
	}
	run_over("ipv6=1");
}

static void test_packets_may_get_lost_between_processes(void **state)
{
	(void)state;
	run_over("drop=0.01,dup=0.01,ack=5ms,retry=100");
}

static void test_a_killed_peer_is_0x15(void **state)
{
	static const char *const configs[] = {"ack=10ms", "ack=10ms,tcp=1"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct duo d;

		duo_open(&d, configs[i]);
		assert_int_equal(side_wait(&d.side, side_signal(&d.side, &d.peer, 0)), ORIEL_OK);
		kill(d.child, SIGKILL);
		while (side_wait(&d.side, side_write(&d.side, &d.peer, 0, 0, 1 << 20, 0)) ==
		       ORIEL_OK)
			;
		assert_int_equal(side_syndrome(&d.side), ORIEL_SYNDROME_RETRY_EXCEEDED);
		duo_close(&d, true);
	}
}

static bool is_logged(struct bench_log *log, const char *text)
{
	uint64_t deadline = ori_deadline(PATIENCE_NS);

	while (!bench_log_count(log, text)) {
		if (ori_deadline_passed(deadline))
			return false;
		usleep(1000);
	}
	return true;
}

/* @ours and @theirs are keys, or NULL; one of them is wrong. */
static void expect_rejection_over_tcp(const char *ours, const char *theirs)
{
	struct ori_hca_event event = {.text = ""};
	struct duo d = {.child = -1};
	struct bench_log log;

	bench_log_begin(&log);
	duo_start(&d, "tcp=1,ack=2ms,retry=3", theirs);
	if (ours)
		setenv("ORIEL_JOB_KEY", ours, 1);
	duo_side(&d, "tcp=1,ack=2ms,retry=3");
	unsetenv("ORIEL_JOB_KEY");
	assert_int_not_equal(side_wait(&d.side, side_signal(&d.side, &d.peer, PING)), ORIEL_OK);
	assert_int_equal(side_syndrome(&d.side), ORIEL_SYNDROME_RETRY_EXCEEDED);
	assert_int_equal(HCA.poll_event(d.hca, &event), ORIEL_OK);
	assert_non_null(strstr(event.text, "ORIEL_JOB_KEY"));
	/* As connector or as acceptor: a second warning within a second is only counted. */
	assert_true(is_logged(&log, "ORIEL_JOB_KEY"));
	duo_close(&d, false);
	bench_log_end(&log);
}

static void test_keys_must_be_equal_over_tcp(void **state)
{
	static const char one[] = "00112233445566778899aabbccddeeff";
	static const char other[] = "00112233445566778899aabbccddeefe";
	struct duo d = {.child = -1};

	(void)state;
	expect_rejection_over_tcp(one, other);
	expect_rejection_over_tcp(one, NULL);
	expect_rejection_over_tcp(NULL, other);
	duo_start(&d, "tcp=1", one);
	setenv("ORIEL_JOB_KEY", one, 1);
	duo_side(&d, "tcp=1");
	unsetenv("ORIEL_JOB_KEY");
	ping(&d, 1, 50);
	duo_close(&d, false);
}

/* The limit that leaves @process @spare descriptors. */
static rlim_t limit_for(pid_t process, unsigned spare)
{
	char path[48], byte;
	rlim_t limit;

	for (limit = 0; spare > 0; limit++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%u", process, (unsigned)limit);
		spare -= readlink(path, &byte, 1) < 0;
	}
	return limit;
}

static void leave(struct duo *d, unsigned spare)
{
	struct rlimit limit;

	assert_int_equal(prlimit(d->child, RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = limit_for(d->child, spare);
	assert_int_equal(prlimit(d->child, RLIMIT_NOFILE, &limit, NULL), 0);
}

static void flood(struct duo *d, const struct soft_address *peer)
{
	const struct sockaddr_in a = {.sin_family = AF_INET,
				      .sin_port = htons(peer->port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	leave(d, DESCRIPTORS);
	for (unsigned i = 0; i < FLOOD; i++) {
		d->flood[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(d->flood[i] >= 0);
		(void)connect(d->flood[i], (const struct sockaddr *)&a, sizeof(a));
	}
}

static void dry(struct duo *d)
{
	for (unsigned i = 0; i < FLOOD; i++)
		close(d->flood[i]);
}

static struct soft_address flooded;

static void flood_and_note(struct duo *d, const struct soft_address *peer)
{
	flooded = *peer;
	flood(d, peer);
}

/* They disturb neither a connecting peer nor a connected one. */
static void test_silent_connections_disturb_no_peer(void **state)
{
	struct duo d = {.child = -1, .on_card = flood_and_note};

	(void)state;
	duo_start(&d, "tcp=1", NULL);
	duo_side(&d, "tcp=1");
	check_all_sizes(&d);
	ping(&d, 1, 50);
	dry(&d);
	flood(&d, &flooded);
	for (uint64_t i = 51; i <= 100; i++) {
		side_write(&d.side, &d.peer, 4096, 4096, 1 << 20, 0);
		ping(&d, i, i);
	}
	dry(&d);
	duo_close(&d, false);
}

static void leave_none(struct duo *d, const struct soft_address *peer)
{
	(void)peer;
	leave(d, 0);
}

/* Neither accept nor connect fails for good. */
static void test_a_process_without_descriptors_goes_on_when_it_has_some(void **state)
{
	struct duo d = {.child = -1, .on_card = leave_none};

	(void)state;
	duo_start(&d, "tcp=1", NULL);
	duo_side(&d, "tcp=1");
	usleep(50000); /* it tries, and fails, as a rule */
	leave(&d, DESCRIPTORS);
	check_all_sizes(&d);
	ping(&d, 1, 50);
	duo_close(&d, false);
}

/* The HCA waits for a stopped peer, however often timers run out meanwhile. */
static void test_a_stopped_peer_is_waited_for(void **state)
{
	static const char *const configs[] = {"ack=2ms,retry=3", "ack=2ms,retry=3,tcp=1"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct soft_counters c = {0};
		uint64_t last = 0;
		struct duo d;
		int how;

		duo_open(&d, configs[i]);
		assert_int_equal(side_wait(&d.side, side_signal(&d.side, &d.peer, 0)), ORIEL_OK);
		kill(d.child, SIGSTOP);
		/* Until its last thread has stopped, the peer may still answer. */
		assert_int_equal(waitpid(d.child, &how, WUNTRACED), d.child);
		assert_true(WIFSTOPPED(how));
		for (unsigned k = 0; k < 8; k++)
			last = side_write(&d.side, &d.peer, 4096, 4096, 1 << 20, 0);
		while (c.timeouts < 100) {
			assert_int_equal(ori_dev_mlx5_poll(&d.side.queue, last), ORIEL_AGAIN);
			usleep(1000);
			ori_soft_counters(d.hca, &c);
		}
		assert_int_equal(c.lost, 0);
		kill(d.child, SIGCONT);
		side_read(&d.side, &d.peer, 4096, 4u << 20, 1 << 20, 0);
		last = side_signal(&d.side, &d.peer, 0);
		assert_int_equal(side_wait(&d.side, last), ORIEL_OK);
		ori_soft_counters(d.hca, &c);
		assert_int_equal(c.rewound, 0);
		duo_close(&d, false);
	}
}

/* The QP is destroyed, its process lives: the initiator gets an error, and does not wait. */
static void test_a_qp_destroyed_in_a_live_process_is_0x15(void **state)
{
	struct duo d;

	(void)state;
	duo_open(&d, "ack=2ms");
	assert_int_equal(side_wait(&d.side, side_signal(&d.side, &d.peer, LEAVE)), ORIEL_OK);
	/* Behind LEAVE, which the child may not have seen yet. */
	while (side_wait(&d.side, side_write(&d.side, &d.peer, 4096, 4096, 5000, 0)) == ORIEL_OK)
		;
	assert_int_equal(side_syndrome(&d.side), ORIEL_SYNDROME_RETRY_EXCEEDED);
	duo_close(&d, false);
}

/* Requests in flight end, and do not access the memory any more. */
static void test_memory_may_be_unregistered_while_in_use(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		uint64_t last = 0;
		struct duo d;

		duo_open(&d, i % 2 ? "tcp=1" : "");
		for (unsigned k = 0; k < 16; k++)
			last = i < 4 ? side_write(&d.side, &d.peer, 4096, 0, 1 << 20, 0)
				     : side_read(&d.side, &d.peer, 4096, 0, 1 << 20, 0);
		if (i > 1)
			assert_int_equal(side_wait(&d.side, last - 12), ORIEL_OK);
		HCA.unregister_memory(d.side.mr);
		memset(d.side.memory, 0x55, LENGTH);
		side_wait(&d.side, last);
		for (size_t k = 0; k < LENGTH; k++)
			assert_int_equal(d.side.memory[k], 0x55);
		assert_int_equal(HCA.register_memory(d.hca, d.side.memory, LENGTH, 0, ALL,
						     &d.side.mr, &d.side.keys),
				 ORIEL_OK);
		duo_close(&d, false);
	}
}

/* The HCA polls by itself now and then if posters cannot wake it. */
static void test_a_poster_that_cannot_wake_is_served(void **state)
{
	struct duo d;

	(void)state;
	duo_open(&d, "gpu=1");
	d.side.queue.asleep = NULL;
	for (unsigned i = 0; i < 20; i++) {
		usleep(1000);
		assert_int_equal(side_wait(&d.side, side_signal(&d.side, &d.peer, 0)), ORIEL_OK);
	}
	duo_close(&d, false);
}

/* Goals are for an idle machine: the test prints numbers and judges none. */
static void test_speed(void **state)
{
	const uint64_t count = 200, length = 1 << 20;
	uint64_t begin = 0, ns, last = 0;
	struct duo d;

	(void)state;
	duo_open(&d, "");
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		if (i == ROUNDS / 2)
			begin = ori_clock_ns();
		side_write(&d.side, &d.peer, 0, 0, 8, 0);
		side_signal(&d.side, &d.peer, PING);
		await_word(side_word(&d.side, PONG), i);
	}
	ns = ori_clock_ns() - begin;
	print_message("put_signal, one way: %.2f us\n", (double)ns / ROUNDS / 1000);
	begin = ori_clock_ns();
	for (uint64_t i = 0; i < count; i++)
		last = side_write(&d.side, &d.peer, 4096, 4096, (uint32_t)length, 0);
	assert_int_equal(side_wait(&d.side, last), ORIEL_OK);
	ns = ori_clock_ns() - begin;
	print_message("WRITE of 1 MiB: %.2f GB/s\n", (double)(count * length) / (double)ns);
	duo_close(&d, false);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_processes_connect_over_a_unix_socket),
		cmocka_unit_test(test_two_processes_connect_over_tcp),
		cmocka_unit_test(test_two_processes_connect_over_ipv6),
		cmocka_unit_test(test_packets_may_get_lost_between_processes),
		cmocka_unit_test(test_a_killed_peer_is_0x15),
		cmocka_unit_test(test_keys_must_be_equal_over_tcp),
		cmocka_unit_test(test_silent_connections_disturb_no_peer),
		cmocka_unit_test(test_a_process_without_descriptors_goes_on_when_it_has_some),
		cmocka_unit_test(test_a_stopped_peer_is_waited_for),
		cmocka_unit_test(test_a_qp_destroyed_in_a_live_process_is_0x15),
		cmocka_unit_test(test_memory_may_be_unregistered_while_in_use),
		cmocka_unit_test(test_a_poster_that_cannot_wake_is_served),
		cmocka_unit_test(test_speed),
	};

	if (argc == 3)
		return child_main(atoi(argv[1]), argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
