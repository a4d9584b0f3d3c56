/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How endpoints of two machines meet over TCP: which contexts listen, and which
 * connections they accept; and what one says of another that ends.
 */
#include "p2p/pair_of_endpoints_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/socket_test.h"
#include "p2p/p2p.h"
#include "rdma/rdma_host.h"

#define CROWD 80u /* more than a context serves at once */

static const struct oriel_p2p_context_attr rdma = {.size = sizeof(rdma),
						   .slots = 24,
						   .paths = 1u << ORIEL_PATH_RDMA};

/* A context on virtual node @node, by the settings ORIEL_P2P_TCP and ORIEL_JOB_KEY. */
static struct oriel_p2p_context *context_on(const char *node, const char *tcp, const char *key)
{
	struct oriel_p2p_context *ctx;

	setenv("ORIEL_NODE", node, 1);
	setenv("ORIEL_P2P_TCP", tcp, 1);
	/* An empty value would be the key that the process has read before. */
	if (*key)
		setenv("ORIEL_JOB_KEY", key, 1);
	assert_int_equal(oriel_p2p_context_create(&rdma, &ctx), ORIEL_OK);
	unsetenv("ORIEL_NODE");
	unsetenv("ORIEL_P2P_TCP");
	unsetenv("ORIEL_JOB_KEY");
	return ctx;
}

static void endpoints_create_internode(struct endpoints *e, const char *tcp[2], const char *key[2])
{
	memset(e, 0, sizeof(*e));
	for (unsigned i = 0; i < 2; i++)
		e->contexts[i] = context_on(i ? "there" : "here", tcp[i], key[i]);
	assert_int_equal(oriel_p2p_create(e->contexts[0], NULL, &e->a), ORIEL_OK);
	assert_int_equal(oriel_p2p_create(e->contexts[1], NULL, &e->b), ORIEL_OK);
}

static struct p2p_address address_of(const struct oriel_p2p *p2p)
{
	struct p2p_address a;

	assert_int_equal(oriel_p2p_address(p2p, &a), ORIEL_OK);
	return a;
}

static enum oriel_status connect_to(struct oriel_p2p *p2p, const struct p2p_address *a,
				    uint64_t timeout_ns)
{
	return oriel_p2p_connect(p2p, a, sizeof(*a), timeout_ns);
}

static void talk(struct endpoints *e)
{
	struct oriel_p2p_request out, in;
	char word[8];

	assert_int_equal(oriel_p2p_send_control(e->a, 1, "well", 5, &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_control(e->b, 1, word, sizeof(word), &in), ORIEL_OK);
	assert_int_equal(endpoints_wait(e, &out), ORIEL_OK);
	assert_int_equal(endpoints_wait(e, &in), ORIEL_OK);
	assert_string_equal(word, "well");
}

static void test_a_context_listens_with_a_key_or_on_request(void **state)
{
	static const struct {
		const char *tcp, *key;
		bool does_listen;
	} table[] = {{"auto", "", false},
		     {"auto", "c0ffee00c0ffee00c0ffee00c0ffee00", true},
		     {"on", "", true},
		     {"off", "c0ffee00c0ffee00c0ffee00c0ffee00", false}};

	(void)state;
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct oriel_p2p_context *ctx = context_on("", table[i].tcp, table[i].key);
		struct oriel_p2p *p2p;

		assert_int_equal(oriel_p2p_create(ctx, NULL, &p2p), ORIEL_OK);
		assert_int_equal(address_of(p2p).port != 0, table[i].does_listen);
		oriel_p2p_destroy(p2p);
		oriel_p2p_context_destroy(ctx);
	}
}

static void test_one_listener_is_enough(void **state)
{
	static const char *keys[] = {"", ""};

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		const char *tcp[] = {i % 2 ? "on" : "off", i % 2 ? "off" : "on"};
		struct endpoints e;

		endpoints_create_internode(&e, tcp, keys);
		endpoints_join(&e);
		talk(&e);
		endpoints_close(&e);
	}
}

static void test_without_a_listener_there_is_no_path(void **state)
{
	static const char *tcp[] = {"auto", "off"},
			  *keys[] = {"", "c0ffee00c0ffee00c0ffee00c0ffee00"};
	struct p2p_address a;
	struct endpoints e;

	(void)state;
	endpoints_create_internode(&e, tcp, keys);
	a = address_of(e.b);
	assert_int_equal(connect_to(e.a, &a, 0), ORIEL_ERR_NO_PATH);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_P2P_TCP"));
	endpoints_close(&e);
}

