/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of a peer that a test plays: blocking calls over fdsock.h and endpoint.h, which never
 * wait. Tests of net and of the modules above it include it.
 */
#ifndef ORI_NET_SOCKET_TEST_H
#define ORI_NET_SOCKET_TEST_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/endpoint.h"
#include "net/fdsock.h"

#define SOCKET_PATIENCE_MS 60000

static inline bool socket_is_ready(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	return poll(&p, 1, SOCKET_PATIENCE_MS) == 1;
}

/* A TCP connection to @address; -1 if none comes about. */
static inline int socket_connect(const struct ori_address *address)
{
	int fd = ori_endpoint_begin(address);

	if (fd >= 0 && (!socket_is_ready(fd, POLLOUT) || ori_endpoint_outcome(fd) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The next connection; -1 if none comes. */
static inline int socket_accept(int listener)
{
	if (!socket_is_ready(listener, POLLIN))
		return -1;
	return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* Sends all of @data, and @fds with the first byte. */
static inline bool socket_send(int fd, const void *data, size_t length, const int *fds,
			       unsigned nfds)
{
	const char *at = data;
	union ori_fds_room room;

	while (length > 0) {
		struct iovec part = {.iov_base = (void *)(uintptr_t)at, .iov_len = length};
		struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
		ssize_t n;

		if (nfds > 0)
			ori_fdsock_attach(&message, &room, fds, nfds);
		n = sendmsg(fd, &message, MSG_NOSIGNAL);
		if (n < 0 && (errno != EAGAIN || !socket_is_ready(fd, POLLOUT)))
			return false;
		if (n < 0)
			continue;
		at += n;
		length -= (size_t)n;
		nfds = 0;
	}
	return true;
}

/* Receives exactly @length bytes; the descriptors that come along are added to @fds. */
static inline enum oriel_status socket_recv(int fd, void *data, size_t length, struct ori_fds *fds)
{
	char *at = data;

	while (length > 0) {
		size_t got;
		enum oriel_status status = ori_fdsock_pull(fd, at, length, fds, &got);

		if (status == ORIEL_AGAIN && !socket_is_ready(fd, POLLIN))
			return ORIEL_ERR_TIMEOUT;
		if (status == ORIEL_AGAIN)
			continue;
		if (status != ORIEL_OK)
			return status;
		at += got;
		length -= got;
	}
	return ORIEL_OK;
}

#endif
