/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p2p_pairs EACH [lose]: endpoints of p2p between all pairs of ranks, of which each host has EACH:
 * those of the communicator and those of a context without one, in each mode. Control messages,
 * transfers of several sizes and puts carry what their ends can check; the path is mapped on a host
 * and rdma between hosts. With "lose" the first rank of each of two hosts waits for the other,
 * whose host vanishes. hosts_test.py runs it.
 */
#include <oriel/oriel.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_NS 60000000000u
#define LOSE_NS 150000000000u
#define RANKS_MAX 16u
#define MODES 3u
#define LENGTH_MAX (1u << 20)

static const size_t lengths[] = {0, 8, 4096, 300001, LENGTH_MAX};

struct pair {
	struct oriel_p2p *p2p;
	unsigned char *out, *in;
	struct oriel_p2p_memory *from, *to;
	struct oriel_p2p_remote remote;
	struct oriel_p2p_request sent, received;
};

static struct oriel_comm *comm;
static struct oriel_p2p_context *context;
static unsigned rank, size, each;

static bool check(enum oriel_status status, const char *what, unsigned peer)
{
	if (status != ORIEL_OK)
		fprintf(stderr, "rank %u: %s of rank %u: %s\n", rank, what, peer,
			oriel_last_error());
	return status == ORIEL_OK;
}

static unsigned char byte_of(unsigned from, unsigned to, size_t i)
{
	return (unsigned char)(17 * from + 31 * to + 7 * i + i / 251);
}

static bool arrived(const struct pair *pair, unsigned peer, size_t length, const char *what)
{
	size_t i;

	for (i = 0; i < length; i++)
		if (pair->in[i] != byte_of(peer, rank, i)) {
			fprintf(stderr, "rank %u: byte %zu of %zu of rank %u is wrong (%s)\n", rank,
				i, length, peer, what);
			return false;
		}
	return true;
}

static bool finish(struct pair *pair, unsigned peer, const char *what)
{
	return check(oriel_p2p_wait(pair->p2p, &pair->sent, TIMEOUT_NS), what, peer) &&
	       check(oriel_p2p_wait(pair->p2p, &pair->received, TIMEOUT_NS), what, peer);
}

/* A control message names its sender. */
static bool talk(struct pair *pair, unsigned peer)
{
	unsigned theirs = size;

	return check(oriel_p2p_recv_control(pair->p2p, 5, &theirs, sizeof(theirs), &pair->received),
		     "recv_control", peer) &&
	       check(oriel_p2p_send_control(pair->p2p, 5, &rank, sizeof(rank), &pair->sent),
		     "send_control", peer) &&
	       finish(pair, peer, "a control message") && theirs == peer;
}

static bool transfer(struct pair *pair, unsigned peer, size_t length)
{
	struct oriel_p2p_buffer from = {pair->out, length,
					length == LENGTH_MAX ? pair->from : NULL};
	struct oriel_p2p_buffer to = {pair->in, length, length == LENGTH_MAX ? pair->to : NULL};

	memset(pair->in, 0, LENGTH_MAX);
	return check(oriel_p2p_recv(pair->p2p, 0, &to, &pair->received), "recv", peer) &&
	       check(oriel_p2p_send(pair->p2p, 0, &from, &pair->sent), "send", peer) &&
	       finish(pair, peer, "a transfer") && arrived(pair, peer, length, "a transfer");
}

/* Each gives the other its memory by a control message, and puts into what it has got. */
static bool put(struct pair *pair, unsigned peer)
{
	struct oriel_p2p_buffer from = {pair->out, LENGTH_MAX, pair->from};
	struct oriel_p2p_buffer to = {pair->in, LENGTH_MAX, pair->to};
	unsigned char mine[ORIEL_P2P_EXPORT], theirs[ORIEL_P2P_EXPORT];

	memset(pair->in, 0, LENGTH_MAX);
	return check(oriel_p2p_export(pair->p2p, &to, mine), "export", peer) &&
	       check(oriel_p2p_recv_control(pair->p2p, 6, theirs, sizeof(theirs), &pair->received),
		     "recv_control", peer) &&
	       check(oriel_p2p_send_control(pair->p2p, 6, mine, sizeof(mine), &pair->sent),
		     "send_control", peer) &&
	       finish(pair, peer, "an exported memory") &&
	       check(oriel_p2p_import(pair->p2p, theirs, sizeof(theirs), &pair->remote), "import",
		     peer) &&
	       check(oriel_p2p_expect(pair->p2p, 0, &pair->received), "expect", peer) &&
	       check(oriel_p2p_put(pair->p2p, 0, &from, &pair->remote, 0, &pair->sent), "put",
		     peer) &&
	       finish(pair, peer, "a put") && arrived(pair, peer, LENGTH_MAX, "a put");
}

static bool path_is_right(const struct pair *pair, unsigned peer)
{
	const enum oriel_path expected =
		rank / each == peer / each ? ORIEL_PATH_MAPPED : ORIEL_PATH_RDMA;
	struct oriel_p2p_info info = {.size = sizeof(info)};

	if (!check(oriel_p2p_describe(pair->p2p, &info), "describe", peer))
		return false;
	if (info.path != expected)
		fprintf(stderr, "rank %u: path %d to rank %u, not %d\n", rank, (int)info.path, peer,
			(int)expected);
	return info.path == expected;
}

