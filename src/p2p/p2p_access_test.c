/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that may not be read or written: the call rejects it before anything is begun. */
#include "p2p/pair_of_endpoints_test.h"

#include <sys/mman.h>

#define PAGE 4096u
#define MEBIBYTE (1u << 20)

static const size_t lengths[] = {8, PAGE, MEBIBYTE};

#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* @length bytes; the second half may not be accessed, or none where @is_wild. */
static char *bad_open(size_t length, bool is_wild)
{
	size_t half = (length / 2 + PAGE - 1) / PAGE * PAGE;
	char *area =
		mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(area != MAP_FAILED);
	assert_int_equal(mprotect(is_wild ? area : area + half, is_wild ? 2 * half : half,
				  PROT_NONE),
			 0);
	return area + half - length / 2;
}

static void bad_close(char *at, size_t length)
{
	size_t half = (length / 2 + PAGE - 1) / PAGE * PAGE;

	assert_int_equal(munmap(at + length / 2 - half, 2 * half), 0);
}

static void check_refused(enum oriel_status status, const char *at, size_t length, const char *what)
{
	char memory[64];

	assert_int_equal(status, ORIEL_ERR_ACCESS);
	assert_int_equal(oriel_last_status(), ORIEL_ERR_ACCESS);
	snprintf(memory, sizeof(memory), "%zu bytes", length);
	assert_non_null(strstr(oriel_last_error(), memory));
	snprintf(memory, sizeof(memory), "at %p", (const void *)at);
	assert_non_null(strstr(oriel_last_error(), memory));
	assert_non_null(strstr(oriel_last_error(), what));
}

/* The next transfer is the first one of the channel. */
static void check_link(struct endpoints *e, size_t length)
{
	char *from = malloc(length), *to = calloc(1, length);
	struct oriel_p2p_buffer out = buffer(from, length, NULL), in = buffer(to, length, NULL);
	struct oriel_p2p_request r[2];

	assert_true(from && to);
	endpoints_fill(from, length, 3);
	assert_int_equal(oriel_p2p_recv(e->b, 0, &in, &r[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(e->a, 0, &out, &r[1]), ORIEL_OK);
	assert_int_equal(endpoints_wait(e, &r[0]), ORIEL_OK);
	assert_int_equal(endpoints_wait(e, &r[1]), ORIEL_OK);
	assert_memory_equal(from, to, length);
	free(from);
	free(to);
}

static void transfers_reject_bad_memory(enum oriel_p2p_mode mode, enum endpoints_route route,
					bool is_joined)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode};
	struct oriel_p2p_request r;
	struct endpoints e;

	endpoints_create(&e, route, &small, &attr);
	if (is_joined)
		endpoints_join(&e);
	for (unsigned i = 0; i < 2 * LENGTHS; i++) {
		size_t length = lengths[i / 2];
		char *at = bad_open(length, i % 2);
		struct oriel_p2p_buffer bad = buffer(at, length, NULL);

		check_refused(oriel_p2p_send(e.a, 0, &bad, &r), at, length, "may not be read");
		check_refused(oriel_p2p_recv(e.b, 0, &bad, &r), at, length, "may not be written");
		bad_close(at, length);
	}
	if (!is_joined)
		endpoints_join(&e);
	for (unsigned i = 0; i < LENGTHS; i++)
		check_link(&e, lengths[i]);
	endpoints_close(&e);
}

static void test_transfers_reject_bad_memory(void **state)
{
	(void)state;
	for (unsigned k = 0; k < MODES; k++)
		for (unsigned is_joined = 0; is_joined < 2; is_joined++) {
			transfers_reject_bad_memory(modes[k], ENDPOINTS_RDMA, is_joined);
			transfers_reject_bad_memory(modes[k], ENDPOINTS_INTERNODE, is_joined);
		}
}

static void test_puts_reject_bad_memory(void **state)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = ORIEL_P2P_ZERO_COPY};
	char bytes[ORIEL_P2P_EXPORT], *target = calloc(1, MEBIBYTE);
	struct oriel_p2p_memory *memory;
	struct oriel_p2p_request put, expect;
	struct oriel_p2p_remote remote;
	struct oriel_p2p_buffer all, good;
	struct endpoints e;

	(void)state;
	assert_non_null(target);
	endpoints_open(&e, ENDPOINTS_RDMA, &small, &attr);
	assert_int_equal(oriel_p2p_register(e.contexts[1], target, MEBIBYTE, 0, &memory), ORIEL_OK);
	all = buffer(target, MEBIBYTE, memory);
	assert_int_equal(oriel_p2p_export(e.b, &all, bytes), ORIEL_OK);
	assert_int_equal(oriel_p2p_import(e.a, bytes, sizeof(bytes), &remote), ORIEL_OK);
	for (unsigned i = 0; i < 2 * LENGTHS; i++) {
		size_t length = lengths[i / 2];
		char *at = bad_open(length, i % 2);
		struct oriel_p2p_buffer bad = buffer(at, length, NULL);

		check_refused(oriel_p2p_put(e.a, 0, &bad, &remote, 0, &put), at, length,
			      "may not be read");
		bad_close(at, length);
	}
	good = buffer(bytes, sizeof(bytes), NULL);
	assert_int_equal(oriel_p2p_expect(e.b, 0, &expect), ORIEL_OK);
	assert_int_equal(oriel_p2p_put(e.a, 0, &good, &remote, 8, &put), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &expect), ORIEL_OK);
	assert_memory_equal(target + 8, bytes, sizeof(bytes));
	assert_int_equal(endpoints_wait(&e, &put), ORIEL_OK);
	oriel_p2p_unregister(memory);
	endpoints_close(&e);
	free(target);
}

/* HCAs pin all pages, so that registered memory exists. */
static void test_registrations_reject_bad_memory(void **state)
{
	struct oriel_p2p_memory *memory;
	struct endpoints e;

	(void)state;
	endpoints_open(&e, ENDPOINTS_RDMA, &small, NULL);
	for (unsigned i = 0; i < 2 * LENGTHS; i++) {
		size_t length = lengths[i / 2];
		char *at = bad_open(length, i % 2);

		check_refused(oriel_p2p_register(e.contexts[0], at, length, 0, &memory), at, length,
			      "cannot register");
		bad_close(at, length);
	}
	check_link(&e, PAGE);
	endpoints_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transfers_reject_bad_memory),
		cmocka_unit_test(test_puts_reject_bad_memory),
		cmocka_unit_test(test_registrations_reject_bad_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