static unsigned keyless_warnings;

static void count_keyless(void *context, enum oriel_log_level level, const char *text)
{
	(void)context;
	if (level == ORIEL_LOG_WARN && strstr(text, "a p2p context has no key and listens at "))
		keyless_warnings++;
}

static void test_contexts_without_a_key_warn_once(void **state)
{
	static const char *tcp[][2] = {{"auto", "off"}, {"on", "on"}, {"on", "on"}, {"on", "off"}},
			  *keys[][2] = {{"", ""},
					{"c0ffee00c0ffee00c0ffee00c0ffee00",
					 "c0ffee00c0ffee00c0ffee00c0ffee00"},
					{"", ""},
					{"", ""}};
	static const unsigned warned[] = {0, 0, 1, 1};
	struct endpoints e;

	(void)state;
	oriel_log_set_sink(count_keyless, NULL);
	for (unsigned i = 0; i < 4; i++) {
		endpoints_create_internode(&e, tcp[i], keys[i]);
		assert_int_equal(keyless_warnings, warned[i]);
		endpoints_close(&e);
	}
	oriel_log_set_sink(NULL, NULL);
}

/* Neither has asked for the software HCA: it joins no hosts, and both say why. */
static void test_without_a_nic_auto_joins_no_hosts(void **state)
{
	static const char *tcp[] = {"on", "on"}, *keys[] = {"", ""};
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
	char *before = getenv("ORIEL_HCA"), hca[64];
	struct p2p_address a, b;
	struct endpoints e;

	(void)state;
	if (ori_hca_verbs_ports("") >= ORIEL_DEV_RAILS)
		skip();
	snprintf(hca, sizeof(hca), "%s", before ? before : "");
	setenv("ORIEL_HCA", "auto", 1);
	setenv("ORIEL_RAILS", "4", 1);
	endpoints_create_internode(&e, tcp, keys);
	e.b->address.kernel++;
	a = address_of(e.a);
	b = address_of(e.b);
	assert_int_equal(connect_to(e.a, &b, 0), ORIEL_OK);
	assert_int_equal(connect_to(e.b, &a, 0), ORIEL_OK);
	while (oriel_p2p_check(e.a) == ORIEL_AGAIN || oriel_p2p_check(e.b) == ORIEL_AGAIN) {
		assert_false(ori_deadline_passed(deadline));
		endpoints_turn(&e);
	}
	assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_NO_PATH);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_HCA=soft"));
	assert_int_equal(oriel_p2p_check(e.b), ORIEL_ERR_NO_PATH);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_HCA=soft"));
	endpoints_close(&e);
	unsetenv("ORIEL_RAILS");
	if (before)
		setenv("ORIEL_HCA", hca, 1);
	else
		unsetenv("ORIEL_HCA");
}

/*
 * The connecting endpoint reports that the keys differ; the other one goes on waiting for
 * its peer.
 */
static void test_another_key_is_rejected(void **state)
{
	static const char *tcp[] = {"off", "on"};
	static const char *keys[][2] = {{"c0ffee00c0ffee00c0ffee00c0ffee00",
					 "c0ffee00c0ffee00c0ffee00c0ffee01"},
					{"", "c0ffee00c0ffee00c0ffee00c0ffee00"},
					{"c0ffee00c0ffee00c0ffee00c0ffee00", ""}};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct p2p_address a, b;
		uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
		struct endpoints e;

		endpoints_create_internode(&e, tcp, keys[i]);
		a = address_of(e.a);
		b = address_of(e.b);
		assert_int_equal(connect_to(e.a, &b, 0), ORIEL_OK);
		assert_int_equal(connect_to(e.b, &a, 200000000), ORIEL_OK);
		while (oriel_p2p_check(e.a) >= 0 || oriel_p2p_check(e.b) >= 0) {
			assert_false(ori_deadline_passed(deadline));
			endpoints_turn(&e);
		}
		assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_AUTH);
		assert_non_null(strstr(oriel_last_error(), "ORIEL_JOB_KEY"));
		assert_int_equal(oriel_p2p_check(e.b), ORIEL_ERR_TIMEOUT);
		endpoints_close(&e);
	}
}

