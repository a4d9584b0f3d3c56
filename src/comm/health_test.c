/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a first failure: who writes it, how it is read, and its texts. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <oriel/dev/detail/wait.h>

#include "base/at_once_test.h"
#include "base/clock.h"
#include "base/handle.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/silence.h"
#include "rdma/rdma.h"

static struct oriel_dev_rank ranks[4] = {{.path = ORIEL_PATH_SELF},
					 {.path = ORIEL_PATH_MAPPED},
					 {.path = ORIEL_PATH_MAPPED},
					 {.path = ORIEL_PATH_MAPPED}};

static struct oriel_comm *make_comm(void)
{
	struct oriel_comm *comm = ori_handle_alloc(ORI_HANDLE_COMM, sizeof(*comm));

	assert_non_null(comm);
	ori_handle_open(comm, NULL);
	comm->control = calloc(1, sizeof(*comm->control));
	assert_non_null(comm->control);
	comm->size = 4;
	comm->host_paths.of = ranks;
	return comm;
}

static void free_comm(struct oriel_comm *comm)
{
	free(comm->control);
	assert_true(ori_handle_shut(comm, ORI_HANDLE_COMM, "free_comm"));
	ori_handle_free(comm);
}

/* Rank 1 beats, rank 2 does not. The wait was for rank 1, which waited, too. */
static void test_a_rank_that_stands_still_is_blamed(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_dev_fault record = {.status = ORIEL_ERR_TIMEOUT,
					 .what = ORIEL_DEV_BARRIER,
					 .peer = 1,
					 .window = 1,
					 .expected = 5,
					 .seen = 4,
					 .age_ns = 1400000000u};
	struct oriel_health health = {.size = sizeof(health)}, again = {.size = sizeof(again)};
	struct ori_control control[4] = {0};
	struct timespec pause = {.tv_nsec = 100000000};
	struct ori_mapping peers[4] = {0};
	char text[256], expected[256];
	unsigned i;

	(void)state;
	for (i = 0; i < 3; i++)
		peers[i].address = &control[i];
	comm->peers = peers;
	assert_int_equal(ori_silence_open(comm), ORIEL_OK);
	control[2].beat = 17;
	for (i = 0; i < 16; i++) {
		control[1].beat++;
		ori_silence_watch(comm);
		nanosleep(&pause, NULL);
	}
	/* Its beats name rank 2. */
	assert_int_equal(comm->control->beat & 0x3fffff, 16);
	assert_int_equal(comm->control->beat >> 22 & 0x1fffff, 2 + 1);
	ori_dev_leave(&comm->control->health, &record);
	oriel_comm_health(comm, &health);
	assert_int_equal(health.rank, 2);
	assert_int_equal(health.awaited, 1);
	assert_true(health.silent_ns >= 1500000000);
	oriel_health_text(&health, text, sizeof(text));
	snprintf(expected, sizeof(expected),
		 "barrier timed out after 1.4 s, waiting for rank 1: window 1, barrier slot 0, "
		 "expected 5, seen 4; rank 2 has not run for %.1f s: it is stopped, or its machine "
		 "is",
		 (double)health.silent_ns / 1e9);
	assert_string_equal(text, expected);
	/* The answer stays, whatever ranks do after the failure. */
	control[2].beat++;
	ori_silence_watch(comm);
	oriel_comm_health(comm, &again);
	assert_int_equal(again.rank, 2);
	assert_true(again.silent_ns == health.silent_ns);
	ori_silence_close(comm);
	free_comm(comm);
}

/* Ranks 0, 1, 2 in a line: rank 0 gets beats of rank 1 alone, as rank 2 does. Rank 1 gets all. */
static void line_turn(struct oriel_comm **line, bool is_running)
{
	static const struct timespec pause = {.tv_nsec = 50000000};
	unsigned i;

	for (i = is_running ? 0 : 1; i < 3; i++)
		ori_silence_watch(line[i]);
	ori_silence_see(line[0], 1, ori_silence_beat(line[1]));
	ori_silence_see(line[1], 0, ori_silence_beat(line[0]));
	ori_silence_see(line[1], 2, ori_silence_beat(line[2]));
	ori_silence_see(line[2], 1, ori_silence_beat(line[1]));
	nanosleep(&pause, NULL);
}

