/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of answers.c: what kernels say that they wait for, in a file of the test. */
#include "comm/answers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <oriel/dev/detail/answer.h>

#include "base/clock.h"
#include "base/count_fds.h"

#define SECOND UINT64_C(1000000000)

/* As struct ori_control. */
struct segment {
	struct oriel_dev_fault health;
	uint64_t others[24];
	struct oriel_dev_answers answers;
};

struct scene {
	struct segment *segment;
	struct ori_wait_comm comm;
	struct ori_answers answers;
	int fd;
};

static int open_scene(void **state)
{
	static struct scene s;

	s = (struct scene){.comm = {.key = 77,
				    .rank = 3,
				    .size = 4,
				    .answers_at = offsetof(struct segment, answers)}};
	s.fd = memfd_create("oriel", MFD_CLOEXEC);
	*state = &s;
	if (s.fd < 0 || ftruncate(s.fd, sizeof(*s.segment)) != 0)
		return -1;
	s.segment = mmap(NULL, sizeof(*s.segment), PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	return s.segment == MAP_FAILED ? -1 : 0;
}

static int close_scene(void **state)
{
	struct scene *s = *state;

	close(s->fd);
	return munmap(s->segment, sizeof(*s->segment));
}

static void ask(struct scene *s)
{
	assert_true(ori_answers_ask(&s->answers, &s->comm, dup(s->fd), ori_clock_ns()));
}

/* A thread of a kernel that polls. */
static void poll_once(const struct scene *s, uint32_t peer, uint32_t id, uint64_t expected,
		      uint64_t age_ns)
{
	const struct oriel_dev_aim aim = {NULL, expected, ORIEL_GE, ORIEL_DEV_WAIT_SIGNAL_FROM,
					  peer, id};
	const struct oriel_dev_fault *health = &s->segment->health;

	ori_dev_answer(health, ori_dev_load_relaxed32(&health->asked), 1, &aim, 4, age_ns);
}

static bool is_empty(const struct scene *s)
{
	static const struct oriel_dev_answers none;

	return memcmp(&s->segment->answers, &none, sizeof(none)) == 0;
}

static void test_a_kernel_answers_while_it_is_asked(void **state)
{
	struct scene *s = *state;
	unsigned fds = count_fds();
	const struct ori_wait_note *note = s->answers.notes;

	poll_once(s, 2, 5, 6, SECOND);
	assert_true(is_empty(s));
	ask(s);
	poll_once(s, 2, 5, 6, SECOND);
	ori_answers_read(&s->answers);
	ori_answers_end(&s->answers);
	assert_int_equal(s->answers.count, 1);
	assert_int_equal(note->comm, 77);
	assert_int_equal(note->rank, 3);
	assert_int_equal(note->what, ORIEL_DEV_WAIT_SIGNAL_FROM);
	assert_int_equal(note->compare, ORIEL_GE);
	assert_int_equal(note->peer, 2);
	assert_int_equal(note->window, 1);
	assert_int_equal(note->id, 5);
	assert_int_equal(note->expected, 6);
	assert_int_equal(note->seen, 4);
	assert_true(ori_clock_ns() - note->begun >= SECOND);
	assert_int_equal(s->segment->health.asked, 0);
	assert_int_equal(count_fds(), fds);
	memset(&s->segment->answers, 0, sizeof(s->segment->answers));
	poll_once(s, 2, 5, 6, SECOND);
	assert_true(is_empty(s));
}

static void test_threads_that_wait_for_one_thing_are_one_wait(void **state)
{
	struct scene *s = *state;
	unsigned i;

	ask(s);
	for (i = 0; i < 8; i++) {
		poll_once(s, 0, 1, 6 + i, (i == 3 ? 100 : 1 + i) * SECOND);
		poll_once(s, i, 2, 6, SECOND);
		ori_answers_read(&s->answers);
	}
	assert_int_equal(s->answers.count, 9);
	/* The oldest one. */
	for (i = 0; i < 9; i++)
		assert_int_equal(s->answers.notes[i].expected, s->answers.notes[i].id == 1 ? 9 : 6);
	ori_answers_end(&s->answers);
}

static void test_peers_do_not_share_an_entry(void **state)
{
	struct scene *s = *state;
	unsigned peer;

	ask(s);
	for (peer = 0; peer < ORIEL_DEV_ANSWERS; peer++)
		poll_once(s, peer, 9, 1, SECOND);
	ori_answers_read(&s->answers);
	assert_int_equal(s->answers.count, ORIEL_DEV_ANSWERS);
	ori_answers_end(&s->answers);
}

static void test_more_waits_than_room_are_left_out(void **state)
{
	struct scene *s = *state;
	unsigned i;

	ask(s);
	for (i = 0; i < 2 * ORI_ANSWERS; i++) {
		poll_once(s, i, 9, 1, SECOND);
		ori_answers_read(&s->answers);
	}
	assert_int_equal(s->answers.count, ORI_ANSWERS);
	ori_answers_end(&s->answers);
}

/* Two threads with waits of their own write at once. */
static void test_a_mixture_is_no_answer(void **state)
{
	struct scene *s = *state;
	unsigned i;

	ask(s);
	poll_once(s, 2, 5, 6, SECOND);
	for (i = 0; i < ORIEL_DEV_ANSWERS; i++)
		s->segment->answers.of_ranks[i].id++;
	ori_answers_read(&s->answers);
	assert_int_equal(s->answers.count, 0);
	memset(&s->segment->answers, 0xff, sizeof(s->segment->answers));
	ori_answers_read(&s->answers);
	assert_int_equal(s->answers.count, 0);
	ori_answers_end(&s->answers);
}

static void test_what_was_answered_before_does_not_count(void **state)
{
	struct scene *s = *state;

	ask(s);
	poll_once(s, 2, 5, 6, SECOND);
	ori_answers_end(&s->answers);
	assert_false(is_empty(s));
	ask(s);
	ori_answers_read(&s->answers);
	assert_int_equal(s->answers.count, 0);
	ori_answers_end(&s->answers);
}

static void test_a_wait_that_began_after_the_question_does_not_count(void **state)
{
	struct scene *s = *state;

	ask(s);
	poll_once(s, 2, 5, 6, 0);
	ori_answers_read(&s->answers);
	assert_int_equal(s->answers.count, 0);
	ori_answers_end(&s->answers);
}

/* A thread of a kernel that waits for a NIC. */
static void poll_nic(const struct scene *s, uint32_t peer, uint64_t age_ns)
{
	const struct oriel_dev_fault *health = &s->segment->health;

	ori_dev_answer_nic(health, ori_dev_load_relaxed32(&health->asked), peer, age_ns);
}

static void test_waits_for_a_nic_have_a_word(void **state)
{
	struct scene *s = *state;
	const struct ori_wait_note *notes = s->answers.notes;

	poll_nic(s, 2, SECOND);
	assert_true(is_empty(s));
	ask(s);
	poll_nic(s, 2, 0);
	ori_answers_read(&s->answers);
	assert_int_equal(s->answers.count, 0);
	/* Two threads, of which each is seen in its turn. */
	poll_nic(s, 2, 5000 * SECOND);
	ori_answers_read(&s->answers);
	poll_nic(s, 0, SECOND);
	ori_answers_read(&s->answers);
	poll_nic(s, 2, 5001 * SECOND);
	ori_answers_read(&s->answers);
	assert_int_equal(s->answers.count, 2);
	assert_int_equal(notes[0].what, ORIEL_DEV_NIC);
	assert_int_equal(notes[0].comm, 77);
	assert_int_equal(notes[0].rank, 3);
	assert_int_equal(notes[0].peer, 2);
	assert_int_equal(notes[1].peer, 0);
	/* The answer has it without its last 20 bits. */
	assert_true(ori_clock_ns() - notes[0].begun >= 5000 * SECOND);
	assert_true(ori_clock_ns() - notes[1].begun >= SECOND - (1u << 20));
	/* No rank of four. */
	poll_nic(s, 4, SECOND);
	ori_answers_read(&s->answers);
	assert_int_equal(s->answers.count, 2);
	ori_answers_end(&s->answers);
}

static void test_the_end_of_another_question_leaves_this_one(void **state)
{
	struct scene *s = *state;
	struct ori_answers other;

	ask(s);
	assert_true(ori_answers_ask(&other, &s->comm, dup(s->fd), ori_clock_ns()));
	ori_answers_end(&other);
	ori_answers_read(&s->answers);
	poll_once(s, 2, 5, 6, SECOND);
	ori_answers_read(&s->answers);
	assert_int_equal(s->answers.count, 1);
	ori_answers_end(&s->answers);
}

/* The page may say anything: nothing is written beyond the end, or over the health. */
static void test_a_place_that_is_none_is_refused(void **state)
{
	static const uint32_t wrong[] = {0,           8,
					 72,          sizeof(struct segment),
					 0x80000000u, UINT32_MAX & ~63u};
	struct scene *s = *state;
	unsigned i, fds = count_fds();

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		s->comm.answers_at = wrong[i];
		assert_false(ori_answers_ask(&s->answers, &s->comm, dup(s->fd), 0));
	}
	s->comm.answers_at = offsetof(struct segment, answers) + 64;
	assert_false(ori_answers_ask(&s->answers, &s->comm, dup(s->fd), 0));
	s->comm.answers_at = offsetof(struct segment, answers);
	assert_false(ori_answers_ask(&s->answers, &s->comm, -1, 0));
	assert_int_equal(count_fds(), fds);
	assert_int_equal(lseek(s->fd, 0, SEEK_END), sizeof(struct segment));
	assert_int_equal(s->segment->health.asked, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_scene, close_scene)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_kernel_answers_while_it_is_asked),
		TEST(test_threads_that_wait_for_one_thing_are_one_wait),
		TEST(test_peers_do_not_share_an_entry),
		TEST(test_more_waits_than_room_are_left_out),
		TEST(test_a_mixture_is_no_answer),
		TEST(test_what_was_answered_before_does_not_count),
		TEST(test_a_wait_that_began_after_the_question_does_not_count),
		TEST(test_waits_for_a_nic_have_a_word),
		TEST(test_the_end_of_another_question_leaves_this_one),
		TEST(test_a_place_that_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