/* The port is that of a context, but not of the one that is meant. */
static void test_another_context_on_the_port_is_rejected(void **state)
{
	static const char *tcp[] = {"off", "on"}, *keys[] = {"c0ffee00c0ffee00c0ffee00c0ffee00",
							     "c0ffee00c0ffee00c0ffee00c0ffee00"};
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
	struct p2p_address a, b;
	struct endpoints e;

	(void)state;
	endpoints_create_internode(&e, tcp, keys);
	a = address_of(e.a);
	b = address_of(e.b);
	b.token.context[3] ^= 1;
	assert_int_equal(connect_to(e.a, &b, 0), ORIEL_OK);
	assert_int_equal(connect_to(e.b, &a, 0), ORIEL_OK);
	while (oriel_p2p_check(e.a) >= 0) {
		assert_false(ori_deadline_passed(deadline));
		endpoints_turn(&e);
	}
	assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_AUTH);
	assert_int_equal(oriel_p2p_check(e.b), ORIEL_AGAIN);
	endpoints_close(&e);
}

static int pending_at(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* Has the context closed the connection? It has sent nothing before. */
static bool is_closed(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* They are more than a context serves at once, send nothing or half of a frame, and stay. */
static void test_silent_connections_do_not_block_the_peer(void **state)
{
	static const char *tcp[] = {"off", "on"}, *keys[] = {"c0ffee00c0ffee00c0ffee00c0ffee00",
							     "c0ffee00c0ffee00c0ffee00c0ffee00"};
	int fds[CROWD];
	struct endpoints e;

	(void)state;
	endpoints_create_internode(&e, tcp, keys);
	for (unsigned i = 0; i < CROWD; i++) {
		fds[i] = pending_at(address_of(e.b).port);
		if (i % 2)
			assert_int_equal(send(fds[i], "ORLB", 4, MSG_NOSIGNAL), 4);
	}
	endpoints_join(&e);
	talk(&e);
	for (unsigned i = 0; i < CROWD; i++)
		close(fds[i]);
	endpoints_close(&e);
}

/* They are fewer than a context serves, but there are no descriptors for more of them. */
static void test_silent_connections_are_closed_when_descriptors_run_out(void **state)
{
	static const char *tcp[] = {"off", "on"}, *keys[] = {"c0ffee00c0ffee00c0ffee00c0ffee00",
							     "c0ffee00c0ffee00c0ffee00c0ffee00"};
	const struct p2p_token unknown = {.number = 1};
	struct ori_net_conn conn = {.fd = -1};
	struct rlimit normal, tight;
	int fds[CROWD / 8], fd;
	struct endpoints e;
	unsigned left = 0;

	(void)state;
	endpoints_create_internode(&e, tcp, keys);
	for (unsigned i = 0; i < CROWD / 8; i++)
		fds[i] = pending_at(address_of(e.b).port);
	fd = dup(STDERR_FILENO);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &normal), 0);
	tight = normal;
	tight.rlim_cur = (rlim_t)fd + 2;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	for (unsigned i = 0; i < CROWD; i++)
		assert_int_equal(ori_p2p_context_answer(e.contexts[1], &unknown, &unknown, &conn),
				 ORIEL_AGAIN);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &normal), 0);
	/* All were accepted, one in place of another. */
	for (unsigned i = 0; i < CROWD / 8; i++) {
		left += !is_closed(fds[i]);
		assert_false(is_closed(fds[CROWD / 8 - 1]));
	}
	assert_in_range(left, 1, 2);
	for (unsigned i = 0; i < CROWD / 8; i++)
		close(fds[i]);
	endpoints_close(&e);
}

/* A first frame of @kind, as the peer of @e->b would send it, but to @context. */
static void send_unproven(struct endpoints *e, enum p2p_frame_kind kind,
			  const struct p2p_token *context, const struct p2p_token *from)
{
	struct p2p_frame frame = {.kind = kind};
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
	struct ori_net_conn conn;
	char heard[64];
	ssize_t n = 0;

	ori_net_open(&conn, pending_at(address_of(e->b).port), NULL);
	if (kind == P2P_HELLO)
		frame.hello = (struct p2p_hello){.to = *context, .from = *from};
	assert_int_equal(ori_net_send(&conn, kind, frame.bytes, ori_p2p_frame_length(kind)),
			 ORIEL_OK);
	for (;;) {
		ssize_t more = recv(conn.fd, heard, sizeof(heard), MSG_DONTWAIT);

		if (more == 0 || (more < 0 && errno != EAGAIN))
			break;
		n += more > 0 ? more : 0;
		assert_false(ori_deadline_passed(deadline));
		(void)oriel_p2p_progress(e->b);
	}
	/* It has heard that it is refused: an alert, or a good-bye without a text. */
	assert_true(n == 0 || n == 7 || n == ORI_FRAME_HEADER + (ssize_t)sizeof(struct p2p_bye));
	assert_int_equal(oriel_p2p_check(e->b), ORIEL_AGAIN);
	ori_net_close(&conn);
}