static bool line_end_suspects(struct oriel_comm **line, unsigned rank)
{
	return (ori_silence_beat(line[2]) >> 22 & 0x1fffff) == (rank + 1) % (1u << 21);
}

/* Until rank 2, or no longer, suspects rank 0; how long, in ms. */
static uint64_t line_await(struct oriel_comm **line, bool is_running, unsigned rank)
{
	uint64_t begun = ori_clock_ns();

	while (!line_end_suspects(line, rank)) {
		line_turn(line, is_running);
		assert_true(ori_clock_ns() - begun < 60000000000u);
	}
	return (ori_clock_ns() - begun) / 1000000;
}

/*
 * A rank without beats of the one that stopped knows of it by others, and for how long; and what
 * ranks report to each other ends when that one goes on.
 */
static void test_a_suspicion_goes_from_rank_to_rank(void **state)
{
	struct ori_mapping peers[4] = {0};
	struct oriel_comm *line[3];
	struct oriel_dev_fault record;
	uint64_t begun, silent_ns;
	unsigned i;

	(void)state;
	assert_int_equal(setenv("ORIEL_HEARTBEAT", "2", 1), 0);
	for (i = 0; i < 3; i++) {
		line[i] = make_comm();
		line[i]->rank = i;
		line[i]->peers = peers;
		assert_int_equal(ori_silence_open(line[i]), ORIEL_OK);
	}
	for (i = 0; i < 5; i++)
		line_turn(line, true);
	assert_true(line_end_suspects(line, ORIEL_DEV_NO_RANK));

	begun = ori_clock_ns();
	(void)line_await(line, false, 0);
	while (!ori_silence_is_over(line[2], &record)) {
		line_turn(line, false);
		assert_true(ori_clock_ns() - begun < 60000000000u);
	}
	assert_int_equal(record.peer, 0);
	assert_int_equal(ori_silence_blame(line[2], 2000000000, &silent_ns), 0);
	assert_true(silent_ns >= 1900000000 && silent_ns <= ori_clock_ns() - begun + 500000000);

	(void)line_await(line, true, ORIEL_DEV_NO_RANK);
	for (i = 0; i < 20; i++) {
		line_turn(line, true);
		assert_true(line_end_suspects(line, ORIEL_DEV_NO_RANK));
		assert_false(ori_silence_is_over(line[2], &record));
	}
	for (i = 0; i < 3; i++) {
		ori_silence_close(line[i]);
		free_comm(line[i]);
	}
	assert_int_equal(unsetenv("ORIEL_HEARTBEAT"), 0);
}

/* A rank that was stopped, too, blames the silence that it saw, and not that it slept through. */
static void test_an_own_pause_is_no_silence(void **state)
{
	static const struct timespec long_pause = {.tv_sec = 1, .tv_nsec = 300000000};
	struct ori_mapping peers[4] = {0};
	struct ori_control beating = {0}, silent = {0};
	struct oriel_comm *comm = make_comm();
	uint64_t begun, age, silent_ns;

	(void)state;
	comm->peers = peers;
	peers[1].address = &beating;
	peers[2].address = &silent;
	assert_int_equal(ori_silence_open(comm), ORIEL_OK);
	begun = ori_clock_ns();
	while (ori_clock_ns() - begun < 2500000000u) {
		beating.beat++;
		ori_silence_watch(comm);
		usleep(50000);
	}
	age = ori_clock_ns() - begun;
	nanosleep(&long_pause, NULL);
	ori_silence_watch(comm);
	assert_int_equal(ori_silence_suspect(comm, age, &silent_ns), 2);
	assert_true(silent_ns <= age + 100000000);
	/* Rank 1 was silent for as long as this rank slept. */
	assert_int_equal(ori_silence_suspect(comm, 2 * silent_ns + 1000000000, &silent_ns),
			 ORIEL_DEV_NO_RANK);
	ori_silence_close(comm);
	free_comm(comm);
}

