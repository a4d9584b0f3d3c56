/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes over a transport of their own (p2p_pipe.c), which needs neither a NIC nor shared
 * memory: a program forks, and the child sends back what it gets, eight bytes to a megabyte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <oriel/p2p.h>

#include "p2p_pipe.h"

#define LARGEST ((size_t)1 << 20)

static const size_t sizes[] = {8, 4096, 100000, LARGEST};

struct talk {
	struct p2p_pipe *pipe;
	struct oriel_p2p_context *ctx;
	struct oriel_p2p *p2p;
	char *data;
};

static enum oriel_status talk_open(struct talk *t, struct p2p_pipe_end *end)
{
	struct oriel_p2p_context_attr of_context = {.size = sizeof(of_context),
						    .transport = &p2p_pipe_transport};
	struct oriel_p2p_attr attr = {.size = sizeof(attr), .transport_data = end};
	enum oriel_status status;

	t->pipe = p2p_pipe_create();
	t->data = malloc(LARGEST);
	if (!t->pipe || !t->data)
		return ORIEL_ERR_NOMEM;
	of_context.transport_context = t->pipe;
	status = oriel_p2p_context_create(&of_context, &t->ctx);
	if (status == ORIEL_OK)
		status = oriel_p2p_create(t->ctx, &attr, &t->p2p);
	return status;
}

static void talk_close(struct talk *t)
{
	oriel_p2p_destroy(t->p2p);
	oriel_p2p_context_destroy(t->ctx);
	p2p_pipe_destroy(t->pipe);
	free(t->data);
}

/* Addresses go over a socket of the program, as its users may have one. */
static enum oriel_status talk_join(struct talk *t, int socket)
{
	char mine[ORIEL_P2P_ADDRESS], theirs[ORIEL_P2P_ADDRESS];
	enum oriel_status status = oriel_p2p_address(t->p2p, mine);

	if (status != ORIEL_OK)
		return status;
	if (send(socket, mine, sizeof(mine), 0) != sizeof(mine) ||
	    recv(socket, theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs))
		return ORIEL_ERR_PEER;
	return oriel_p2p_connect(t->p2p, theirs, sizeof(theirs), 0);
}

static enum oriel_status talk_move(struct talk *t, size_t length, bool is_out)
{
	const struct oriel_p2p_buffer buffer = {t->data, length, NULL};
	struct oriel_p2p_request request;
	enum oriel_status status = is_out ? oriel_p2p_send(t->p2p, 0, &buffer, &request)
					  : oriel_p2p_recv(t->p2p, 0, &buffer, &request);

	return status == ORIEL_OK ? oriel_p2p_wait(t->p2p, &request, 0) : status;
}

static enum oriel_status talk_round(struct talk *t, size_t length, bool is_parent)
{
	enum oriel_status status;

	if (!is_parent) {
		status = talk_move(t, length, false);
		return status == ORIEL_OK ? talk_move(t, length, true) : status;
	}
	for (size_t i = 0; i < length; i++)
		t->data[i] = (char)(i * 31 + length);
	status = talk_move(t, length, true);
	memset(t->data, 0, length);
	if (status == ORIEL_OK)
		status = talk_move(t, length, false);
	for (size_t i = 0; i < length && status == ORIEL_OK; i++)
		if (t->data[i] != (char)(i * 31 + length))
			status = ORIEL_ERR_PROTOCOL;
	if (status == ORIEL_OK)
		printf("%zu bytes went to the child and came back\n", length);
	return status;
}

static enum oriel_status talk(struct p2p_pipe_end *end, int socket, bool is_parent)
{
	struct talk t = {0};
	enum oriel_status status = talk_open(&t, end);

	if (status == ORIEL_OK)
		status = talk_join(&t, socket);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && status == ORIEL_OK; i++)
		status = talk_round(&t, sizes[i], is_parent);
	/* The last bytes have left before the endpoint ends. */
	if (status == ORIEL_OK)
		status = oriel_p2p_drain(t.p2p, 0);
	if (status != ORIEL_OK)
		fprintf(stderr, "%s: %s: %s\n", is_parent ? "parent" : "child",
			oriel_status_text(status), oriel_last_error());
	talk_close(&t);
	return status;
}

int main(void)
{
	struct p2p_pipe_end ends[2];
	int sockets[2], result = 1;
	unsigned mine;
	pid_t child;

	if (!p2p_pipe_pair(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) {
		perror("socketpair");
		return 1;
	}
	child = fork();
	if (child < 0) {
		perror("fork");
		return 1;
	}
	/* Each process closes the ends of the other one, or would never see it leave. */
	mine = child ? 0 : 1;
	close(sockets[!mine]);
	p2p_pipe_close(&ends[!mine]);
	if (!child)
		return talk(&ends[mine], sockets[mine], false) != ORIEL_OK;
	if (talk(&ends[mine], sockets[mine], true) == ORIEL_OK)
		result = 0;
	return waitpid(child, &child, 0) < 0 || child != 0 ? 1 : result;
}
