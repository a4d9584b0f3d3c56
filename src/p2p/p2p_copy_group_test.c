/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the CPU as workers that pack and unpack, as kernels would. */
#include <stdatomic.h>

#include <oriel/dev/copy_group.h>

#include "p2p/pair_of_endpoints_test.h"

#define WORKERS 2u
#define TEAM 2u
#define CHANNELS 4u

/* A thread of a team, which is one worker of a side. */
struct hand {
	const struct oriel_dev_copy_group *group;
	struct oriel_team *team;
	uint64_t bytes; /* after which it leaves */
	enum oriel_dev_side side;
	uint32_t worker, rank;
	enum oriel_status entered, last;
	atomic_bool is_inside;
	pthread_t id;
};

/* Bytes in slots are the complement of bytes in buffers. */
static void work(const struct hand *h, struct oriel_dev_group g, const struct oriel_dev_chunk *c)
{
	uint64_t begin, at,
		length = oriel_dev_copy_group_part(h->group, h->worker, c->length, &begin);
	char *to = (h->side == ORIEL_DEV_PACK ? c->slot : c->buffer) + begin;
	const char *from = (h->side == ORIEL_DEV_PACK ? c->buffer : c->slot) + begin;

	length = oriel_dev_part(g, length, &at);
	for (uint64_t i = at; i < at + length; i++)
		to[i] = (char)~from[i];
	oriel_dev_copy_group_done(h->group, g, h->side, h->worker, c);
}

static void *hand_main(void *argument)
{
	struct hand *h = argument;
	struct oriel_dev_group g = oriel_dev_team(h->team, h->rank);
	struct oriel_dev_chunk chunk;
	uint64_t bytes = 0;

	h->entered = oriel_dev_copy_group_enter(h->group, g, h->side, h->worker);
	if (h->entered != ORIEL_OK)
		return NULL;
	atomic_store(&h->is_inside, true);
	while (bytes < h->bytes) {
		h->last = oriel_dev_copy_group_next(h->group, g, h->side, h->worker, 0, &chunk);
		if (h->last != ORIEL_OK)
			break;
		work(h, g, &chunk);
		bytes += chunk.length;
	}
	oriel_dev_copy_group_leave(h->group, g, h->side, h->worker);
	return NULL;
}

/* All workers of one side. */
struct shift {
	struct hand hands[WORKERS][TEAM];
	struct oriel_team teams[WORKERS];
};

static void shift_begin(struct shift *s, const struct oriel_dev_copy_group *group,
			enum oriel_dev_side side, uint64_t bytes)
{
	for (unsigned w = 0; w < WORKERS; w++) {
		assert_int_equal(oriel_team_open(&s->teams[w], TEAM, true), ORIEL_OK);
		for (unsigned i = 0; i < TEAM; i++) {
			s->hands[w][i] = (struct hand){.group = group,
						       .team = &s->teams[w],
						       .bytes = bytes,
						       .side = side,
						       .worker = w,
						       .rank = i};
			assert_int_equal(pthread_create(&s->hands[w][i].id, NULL, hand_main,
							&s->hands[w][i]),
					 0);
		}
	}
}

static void shift_await(struct shift *s)
{
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);

	for (unsigned w = 0; w < WORKERS; w++)
		for (unsigned i = 0; i < TEAM; i++)
			while (!atomic_load(&s->hands[w][i].is_inside)) {
				assert_false(ori_deadline_passed(deadline));
				sched_yield();
			}
}

static void shift_end(struct shift *s, enum oriel_status entered, enum oriel_status last)
{
	for (unsigned w = 0; w < WORKERS; w++)
		for (unsigned i = 0; i < TEAM; i++) {
			assert_int_equal(pthread_join(s->hands[w][i].id, NULL), 0);
			assert_int_equal(s->hands[w][i].entered, entered);
			assert_int_equal(s->hands[w][i].last, last);
		}
}

/* Both endpoints with a copy group each; one for both where an endpoint is its own peer. */
struct groups {
	struct endpoints e;
	struct oriel_p2p_copy_group *of[2];
	struct oriel_dev_copy_group device[2];
	unsigned count;
};

static void groups_open(struct groups *c, enum oriel_path path)
{
	const struct oriel_p2p_copy_group_attr group = {.size = sizeof(group),
							.workers = WORKERS,
							.depth = 3};
	struct oriel_p2p_context_attr context = small;
	struct oriel_p2p **endpoint[2] = {&c->e.a, &c->e.b};

	memset(c, 0, sizeof(*c));
	c->count = path == ORIEL_PATH_SELF ? 1 : 2;
	context.paths = 1u << path;
	for (unsigned i = 0; i < c->count; i++) {
		struct oriel_p2p_attr attr = {.size = sizeof(attr),
					      .mode = ORIEL_P2P_COPY_BASED,
					      .channels = CHANNELS,
					      .hooks = oriel_p2p_copy_group_hooks()};

		assert_int_equal(oriel_p2p_context_create(&context, &c->e.contexts[i]), ORIEL_OK);
		assert_int_equal(oriel_p2p_copy_group_create(c->e.contexts[i], &group, &c->of[i]),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_copy_group_device(c->of[i], &c->device[i]), ORIEL_OK);
		attr.context = c->of[i];
		assert_int_equal(oriel_p2p_create(c->e.contexts[i], &attr, endpoint[i]), ORIEL_OK);
	}
	if (path == ORIEL_PATH_SELF)
		c->e.b = c->e.a;
	endpoints_join(&c->e);
}