static void test_a_new_communicator_is_well(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_health health = {.size = sizeof(health)};
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
	struct oriel_health health = {.size = sizeof(health)};

	(void)state;
	ori_comm_break(comm, ORIEL_ERR_PEER, ORIEL_DEV_LOST, 2, 0);
	ori_comm_break(comm, ORIEL_ERR_TIMEOUT, ORIEL_DEV_EXCHANGE, 1, 0);
	oriel_comm_health(comm, &health);
	assert_int_equal(health.status, ORIEL_ERR_PEER);
	assert_int_equal(health.rank, 2);
	assert_int_equal(health.path, ORIEL_PATH_MAPPED);
	assert_int_equal(ori_comm_check(comm), ORIEL_ERR_PEER);
	assert_string_equal(oriel_last_error(),
			    "rank 2 exited before the communicator was destroyed");
	free_comm(comm);
}

/* Rank 2 reports itself: the path is the one from this rank. */
static void test_the_path_to_an_aborting_rank_is_the_one_from_this_rank(void **state)
{
	struct oriel_comm *comm = make_comm();
	const struct oriel_dev_fault record = {.status = ORIEL_ERR_ABORTED,
					       .what = ORIEL_DEV_ABORT,
					       .peer = 2,
					       .finder = 3};

	(void)state;
	ori_comm_break_for(comm, &record);
	assert_int_equal(ori_comm_check(comm), ORIEL_ERR_ABORTED);
	assert_string_equal(oriel_last_error(), "aborted by rank 2 (mapped)");
	free_comm(comm);
}

/*
 * A failure that a kernel of rank 2 found stays there until its watcher polls; rank 0
 * aborts before.
 */
static void test_what_kernels_found_comes_before_a_later_abort(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct ori_control *there = calloc(1, sizeof(*there));
	struct ori_mapping peers[4] = {{0}};
	struct oriel_dev_fault record = {.status = ORIEL_ERR_TIMEOUT,
					 .what = ORIEL_DEV_WAIT_SIGNAL,
					 .peer = ORIEL_DEV_NO_RANK};

	(void)state;
	assert_non_null(there);
	comm->peers = peers;
	peers[0].address = (char *)comm->control;
	peers[2].address = (char *)there;
	ori_dev_leave(&there->blame, &record);
	ori_comm_break_all(comm, ORIEL_ERR_ABORTED, ORIEL_DEV_ABORT, 0, 0);
	assert_int_equal(comm->control->health.status, ORIEL_ERR_ABORTED);
	assert_int_equal(there->health.status, ORIEL_ERR_TIMEOUT);
	assert_int_equal(there->health.what, ORIEL_DEV_WAIT_SIGNAL);
	free(there);
	free_comm(comm);
}

static void *write_slowly(void *argument)
{
	struct oriel_dev_fault *health = argument;

	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	health->status = ORIEL_ERR_ABORTED;
	health->what = ORIEL_DEV_ABORT;
	health->peer = 2;
	ori_dev_store_release32(&health->state, ORIEL_DEV_FAULT_FULL);
	return NULL;
}

/* Kernels of this rank have failed, too, but another rank was first and is not done. */
static void test_a_record_that_is_being_written_is_awaited(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_dev_fault record = {.status = ORIEL_ERR_TIMEOUT};
	pthread_t thread;

	(void)state;
	comm->control->health.state = ORIEL_DEV_FAULT_WRITING;
	ori_dev_leave(&comm->control->blame, &record);
	assert_int_equal(pthread_create(&thread, NULL, write_slowly, &comm->control->health), 0);
	assert_int_equal(ori_comm_check(comm), ORIEL_ERR_ABORTED);
	assert_string_equal(oriel_last_error(), "aborted by rank 2 (mapped)");
	pthread_join(thread, NULL);
	free_comm(comm);
}

static void test_a_writer_that_dies_is_not_awaited_for_ever(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_health health = {.size = sizeof(health)};

	(void)state;
	comm->control->health.state = ORIEL_DEV_FAULT_WRITING;
	comm->control->health.seen = 5;
	assert_int_equal(ori_comm_check(comm), ORIEL_ERR_PEER);
	assert_string_equal(oriel_last_error(), "a rank exited while it reported a failure");
	oriel_comm_health(comm, &health);
	assert_int_equal(health.rank, -1);
	free_comm(comm);
}

