/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two SOCK_SEQPACKET sockets for each link: one takes puts, in packets that say where they go, and
 * the other one messages, which so find room while puts do not.
 */
#include "p2p_pipe.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIPE_QUEUE 64u          /* puts of a link that are not sent whole */
#define PIPE_PACKET (32u << 10) /* bytes of a put in one packet */

/* Registered memory; the other side names it by its index, and by how often that was used. */
struct pipe_memory {
	char *address; /* NULL: none */
	size_t length;
	uint32_t uses;
};

struct p2p_pipe {
	pthread_mutex_t lock; /* guards the rest */
	struct pipe_memory *memories;
	uint32_t room;
};

struct pipe_link {
	struct p2p_pipe *pipe;
	struct p2p_pipe_end end;
	struct oriel_p2p_transport_put queue[PIPE_QUEUE]; /* [done, begun) */
	uint64_t begun, done;
	size_t sent; /* bytes of the oldest */
};

/* Before the bytes of each packet. */
struct pipe_head {
	struct oriel_p2p_target to;
	uint32_t length, immediate;
	uint32_t has_immediate; /* 0 or 1 */
	uint32_t reserved;
};

struct p2p_pipe *p2p_pipe_create(void)
{
	struct p2p_pipe *pipe = calloc(1, sizeof(*pipe));

	if (pipe)
		pthread_mutex_init(&pipe->lock, NULL);
	return pipe;
}

void p2p_pipe_destroy(struct p2p_pipe *pipe)
{
	if (!pipe)
		return;
	pthread_mutex_destroy(&pipe->lock);
	free(pipe->memories);
	free(pipe);
}

void p2p_pipe_close(const struct p2p_pipe_end *end)
{
	close(end->puts);
	close(end->messages);
}

bool p2p_pipe_pair(struct p2p_pipe_end ends[2])
{
	const int type = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
	int puts[2], messages[2];

	if (socketpair(AF_UNIX, type, 0, puts) != 0)
		return false;
	if (socketpair(AF_UNIX, type, 0, messages) != 0) {
		close(puts[0]);
		close(puts[1]);
		return false;
	}
	for (unsigned i = 0; i < 2; i++)
		ends[i] = (struct p2p_pipe_end){puts[i], messages[i]};
	return true;
}

/* A free entry, or one more. NULL: no memory. */
static struct pipe_memory *pipe_entry_locked(struct p2p_pipe *pipe)
{
	struct pipe_memory *memories;
	uint32_t i = 0;

	while (i < pipe->room && pipe->memories[i].address)
		i++;
	if (i < pipe->room)
		return &pipe->memories[i];
	memories = realloc(pipe->memories, (pipe->room + 16) * sizeof(*memories));
	if (!memories)
		return NULL;
	memset(memories + pipe->room, 0, 16 * sizeof(*memories));
	pipe->memories = memories;
	pipe->room += 16;
	return &memories[i];
}

static enum oriel_status pipe_register(void *context, void *address, size_t length,
				       struct oriel_p2p_target *target)
{
	struct p2p_pipe *pipe = context;
	struct pipe_memory *m;

	pthread_mutex_lock(&pipe->lock);
	m = pipe_entry_locked(pipe);
	if (m) {
		m->address = address;
		m->length = length;
		m->uses++;
		/* Targets are offsets: the other side needs no address of this process. */
		*target = (struct oriel_p2p_target){
			.keys = {(uint32_t)(m - pipe->memories), m->uses}};
	}
	pthread_mutex_unlock(&pipe->lock);
	return m ? ORIEL_OK : ORIEL_ERR_NOMEM;
}

static void pipe_unregister(void *context, const struct oriel_p2p_target *target)
{
	struct p2p_pipe *pipe = context;

	/* A packet that is received now has the lock, and goes where it may. */
	pthread_mutex_lock(&pipe->lock);
	pipe->memories[target->keys[0]].address = NULL;
	pthread_mutex_unlock(&pipe->lock);
}

static enum oriel_status pipe_open(void *context, void *data, void **link)
{
	struct pipe_link *l;

	if (!data)
		return ORIEL_ERR_INVALID;
	l = calloc(1, sizeof(*l));
	if (!l)
		return ORIEL_ERR_NOMEM;
	l->pipe = context;
	l->end = *(const struct p2p_pipe_end *)data;
	*link = l;
	return ORIEL_OK;
}

static void pipe_close(void *link)
{
	struct pipe_link *l = link;

	/* The kernel has copies of what was sent, and drops none of them. */
	p2p_pipe_close(&l->end);
	free(l);
}

/* The status of a send or recv that failed: errno says why. */
static enum oriel_status pipe_failure(void)
{
	if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
		return ORIEL_AGAIN;
	return errno == EPIPE || errno == ECONNRESET ? ORIEL_ERR_PEER : ORIEL_ERR_SYSTEM;
}

static enum oriel_status pipe_send(void *link, const void *bytes, size_t length)
{
	const struct pipe_link *l = link;