static void groups_close(struct groups *c)
{
	oriel_p2p_destroy(c->e.a);
	if (c->e.b != c->e.a)
		oriel_p2p_destroy(c->e.b);
	for (unsigned i = 0; i < c->count; i++)
		oriel_p2p_copy_group_destroy(c->of[i]);
	endpoints_close_contexts(&c->e);
}

static void workers_copy_the_transfers(enum oriel_path path)
{
	static char from[CHANNELS][LONG], to[CHANNELS][LONG];
	struct oriel_p2p_request out[CHANNELS], in[CHANNELS];
	static struct shift packers, unpackers;
	struct groups c;

	groups_open(&c, path);
	/* Twice: the second shift continues where the first has left. */
	for (unsigned n = 0; n < 2; n++) {
		shift_begin(&packers, &c.device[0], ORIEL_DEV_PACK, CHANNELS * (uint64_t)LONG);
		shift_begin(&unpackers, &c.device[c.count - 1], ORIEL_DEV_UNPACK,
			    CHANNELS * (uint64_t)LONG);
		for (unsigned k = 0; k < CHANNELS; k++) {
			struct oriel_p2p_buffer f = buffer(from[k], LONG, NULL);
			struct oriel_p2p_buffer t = buffer(to[k], LONG, NULL);

			endpoints_fill(from[k], LONG, k + n);
			memset(to[k], 0, LONG);
			assert_int_equal(oriel_p2p_send(c.e.a, k, &f, &out[k]), ORIEL_OK);
			assert_int_equal(oriel_p2p_recv(c.e.b, k, &t, &in[k]), ORIEL_OK);
		}
		for (unsigned k = 0; k < CHANNELS; k++) {
			assert_int_equal(endpoints_wait(&c.e, &in[k]), ORIEL_OK);
			assert_int_equal(endpoints_wait(&c.e, &out[k]), ORIEL_OK);
			assert_memory_equal(to[k], from[k], LONG);
		}
		shift_end(&packers, ORIEL_OK, ORIEL_OK);
		shift_end(&unpackers, ORIEL_OK, ORIEL_OK);
	}
	groups_close(&c);
}

static void test_workers_copy_the_transfers(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i <= ENDPOINTS_RDMA; i++)
		workers_copy_the_transfers(endpoints_path[routes[i]]);
}

/* Workers that wait for more than is ever sent leave when the endpoint ends. */
static void workers_leave_when_the_endpoint_ends(enum oriel_path path)
{
	static char from[LONG], to[LONG];
	struct oriel_p2p_buffer f = buffer(from, LONG, NULL), t = buffer(to, LONG, NULL);
	struct oriel_p2p_request out, in, more;
	static struct shift packers, late;
	struct groups c;

	groups_open(&c, path);
	shift_begin(&packers, &c.device[0], ORIEL_DEV_PACK, UINT64_MAX);
	shift_await(&packers);
	assert_int_equal(oriel_p2p_send(c.e.a, 0, &f, &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(c.e.b, 0, &t, &in), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(c.e.a, 1, &f, &more), ORIEL_OK);
	for (unsigned i = 0; i < 20; i++)
		endpoints_turn(&c.e);
	/* No worker unpacks. */
	assert_int_equal(in.status, ORIEL_AGAIN);
	oriel_p2p_destroy(c.e.a);
	assert_int_equal(more.status, ORIEL_ERR_ABORTED);
	shift_end(&packers, ORIEL_OK, ORIEL_ERR_ABORTED);
	shift_begin(&late, &c.device[0], ORIEL_DEV_PACK, UINT64_MAX);
	shift_end(&late, ORIEL_ERR_ABORTED, ORIEL_OK);
	if (c.e.a == c.e.b)
		c.e.b = NULL;
	c.e.a = NULL;
	groups_close(&c);
}

static void test_workers_leave_when_the_endpoint_ends(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i <= ENDPOINTS_RDMA; i++)
		workers_leave_when_the_endpoint_ends(endpoints_path[routes[i]]);
}

/* A program with other headers has kernels that read another handle: it gets none. */
static void handle_is_of_this_version(const struct oriel_p2p_copy_group *group)
{
	struct oriel_dev_copy_group device = {.workers = 77};
	const size_t size = sizeof(device);

	for (int by = -1; by <= 1; by += 2) {
		assert_int_equal(oriel_p2p_copy_group_device_as(group,
								ORIEL_DEV_VERSION + (uint32_t)by,
								size, &device),
				 ORIEL_ERR_VERSION);
		assert_non_null(strstr(oriel_last_error(), "compile it again"));
		assert_int_equal(oriel_p2p_copy_group_device_as(group, ORIEL_DEV_VERSION,
								size + 8 * (size_t)by, &device),
				 ORIEL_ERR_VERSION);
	}
	assert_int_equal(device.workers, 77);
	assert_int_equal(oriel_p2p_copy_group_device(group, NULL), ORIEL_ERR_INVALID);
}