/* Rank 2 writes its report to rank 0 up to the second word; the memory behind is read-only. */
static void report_and_exit(struct oriel_comm *comm, struct ori_mapping *peers, char *behind,
			    size_t length)
{
	static const struct rlimit no_core;

	setrlimit(RLIMIT_CORE, &no_core);
	signal(SIGSEGV, SIG_DFL);
	comm->rank = 2;
	comm->peers = peers;
	if (mprotect(behind, length, PROT_READ) == 0)
		ori_comm_break_all(comm, ORIEL_ERR_ABORTED, ORIEL_DEV_ABORT, 2, 0);
	_exit(0);
}

static void test_a_rank_that_dies_while_it_reports_to_a_peer_is_named(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t length = page + (sizeof(struct ori_control) + page - 1) / page * page;
	struct oriel_comm *comm = make_comm();
	struct ori_control *own = comm->control;
	struct ori_mapping peers[4] = {{0}};
	struct oriel_health health = {.size = sizeof(health)};
	char *memory;
	pid_t child;
	int how;

	(void)state;
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	peers[0].address = memory + page - offsetof(struct oriel_dev_fault, what);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		report_and_exit(comm, peers, memory + page, length - page);
	assert_int_equal(waitpid(child, &how, 0), child);
	assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV);

	comm->control = (void *)peers[0].address;
	assert_int_equal(ori_comm_check(comm), ORIEL_ERR_PEER);
	assert_string_equal(oriel_last_error(),
			    "rank 2 exited before the communicator was destroyed");
	oriel_comm_health(comm, &health);
	assert_int_equal(health.rank, 2);
	munmap(memory, length);
	comm->control = own;
	free_comm(comm);
}

/*
 * A writer that is no rank of this communicator; and this rank, whose threads finish
 * their records.
 */
static void test_a_wrong_writer_names_no_rank(void **state)
{
	static const uint32_t names[] = {5, 1};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct oriel_comm *comm = make_comm();

		comm->control->health.state = ORIEL_DEV_FAULT_WRITING | names[i] << 8;
		assert_int_equal(ori_comm_check(comm), ORIEL_ERR_PEER);
		assert_string_equal(oriel_last_error(),
				    "a rank exited while it reported a failure");
		free_comm(comm);
	}
}

static void test_a_timeout_names_the_waiter_and_the_awaited(void **state)
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
	struct oriel_health health = {.size = sizeof(health)};
	char text[256];

	(void)state;
	ori_dev_leave(&comm->control->health, &record);
	oriel_comm_health(comm, &health);
	oriel_health_text(&health, text, sizeof(text));
	assert_string_equal(
		text, "wait_signal_from timed out after 30.0 s, waiting for rank 3 (mapped): "
		      "window 1, signal 7, expected 5, seen 4; raise ORIEL_TIMEOUT if it is only "
		      "slow");
	oriel_health_json(&health, text, sizeof(text));
	assert_string_equal(text,
			    "{\"status\":\"ORIEL_ERR_TIMEOUT\",\"what\":\"wait_signal_from\","
			    "\"finder\":0,\"rank\":3,\"path\":\"mapped\",\"object\":1,\"id\":7,"
			    "\"expected\":5,\"seen\":4,\"age_ns\":30000000000}");
	free_comm(comm);
}

/* Its number and call are the same on all ranks, also on those that have destroyed theirs. */
static void test_a_timeout_names_the_collective_and_the_call(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_dev_fault record = {.status = ORIEL_ERR_TIMEOUT,
					 .what = ORIEL_DEV_EXCHANGE,
					 .peer = 3,
					 .finder = 1,
					 .expected = ORI_CALL_ALLGATHER_DESTROY};
	struct oriel_health health = {.size = sizeof(health)};
	char text[256];

	(void)state;
	ori_dev_leave(&comm->control->health, &record);
	oriel_comm_health(comm, &health);
	oriel_health_text(&health, text, sizeof(text));
	assert_string_equal(text, "rank 3 did not enter oriel_allgather_destroy, where rank 0 "
				  "waited until its limit; raise ORIEL_TIMEOUT if it is only slow");
	health = (struct oriel_health){.status = ORIEL_ERR_TIMEOUT,
				       .what = "wait_signal_next",
				       .rank = 3,
				       .path = ORIEL_PATH_RDMA,
				       .age_ns = 30000000000u,
				       .object = 3u << ORIEL_DEV_COLLECTIVE_BIT | 7};
	oriel_health_text(&health, text, sizeof(text));
	assert_string_equal(text,
			    "broadcast timed out after 30.0 s: rank 3 (rdma) has not started "
			    "an execution that its peers wait in, or is slow: all ranks start "
			    "the same ones in one order, with equal bytes and roots; raise "
			    "ORIEL_TIMEOUT if it is only slow");
	oriel_health_json(&health, text, sizeof(text));
	assert_non_null(strstr(text, "\"object\":7,"));
	health.status = ORIEL_ERR_STATE;
	oriel_health_text(&health, text, sizeof(text));
	assert_non_null(strstr(text, ": window 7, slot 0: "));
	free_comm(comm);
}