static bool use(struct pair *pair, struct oriel_p2p_context *registers, unsigned peer,
		unsigned mode)
{
	/* The path is known once the endpoints are joined. */
	bool is_fine = talk(pair, peer) && path_is_right(pair, peer);
	size_t i;

	/* Memory that the peer's process can map. */
	is_fine = is_fine &&
		  check(oriel_memory_alloc(LENGTH_MAX, 0, (void **)&pair->out), "memory", peer) &&
		  check(oriel_memory_alloc(LENGTH_MAX, 0, (void **)&pair->in), "memory", peer) &&
		  check(oriel_p2p_register(registers, pair->out, LENGTH_MAX, 0, &pair->from),
			"register", peer) &&
		  check(oriel_p2p_register(registers, pair->in, LENGTH_MAX, 0, &pair->to),
			"register", peer);
	for (i = 0; is_fine && i < LENGTH_MAX; i++)
		pair->out[i] = byte_of(rank, peer, i);
	for (i = 0; is_fine && i < sizeof(lengths) / sizeof(lengths[0]); i++)
		is_fine = transfer(pair, peer, lengths[i]);
	is_fine = is_fine && (mode == ORIEL_P2P_COPY_BASED || put(pair, peer));
	is_fine = check(oriel_p2p_drain(pair->p2p, TIMEOUT_NS), "drain", peer) && is_fine;
	oriel_p2p_unregister(pair->from);
	oriel_p2p_unregister(pair->to);
	oriel_memory_free(pair->out);
	oriel_memory_free(pair->in);
	return is_fine;
}

static bool of_communicator(unsigned peer, unsigned mode)
{
	struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode};
	struct oriel_p2p_context *registers = NULL;
	struct pair pair = {0};

	return check(oriel_comm_p2p(comm, peer, &attr, &pair.p2p), "oriel_comm_p2p", peer) &&
	       check(oriel_comm_p2p_context(comm, &registers), "its context", peer) &&
	       use(&pair, registers, peer, mode);
}

/* An endpoint of the context, which joins that of @peer. */
static bool join(struct pair *pair, unsigned peer, unsigned mode)
{
	struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode};
	unsigned char mine[RANKS_MAX][ORIEL_P2P_ADDRESS] = {{0}};
	unsigned char all[RANKS_MAX][RANKS_MAX][ORIEL_P2P_ADDRESS];
	unsigned char flat[RANKS_MAX * RANKS_MAX * ORIEL_P2P_ADDRESS];
	bool is_fine = check(oriel_p2p_create(context, &attr, &pair->p2p), "create", peer) &&
		       check(oriel_p2p_address(pair->p2p, mine[peer]), "address", peer);
	unsigned i;

	if (!check(oriel_comm_all_gather(comm, mine, flat, sizeof(mine)), "all_gather", peer))
		return false;
	for (i = 0; i < size; i++)
		memcpy(all[i], flat + i * sizeof(mine), sizeof(mine));
	return is_fine &&
	       check(oriel_p2p_connect(pair->p2p, all[peer][rank], ORIEL_P2P_ADDRESS, TIMEOUT_NS),
		     "connect", peer);
}

static bool of_context(unsigned peer, unsigned mode)
{
	struct pair pair = {0};
	bool is_fine = join(&pair, peer, mode) && use(&pair, context, peer, mode);

	/* The drain of the peer is over, too. */
	is_fine = check(oriel_comm_barrier(comm), "barrier", peer) && is_fine;
	oriel_p2p_destroy(pair.p2p);
	return is_fine;
}

/* Nothing is on its way, so that only the kernel's probes of the socket can tell. */
static bool lose(void)
{
	unsigned peer = (rank + size / 2) % size;
	struct pair pair = {0};
	bool is_fine = join(&pair, peer, ORIEL_P2P_ZERO_COPY) && talk(&pair, peer);
	enum oriel_status status;
	unsigned theirs;

	printf("ready\n");
	fflush(stdout);
	if (!is_fine)
		return false;
	status = oriel_p2p_recv_control(pair.p2p, 5, &theirs, sizeof(theirs), &pair.received);
	if (status == ORIEL_OK)
		status = oriel_p2p_wait(pair.p2p, &pair.received, LOSE_NS);
	printf("%s %s\n", oriel_status_name(status), oriel_last_error());
	oriel_p2p_destroy(pair.p2p);
	return status == ORIEL_ERR_PEER;
}

/* In each round from 1 on a rank has one peer, whose peer it is. */
static unsigned peer_of(unsigned round)
{
	return rank ^ round;
}

static bool run(void)
{
	bool is_fine = true;
	unsigned mode, round;

	for (mode = 0; mode < MODES; mode++)
		for (round = 1; round < size; round++) {
			is_fine = of_communicator(peer_of(round), mode) && is_fine;
			is_fine = of_context(peer_of(round), mode) && is_fine;
		}
	return is_fine;
}

int main(int argc, char **argv)
{
	bool is_fine, is_lost = argc == 3 && strcmp(argv[2], "lose") == 0;

	each = argc == 2 || is_lost ? (unsigned)atoi(argv[1]) : 0;
	if (each == 0 || oriel_comm_create(NULL, NULL, &comm) != ORIEL_OK) {
		fprintf(stderr, "%s\n", each ? oriel_last_error() : "usage: p2p_pairs EACH [lose]");
		return 2;
	}
	rank = oriel_comm_rank(comm);
	size = oriel_comm_size(comm);
	/* A power of two, so that rounds pair all ranks. */
	is_fine = size <= RANKS_MAX && (size & (size - 1)) == 0 &&
		  check(oriel_p2p_context_create(NULL, &context), "a context", rank) &&
		  (is_lost ? lose() : run());
	if (is_fine && !is_lost)
		printf("rank %u: all pairs\n", rank);
	oriel_p2p_context_destroy(context);
	oriel_comm_destroy(comm);
	return !is_fine;
}