/*
 * Frames of a process that has no key, or, where the job has none, that knows no address of the
 * job; and frames that are no hello.
 */
static void test_unproven_connections_are_refused(void **state)
{
	static const enum p2p_frame_kind kinds[] = {P2P_HELLO, P2P_ENDPOINT, P2P_READY,
						    P2P_PIECE, P2P_BYE,      P2P_WELCOME};
	static const char *tcp[] = {"off", "on"},
			  *keys[][2] = {{"", ""},
					{"c0ffee00c0ffee00c0ffee00c0ffee00",
					 "c0ffee00c0ffee00c0ffee00c0ffee00"}};

	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		struct p2p_address a, b;
		struct endpoints e;

		endpoints_create_internode(&e, tcp, keys[k]);
		a = address_of(e.a);
		b = address_of(e.b);
		assert_int_equal(connect_to(e.b, &a, 0), ORIEL_OK);
		if (k == 0)
			b.token.context[0] ^= 1;
		for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			send_unproven(&e, kinds[i], &b.token, &a.token);
		/* The peer itself can still connect. */
		b = address_of(e.b);
		assert_int_equal(connect_to(e.a, &b, 0), ORIEL_OK);
		talk(&e);
		endpoints_close(&e);
	}
}

/* Between two endpoints: passes bytes on, and changes the one that it is told to. */
struct relay {
	int listener, fd[2]; /* of the connector, and of the context */
	struct ori_address at, context;
	size_t moved[2];
	unsigned flip_from; /* whose next byte to change; 2: none */
};

static void relay_open(struct relay *r, uint16_t port)
{
	*r = (struct relay){.fd = {-1, -1}, .flip_from = 2};
	r->at = (struct ori_address){.family = 4, .ip = {127, 0, 0, 1}};
	r->context = r->at;
	r->context.port = port;
	assert_int_equal(ori_endpoint_listen(&r->at, &r->listener), ORIEL_OK);
}

static void relay_turn(struct relay *r)
{
	char bytes[4096];

	if (r->fd[0] < 0) {
		r->fd[0] = ori_endpoint_accept(r->listener);
		if (r->fd[0] < 0)
			return;
		r->fd[1] = socket_connect(&r->context);
		assert_true(r->fd[1] >= 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		ssize_t n = recv(r->fd[i], bytes, sizeof(bytes), MSG_DONTWAIT);

		if (n <= 0)
			continue;
		if (r->flip_from == i) {
			bytes[n - 1] ^= 1;
			r->flip_from = 2;
		}
		r->moved[i] += (size_t)n;
		/* An end that has closed its connection reads no more. */
		(void)!send(r->fd[!i], bytes, (size_t)n, MSG_NOSIGNAL);
	}
}

static void relay_close(struct relay *r)
{
	close(r->fd[0]);
	close(r->fd[1]);
	close(r->listener);
}

/* Turn until both have met, or have failed. */
static void relay_serve(struct relay *r, struct endpoints *e, enum oriel_status until)
{
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);

	while (oriel_p2p_check(e->a) != until || oriel_p2p_check(e->b) != until) {
		assert_false(ori_deadline_passed(deadline));
		relay_turn(r);
		endpoints_turn(e);
	}
}