static struct oriel_dev_fault rejected_put(void)
{
	struct oriel_dev_fault record = {.status = ORIEL_ERR_ACCESS,
					 .what = ORIEL_DEV_PUT,
					 .peer = 3,
					 .id = 0x41,
					 .seen = ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE,
								   ORIEL_SYNDROME_REMOTE_ACCESS,
								   0x88, 17)};

	return record;
}

static void test_a_failed_request_names_its_queue_and_cause(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_dev_fault record = rejected_put();
	struct oriel_health health = {.size = sizeof(health)};
	char text[400];

	(void)state;
	ori_comm_break_for(comm, &record);
	assert_int_equal(ori_comm_check(comm), ORIEL_ERR_ACCESS);
	assert_string_equal(oriel_last_error(),
			    "put to rank 3 (mapped) failed: remote access error (key, bounds or "
			    "permission) (syndrome 0x13, vendor 0x88), WQE 17 of queue 0x41");
	oriel_comm_health(comm, &health);
	assert_int_equal(health.queue, 0x41);
	assert_int_equal(health.request, 17);
	assert_int_equal(health.seen, 0);
	oriel_health_json(&health, text, sizeof(text));
	assert_non_null(strstr(text,
			       ",\"age_ns\":0,\"queue\":65,\"request\":17,\"reason\":\"remote "
			       "access error (key, bounds or permission)\","
			       "\"syndrome\":19,\"vendor\":136}"));
	free_comm(comm);
}

