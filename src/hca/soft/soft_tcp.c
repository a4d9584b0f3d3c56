/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP sockets of engines: listen, connect to one of the peer's addresses, and
 * tune. Links call it.
 */
#include "hca/soft/soft_tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "hca/soft/soft_address.h"

#define TCP_SOCKET_BYTES (1 << 20)
#define TCP_SILENCE_MS 30000u /* until a host that acknowledges nothing counts as lost */
#define TCP_FLAGS (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)

union tcp_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t tcp_length(const union tcp_address *a)
{
	return a->any.sa_family == AF_INET6 ? sizeof(a->v6) : sizeof(a->v4);
}

/* An IPv6 socket takes IPv4 as well. -1 on failure. */
static int tcp_listen(sa_family_t family, union tcp_address *a)
{
	socklen_t length = sizeof(*a);
	int off = 0, fd = socket(family, TCP_FLAGS, 0);

	*a = (union tcp_address){.any.sa_family = family};
	if (fd < 0)
		return -1;
	ori_fork_socket(fd);
	if ((family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) ||
	    bind(fd, &a->any, tcp_length(a)) != 0 || listen(fd, SOMAXCONN) != 0 ||
	    getsockname(fd, &a->any, &length) != 0) {
		int cause = errno;

		close(fd);
		errno = cause;
		return -1;
	}
	return fd;
}

enum oriel_status ori_soft_tcp_listen(int *fd, uint16_t *port)
{
	union tcp_address a;
	int made = tcp_listen(AF_INET6, &a);

	if (made < 0)
		made = tcp_listen(AF_INET, &a);
	if (made < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot listen on TCP");
	*port = ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
	*fd = made;
	return ORIEL_OK;
}

static union tcp_address tcp_v4(uint32_t host, uint16_t port)
{
	return (union tcp_address){
		.v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = host}};
}

static union tcp_address tcp_v6(const void *host, uint16_t port)
{
	union tcp_address a = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};

	memcpy(&a.v6.sin6_addr, host, sizeof(a.v6.sin6_addr));
	return a;
}

/* Address number @attempt; of family 0 if there are no more. */
static union tcp_address tcp_candidate(const struct soft_address *to, bool is_intranode,
				       enum soft_road road, unsigned attempt)
{
	const union tcp_address none = {.any.sa_family = 0};

	if (road == SOFT_ROAD_IPV6)
		attempt++; /* continue as if IPv4 had been tried */
	if (is_intranode && attempt == 0)
		return tcp_v4(htonl(INADDR_LOOPBACK), to->port);
	if (is_intranode)
		return attempt == 1 ? tcp_v6(&in6addr_loopback, to->port) : none;
	if (to->is_ipv6)
		return attempt == (road == SOFT_ROAD_IPV6) ? tcp_v6(to->hosts, to->port) : none;
	if (road == SOFT_ROAD_IPV6 || attempt >= 4 || !to->hosts[attempt])
		return none;
	return tcp_v4(to->hosts[attempt], to->port);
}

bool ori_soft_tcp_connect(const struct soft_address *to, const struct soft_address *from,
			  enum soft_road road, unsigned attempt, int *fd)
{
	bool is_intranode = ori_soft_address_is_intranode(to, from);
	union tcp_address a = tcp_candidate(to, is_intranode, road, attempt);

	*fd = -1;
	if (!a.any.sa_family)
		return false;
	*fd = socket(a.any.sa_family, TCP_FLAGS, 0);
	if (*fd < 0)
		return true;
	ori_fork_socket(*fd);
	ori_soft_tcp_tune(*fd, true);
	if (connect(*fd, &a.any, tcp_length(&a)) != 0 && errno != EINPROGRESS) {
		close(*fd);
		*fd = -1;
	}
	return true;
}

const char *ori_soft_tcp_text(int fd, char text[SOFT_TCP_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "";
	union tcp_address a = {.any.sa_family = AF_UNSPEC};
	socklen_t length = sizeof(a);

	if (getpeername(fd, &a.any, &length) != 0)
		a.any.sa_family = AF_UNSPEC;
	switch (a.any.sa_family) {
	case AF_INET:
		(void)inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof(host));
		snprintf(text, SOFT_TCP_TEXT, "%s:%u", host, ntohs(a.v4.sin_port));
		break;
	case AF_INET6:
		(void)inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof(host));
		snprintf(text, SOFT_TCP_TEXT, "[%s]:%u", host, ntohs(a.v6.sin6_port));
		break;
	case AF_UNIX:
		snprintf(text, SOFT_TCP_TEXT, "a process of this machine");
		break;
	default:
		snprintf(text, SOFT_TCP_TEXT, "a socket that is closed");
	}
	return text;
}

/*
 * Without these options a socket is slower, not wrong; only the loss of a host
 * is noticed later.
 */
void ori_soft_tcp_tune(int fd, bool is_tcp)
{
	unsigned silence = TCP_SILENCE_MS;
	int on = 1, bytes = TCP_SOCKET_BYTES;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (!is_tcp)
		return;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof(silence));
}
