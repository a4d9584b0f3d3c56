/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of a job of two whose TCP connections pass a relay: relay_rank KIND ROUNDS. It uses
 * connections of one kind, checks all data, and prints the failure, or that it ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/oriel.h>
#include <oriel/p2p.h>

#define LENGTH 64
#define TAG 7
#define PATIENCE 20000000000u /* ns */
#define P2P_PORT_AT 76        /* in the address of an endpoint: docs/wire.md */

static const char marker[] = "window data that no relay may read";

struct rank {
	struct oriel_bootstrap b;
	unsigned rounds;
};

static void make(char data[LENGTH], unsigned rank, unsigned round)
{
	memset(data, 0, LENGTH);
	snprintf(data, LENGTH, "%s %u %u", marker, rank, round);
}

/* Wrong data that arrives as if it were right is what the test looks for. */
static void check(const char data[LENGTH], unsigned rank, unsigned round)
{
	char expected[LENGTH];

	make(expected, rank, round);
	if (memcmp(data, expected, LENGTH) == 0)
		return;
	printf("WRONG DATA in round %u\n", round);
	fflush(stdout);
	_Exit(4);
}

static enum oriel_status join(struct rank *r)
{
	char mine[LENGTH], all[2 * LENGTH];
	enum oriel_status status = ORIEL_OK;

	for (unsigned i = 0; i < r->rounds && status == ORIEL_OK; i++) {
		make(mine, r->b.rank, i);
		status = r->b.ops->all_gather(r->b.context, mine, all, LENGTH, PATIENCE);
		for (unsigned k = 0; k < 2 && status == ORIEL_OK; k++)
			check(all + k * LENGTH, k, i);
	}
	return status;
}

static enum oriel_status message(struct rank *r)
{
	unsigned peer = 1 - r->b.rank;
	enum oriel_status status = ORIEL_OK;
	char mine[LENGTH], theirs[LENGTH];

	for (unsigned i = 0; i < r->rounds && status == ORIEL_OK; i++) {
		make(mine, r->b.rank, i);
		status = r->b.ops->send(r->b.context, peer, TAG, mine, LENGTH, PATIENCE);
		if (status == ORIEL_OK)
			status = r->b.ops->recv(r->b.context, peer, TAG, theirs, LENGTH, PATIENCE);
		if (status == ORIEL_OK)
			check(theirs, peer, i);
	}
	return status;
}

static enum oriel_status window_rounds(struct rank *r, struct oriel_window *window)
{
	unsigned peer = 1 - r->b.rank;
	enum oriel_status status;
	char mine[LENGTH];
	void *inbox;

	status = oriel_window_buffer(window, 0, &inbox, NULL);
	for (unsigned i = 0; i < r->rounds && status == ORIEL_OK; i++) {
		make(mine, r->b.rank, i);
		status =
			oriel_window_put_signal(window, peer, (i % 2) * LENGTH, mine, LENGTH, 0, 1);
		if (status == ORIEL_OK)
			status = oriel_window_wait_signal_next(window, peer, 0, 1, 0);
		if (status == ORIEL_OK)
			check((char *)inbox + (i % 2) * LENGTH, peer, i);
	}
	return status;
}

/* Uses @comm, and destroys it; a failure leaves it to the end of the process. */
static enum oriel_status use(struct rank *r, struct oriel_comm *comm)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = 2 * LENGTH};
	struct oriel_window *window = NULL;
	enum oriel_status status = oriel_window_create(comm, &attr, &window);

	if (status == ORIEL_OK)
		status = window_rounds(r, window);
	if (status != ORIEL_OK)
		return status;
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	return ORIEL_OK;
}

static enum oriel_status soft(struct rank *r)
{
	struct oriel_comm *comm = NULL;
	enum oriel_status status = oriel_comm_create(&r->b, NULL, &comm);

	return status == ORIEL_OK ? use(r, comm) : status;
}

/*
 * The ranks are on two hosts (RELAY_BOOT_ID): the main thread asks for the link while it creates
 * the communicator, by a connection of its own.
 */
static enum oriel_status demand(struct rank *r)
{
	struct oriel_comm *comm = NULL;
	enum oriel_status status;

	unsetenv("RELAY_LISTEN");
	setenv("RELAY_MAIN", "demand", 1);
	status = oriel_comm_create(&r->b, NULL, &comm);
	unsetenv("RELAY_MAIN");
	return status == ORIEL_OK ? use(r, comm) : status;
}

