/* SPDX-License-Identifier: Apache-2.0 */
/* Implements net/fdsock.h: messages with descriptors (SCM_RIGHTS) over abstract unix sockets. */
#include "net/fdsock.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "sys/process.h"

#define FDSOCK_RETRY_NS 10000000 /* pause while the process is out of descriptors or memory */
#define FDSOCK_REJECTED_MAX 64u  /* connections rejected past the deadline, in one call */

/* Room for the descriptors of one message, aligned for the kernel. */
union fdsock_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(ORI_FDSOCK_FDS * sizeof(int))];
};

/* "\0oriel-" and the name in hex: seen as @oriel-... in /proc/net/unix. */
static socklen_t fdsock_address(const uint8_t name[ORI_FDSOCK_NAME], struct sockaddr_un *address)
{
	static const char digits[] = "0123456789abcdef";
	char *at = address->sun_path;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(at, "\0oriel-", 7);
	at += 7;
	for (unsigned i = 0; i < ORI_FDSOCK_NAME; i++) {
		*at++ = digits[name[i] >> 4];
		*at++ = digits[name[i] & 15];
	}
	return (socklen_t)(at - (char *)address);
}

static enum oriel_status fdsock_open(int *fd)
{
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return ori_fail_errno(errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
						      errno == ENOBUFS
					      ? ORIEL_ERR_NOMEM
					      : ORIEL_ERR_SYSTEM,
				      "cannot make a unix socket");
	ori_fork_socket(*fd);
	return ORIEL_OK;
}

/* Wait for @events on @fd; an error or a hang-up also ends the wait. */
static enum oriel_status fdsock_wait(int fd, short events, uint64_t deadline, const char *what)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		int n = poll(&p, 1, ori_deadline_poll_ms(deadline));

		if (n > 0)
			return ORIEL_OK;
		if (n < 0 && errno != EINTR)
			return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot wait for a unix socket");
		if (ori_deadline_passed(deadline))
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"timed out waiting for %s over a unix socket", what);
	}
}

static enum oriel_status fdsock_peer(int fd, struct ucred *peer)
{
	socklen_t length = sizeof(*peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM,
				      "cannot read the peer credentials of a unix socket");
	return ORIEL_OK;
}

enum oriel_status ori_fdsock_listen(uint8_t name[ORI_FDSOCK_NAME], int *fd)
{
	uint8_t fresh[ORI_FDSOCK_NAME];
	struct sockaddr_un address;
	enum oriel_status status;
	socklen_t length;
	int sock;

	status = ori_random(fresh, sizeof(fresh));
	if (status == ORIEL_OK)
		status = fdsock_open(&sock);
	if (status != ORIEL_OK)
		return status;
	length = fdsock_address(fresh, &address);
	if (bind(sock, (struct sockaddr *)&address, length) != 0 || listen(sock, SOMAXCONN) != 0) {
		status = ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot listen on a unix socket");
		close(sock);
		return status;
	}
	memcpy(name, fresh, sizeof(fresh));
	*fd = sock;
	return ORIEL_OK;
}

/*
 * Unlike TCP, a full backlog fails at once (EAGAIN), and no event reports free room: retry after a
 * pause.
 */
static enum oriel_status fdsock_connect(int fd, const struct sockaddr_un *address, socklen_t length,
					uint64_t deadline)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	while (connect(fd, (const struct sockaddr *)address, length) != 0) {
		if (errno == ECONNREFUSED)
			return ori_fail(ORIEL_ERR_PEER,
					"no process listens at a peer's unix socket");
		if (errno != EAGAIN && errno != EINTR)
			return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot connect a unix socket");
		if (ori_deadline_passed(deadline))
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"timed out: a peer did not accept a unix connection");
		if (errno == EAGAIN)
			nanosleep(&pause, NULL);
	}
	return ORIEL_OK;
}

/* Abstract names have no permissions, so both sides check the credentials of the other. */
static enum oriel_status fdsock_check(int fd, uid_t uid, pid_t pid)
{
	struct ucred peer;
	enum oriel_status status = fdsock_peer(fd, &peer);

