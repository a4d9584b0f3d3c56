/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets by address, of TCP and of unix. The bootstrap calls it, and so do src/comm and src/p2p
 * for connections of their own. No function blocks but those with a deadline.
 */
#include "net/endpoint.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "net/fdsock.h"

#define ENDPOINT_BACKLOG 4096
#define ENDPOINT_RETRY_NS 100000000
/*
 * Times that TCP has sent again without an answer. At its least interval, 0.2 s, which doubles,
 * they take 25 s; where the interval has grown, 30 s are three or four of them, and at a loss of
 * 20 % each way about one connection in a hundred got no answer to so few.
 */
#define HEARING_TRIES 7u

union endpoint_name {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

static socklen_t endpoint_name(const struct ori_address *address, union endpoint_name *name)
{
	memset(name, 0, sizeof(*name));
	if (address->family == 6) {
		name->v6.sin6_family = AF_INET6;
		name->v6.sin6_port = htons(address->port);
		memcpy(&name->v6.sin6_addr, address->ip, 16);
		return sizeof(name->v6);
	}
	name->v4.sin_family = AF_INET;
	name->v4.sin_port = htons(address->port);
	memcpy(&name->v4.sin_addr, address->ip, 4);
	return sizeof(name->v4);
}

static bool endpoint_address(const union endpoint_name *name, struct ori_address *address)
{
	memset(address, 0, sizeof(*address));
	if (name->any.sa_family == AF_INET) {
		address->family = 4;
		address->port = ntohs(name->v4.sin_port);
		memcpy(address->ip, &name->v4.sin_addr, 4);
	} else if (name->any.sa_family == AF_INET6) {
		address->family = 6;
		address->port = ntohs(name->v6.sin6_port);
		memcpy(address->ip, &name->v6.sin6_addr, 16);
	} else {
		return false;
	}
	return true;
}

const char *ori_endpoint_text(const struct ori_address *address, char text[ORI_ENDPOINT_LENGTH])
{
	char ip[INET6_ADDRSTRLEN] = "?";
	unsigned i;
	int at;

	if (address->family == ORI_ADDRESS_UNIX) { /* as /proc/net/unix has it */
		at = snprintf(text, ORI_ENDPOINT_LENGTH, "@oriel-");
		for (i = 0; i < ORI_FDSOCK_NAME; i++)
			at += snprintf(text + at, ORI_ENDPOINT_LENGTH - (size_t)at, "%02x",
				       address->ip[i]);
		return text;
	}
	inet_ntop(address->family == 6 ? AF_INET6 : AF_INET, address->ip, ip, sizeof(ip));
	snprintf(text, ORI_ENDPOINT_LENGTH, address->family == 6 ? "[%s]:%u" : "%s:%u", ip,
		 address->port);
	return text;
}

bool ori_endpoint_is_loopback(const struct ori_address *address)
{
	static const unsigned char mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
	static const unsigned char one[16] = {[15] = 1};

	if (address->family == 4)
		return address->ip[0] == 127;
	return address->family == 6 && (memcmp(address->ip, one, sizeof(one)) == 0 ||
					memcmp(address->ip, mapped, sizeof(mapped)) == 0);
}

static int endpoint_family(void)
{
	const char *family = ori_setting_text(ORI_SETTING_FAMILY);

	if (strcmp(family, "ipv4") == 0)
		return AF_INET;
	return strcmp(family, "ipv6") == 0 ? AF_INET6 : AF_UNSPEC;
}

enum oriel_status ori_endpoint_resolve(const char *host, uint16_t port, uint64_t deadline,
				       struct ori_address *addresses, unsigned *count)
{
	const struct addrinfo hints = {.ai_family = endpoint_family(), .ai_socktype = SOCK_STREAM};
	const struct timespec pause = {0, ENDPOINT_RETRY_NS};
	struct addrinfo *found, *entry;
	union endpoint_name name;
	unsigned n = 0;
	int error;

