/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into ranks: leads each TCP connection that they begin to a relay at RELAY_PORT of
 * 127.0.0.1, and notifies the relay, by a datagram to the unix socket RELAY_SOCKET, of the address
 * that was meant and the kind of the connection. relay_test.py is the relay. With RELAY_BOOT_ID a
 * rank of an odd number reads its kernel's id from that file, and so is on another host than the
 * others for the library, which then joins them by TCP alone.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * The rank says what it does now (RELAY_KIND), which connections its main thread begins
 * (RELAY_MAIN), and at which port a peer's p2p context listens.
 */
static const char *kind_of(unsigned port)
{
	const char *p2p = getenv("RELAY_P2P_PORT"), *now = getenv("RELAY_KIND");
	const char *by_main = getenv("RELAY_MAIN");

	if (p2p && (unsigned)atoi(p2p) == port)
		return "p2p";
	if (by_main && gettid() == getpid())
		return by_main;
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

/* Where the rank says of what kind connections to its new listeners are (RELAY_LISTEN). */
int listen(int fd, int backlog)
{
	const char *kind = getenv("RELAY_LISTEN");
	struct sockaddr_in here = {0};
	socklen_t length = sizeof(here);
	char text[128];

	if (syscall(SYS_listen, fd, backlog) != 0)
		return -1;
	if (kind && getsockname(fd, (struct sockaddr *)&here, &length) == 0 &&
	    here.sin_family == AF_INET) {
		snprintf(text, sizeof(text), "listen %u %s", ntohs(here.sin_port), kind);
		notify(text);
	}
	return 0;
}

static int shim_open_any(const char *path, int flags, mode_t mode)
{
	const char *other = getenv("RELAY_BOOT_ID"), *rank = getenv("RANK");

	if (other && rank && atoi(rank) % 2 && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
		path = other;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int shim_open(const char *path, int flags, ...) __asm__("open");
int shim_open64(const char *path, int flags, ...) __asm__("open64");

int shim_open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return shim_open_any(path, flags, mode);
}

int shim_open64(const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return shim_open_any(path, flags, mode);
}