	if (status != ORIEL_OK)
		return status;
	if (peer.uid != uid || (pid != 0 && peer.pid != pid))
		return ori_fail(ORIEL_ERR_AUTH,
				"the peer of a unix socket is process %ld of user %lu "
				"instead of process %ld of user %lu",
				(long)peer.pid, (unsigned long)peer.uid, (long)pid,
				(unsigned long)uid);
	return ORIEL_OK;
}

enum oriel_status ori_fdsock_connect(const uint8_t name[ORI_FDSOCK_NAME], uid_t uid, pid_t pid,
				     uint64_t deadline, int *fd)
{
	struct sockaddr_un address;
	enum oriel_status status;
	socklen_t length;
	int sock;

	status = fdsock_open(&sock);
	if (status != ORIEL_OK)
		return status;
	length = fdsock_address(name, &address);
	status = fdsock_connect(sock, &address, length, deadline);
	if (status == ORIEL_OK)
		status = fdsock_check(sock, uid, pid);
	if (status != ORIEL_OK) {
		close(sock);
		return status;
	}
	*fd = sock;
	return ORIEL_OK;
}

/* accept() failed for want of descriptors or memory, which another thread may free. */
static bool fdsock_is_exhausted(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Any process can connect, so only the 1st, 2nd, 4th, 8th ... rejection is logged. */
static void fdsock_log_rejected(const struct ucred *peer)
{
	static atomic_uint rejected;
	unsigned count = atomic_fetch_add_explicit(&rejected, 1, memory_order_relaxed) + 1;

	if ((count & (count - 1)) == 0)
		ori_log(ORIEL_LOG_WARN,
			"rejected a unix connection of process %ld of user %lu (%u so far)",
			(long)peer->pid, (unsigned long)peer->uid, count);
}

enum oriel_status ori_fdsock_accept_once(int listener, int *fd, struct ucred *peer)
{
	int sock = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct ucred who;
	enum oriel_status status;

	if (sock < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return ORIEL_AGAIN;
	if (sock < 0 && fdsock_is_exhausted(errno))
		return ORIEL_ERR_NOMEM;
	if (sock < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot accept a unix connection");
	ori_fork_socket(sock);
	status = fdsock_peer(sock, &who);
	if (status == ORIEL_OK && who.uid != geteuid()) {
		fdsock_log_rejected(&who);
		status = ORIEL_AGAIN;
	}
	if (status != ORIEL_OK) {
		close(sock);
		return status;
	}
	*peer = who;
	*fd = sock;
	return ORIEL_OK;
}

enum oriel_status ori_fdsock_accept(int listener, uint64_t deadline, int *fd, struct ucred *peer)
{
	const struct timespec pause = {.tv_nsec = FDSOCK_RETRY_NS};
	enum oriel_status status;
	unsigned rejected = 0;

	for (;;) {
		status = fdsock_wait(listener, POLLIN, deadline, "a connection");
		if (status == ORIEL_OK)
			status = ori_fdsock_accept_once(listener, fd, peer);
		if (status == ORIEL_ERR_NOMEM && ori_deadline_passed(deadline))
			return ori_fail_errno(status, "cannot accept a unix connection");
		if (status == ORIEL_ERR_NOMEM)
			nanosleep(&pause, NULL);
		else if (status != ORIEL_AGAIN)
			return status;
		/* Rejected connections may arrive without end. */
		else if (ori_deadline_passed(deadline) && ++rejected == FDSOCK_REJECTED_MAX)
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"timed out waiting for a connection over a unix socket");
	}
}

static void fdsock_attach(struct msghdr *msg, union fdsock_control *control, const int *fds,
			  unsigned nfds)
{
	struct cmsghdr *c;

	memset(control, 0, sizeof(*control));
	msg->msg_control = control->bytes;
	msg->msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
}

static enum oriel_status fdsock_send_failed(void)
{
	if (errno == EPIPE || errno == ECONNRESET)
		return ori_fail(ORIEL_ERR_PEER, "a peer has closed its unix socket");
	/* ETOOMANYREFS: too many descriptors of this user are in flight. */
	return ori_fail_errno(errno == ETOOMANYREFS || errno == ENOMEM || errno == ENOBUFS
				      ? ORIEL_ERR_NOMEM
				      : ORIEL_ERR_SYSTEM,
			      "cannot send over a unix socket");
}

enum oriel_status ori_fdsock_send(int fd, const void *data, size_t length, const int *fds,
				  unsigned nfds, uint64_t deadline)
{
	const char *at = data;
	union fdsock_control control;

	if (length == 0 || nfds > ORI_FDSOCK_FDS)
		return ori_fail(ORIEL_ERR_INVALID, "message of %zu bytes with %u descriptors",
				length, nfds);
	while (length > 0) {
		struct iovec part = {.iov_base = (void *)(uintptr_t)at, .iov_len = length};
		struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
		enum oriel_status status;
		ssize_t n;

		if (nfds > 0)
			fdsock_attach(&msg, &control, fds, nfds);
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
		if (n > 0) {
			at += n;
			length -= (size_t)n;
			nfds = 0; /* the first byte carried them */
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return fdsock_send_failed();
		status = fdsock_wait(fd, POLLOUT, deadline, "room to send");
		if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

/* The descriptors that have arrived. */
struct fdsock_received {
	int fds[ORI_FDSOCK_FDS];
	unsigned count, max;
	bool is_too_many;
};

static void fdsock_close_all(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

/* Excess descriptors are closed at once, since the kernel has already installed them. */
static void fdsock_received_add(struct fdsock_received *c, int fd)
{
	if (c->count < c->max) {
		c->fds[c->count++] = fd;
	} else {
		c->is_too_many = true;
		close(fd);
	}
}

static void fdsock_collect(struct msghdr *msg, struct fdsock_received *c)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		size_t count;

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(fd), sizeof(fd));
			fdsock_received_add(c, fd);
		}
	}
}

/* Receive some of @length bytes; ORIEL_AGAIN if none have arrived. */
static enum oriel_status fdsock_recv_some(int fd, char *at, size_t length,
					  struct fdsock_received *c, size_t *got)
{
	struct iovec part = {.iov_base = at, .iov_len = length};
	union fdsock_control control;
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return ORIEL_AGAIN;
	if (n < 0 && errno != ECONNRESET)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot receive over a unix socket");
	if (n <= 0)
		return ori_fail(ORIEL_ERR_PEER, "a peer has closed its unix socket");
	fdsock_collect(&msg, c);
	/*
	 * The buffer has room for the kernel's maximum, so truncation means that this process hit
	 * a limit of its own.
	 */
	if (msg.msg_flags & MSG_CTRUNC)
		return ori_fail(ORIEL_ERR_NOMEM, "descriptors of a peer were lost: raise the limit "
						 "of open files (ulimit -n)");
	if (c->is_too_many)
		return ori_fail(ORIEL_ERR_PROTOCOL, "a peer sent more than %u descriptors", c->max);
	*got = (size_t)n;
	return ORIEL_OK;
}

static enum oriel_status fdsock_recv_all(int fd, char *at, size_t length, struct fdsock_received *c,
					 uint64_t deadline)
{
	while (length > 0) {
		enum oriel_status status;
		size_t got;

		status = fdsock_recv_some(fd, at, length, c, &got);
		if (status == ORIEL_AGAIN) {
			status = fdsock_wait(fd, POLLIN, deadline, "a message");
			got = 0;
		}
		if (status != ORIEL_OK)
			return status;
		at += got;
		length -= got;
	}
	return ORIEL_OK;
}

enum oriel_status ori_fdsock_recv(int fd, void *data, size_t length, int *fds, unsigned max_fds,
				  unsigned *nfds, uint64_t deadline)
{
	struct fdsock_received c = {.max = max_fds};
	enum oriel_status status;

	if (length == 0 || max_fds > ORI_FDSOCK_FDS)
		return ori_fail(ORIEL_ERR_INVALID, "message of %zu bytes with %u descriptors",
				length, max_fds);
	status = fdsock_recv_all(fd, data, length, &c, deadline);
	if (status != ORIEL_OK) {
		fdsock_close_all(c.fds, c.count);
		return status;
	}
	for (unsigned i = 0; i < c.count; i++)
		fds[i] = c.fds[i];
	*nfds = c.count;
	return ORIEL_OK;
}