	while ((error = getaddrinfo(host, NULL, &hints, &found)) == EAI_AGAIN &&
	       !ori_deadline_passed(deadline))
		nanosleep(&pause, NULL);
	if (error)
		return ori_fail(ORIEL_ERR_CONFIG, "the address '%s' of rank 0 does not resolve: %s",
				host, gai_strerror(error));
	for (entry = found; entry && n < ORI_ENDPOINT_NAMES; entry = entry->ai_next) {
		memset(&name, 0, sizeof(name));
		memcpy(&name, entry->ai_addr, entry->ai_addrlen);
		if (endpoint_address(&name, &addresses[n]))
			addresses[n++].port = port;
	}
	freeaddrinfo(found);
	if (n == 0)
		return ori_fail(ORIEL_ERR_CONFIG,
				"the address '%s' of rank 0 is neither IPv4 nor IPv6", host);
	*count = n;
	return ORIEL_OK;
}

static int endpoint_socket(const struct ori_address *address)
{
	int fd = socket(address->family == 6 ? AF_INET6 : AF_INET,
			SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	ori_fork_socket(fd);
	return fd;
}

/*
 * Frames are written whole: a wait for a full packet would only cost a round trip. Most are small
 * and awaited, so that few packets are on their way: of these TCP sends one again six times at
 * equal intervals, and not each time after twice as long (Linux,
 * Documentation/networking/tcp-thin.rst).
 */
static void endpoint_hurry(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof(on));
}

/*
 * A socket without SO_REUSEADDR blocks its port for the listener of the next job: a connection
 * in TIME_WAIT, one that is not accepted yet, or an outgoing one that the kernel gave that port
 * while no socket listened there. Accepted connections inherit the option from the listener, but
 * a launcher may have opened that one without it.
 */
static void endpoint_let_reuse(int fd)
{
	int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

static enum oriel_status endpoint_listen_unix(struct ori_address *address, int *fd)
{
	static const unsigned char any[sizeof(address->ip)];
	char text[ORI_ENDPOINT_LENGTH];

	static_assert(sizeof(address->ip) == ORI_FDSOCK_NAME, "a name fits");
	if (memcmp(address->ip, any, sizeof(any)) == 0)
		return ori_fdsock_listen(address->ip, fd);
	if (ori_fdsock_listen_at(address->ip, fd) == ORIEL_OK)
		return ORIEL_OK;
	return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot listen at unix socket %s",
			      ori_endpoint_text(address, text));
}

enum oriel_status ori_endpoint_listen(struct ori_address *address, int *fd)
{
	char text[ORI_ENDPOINT_LENGTH];
	union endpoint_name name;
	socklen_t length = endpoint_name(address, &name);
	enum oriel_status status;
	int s, error;

	if (address->family == ORI_ADDRESS_UNIX)
		return endpoint_listen_unix(address, fd);
	s = endpoint_socket(address);
	if (s < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot open a socket to listen at %s",
				      ori_endpoint_text(address, text));
	endpoint_let_reuse(s);
	if (bind(s, &name.any, length) != 0 || listen(s, ENDPOINT_BACKLOG) != 0) {
		status = ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot listen at %s",
					ori_endpoint_text(address, text));
		goto err_close;
	}
	status = ori_endpoint_local(s, address);
	if (status != ORIEL_OK)
		goto err_close;
	*fd = s;
	return ORIEL_OK;

err_close:
	error = errno;
	close(s);
	errno = error; /* EADDRNOTAVAIL makes the caller try another address */
	return status;
}