static void test_a_queue_without_a_syndrome_names_its_status(void **state)
{
	static const struct {
		uint32_t what;
		int32_t status;
		uint64_t err;
		const char *text;
	} cases[] = {
		{ORIEL_DEV_WAIT_LOCAL, ORIEL_ERR_TIMEOUT, 0,
		 "wait_local to rank 3 (mapped) failed: A deadline passed. Queue 0x41 has "
		 "completed 17 of 20 WQEs; raise ORIEL_TIMEOUT if it is only slow"},
		{ORIEL_DEV_PUT, ORIEL_ERR_TIMEOUT, (uint64_t)ORIEL_QUEUE_ABANDONED << 56 | 5,
		 "put to rank 3 (mapped) failed: a thread gave up in the middle of a post, WQE 5 "
		 "of "
		 "queue 0x41"},
		{ORIEL_DEV_PUT, ORIEL_ERR_PEER,
		 (uint64_t)ORIEL_QUEUE_ERROR_CQE << 56 | (uint64_t)0x15 << 48 |
			 (uint64_t)0x83 << 40 | 7,
		 "rank 3 exited before the communicator was destroyed: put failed: the peer does "
		 "not answer "
		 "(transport retries used up) (syndrome 0x15, vendor 0x83), WQE 7 of queue 0x41"},
		{ORIEL_DEV_LOST, ORIEL_ERR_PEER,
		 (uint64_t)ORIEL_QUEUE_ERROR_CQE << 56 | (uint64_t)0x15 << 48 |
			 (uint64_t)0x81 << 40,
		 "rank 3 exited before the communicator was destroyed: the peer does not answer "
		 "(transport retries "
		 "used up) (syndrome 0x15, vendor 0x81), WQE 0 of queue 0x41"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct oriel_comm *comm = make_comm();
		struct oriel_dev_fault record = rejected_put();

		record.what = cases[i].what;
		record.status = cases[i].status;
		record.seen = cases[i].err;
		record.expected = cases[i].err ? 0 : 20; /* posted */
		record.age_ns = cases[i].err ? 0 : 17;   /* completed */
		ori_comm_break_for(comm, &record);
		assert_int_equal(ori_comm_check(comm), cases[i].status);
		assert_string_equal(oriel_last_error(), cases[i].text);
		free_comm(comm);
	}
}

/* Rank 1 found it: its path to peer 3 may differ from that of this rank. */
static void test_a_failure_that_another_rank_found_names_it(void **state)
{
	struct oriel_comm *comm = make_comm(), *other = make_comm();
	struct oriel_dev_fault record = rejected_put();
	struct oriel_health health = {.size = sizeof(health)};

	(void)state;
	comm->hosts = calloc(comm->size, sizeof(*comm->hosts));
	assert_non_null(comm->hosts);
	other->rank = 1;
	ori_comm_break_for(other, &record);
	record = ori_comm_record(other);
	ori_comm_break_for(comm, &record);
	assert_int_equal(ori_comm_check(comm), ORIEL_ERR_ACCESS);
	assert_memory_equal(oriel_last_error(), "rank 1: put to rank 3 (", 23);
	oriel_comm_health(comm, &health);
	assert_int_equal(health.finder, 1);
	record = ori_comm_record(comm);
	assert_int_equal(record.finder, 2);
	free(comm->hosts);
	free_comm(other);
	free_comm(comm);
}

static void test_nonsense_written_by_a_peer_is_no_crash(void **state)
{
	struct oriel_comm *comm = make_comm();
	struct oriel_dev_fault record = {.status = 12345,
					 .what = 99999,
					 .peer = 4000000000u,
					 .id = UINT32_MAX,
					 .seen = UINT64_MAX,
					 .finder = 77};
	struct oriel_health health = {.size = sizeof(health)};

	(void)state;
	ori_dev_leave(&comm->control->health, &record);
	oriel_comm_health(comm, &health);
	assert_int_equal(health.status, ORIEL_ERR_PROTOCOL);
	assert_string_equal(health.what, "unknown");
	assert_int_equal(health.rank, -1);
	assert_int_equal(health.finder, 0);
	assert_string_equal(health.reason, "for an unknown reason");
	free_comm(comm);
}

static void test_the_text_function_returns_the_length_it_needs(void **state)
{
	struct oriel_health health = {.status = ORIEL_OK, .what = "nothing", .rank = -1};
	char text[4];

	(void)state;
	assert_int_equal(oriel_health_text(&health, text, sizeof(text)), strlen("all is well"));
	assert_string_equal(text, "all");
}

#define WAITING 4

int main(void)
{
	/* Each waits for a writer that is dead, or a rank that is silent. */
	const struct CMUnitTest waiting[WAITING] = {
		cmocka_unit_test(test_a_rank_that_stands_still_is_blamed),
		cmocka_unit_test(test_a_suspicion_goes_from_rank_to_rank),
		cmocka_unit_test(test_a_writer_that_dies_is_not_awaited_for_ever),
		cmocka_unit_test(test_a_rank_that_dies_while_it_reports_to_a_peer_is_named),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_own_pause_is_no_silence),
		cmocka_unit_test(test_a_new_communicator_is_well),
		cmocka_unit_test(test_the_first_cause_stays),
		cmocka_unit_test(test_the_path_to_an_aborting_rank_is_the_one_from_this_rank),
		cmocka_unit_test(test_what_kernels_found_comes_before_a_later_abort),
		cmocka_unit_test(test_a_record_that_is_being_written_is_awaited),
		cmocka_unit_test(test_a_wrong_writer_names_no_rank),
		cmocka_unit_test(test_a_timeout_names_the_collective_and_the_call),
		cmocka_unit_test(test_a_timeout_names_the_waiter_and_the_awaited),
		cmocka_unit_test(test_a_failed_request_names_its_queue_and_cause),
		cmocka_unit_test(test_a_queue_without_a_syndrome_names_its_status),
		cmocka_unit_test(test_a_failure_that_another_rank_found_names_it),
		cmocka_unit_test(test_nonsense_written_by_a_peer_is_no_crash),
		cmocka_unit_test(test_the_text_function_returns_the_length_it_needs),
	};

	int failed;

	at_once_begin(waiting, WAITING);
	failed = cmocka_run_group_tests_name("health", tests, NULL, NULL);
	return failed + at_once_end(WAITING);
}