/* Both ranks break their communicator, and go on with one of all that are left: of both. */
static enum oriel_status vote(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .flags = ORIEL_COMM_SHRINK};
	struct oriel_comm *comm = NULL, *left = NULL;
	char byte;
	enum oriel_status status = oriel_comm_create(&r->b, &attr, &comm);

	if (status != ORIEL_OK)
		return status;
	/* Rank 0 awaits rank 1, which an abort might end in the creation, and ends its barrier. */
	if (r->b.rank == 1) {
		(void)r->b.ops->send(r->b.context, 0, TAG, "", 1, PATIENCE);
		status = oriel_comm_barrier(comm);
	} else {
		status = r->b.ops->recv(r->b.context, 1, TAG, &byte, 1, PATIENCE);
		oriel_comm_abort(comm, "the ranks vote");
	}
	if (status != (r->b.rank == 1 ? ORIEL_ERR_ABORTED : ORIEL_OK))
		return status == ORIEL_OK ? ORIEL_ERR_STATE : status;
	/* By the listeners of the new communicator they meet after the vote. */
	setenv("RELAY_LISTEN", "left", 1);
	setenv("RELAY_MAIN", "vote", 1);
	status = oriel_comm_shrink(comm, NULL, &left);
	if (status != ORIEL_OK)
		return status;
	if (oriel_comm_size(left) != 2) {
		printf("WRONG SIZE %u\n", oriel_comm_size(left));
		_Exit(4);
	}
	oriel_comm_destroy(comm);
	return use(r, left);
}

/* Rank 0 of the job is one of a communicator of its own, which takes rank 1 in. */
static enum oriel_status grow_host(struct rank *r, struct oriel_comm **grown)
{
	struct oriel_invitation invitation = {0}, all[2];
	struct oriel_local_job *alone = NULL;
	struct oriel_bootstrap b;
	struct oriel_comm *comm = NULL;
	enum oriel_status status = oriel_local_job_create(1, &alone), gathered;

	if (status == ORIEL_OK)
		status = oriel_bootstrap_open_local(alone, 0, &b);
	if (status == ORIEL_OK)
		status = oriel_comm_create(&b, NULL, &comm);
	if (status == ORIEL_OK)
		status = oriel_comm_invite(comm, &invitation);
	gathered =
		r->b.ops->all_gather(r->b.context, &invitation, all, sizeof(invitation), PATIENCE);
	if (status == ORIEL_OK)
		status = gathered;
	return status == ORIEL_OK ? oriel_comm_grow(comm, 1, NULL, grown) : status;
}

static enum oriel_status grow_new(struct rank *r, struct oriel_comm **grown)
{
	struct oriel_invitation mine = {0}, all[2];
	enum oriel_status status =
		r->b.ops->all_gather(r->b.context, &mine, all, sizeof(mine), PATIENCE);

	setenv("RELAY_MAIN", "grow", 1);
	return status == ORIEL_OK ? oriel_comm_join(&all[0], NULL, grown) : status;
}

static enum oriel_status grow(struct rank *r)
{
	struct oriel_comm *grown = NULL;
	enum oriel_status status = r->b.rank ? grow_new(r, &grown) : grow_host(r, &grown);

	return status == ORIEL_OK ? use(r, grown) : status;
}

static enum oriel_status control_rounds(struct rank *r, struct oriel_p2p *p2p,
					const unsigned char exported[ORIEL_P2P_EXPORT])
{
	struct oriel_p2p_request out, in;
	char mine[ORIEL_P2P_EXPORT + LENGTH], theirs[ORIEL_P2P_EXPORT + LENGTH];
	enum oriel_status status = ORIEL_OK;

	memcpy(mine, exported, ORIEL_P2P_EXPORT);
	for (unsigned i = 0; i < r->rounds && status == ORIEL_OK; i++) {
		make(mine + ORIEL_P2P_EXPORT, r->b.rank, i);
		status = oriel_p2p_send_control(p2p, TAG, mine, sizeof(mine), &out);
		if (status == ORIEL_OK)
			status = oriel_p2p_recv_control(p2p, TAG, theirs, sizeof(theirs), &in);
		if (status == ORIEL_OK)
			status = oriel_p2p_wait(p2p, &out, 0);
		if (status == ORIEL_OK)
			status = oriel_p2p_wait(p2p, &in, 0);
		if (status == ORIEL_OK)
			check(theirs + ORIEL_P2P_EXPORT, 1 - r->b.rank, i);
	}
	return status;
}