static int endpoint_listen_all(sa_family_t family, uint16_t *port)
{
	union endpoint_name name = {.any.sa_family = family};
	socklen_t length = family == AF_INET6 ? sizeof(name.v6) : sizeof(name.v4);
	int off = 0, error, fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct ori_address address;

	if (fd < 0)
		return -1;
	ori_fork_socket(fd);
	if ((family != AF_INET6 ||
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0) &&
	    bind(fd, &name.any, length) == 0 && listen(fd, ENDPOINT_BACKLOG) == 0 &&
	    ori_endpoint_local(fd, &address) == ORIEL_OK) {
		*port = address.port;
		return fd;
	}
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

unsigned ori_endpoint_of_hosts(const struct ori_hosts *hosts, uint16_t port,
			       struct ori_address addresses[ORI_HOSTS])
{
	unsigned count = 0;

	if (hosts->is_ipv6) {
		addresses[0] = (struct ori_address){.family = 6, .port = port};
		memcpy(addresses[0].ip, hosts->of, sizeof(addresses[0].ip));
		return 1;
	}
	for (; count < ORI_HOSTS && hosts->of[count]; count++) {
		addresses[count] = (struct ori_address){.family = 4, .port = port};
		memcpy(addresses[count].ip, &hosts->of[count], sizeof(hosts->of[count]));
	}
	return count;
}

struct ori_address ori_endpoint_attempt(const struct ori_hosts *hosts, uint16_t port, bool is_here,
					unsigned attempt)
{
	struct ori_address addresses[ORI_HOSTS] = {
		{.family = 4, .port = port, .ip = {127, 0, 0, 1}},
		{.family = 6, .port = port, .ip = {[15] = 1}},
	};
	unsigned count = is_here ? 2 : ori_endpoint_of_hosts(hosts, port, addresses);

	return attempt < count ? addresses[attempt] : (struct ori_address){0};
}

bool ori_endpoint_chosen(uint16_t port, struct ori_address *address)
{
	struct ori_address addresses[ORI_HOSTS];
	struct ori_hosts hosts;

	if (!ori_hosts_is_chosen() || ori_hosts_list(&hosts) != ORIEL_OK)
		return false;
	if (!ori_endpoint_of_hosts(&hosts, port, addresses))
		return false;
	*address = addresses[0];
	return true;
}

enum oriel_status ori_endpoint_listen_all(struct ori_hosts *hosts, uint16_t *port, int *fd)
{
	enum oriel_status status = ori_hosts_list(hosts);
	struct ori_address addresses[ORI_HOSTS];
	int made;

	if (status != ORIEL_OK)
		return status;
	if (ori_hosts_is_chosen() && ori_endpoint_of_hosts(hosts, 0, addresses)) {
		status = ori_endpoint_listen(&addresses[0], fd);
		*port = addresses[0].port;
		return status;
	}
	made = endpoint_listen_all(AF_INET6, port);
	/* Some machines have no IPv6. */
	if (made < 0)
		made = endpoint_listen_all(AF_INET, port);
	if (made < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot listen on TCP");
	*fd = made;
	return ORIEL_OK;
}

static bool endpoint_option_is(int fd, int level, int option, int expected)
{
	socklen_t length = sizeof(int);
	int value = -1;

	return getsockopt(fd, level, option, &value, &length) == 0 && value == expected;
}

enum oriel_status ori_endpoint_adopt(int fd, uint16_t port)
{
	int flags = fcntl(fd, F_GETFL);
	char text[ORI_ENDPOINT_LENGTH];
	struct ori_address at;

	if (flags < 0)
		return ori_fail_errno(ORIEL_ERR_CONFIG, "ORIEL_LISTEN_FD is %d", fd);
	if (!endpoint_option_is(fd, SOL_SOCKET, SO_PROTOCOL, IPPROTO_TCP) ||
	    ori_endpoint_local(fd, &at) != ORIEL_OK)
		return ori_fail(ORIEL_ERR_CONFIG, "ORIEL_LISTEN_FD is %d, which is no TCP socket",
				fd);
	if (!endpoint_option_is(fd, SOL_SOCKET, SO_ACCEPTCONN, 1))
		return ori_fail(ORIEL_ERR_CONFIG, "ORIEL_LISTEN_FD is %d, which does not listen",
				fd);
	if (at.port != port)
		return ori_fail(ORIEL_ERR_CONFIG,
				"ORIEL_LISTEN_FD is %d, which listens at %s instead of port %u", fd,
				ori_endpoint_text(&at, text), port);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
	    listen(fd, ENDPOINT_BACKLOG) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "ORIEL_LISTEN_FD is %d", fd);
	ori_fork_socket(fd);
	endpoint_let_reuse(fd);
	return ORIEL_OK;
}

/*
 * If no socket listens at a port of the ephemeral range, TCP may choose that port for this
 * side, too, and connect the socket to itself.
 */
static bool endpoint_is_own(int fd)
{
	struct ori_address local, remote;

	return ori_endpoint_local(fd, &local) == ORIEL_OK &&
	       ori_endpoint_remote(fd, &remote) == ORIEL_OK &&
	       memcmp(&local, &remote, sizeof(local)) == 0;
}

int ori_endpoint_begin(const struct ori_address *address)
{
	union endpoint_name name;
	socklen_t length = endpoint_name(address, &name);
	int fd, error;

	if (address->family == ORI_ADDRESS_UNIX)
		return ori_fdsock_begin(address->ip, geteuid());
	fd = endpoint_socket(address);
	if (fd < 0)
		return -1;
	endpoint_hurry(fd);
	endpoint_let_reuse(fd);
	if (connect(fd, &name.any, length) == 0 || errno == EINPROGRESS)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

int ori_endpoint_outcome(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLOUT};
	socklen_t length = sizeof(int);
	int error = 0;

	if (poll(&pollfd, 1, 0) <= 0)
		return EINPROGRESS;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
		return errno;
	return !error && !ori_fdsock_is(fd) && endpoint_is_own(fd) ? ECONNREFUSED : error;
}

int ori_endpoint_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return fd;
	ori_fork_socket(fd);
	endpoint_hurry(fd);
	endpoint_let_reuse(fd);
	return fd;
}

/* @tries: how often TCP has sent again since the last acknowledgement. */
static bool endpoint_is_unheard(int fd, uint64_t ns, unsigned *tries)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
		return false;
	*tries = info.tcpi_unacked ? info.tcpi_retransmits : info.tcpi_probes;
	return (info.tcpi_unacked || info.tcpi_probes) &&
	       info.tcpi_last_ack_recv * UINT64_C(1000000) >= ns;
}

bool ori_hearing_lost(struct ori_hearing *hearing, int fd, uint64_t now, unsigned most)
{
	uint64_t since = hearing->at ? now - hearing->at : 0;
	unsigned tries = 0;

	hearing->at = now;
	if (!since || !endpoint_is_unheard(fd, since, &tries)) {
		hearing->silent = 0;
		return false;
	}
	return ++hearing->silent >= most && tries >= HEARING_TRIES;
}

enum oriel_status ori_endpoint_local(int fd, struct ori_address *address)
{
	union endpoint_name name = {0};
	socklen_t length = sizeof(name);

	if (getsockname(fd, &name.any, &length) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "getsockname");
	if (!endpoint_address(&name, address))
		return ori_fail(ORIEL_ERR_CONFIG, "descriptor %d is no TCP socket", fd);
	return ORIEL_OK;
}

enum oriel_status ori_endpoint_remote(int fd, struct ori_address *address)
{
	union endpoint_name name = {0};
	socklen_t length = sizeof(name);

	if (getpeername(fd, &name.any, &length) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "getpeername");
	if (!endpoint_address(&name, address))
		return ori_fail(ORIEL_ERR_CONFIG, "descriptor %d is no TCP socket", fd);
	return ORIEL_OK;
}
