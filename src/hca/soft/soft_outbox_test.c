/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a frame that is unmapped while the frame waits for its socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hca/soft/soft_outbox.h"

#define LENGTH (256u << 10)
#define HEAD sizeof(struct soft_header)

struct wire {
	struct soft_outbox out;
	struct soft_mr mr;
	int fds[2];
	char *memory; /* LENGTH bytes */
};

static void wire_open(struct wire *w)
{
	memset(w, 0, sizeof(*w));
	assert_true(ori_soft_outbox_open(&w->out));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, w->fds), 0);
	w->memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(w->memory != MAP_FAILED);
	memset(w->memory, 9, LENGTH);
}

static void wire_close(struct wire *w)
{
	ori_soft_outbox_close(&w->out);
	close(w->fds[0]);
	close(w->fds[1]);
	munmap(w->memory, LENGTH);
}

static void wire_push(struct wire *w, enum soft_frame_type type, uint32_t qpn, uint32_t length)
{
	struct soft_frame *f = &w->out.frames[w->out.count++];

	*f = (struct soft_frame){.h = {.type = (uint8_t)type,
				       .source_qpn = qpn,
				       .psn = w->out.count,
				       .length = length,
				       .total = length}};
	if (length > SOFT_SMALL) {
		f->payload = w->memory;
		f->mr = &w->mr;
	}
}

/* Write and read in turns until the socket has no more bytes; returns their number. */
static size_t wire_pump(struct wire *w, char *to, enum soft_written expected)
{
	enum soft_written written;
	size_t got = 0;
	ssize_t n;

	do {
		w->out.is_full = false;
		written = ori_soft_outbox_write(&w->out, w->fds[0]);
		while ((n = recv(w->fds[1], to + got, 8 * LENGTH - got, 0)) > 0)
			got += (size_t)n;
	} while (written == SOFT_WRITTEN);
	assert_int_equal(written, expected);
	return got;
}

static void test_an_unsent_frame_is_taken_out(void **state)
{
	char *got = malloc(8 * LENGTH);
	struct soft_header h, seen;
	struct wire w;

	(void)state;
	assert_non_null(got);
	wire_open(&w);
	wire_push(&w, SOFT_ACK, 1, 0);
	wire_push(&w, SOFT_WRITE, 1, LENGTH);
	wire_push(&w, SOFT_ADD, 1, 0);
	wire_push(&w, SOFT_ADD, 2, 0);
	wire_push(&w, SOFT_ACK, 1, 0);
	assert_int_equal(mprotect(w.memory, LENGTH, PROT_NONE), 0);
	/* Either no frame has been sent, or the first alone. */
	assert_true(wire_pump(&w, got, SOFT_WRITTEN_MISSED) <= HEAD);
	w.out.is_full = false;
	assert_int_equal(ori_soft_outbox_drop(&w.out, &h), SOFT_WRITTEN);
	assert_int_equal(h.type, SOFT_WRITE);
	assert_int_equal(h.psn, 2);
	assert_int_equal(wire_pump(&w, got, SOFT_WRITTEN_NONE) % HEAD, 0);
	assert_int_equal(w.out.count, 0);
	/* The last two are of another queue, and a reply to the peer's request. */
	memcpy(&seen, got, HEAD);
	if (seen.psn == 1)
		memmove(got, got + HEAD, 2 * HEAD);
	memcpy(&seen, got, HEAD);
	assert_int_equal(seen.psn, 4);
	memcpy(&seen, got + HEAD, HEAD);
	assert_int_equal(seen.psn, 5);
	wire_close(&w);
	free(got);
}

/* The memory of the frame is unmapped after its header and some bytes were sent. */
static size_t begin(struct wire *w, char *got, enum soft_frame_type type)
{
	ssize_t n;

	wire_push(w, type, 1, LENGTH);
	wire_push(w, SOFT_ADD, 1, 0);
	wire_push(w, SOFT_ACK, 1, 0);
	assert_int_equal(ori_soft_outbox_write(&w->out, w->fds[0]), SOFT_WRITTEN);
	assert_true(w->out.is_full);
	assert_true(w->out.written > HEAD);
	assert_int_equal(mprotect(w->memory, LENGTH, PROT_NONE), 0);
	n = recv(w->fds[1], got, LENGTH, 0);
	assert_true(n > 0);
	return (size_t)n;
}

static void test_a_frame_sent_in_part_is_finished(void **state)
{
	char *got = malloc(16 * LENGTH);
	struct soft_header h, seen;
	size_t n, first;
	struct wire w;

	(void)state;
	assert_non_null(got);
	wire_open(&w);
	n = begin(&w, got, SOFT_WRITE);
	n += wire_pump(&w, got + n, SOFT_WRITTEN_MISSED);
	assert_int_equal(ori_soft_outbox_drop(&w.out, &h), SOFT_WRITTEN);
	assert_int_equal(h.psn, 1);
	first = n;
	n += wire_pump(&w, got + n, SOFT_WRITTEN_NONE);
	/* The frame keeps its announced length, and the ACK follows: no frame announces it. */
	assert_int_equal(n, HEAD + LENGTH + HEAD);
	for (size_t i = HEAD; i < first; i++)
		assert_int_equal(got[i], 9);
	for (size_t i = first; i < HEAD + LENGTH; i++)
		assert_int_equal(got[i], 0);
	memcpy(&seen, got + HEAD + LENGTH, HEAD);
	assert_int_equal(seen.type, SOFT_ACK);
	wire_close(&w);
	free(got);
}

/* The end of a WRITE with immediate data announces its bytes: zeros must not finish it. */
static void test_a_write_imm_is_not_finished_with_zeros(void **state)
{
	char *got = malloc(8 * LENGTH);
	struct soft_header h;
	struct wire w;

	(void)state;
	assert_non_null(got);
	wire_open(&w);
	(void)begin(&w, got, SOFT_WRITE_IMM);
	(void)wire_pump(&w, got, SOFT_WRITTEN_MISSED);
	assert_int_equal(ori_soft_outbox_drop(&w.out, &h), SOFT_WRITTEN_LOST);
	assert_int_equal(h.type, SOFT_WRITE_IMM);
	wire_close(&w);
	free(got);
}

static void test_memory_that_is_readable_again_is_copied(void **state)
{
	char *got = malloc(16 * LENGTH);
	struct soft_header h;
	struct wire w;
	size_t n;

	(void)state;
	assert_non_null(got);
	wire_open(&w);
	n = begin(&w, got, SOFT_WRITE);
	n += wire_pump(&w, got + n, SOFT_WRITTEN_MISSED);
	assert_int_equal(mprotect(w.memory, LENGTH, PROT_READ), 0);
	assert_int_equal(ori_soft_outbox_drop(&w.out, &h), SOFT_WRITTEN_NONE);
	assert_int_equal(mprotect(w.memory, LENGTH, PROT_NONE), 0);
	n += wire_pump(&w, got + n, SOFT_WRITTEN_NONE);
	assert_int_equal(n, HEAD + LENGTH + 2 * HEAD);
	for (size_t i = HEAD; i < HEAD + LENGTH; i++)
		assert_int_equal(got[i], 9);
	wire_close(&w);
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_unsent_frame_is_taken_out),
		cmocka_unit_test(test_a_frame_sent_in_part_is_finished),
		cmocka_unit_test(test_a_write_imm_is_not_finished_with_zeros),
		cmocka_unit_test(test_memory_that_is_readable_again_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