/* The test looks for these bytes, which have rkeys, in what the relay has seen. */
static void print_export(const unsigned char exported[ORIEL_P2P_EXPORT])
{
	printf("export ");
	for (unsigned i = 0; i < ORIEL_P2P_EXPORT; i++)
		printf("%02x", exported[i]);
	printf("\n");
}

static enum oriel_status wait_until_joined(struct oriel_p2p *p2p)
{
	enum oriel_status status;

	while ((status = oriel_p2p_check(p2p)) == ORIEL_AGAIN) {
		status = oriel_p2p_progress(p2p);
		if (status != ORIEL_OK && status != ORIEL_AGAIN)
			break;
	}
	return status;
}

static enum oriel_status talk(struct rank *r, struct oriel_p2p_context *ctx, struct oriel_p2p *p2p)
{
	unsigned char addresses[2][ORIEL_P2P_ADDRESS], mine[ORIEL_P2P_ADDRESS];
	unsigned char exported[ORIEL_P2P_EXPORT];
	unsigned peer = 1 - r->b.rank;
	struct oriel_p2p_buffer buffer = {.length = 4096};
	enum oriel_status status;
	char port[16];

	status = oriel_p2p_address(p2p, mine);
	if (status == ORIEL_OK)
		status =
			r->b.ops->all_gather(r->b.context, mine, addresses, sizeof(mine), PATIENCE);
	if (status != ORIEL_OK)
		return status;
	snprintf(port, sizeof(port), "%u",
		 addresses[peer][P2P_PORT_AT] | addresses[peer][P2P_PORT_AT + 1] << 8);
	setenv("RELAY_P2P_PORT", port, 1);
	status = oriel_p2p_connect(p2p, addresses[peer], ORIEL_P2P_ADDRESS, 0);
	if (status == ORIEL_OK)
		status = wait_until_joined(p2p);
	buffer.address = calloc(1, buffer.length);
	if (status == ORIEL_OK)
		status = oriel_p2p_register(ctx, buffer.address, buffer.length, 0, &buffer.memory);
	if (status == ORIEL_OK)
		status = oriel_p2p_export(p2p, &buffer, exported);
	if (status == ORIEL_OK) {
		print_export(exported);
		status = control_rounds(r, p2p, exported);
	}
	if (status == ORIEL_OK)
		status = oriel_p2p_drain(p2p, 0);
	return status;
}

static enum oriel_status p2p(struct rank *r)
{
	struct oriel_p2p_context *ctx = NULL;
	struct oriel_p2p *endpoint = NULL;
	enum oriel_status status = oriel_p2p_context_create(NULL, &ctx);

	if (status == ORIEL_OK)
		status = oriel_p2p_create(ctx, NULL, &endpoint);
	return status == ORIEL_OK ? talk(r, ctx, endpoint) : status;
}

static const struct {
	const char *kind;
	enum oriel_status (*run)(struct rank *r);
} kinds[] = {{"join", join},     {"message", message}, {"soft", soft}, {"p2p", p2p},
	     {"demand", demand}, {"vote", vote},       {"grow", grow}};

/* A communicator that is destroyed has waited for the other rank, and may own the bootstrap. */
static bool is_open_yet(const char *kind)
{
	return strcmp(kind, "join") == 0 || strcmp(kind, "message") == 0 ||
	       strcmp(kind, "p2p") == 0;
}

int main(int argc, char **argv)
{
	struct rank r = {0};
	enum oriel_status status = ORIEL_ERR_INVALID;

	if (argc != 3)
		return 2;
	r.rounds = (unsigned)atoi(argv[2]);
	/* The bootstrap's connections are none that ask for a link. */
	if (strcmp(argv[1], "demand") == 0)
		setenv("RELAY_LISTEN", "bootstrap", 1);
	setenv("RELAY_KIND", "join", 1);
	status = oriel_bootstrap_open_env(0, &r.b);
	/* Endpoints of p2p are joined by the software HCA; the shim knows their own connection. */
	setenv("RELAY_KIND", strcmp(argv[1], "message") == 0 ? "message" : "soft", 1);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && status == ORIEL_OK; i++)
		if (strcmp(argv[1], kinds[i].kind) == 0)
			status = kinds[i].run(&r);
	/* Neither rank takes its sockets from the other before that has all data. */
	if (status == ORIEL_OK && is_open_yet(argv[1]))
		status = r.b.ops->barrier(r.b.context, PATIENCE);
	printf("%s %s\n", status == ORIEL_OK ? "ends" : oriel_status_name(status),
	       status == ORIEL_OK ? "" : oriel_last_error());
	fflush(stdout);
	_Exit(status == ORIEL_OK ? 0 : 1);
}
