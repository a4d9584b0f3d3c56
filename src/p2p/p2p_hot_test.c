/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations between joined endpoints allocate nothing, and take no lock that endpoints
 * share.
 */
#include "p2p/p2p.h"
#include "p2p/pair_of_endpoints_test.h"

#define CHANNELS 2u
#define ROUNDS 40u
#define WORDS 80u /* more than are kept as unexpected messages */

/* Counts of this thread, while it is where none may be. */
static _Thread_local bool is_hot;
static unsigned allocations, locks;
static const struct endpoints *hot_endpoints;
static bool counts_all_locks;

/*
 * The linker redirects the calls of the library, and those of the system, in this way
 * (--wrap).
 */
void *__real_malloc(size_t length);
void *__real_calloc(size_t count, size_t length);
void *__real_realloc(void *before, size_t length);
void *__real_aligned_alloc(size_t alignment, size_t length);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);

void *__wrap_malloc(size_t length);
void *__wrap_calloc(size_t count, size_t length);
void *__wrap_realloc(void *before, size_t length);
void *__wrap_aligned_alloc(size_t alignment, size_t length);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

void *__wrap_malloc(size_t length)
{
	if (is_hot)
		allocations++;
	return __real_malloc(length);
}

void *__wrap_calloc(size_t count, size_t length)
{
	if (is_hot)
		allocations++;
	return __real_calloc(count, length);
}

void *__wrap_realloc(void *before, size_t length)
{
	if (is_hot)
		allocations++;
	return __real_realloc(before, length);
}

void *__wrap_aligned_alloc(size_t alignment, size_t length)
{
	if (is_hot)
		allocations++;
	return __real_aligned_alloc(alignment, length);
}

/* The software HCA has locks of its own, one for each queue. */
static bool is_shared(const pthread_mutex_t *lock)
{
	for (unsigned k = 0; k < 2; k++)
		if (hot_endpoints->contexts[k] && lock == &hot_endpoints->contexts[k]->lock)
			return true;
	return counts_all_locks;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	if (is_hot && is_shared(lock))
		locks++;
	return __real_pthread_mutex_lock(lock);
}

static char data[2][2][CHANNELS][LONG];

/*
 * A transfer on each channel, both ways, and messages that arrive before their receives,
 * and after.
 */
static void round_of_all(struct endpoints *e, struct oriel_p2p_memory *memory[2], size_t length)
{
	struct oriel_p2p_request out[2][CHANNELS], in[2][CHANNELS], said[WORDS], heard[WORDS];
	struct oriel_p2p *endpoint[2] = {e->a, e->b};
	static char words[2][WORDS][100];

	for (unsigned i = 0; i < WORDS; i++)
		assert_int_equal(oriel_p2p_send_control(e->a, i % 3, words[0][i], i, &said[i]),
				 ORIEL_OK);
	for (unsigned k = 0; k < 2; k++) {
		for (unsigned c = 0; c < CHANNELS; c++) {
			struct oriel_p2p_buffer f = buffer(data[k][0][c], length, memory[k]),
						t = buffer(data[k][1][c], length, memory[k]);

			assert_int_equal(oriel_p2p_recv(endpoint[k], c, &t, &in[k][c]), ORIEL_OK);
			assert_int_equal(oriel_p2p_send(endpoint[k], c, &f, &out[k][c]), ORIEL_OK);
		}
	}
	for (unsigned k = 0; k < 2; k++) {
		for (unsigned c = 0; c < CHANNELS; c++) {
			assert_int_equal(endpoints_wait(e, &in[k][c]), ORIEL_OK);
			assert_int_equal(endpoints_wait(e, &out[k][c]), ORIEL_OK);
		}
	}
	for (unsigned i = 0; i < WORDS; i++)
		assert_int_equal(oriel_p2p_recv_control(e->b, i % 3, words[1][i], i, &heard[i]),
				 ORIEL_OK);
	for (unsigned i = 0; i < WORDS; i++) {
		assert_int_equal(endpoints_wait(e, &heard[i]), ORIEL_OK);
		assert_int_equal(endpoints_wait(e, &said[i]), ORIEL_OK);
	}
}

static void open_hot(struct endpoints *e, enum endpoints_route route, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = CHANNELS};

	endpoints_open(e, route, &small, &attr);
	hot_endpoints = e;
	counts_all_locks = endpoints_path[route] != ORIEL_PATH_RDMA;
	allocations = locks = 0;
}

static void nothing_is_allocated(enum endpoints_route route, enum oriel_p2p_mode mode)
{
	static const size_t lengths[] = {8, 49, CHUNK, LONG};
	struct oriel_p2p_memory *memory[2];
	struct endpoints e;

	open_hot(&e, route, mode);
	for (unsigned k = 0; k < 2; k++)
		assert_int_equal(oriel_p2p_register(e.contexts[route == ENDPOINTS_SELF ? 0 : k],
						    data[k], sizeof(data[k]), 0, &memory[k]),
				 ORIEL_OK);
	for (unsigned i = 0; i < ROUNDS; i++) {
		/* A peer maps memory when it gets the first offer of it. */
		is_hot = i >= 4;
		round_of_all(&e, memory, lengths[i % 4]);
		is_hot = false;
	}
	assert_int_equal(locks, 0);
	assert_int_equal(allocations, 0);
	for (unsigned k = 0; k < 2; k++)
		oriel_p2p_unregister(memory[k]);
	endpoints_close(&e);
}

static void test_nothing_is_allocated_and_nothing_locked(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			nothing_is_allocated(routes[i], modes[k]);
}

/* Proof that the counters work: a transfer that registers memory needs both. */
static void test_a_registration_is_counted(void **state)
{
	struct oriel_p2p_memory *none[2] = {NULL, NULL};
	struct endpoints e;

	(void)state;
	open_hot(&e, ENDPOINTS_RDMA, ORIEL_P2P_ZERO_COPY);
	is_hot = true;
	round_of_all(&e, none, LONG);
	is_hot = false;
	assert_true(allocations > 0);
	assert_true(locks > 0);
	endpoints_close(&e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_allocated_and_nothing_locked),
		cmocka_unit_test(test_a_registration_is_counted),
	};

	endpoints_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
