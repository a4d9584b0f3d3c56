/* SPDX-License-Identifier: Apache-2.0 */
/* Connectors that ask for a sealed job key, and those that do not, over both ends of a socket. */
#include "net/conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static const struct ori_key key = {16, "a key for a test"};

struct pair {
	struct ori_tls_context *context; /* of the acceptor */
	struct ori_net_conn connector, acceptor;
};

static void pair_open(struct pair *p, const struct ori_key *acceptor, const char *sealed)
{
	int ends[2];

	memset(p, 0, sizeof(*p));
	if (acceptor)
		assert_int_equal(ori_tls_context_create(acceptor, &p->context), ORIEL_OK);
	if (sealed)
		assert_int_equal(ori_tls_context_seal(p->context, sealed), ORIEL_OK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	ori_net_open(&p->connector, ends[0], NULL);
	p->connector.is_connector = true;
	ori_net_accept(&p->acceptor, ends[1], p->context, NULL);
	p->connector.is_local = p->acceptor.is_local = false; /* they stand for TCP */
}

static void pair_close(struct pair *p)
{
	ori_net_close(&p->connector);
	ori_net_close(&p->acceptor);
	ori_tls_context_destroy(p->context);
}

/* munge keeps the secret, so that any connector may have the credential. */
static void test_a_sealed_key_is_sent_to_those_that_ask(void **state)
{
	static const char sealed[] = "MUNGE:c2VjcmV0:";
	static const struct {
		const struct ori_key *key;
		const char *sealed;
		unsigned type;
		const char *of_acceptor, *of_connector;
	} cases[] = {
		{&key, NULL, ORI_FRAME_SEALED_KEY,
		 "has an ORIEL_JOB_KEY, but this process has none",
		 "has no ORIEL_JOB_KEY, but this process has one"},
		{NULL, NULL, ORI_FRAME_SEALED_KEY,
		 "has no job key by munge, but this process asks for one",
		 "asks for a job key by munge, but this process has none"},
		{&key, sealed, 1, "has a job key by munge, but this process asks for none",
		 "does not ask for the job key, which is one by munge"},
		{&key, sealed, ORI_FRAME_SEALED_KEY, NULL, NULL},
	};
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool is_sent = !cases[i].of_acceptor;
		struct ori_frame frame;
		char body[64] = "";
		struct pair p;

		pair_open(&p, cases[i].key, cases[i].sealed);
		assert_int_equal(ori_net_send(&p.connector, cases[i].type, NULL, 0), ORIEL_OK);
		assert_int_equal(ori_net_step(&p.acceptor),
				 is_sent ? ORIEL_ERR_PEER : ORIEL_ERR_AUTH);
		assert_int_equal(ori_net_take(&p.connector, &frame, body, sizeof(body) - 1),
				 is_sent ? ORIEL_OK : ORIEL_ERR_AUTH);
		if (is_sent) {
			assert_int_equal(frame.type, ORI_FRAME_SEALED_KEY);
			assert_string_equal(body, sealed);
		} else {
			assert_string_equal(ori_net_doubt(&p.connector), cases[i].of_acceptor);
			assert_string_equal(ori_net_doubt(&p.acceptor), cases[i].of_connector);
		}
		pair_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_sealed_key_is_sent_to_those_that_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
