/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a transport of the caller: what of it is checked, and what becomes of its
 * failures. The other tests of endpoints run over one as well (*_pipe_test).
 */
#define ENDPOINTS_OVER_PIPE
#include "p2p/pair_of_endpoints_test.h"

/* The functions that fail now, and how; the pipe serves the others. */
static struct faults {
	enum oriel_status put, progress, take, open, register_memory;
	uint64_t more_done;         /* than there are */
	struct oriel_p2p *to_leave; /* sends and ends before a message is received */
	struct oriel_p2p_buffer last;
} faults;

static enum oriel_status fault_put(void *link, const struct oriel_p2p_transport_put *put)
{
	return faults.put != ORIEL_OK ? faults.put : p2p_pipe_transport.put(link, put);
}

static enum oriel_status fault_progress(void *link, uint64_t *done)
{
	enum oriel_status status = p2p_pipe_transport.progress(link, done);

	*done += faults.more_done;
	return faults.progress != ORIEL_OK ? faults.progress : status;
}

static enum oriel_status fault_take(void *link, uint32_t *immediate)
{
	return faults.take != ORIEL_OK ? faults.take : p2p_pipe_transport.take(link, immediate);
}

static enum oriel_status fault_open(void *context, void *data, void **link)
{
	return faults.open != ORIEL_OK ? faults.open : endpoints_pipe_open(context, data, link);
}

static enum oriel_status fault_register(void *context, void *address, size_t length,
					struct oriel_p2p_target *target)
{
	return faults.register_memory != ORIEL_OK
		       ? faults.register_memory
		       : p2p_pipe_transport.register_memory(context, address, length, target);
}

/* The peer puts its last bytes and leaves after all puts have been taken, and before this. */
static enum oriel_status fault_recv(void *link, void *bytes, size_t room, size_t *length)
{
	struct oriel_p2p *p2p = faults.to_leave;
	struct oriel_p2p_request r;

