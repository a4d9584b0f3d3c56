/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a frame that is unmapped while the frame waits for its connection, plain or of TLS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hca/soft/soft_outbox.h"

#define LENGTH (256u << 10)
#define HEAD sizeof(struct soft_header)

static const struct ori_key key = {16, "a key for a test"};

struct wire {
	struct soft_outbox out;
	struct soft_mr mr;
	struct ori_tls_context *tls; /* NULL: the connection is plain */
	struct ori_traffic traffic;
	struct ori_net_conn from, to;
	char *memory; /* LENGTH bytes */
};

/* The handshake of TLS, and the hello. */
static void wire_shake(struct wire *w)
{
	enum oriel_status from = ORIEL_AGAIN, to = ORIEL_AGAIN;
	struct ori_frame frame;

	w->from.state = ORI_NET_CONNECTING;
	w->from.is_connector = true;
	w->from.context = w->tls;
	while (from == ORIEL_AGAIN || to == ORIEL_AGAIN) {
		if (from == ORIEL_AGAIN) {
			from = ori_net_step(&w->from);
			if (from == ORIEL_OK)
				from = ori_net_send(&w->from, 1, NULL, 0);
		}
		if (to == ORIEL_AGAIN)
			to = ori_net_step(&w->to);
	}
	assert_int_equal(from, ORIEL_OK);
	assert_int_equal(to, ORIEL_OK);
	assert_int_equal(ori_net_take(&w->to, &frame, NULL, 0), ORIEL_OK);
}

/* The test's initial state says whether the job has a key. */
static void wire_open(struct wire *w, void **state)
{
	int fds[2];

	memset(w, 0, sizeof(*w));
	assert_true(ori_soft_outbox_open(&w->out));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	if (*state)
		assert_int_equal(ori_tls_context_create(&key, &w->tls), ORIEL_OK);
	ori_net_open(&w->from, fds[0], &w->traffic);
	ori_net_accept(&w->to, fds[1], w->tls, &w->traffic);
	wire_shake(w);
	w->memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(w->memory != MAP_FAILED);
	memset(w->memory, 9, LENGTH);
}

static void wire_close(struct wire *w)
{
	ori_soft_outbox_close(&w->out);
	ori_net_close(&w->from);
	ori_net_close(&w->to);
	ori_tls_context_destroy(w->tls);
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
	size_t got = 0, n;

	do {
		w->out.is_full = false;
		written = ori_soft_outbox_write(&w->out, &w->from);
		while (ori_net_stream_read(&w->to, to + got, 8 * LENGTH - got, &n) == ORIEL_OK)
			got += n;
	} while (written == SOFT_WRITTEN);
	assert_int_equal(written, expected);
	return got;
}

static void test_an_unsent_frame_is_taken_out(void **state)
{
	char *got = malloc(8 * LENGTH);
	struct soft_header h, seen;
	struct wire w;

	assert_non_null(got);
	wire_open(&w, state);
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
	size_t n;

	wire_push(w, type, 1, LENGTH);
	wire_push(w, SOFT_ADD, 1, 0);
	wire_push(w, SOFT_ACK, 1, 0);
	assert_int_equal(ori_soft_outbox_write(&w->out, &w->from), SOFT_WRITTEN);
	assert_true(w->out.is_full);
	assert_true(w->out.written > HEAD);
	assert_int_equal(mprotect(w->memory, LENGTH, PROT_NONE), 0);
	assert_int_equal(ori_net_stream_read(&w->to, got, LENGTH, &n), ORIEL_OK);
	return n;
}

static void test_a_frame_sent_in_part_is_finished(void **state)
{
	char *got = malloc(16 * LENGTH);
	struct soft_header h, seen;
	size_t n, first;
	struct wire w;

	assert_non_null(got);
	wire_open(&w, state);
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

	assert_non_null(got);
	wire_open(&w, state);
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

	assert_non_null(got);
	wire_open(&w, state);
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

#define BOTH(name) cmocka_unit_test(name), cmocka_unit_test_prestate(name, (void *)(uintptr_t)&key)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_an_unsent_frame_is_taken_out),
		BOTH(test_a_frame_sent_in_part_is_finished),
		BOTH(test_a_write_imm_is_not_finished_with_zeros),
		BOTH(test_memory_that_is_readable_again_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