/* With a key a relay on the way reads nothing, and a byte that it changes ends both endpoints. */
static void test_a_byte_altered_on_the_way_ends_both_endpoints(void **state)
{
	static const char *tcp[] = {"off", "on"}, *keys[] = {"c0ffee00c0ffee00c0ffee00c0ffee00",
							     "c0ffee00c0ffee00c0ffee00c0ffee00"};

	(void)state;
	for (unsigned flip_from = 0; flip_from < 2; flip_from++) {
		struct p2p_address a, b;
		struct endpoints e;
		struct relay r;

		endpoints_create_internode(&e, tcp, keys);
		a = address_of(e.a);
		b = address_of(e.b);
		relay_open(&r, b.port);
		b.port = r.at.port;
		assert_int_equal(connect_to(e.a, &b, 0), ORIEL_OK);
		assert_int_equal(connect_to(e.b, &a, 0), ORIEL_OK);
		relay_serve(&r, &e, ORIEL_OK);
		talk(&e);
		/* The good-bye of the other endpoint's failure would follow; here one is sent
		 * first. */
		r.flip_from = flip_from;
		ori_control_socket_bye(flip_from ? e.b : e.a, ORIEL_ERR_ABORTED, "altered");
		relay_serve(&r, &e, ORIEL_ERR_AUTH);
		assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_AUTH);
		assert_non_null(strstr(oriel_last_error(), "altered on the way"));
		assert_int_equal(oriel_p2p_check(e.b), ORIEL_ERR_AUTH);
		assert_non_null(strstr(oriel_last_error(), "altered on the way"));
		relay_close(&r);
		endpoints_close(&e);
	}
}

/* Neither the connecting nor the listening side waits for a context that was closed. */
static void test_a_closed_context_is_noticed(void **state)
{
	static const char *tcp[] = {"on", "on"}, *keys[] = {"", ""};
	unsigned called = 0, calls = 0;

	(void)state;
	while (!called || !calls) {
		uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
		struct p2p_address a, b;
		struct endpoints e;

		endpoints_create_internode(&e, tcp, keys);
		a = address_of(e.a);
		b = address_of(e.b);
		oriel_p2p_destroy(e.b);
		oriel_p2p_context_destroy(e.contexts[1]);
		e.contexts[1] = NULL;
		e.b = e.a;
		assert_int_equal(connect_to(e.a, &b, ORIEL_TIMEOUT_INFINITE), ORIEL_OK);
		while (oriel_p2p_check(e.a) >= 0) {
			assert_false(ori_deadline_passed(deadline));
			endpoints_turn(&e);
		}
		assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_PEER);
		assert_non_null(strstr(oriel_last_error(), "no process listens"));
		ori_p2p_address_calls(&a, &b) ? calls++ : called++;
		oriel_p2p_destroy(e.a);
		oriel_p2p_context_destroy(e.contexts[0]);
	}
}

/* One that breaks says why before its QP goes: who finds that first has the reason, too. */
static void test_a_lost_link_has_the_reason_of_the_peer(void **state)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = ORIEL_P2P_COPY_BASED,
					    .channels = 2};
	static char data[LONG];

	(void)state;
	for (unsigned i = ENDPOINTS_RDMA; i < ROUTES; i++) {
		struct oriel_p2p_buffer f = buffer(data, LONG, NULL),
					t = buffer(data, LONG - 1, NULL);
		struct oriel_p2p_request out, in, other;
		struct endpoints e;

		endpoints_open(&e, routes[i], &small, &attr);
		assert_int_equal(oriel_p2p_send(e.a, 0, &f, &out), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv(e.b, 0, &t, &in), ORIEL_OK);
		while (oriel_p2p_progress(e.b) == ORIEL_OK)
			assert_int_equal(oriel_p2p_progress(e.a), ORIEL_OK);
		assert_int_equal(in.status, ORIEL_ERR_MISMATCH);
		(void)oriel_p2p_send(e.a, 1, &f, &other);
		while (ori_host_progress(e.a->link.host) == ORIEL_OK)
			usleep(1000);
		assert_int_equal(endpoints_wait(&e, &out), ORIEL_ERR_MISMATCH);
		assert_int_equal(endpoints_wait(&e, &other), ORIEL_ERR_MISMATCH);
		endpoints_close(&e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contexts_without_a_key_warn_once),
		cmocka_unit_test(test_a_context_listens_with_a_key_or_on_request),
		cmocka_unit_test(test_one_listener_is_enough),
		cmocka_unit_test(test_without_a_listener_there_is_no_path),
		cmocka_unit_test(test_without_a_nic_auto_joins_no_hosts),
		cmocka_unit_test(test_another_key_is_rejected),
		cmocka_unit_test(test_another_context_on_the_port_is_rejected),
		cmocka_unit_test(test_silent_connections_do_not_block_the_peer),
		cmocka_unit_test(test_silent_connections_are_closed_when_descriptors_run_out),
		cmocka_unit_test(test_unproven_connections_are_refused),
		cmocka_unit_test(test_a_byte_altered_on_the_way_ends_both_endpoints),
		cmocka_unit_test(test_a_closed_context_is_noticed),
		cmocka_unit_test(test_a_lost_link_has_the_reason_of_the_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