	faults.to_leave = NULL;
	if (p2p) {
		assert_int_equal(oriel_p2p_send(p2p, 0, &faults.last, &r), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(p2p, &r, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
		oriel_p2p_destroy(p2p);
	}
	return p2p_pipe_transport.recv(link, bytes, room, length);
}

static struct oriel_p2p_transport fault_transport(void)
{
	struct oriel_p2p_transport t = p2p_pipe_transport;

	t.open = fault_open;
	t.register_memory = fault_register;
	t.put = fault_put;
	t.progress = fault_progress;
	t.take = fault_take;
	t.recv = fault_recv;
	return t;
}

static struct oriel_p2p_context *context_of(const struct oriel_p2p_transport *t)
{
	struct oriel_p2p_context_attr attr = {.size = sizeof(attr), .chunk = CHUNK, .slots = 24};
	struct oriel_p2p_context *ctx = NULL;

	endpoints_use_pipe(&attr);
	if (t)
		attr.transport = t;
	assert_int_equal(oriel_p2p_context_create(&attr, &ctx), ORIEL_OK);
	return ctx;
}

/* Created, not joined. */
static void faulty_create(struct endpoints *e, const struct oriel_p2p_transport *a,
			  const struct oriel_p2p_transport *b, const struct oriel_p2p_attr *attr)
{
	memset(&faults, 0, sizeof(faults));
	e->contexts[0] = context_of(a);
	e->contexts[1] = context_of(b);
	assert_int_equal(oriel_p2p_create(e->contexts[0], attr, &e->a), ORIEL_OK);
	assert_int_equal(oriel_p2p_create(e->contexts[1], attr, &e->b), ORIEL_OK);
}

static void faulty_open(struct endpoints *e, const struct oriel_p2p_attr *attr)
{
	const struct oriel_p2p_transport t = fault_transport();

	faulty_create(e, &t, &t, attr);
	endpoints_join(e);
}

static void refused(const struct oriel_p2p_context_attr *attr, const char *text)
{
	struct oriel_p2p_context *ctx = NULL;

	assert_int_equal(oriel_p2p_context_create(attr, &ctx), ORIEL_ERR_INVALID);
	assert_null(ctx);
	assert_non_null(strstr(oriel_last_error(), text));
}

static void test_a_transport_is_whole(void **state)
{
	struct oriel_p2p_context_attr attr = {.size = sizeof(attr)};
	struct oriel_p2p_transport t = p2p_pipe_transport;

	(void)state;
	endpoints_use_pipe(&attr);
	attr.transport = &t;
	/* A caller that knows fewer functions than this library needs. */
	t.size = offsetof(struct oriel_p2p_transport, take);
	refused(&attr, "lacks a function");
	t.size = sizeof(t);
	t.put = NULL;
	refused(&attr, "transport pipe lacks a function");
	t.put = p2p_pipe_transport.put;
	t.name = "a name of more bytes than a name may have";
	refused(&attr, "1 to 31 bytes");
	t.name = "";
	refused(&attr, "1 to 31 bytes");
	t.name = "pipe";
	attr.paths = 1u << ORIEL_PATH_MAPPED;
	refused(&attr, "neither paths (0x4) nor flags");
	attr.paths = 0;
	attr.flags = ORIEL_P2P_GPU;
	refused(&attr, "nor flags (0x1)");
}

static void test_a_transport_that_cannot_register_makes_no_context(void **state)
{
	const struct oriel_p2p_transport t = fault_transport();
	struct oriel_p2p_context_attr attr = {.size = sizeof(attr)};
	struct oriel_p2p_context *ctx = NULL;

	(void)state;
	memset(&faults, 0, sizeof(faults));
	endpoints_use_pipe(&attr);
	attr.transport = &t;
	faults.register_memory = ORIEL_ERR_NOMEM;
	assert_int_equal(oriel_p2p_context_create(&attr, &ctx), ORIEL_ERR_NOMEM);
	assert_non_null(strstr(oriel_last_error(), "register_memory() of transport pipe failed"));
	faults.register_memory = ORIEL_AGAIN;
	assert_int_equal(oriel_p2p_context_create(&attr, &ctx), ORIEL_ERR_PROTOCOL);
}

/* An endpoint joins neither one of the library's paths nor itself by a transport. */
static void test_only_endpoints_of_transports_join(void **state)
{
	const struct oriel_p2p_attr paths = {.size = sizeof(paths), .paths = 4};
	char address[3][ORIEL_P2P_ADDRESS];
	struct oriel_p2p_context *other;
	struct oriel_p2p *mapped;
	struct endpoints e;

	(void)state;
	faulty_create(&e, NULL, NULL, NULL);
	assert_int_equal(oriel_p2p_context_create(NULL, &other), ORIEL_OK);
	assert_int_equal(oriel_p2p_create(other, NULL, &mapped), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e.a, address[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(mapped, address[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.a, address[1], ORIEL_P2P_ADDRESS, 0),
			 ORIEL_ERR_NO_PATH);
	assert_non_null(strstr(oriel_last_error(), "transport pipe"));
	assert_int_equal(oriel_p2p_connect(mapped, address[0], ORIEL_P2P_ADDRESS, 0),
			 ORIEL_ERR_NO_PATH);
	assert_int_equal(oriel_p2p_connect(e.a, address[0], ORIEL_P2P_ADDRESS, 0),
			 ORIEL_ERR_NO_PATH);
	oriel_p2p_destroy(mapped);
	oriel_p2p_context_destroy(other);
	assert_int_equal(oriel_p2p_create(e.contexts[0], &paths, &mapped), ORIEL_ERR_INVALID);
	/* The endpoints are still idle, and join their peer. */
	endpoints_join(&e);
	endpoints_close(&e);
}

static void test_transports_of_two_names_do_not_join(void **state)
{
	struct oriel_p2p_transport t = fault_transport();
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
	char address[2][ORIEL_P2P_ADDRESS];
	struct endpoints e;

	(void)state;
	t.name = "tube";
	faulty_create(&e, NULL, &t, NULL);
	assert_int_equal(oriel_p2p_address(e.a, address[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e.b, address[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.a, address[1], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.b, address[0], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	while (oriel_p2p_check(e.a) == ORIEL_AGAIN || oriel_p2p_check(e.b) == ORIEL_AGAIN) {
		assert_false(ori_deadline_passed(deadline));
		endpoints_turn(&e);
	}
	assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), "tube"));
	assert_int_equal(oriel_p2p_check(e.b), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), "pipe"));
	endpoints_close(&e);
}

static void test_an_open_that_fails_may_be_repeated(void **state)
{
	const struct oriel_p2p_transport t = fault_transport();
	char address[ORIEL_P2P_ADDRESS];
	struct endpoints e;

	(void)state;
	faulty_create(&e, &t, &t, NULL);
	assert_int_equal(oriel_p2p_address(e.b, address), ORIEL_OK);
	faults.open = ORIEL_ERR_SYSTEM;
	assert_int_equal(oriel_p2p_connect(e.a, address, ORIEL_P2P_ADDRESS, 0), ORIEL_ERR_SYSTEM);
	assert_non_null(strstr(oriel_last_error(), "open() of transport pipe failed"));
	faults.open = ORIEL_OK;
	endpoints_join(&e);
	endpoints_close(&e);
}

static void test_joined_endpoints_say_which_transport_they_have(void **state)
{
	struct oriel_p2p_info info = {.size = sizeof(info)};
	struct endpoints e;

	(void)state;
	faulty_open(&e, NULL);
	assert_int_equal(oriel_p2p_describe(e.a, &info), ORIEL_OK);
	assert_string_equal(info.backend, "pipe");
	assert_int_equal(info.path, ORIEL_PATH_NONE);
	assert_int_equal(info.queues, 0);
	assert_int_equal(info.chunk, CHUNK);
	endpoints_close(&e);
}

/* A failure ends this endpoint with its status, and the other one gets it with the text. */
static void failure_breaks(void (*set)(void), enum oriel_status want, const char *text)
{
	static char from[LONG], to[LONG];
	struct oriel_p2p_buffer f = buffer(from, LONG, NULL), t = buffer(to, LONG, NULL);
	struct oriel_p2p_request out, in;
	struct endpoints e;

	faulty_open(&e, NULL);
	assert_int_equal(oriel_p2p_send(e.a, 0, &f, &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(e.b, 0, &t, &in), ORIEL_OK);
	set();
	while (out.status == ORIEL_AGAIN)
		(void)oriel_p2p_progress(e.a);
	memset(&faults, 0, sizeof(faults));
	assert_int_equal(out.status, want);
	assert_int_equal(oriel_p2p_check(e.a), want);
	assert_non_null(strstr(oriel_last_error(), text));
	assert_int_equal(endpoints_wait(&e, &in), want);
	assert_int_equal(oriel_p2p_check(e.b), want);
	assert_non_null(strstr(oriel_last_error(), text));
	endpoints_close(&e);
}

static void set_put(void)
{
	faults.put = ORIEL_ERR_ACCESS;
}

static void set_progress(void)
{
	faults.progress = ORIEL_ERR_SYSTEM;
}

static void set_take(void)
{
	faults.take = ORIEL_ERR_PROTOCOL;
}

static void set_more_done(void)
{
	faults.more_done = 1000;
}

static void set_no_status(void)
{
	faults.put = (enum oriel_status) - 12345;
}

static void test_failures_of_a_transport_break_both_endpoints(void **state)
{
	(void)state;
	failure_breaks(set_put, ORIEL_ERR_ACCESS, "put() of transport pipe failed");
	failure_breaks(set_progress, ORIEL_ERR_SYSTEM, "progress() of transport pipe failed");
	failure_breaks(set_take, ORIEL_ERR_PROTOCOL, "take() of transport pipe failed");
	failure_breaks(set_more_done, ORIEL_ERR_PROTOCOL, "puts done");
	failure_breaks(set_no_status, ORIEL_ERR_PROTOCOL, "returned -12345, no status");
}

/* Puts that a peer makes, and its end, between the last look at puts and one at messages. */
static void test_data_of_a_peer_that_leaves_is_taken(void **state)
{
	static char from[LONG], to[LONG];
	const size_t lengths[] = {1, 3 * CHUNK};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const struct oriel_p2p_attr attr = {.size = sizeof(attr),
						    .mode = ORIEL_P2P_COPY_BASED};
		struct oriel_p2p_buffer t = buffer(to, lengths[i], NULL);
		uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
		struct oriel_p2p_request in;
		struct endpoints e;

		faulty_open(&e, &attr);
		endpoints_fill(from, LONG, i);
		assert_int_equal(oriel_p2p_recv(e.b, 0, &t, &in), ORIEL_OK);
		assert_int_equal(oriel_p2p_drain(e.b, 0), ORIEL_OK);
		/* All credits are here, so that the peer's send needs this endpoint no more. */
		for (unsigned k = 0; k < 10; k++)
			(void)oriel_p2p_progress(e.a);
		faults.last = buffer(from, lengths[i], NULL);
		faults.to_leave = e.a;
		while (in.status == ORIEL_AGAIN) {
			assert_false(ori_deadline_passed(deadline));
			(void)oriel_p2p_progress(e.b);
		}
		assert_null(faults.to_leave);
		assert_int_equal(in.status, ORIEL_OK);
		assert_memory_equal(to, from, lengths[i]);
		oriel_p2p_destroy(e.b);
		endpoints_close_contexts(&e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_transport_is_whole),
		cmocka_unit_test(test_a_transport_that_cannot_register_makes_no_context),
		cmocka_unit_test(test_only_endpoints_of_transports_join),
		cmocka_unit_test(test_transports_of_two_names_do_not_join),
		cmocka_unit_test(test_an_open_that_fails_may_be_repeated),
		cmocka_unit_test(test_joined_endpoints_say_which_transport_they_have),
		cmocka_unit_test(test_failures_of_a_transport_break_both_endpoints),
		cmocka_unit_test(test_data_of_a_peer_that_leaves_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
