/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests with ranks as threads: every rank runs one function and records its status and its
 * last error. local_test.c and tcp_test.c include it.
 */
#ifndef ORI_BOOTSTRAP_PARTY_TEST_H
#define ORI_BOOTSTRAP_PARTY_TEST_H

#include <oriel/bootstrap.h>

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net/endpoint.h"

#define PARTY_MAX 512
#define PARTY_PATIENCE 100000000000ull /* ns; a deadline that passes only when a test fails */

struct party_seat {
	void *party; /* the state of the test */
	unsigned rank, size;
	enum oriel_status status;
	char text[600];
	uint64_t took_ns;  /* the time that joining took */
	unsigned at_fault; /* party_note_fault() sets it */
	pthread_t thread;
};

static struct party_seat party_seats[PARTY_MAX];

/* Record the last status of a rank; the main thread checks it, since threads must not assert. */
static void party_note(struct party_seat *seat, enum oriel_status status)
{
	seat->status = status;
	strcpy(seat->text, status == ORIEL_OK ? "" : oriel_last_error());
}

/* The same, and the rank that is at fault for the failure of @b. */
static inline void party_note_fault(struct party_seat *seat, const struct oriel_bootstrap *b,
				    enum oriel_status status)
{
	party_note(seat, status);
	seat->at_fault = b->ops->at_fault(b->context);
}

static void party_run(unsigned size, void *(*body)(void *seat), void *party)
{
	pthread_attr_t attr;
	unsigned i;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 512 * 1024);
	for (i = 0; i < size; i++) {
		party_seats[i] = (struct party_seat){.party = party, .rank = i, .size = size};
		assert_int_equal(pthread_create(&party_seats[i].thread, &attr, body,
						&party_seats[i]),
				 0);
	}
	for (i = 0; i < size; i++)
		assert_int_equal(pthread_join(party_seats[i].thread, NULL), 0);
	pthread_attr_destroy(&attr);
}

/* Rank @rank has @status and a text with @part in it. */
static void party_expect(unsigned rank, enum oriel_status status, const char *part)
{
	if (party_seats[rank].status != status || !strstr(party_seats[rank].text, part))
		print_error("rank %u: %s, '%s'\n", rank,
			    oriel_status_name(party_seats[rank].status), party_seats[rank].text);
	assert_int_equal(party_seats[rank].status, status);
	assert_non_null(strstr(party_seats[rank].text, part));
}

/* All ranks but @rank itself report that it is at fault. */
static inline void party_expect_fault(unsigned size, unsigned rank)
{
	unsigned i;

	for (i = 0; i < size; i++)
		if (i != rank)
			assert_int_equal(party_seats[i].at_fault, rank);
}

static void party_expect_all(unsigned size, enum oriel_status status, const char *part)
{
	unsigned i;

	for (i = 0; i < size; i++)
		party_expect(i, status, part);
}

/* A few rounds of all-gather and barrier, each checked. */
static inline enum oriel_status party_rounds(struct oriel_bootstrap *b, unsigned rounds,
					     size_t length)
{
	unsigned char *mine = malloc(length + 1), *all = malloc(b->size * length + 1);
	enum oriel_status status = ORIEL_OK;
	unsigned round, i;
	size_t at;

	for (round = 0; round < rounds && status == ORIEL_OK; round++) {
		memset(mine, (int)(b->rank * 7 + round), length);
		status = b->ops->all_gather(b->context, mine, all, length, PARTY_PATIENCE);
		for (i = 0; i < b->size && status == ORIEL_OK; i++)
			for (at = 0; at < length; at++)
				if (all[i * length + at] != (unsigned char)(i * 7 + round))
					status = ORIEL_ERR_INVALID;
		if (status == ORIEL_OK)
			status = b->ops->barrier(b->context, PARTY_PATIENCE);
	}
	free(mine);
	free(all);
	return status;
}

/* A bound socket that does not listen reserves a port, which refuses connections. */
static inline int party_reserve(struct ori_address *at)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(ori_endpoint_local(fd, at), ORIEL_OK);
	return fd;
}

#endif