static void test_waits_end_with_their_timeout(void **state)
{
	const struct oriel_p2p_copy_group_attr attr = {.size = sizeof(attr), .timeout_ns = 1000000};
	const struct oriel_p2p_context_attr context = {.size = sizeof(context)};
	struct oriel_p2p_copy_group_attr many = {.size = sizeof(many), .workers = 65};
	struct oriel_dev_group g = oriel_dev_thread();
	struct oriel_p2p_copy_group *group = NULL, *none = NULL;
	struct oriel_p2p_context *h = NULL;
	struct oriel_dev_copy_group device;
	struct oriel_dev_chunk chunk;

	(void)state;
	assert_int_equal(oriel_p2p_context_create(&context, &h), ORIEL_OK);
	assert_int_equal(oriel_p2p_copy_group_create(h, &many, &none), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_p2p_copy_group_create(h, &attr, &group), ORIEL_OK);
	assert_int_equal(oriel_p2p_copy_group_device(group, &device), ORIEL_OK);
	handle_is_of_this_version(group);
	assert_int_equal(oriel_dev_copy_group_enter(&device, g, ORIEL_DEV_PACK, 1),
			 ORIEL_ERR_RANGE);
	assert_int_equal(oriel_dev_copy_group_enter(&device, g, ORIEL_DEV_PACK, 0), ORIEL_OK);
	assert_int_equal(oriel_dev_copy_group_test(&device, g, ORIEL_DEV_PACK, 0), ORIEL_AGAIN);
	assert_int_equal(oriel_dev_copy_group_next(&device, g, ORIEL_DEV_PACK, 0, 0, &chunk),
			 ORIEL_ERR_TIMEOUT);
	assert_int_equal(oriel_dev_copy_group_next(&device, g, ORIEL_DEV_PACK, 0, 1000, &chunk),
			 ORIEL_ERR_TIMEOUT);
	oriel_dev_copy_group_leave(&device, g, ORIEL_DEV_PACK, 0);
	device.version++;
	assert_int_equal(oriel_dev_copy_group_enter(&device, g, ORIEL_DEV_PACK, 0),
			 ORIEL_ERR_VERSION);
	oriel_p2p_copy_group_destroy(group);
	oriel_p2p_copy_group_destroy(NULL);
	endpoints_destroy_context(h);
}

static void test_a_copy_group_outlives_its_endpoint(void **state)
{
	struct oriel_p2p_attr attr = {.size = sizeof(attr),
				      .mode = ORIEL_P2P_COPY_BASED,
				      .hooks = oriel_p2p_copy_group_hooks()};
	struct oriel_p2p_context *ctx, *other;
	struct oriel_p2p_copy_group *group;
	struct oriel_p2p *p2p, *second;

	(void)state;
	assert_int_equal(oriel_p2p_context_create(&small, &ctx), ORIEL_OK);
	assert_int_equal(oriel_p2p_context_create(&small, &other), ORIEL_OK);
	assert_int_equal(oriel_p2p_copy_group_create(ctx, NULL, &group), ORIEL_OK);
	attr.context = &attr;
	assert_int_equal(oriel_p2p_create(ctx, &attr, &p2p), ORIEL_ERR_STATE);
	attr.context = group;
	assert_int_equal(oriel_p2p_create(other, &attr, &p2p), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_p2p_create(ctx, &attr, &p2p), ORIEL_OK);
	assert_int_equal(oriel_p2p_create(ctx, &attr, &second), ORIEL_ERR_STATE);
	assert_int_equal(oriel_p2p_copy_group_destroy(group), ORIEL_ERR_STATE);
	assert_non_null(strstr(oriel_last_error(), "still has its p2p endpoint"));
	assert_int_equal(oriel_p2p_destroy(p2p), ORIEL_OK);
	/* It has sent its workers away. */
	assert_int_equal(oriel_p2p_create(ctx, &attr, &p2p), ORIEL_ERR_STATE);
	assert_int_equal(oriel_p2p_context_destroy(ctx), ORIEL_ERR_STATE);
	assert_non_null(strstr(oriel_last_error(), "still has its p2p copy group"));
	assert_int_equal(oriel_p2p_copy_group_destroy(group), ORIEL_OK);
	assert_int_equal(oriel_p2p_context_destroy(ctx), ORIEL_OK);
	assert_int_equal(oriel_p2p_context_destroy(other), ORIEL_OK);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_workers_copy_the_transfers),
		cmocka_unit_test(test_workers_leave_when_the_endpoint_ends),
		cmocka_unit_test(test_waits_end_with_their_timeout),
		cmocka_unit_test(test_a_copy_group_outlives_its_endpoint),
	};

	endpoints_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
