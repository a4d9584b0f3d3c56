/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into ranks: leads each TCP connection that they begin to a relay at RELAY_PORT of
 * 127.0.0.1, and notifies the relay, by a datagram to the unix socket RELAY_SOCKET, of the address
 * that was meant and the kind of the connection. relay_test.py is the relay.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* The rank says what it does now (RELAY_KIND), and at which port a peer's p2p context listens. */
static const char *kind_of(unsigned port)
{
	const char *p2p = getenv("RELAY_P2P_PORT"), *now = getenv("RELAY_KIND");

	if (p2p && (unsigned)atoi(p2p) == port)
		return "p2p";
	return now ? now : "join";
}

static void notify(const char *text)
{
	const char *path = getenv("RELAY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path ? path : "");
	if (fd < 0 || sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to, sizeof(to)) < 0) {
		fprintf(stderr, "relay_shim: no relay at %s: %s\n", to.sun_path, strerror(errno));
		_exit(3);
	}
	close(fd);
}

/* The header declares connect() with a union of glibc's own, which a definition cannot name. */
int shim_connect(int fd, const struct sockaddr *address, socklen_t length) __asm__("connect");

int shim_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	const struct sockaddr_in *to = (const struct sockaddr_in *)address;
	struct sockaddr_in here = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t here_length = sizeof(here);
	char text[128], host[INET_ADDRSTRLEN];

	if (address->sa_family != AF_INET || !getenv("RELAY_PORT"))
		return (int)syscall(SYS_connect, fd, address, length);
	if (bind(fd, (struct sockaddr *)&here, sizeof(here)) != 0 ||
	    getsockname(fd, (struct sockaddr *)&here, &here_length) != 0)
		return -1;
	inet_ntop(AF_INET, &to->sin_addr, host, sizeof(host));
	snprintf(text, sizeof(text), "%u %s %u %s", ntohs(here.sin_port), host, ntohs(to->sin_port),
		 kind_of(ntohs(to->sin_port)));
	notify(text);
	here.sin_port = htons((uint16_t)atoi(getenv("RELAY_PORT")));
	return (int)syscall(SYS_connect, fd, &here, sizeof(here));
}