	return send(l->end.messages, bytes, length, MSG_NOSIGNAL) == (ssize_t)length
		       ? ORIEL_OK
		       : pipe_failure();
}

static enum oriel_status pipe_recv(void *link, void *bytes, size_t room, size_t *length)
{
	const struct pipe_link *l = link;
	ssize_t got = recv(l->end.messages, bytes, room, MSG_TRUNC);

	if (got < 0)
		return pipe_failure();
	/* No message is empty. */
	if (got == 0)
		return ORIEL_ERR_PEER;
	*length = (size_t)got;
	return (size_t)got <= room ? ORIEL_OK : ORIEL_ERR_PROTOCOL;
}

/* One packet of the oldest put. */
static enum oriel_status pipe_push(struct pipe_link *l)
{
	const struct oriel_p2p_transport_put *put = &l->queue[l->done % PIPE_QUEUE];
	size_t rest = put->length - l->sent, length = rest < PIPE_PACKET ? rest : PIPE_PACKET;
	struct pipe_head head = {.to = put->to,
				 .length = (uint32_t)length,
				 .immediate = put->immediate,
				 .has_immediate = put->has_immediate && length == rest};
	struct iovec parts[] = {{&head, sizeof(head)},
				{(char *)(uintptr_t)put->from + l->sent, length}};
	const struct msghdr message = {.msg_iov = parts, .msg_iovlen = length ? 2 : 1};

	head.to.address += l->sent;
	if (sendmsg(l->end.puts, &message, MSG_NOSIGNAL) < 0)
		return pipe_failure();
	l->sent += length;
	if (l->sent == put->length) {
		/* The kernel has a copy. */
		l->done++;
		l->sent = 0;
	}
	return ORIEL_OK;
}

static enum oriel_status pipe_progress(void *link, uint64_t *done)
{
	struct pipe_link *l = link;
	enum oriel_status status = ORIEL_OK;

	while (l->done < l->begun && status == ORIEL_OK)
		status = pipe_push(l);
	*done = l->done;
	return status == ORIEL_AGAIN ? ORIEL_OK : status;
}

static enum oriel_status pipe_put(void *link, const struct oriel_p2p_transport_put *put)
{
	struct pipe_link *l = link;
	uint64_t done;

	if (l->begun - l->done == PIPE_QUEUE)
		return ORIEL_AGAIN;
	l->queue[l->begun++ % PIPE_QUEUE] = *put;
	/* Its failure is told once more by progress(). */
	(void)pipe_progress(l, &done);
	return ORIEL_OK;
}

/* The memory that a packet is for; NULL: none that is registered. */
static char *pipe_find_locked(const struct p2p_pipe *pipe, const struct pipe_head *head)
{
	const struct pipe_memory *m;

	if (head->to.keys[0] >= pipe->room)
		return NULL;
	m = &pipe->memories[head->to.keys[0]];
	if (!m->address || m->uses != head->to.keys[1] || head->length > m->length ||
	    head->to.address > m->length - head->length)
		return NULL;
	return m->address + head->to.address;
}

static enum oriel_status pipe_pull_locked(const struct pipe_link *l, struct pipe_head *head)
{
	struct iovec parts[] = {{head, sizeof(*head)}, {NULL, 0}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t got = recv(l->end.puts, head, sizeof(*head), MSG_PEEK);

	if (got < 0)
		return pipe_failure();
	if (got == 0)
		return ORIEL_ERR_PEER;
	if (got != (ssize_t)sizeof(*head) || head->length > PIPE_PACKET)
		return ORIEL_ERR_PROTOCOL;
	parts[1].iov_base = pipe_find_locked(l->pipe, head);
	parts[1].iov_len = head->length;
	if (head->length && !parts[1].iov_base)
		return ORIEL_ERR_PROTOCOL;
	got = recvmsg(l->end.puts, &message, 0);
	return got == (ssize_t)(sizeof(*head) + head->length) ? ORIEL_OK : ORIEL_ERR_PROTOCOL;
}

static enum oriel_status pipe_take(void *link, uint32_t *immediate)
{
	const struct pipe_link *l = link;
	struct pipe_head head = {0};
	enum oriel_status status = ORIEL_OK;

	while (status == ORIEL_OK && !head.has_immediate) {
		pthread_mutex_lock(&l->pipe->lock);
		status = pipe_pull_locked(l, &head);
		pthread_mutex_unlock(&l->pipe->lock);
	}
	*immediate = head.immediate;
	return status;
}

const struct oriel_p2p_transport p2p_pipe_transport = {
	.size = sizeof(p2p_pipe_transport),
	.name = "pipe",
	.register_memory = pipe_register,
	.unregister_memory = pipe_unregister,
	.open = pipe_open,
	.close = pipe_close,
	.send = pipe_send,
	.recv = pipe_recv,
	.put = pipe_put,
	.progress = pipe_progress,
	.take = pipe_take,
};
