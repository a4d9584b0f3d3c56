/* SPDX-License-Identifier: Apache-2.0 */
/* Implements net/fdsock.h: messages with descriptors (SCM_RIGHTS) over abstract unix sockets. */
#include "net/fdsock.h"

#include <assert.h>
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

static_assert(sizeof(union ori_fds_room) >= CMSG_SPACE(ORI_FDSOCK_FDS * sizeof(int)) &&
		      _Alignof(union ori_fds_room) >= _Alignof(struct cmsghdr),
	      "as many descriptors as the kernel passes");

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

bool ori_fdsock_is(int fd)
{
	int domain = 0;
	socklen_t length = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

enum oriel_status ori_fdsock_peer(int fd, struct ucred *peer)
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
	enum oriel_status status = ori_fdsock_peer(fd, &peer);

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
	status = ori_fdsock_peer(sock, &who);
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

void ori_fdsock_attach(struct msghdr *message, union ori_fds_room *room, const int *fds,
		       unsigned nfds)
{
	struct cmsghdr *c;

	memset(room, 0, sizeof(*room));
	message->msg_control = room->bytes;
	message->msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	c = CMSG_FIRSTHDR(message);
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
	union ori_fds_room room;

	if (length == 0 || nfds > ORI_FDSOCK_FDS)
		return ori_fail(ORIEL_ERR_INVALID, "message of %zu bytes with %u descriptors",
				length, nfds);
	while (length > 0) {
		struct iovec part = {.iov_base = (void *)(uintptr_t)at, .iov_len = length};
		struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
		enum oriel_status status;
		ssize_t n;

		if (nfds > 0)
			ori_fdsock_attach(&msg, &room, fds, nfds);
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

void ori_fds_close(struct ori_fds *fds)
{
	while (fds->count)
		close(fds->of[--fds->count]);
}

/* Excess descriptors are closed at once, since the kernel has already installed them. */
static bool fdsock_collect(struct msghdr *msg, struct ori_fds *fds)
{
	bool has_room = true;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		size_t count;

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(fd), sizeof(fd));
			has_room = has_room && fds->count < ORI_FDSOCK_FDS;
			if (has_room)
				fds->of[fds->count++] = fd;
			else
				close(fd);
		}
	}
	return has_room;
}

enum oriel_status ori_fdsock_pull(int fd, void *data, size_t length, struct ori_fds *fds,
				  size_t *got)
{
	struct iovec part = {.iov_base = data, .iov_len = length};
	union ori_fds_room room;
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = room.bytes,
			     .msg_controllen = sizeof(room.bytes)};
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return ORIEL_AGAIN;
	if (n < 0 && errno != ECONNRESET)
		return ORIEL_ERR_SYSTEM;
	if (n <= 0)
		return ORIEL_ERR_PEER;
	if (!fdsock_collect(&msg, fds))
		return ORIEL_ERR_PROTOCOL;
	*got = (size_t)n;
	/* There is room for the kernel's maximum: this process has hit a limit of its own. */
	return msg.msg_flags & MSG_CTRUNC ? ORIEL_ERR_NOMEM : ORIEL_OK;
}

static enum oriel_status fdsock_recv_failed(enum oriel_status status)
{
	if (status == ORIEL_ERR_PEER)
		return ori_fail(status, "a peer has closed its unix socket");
	if (status == ORIEL_ERR_NOMEM)
		return ori_fail(status, "descriptors of a peer were lost: raise the limit of open "
					"files (ulimit -n)");
	if (status == ORIEL_ERR_PROTOCOL)
		return ori_fail(status, "a peer sent more than %u descriptors", ORI_FDSOCK_FDS);
	return ori_fail_errno(status, "cannot receive over a unix socket");
}

static enum oriel_status fdsock_recv_all(int fd, char *at, size_t length, struct ori_fds *fds,
					 uint64_t deadline)
{
	enum oriel_status status;
	size_t got;

	while (length > 0) {
		status = ori_fdsock_pull(fd, at, length, fds, &got);
		if (status == ORIEL_AGAIN) {
			status = fdsock_wait(fd, POLLIN, deadline, "a message");
			if (status != ORIEL_OK)
				return status;
			continue;
		}
		if (status != ORIEL_OK)
			return fdsock_recv_failed(status);
		at += got;
		length -= got;
	}
	return ORIEL_OK;
}

enum oriel_status ori_fdsock_recv(int fd, void *data, size_t length, int *fds, unsigned max_fds,
				  unsigned *nfds, uint64_t deadline)
{
	struct ori_fds came = {.count = 0};
	enum oriel_status status;

	if (length == 0 || max_fds > ORI_FDSOCK_FDS)
		return ori_fail(ORIEL_ERR_INVALID, "message of %zu bytes with %u descriptors",
				length, max_fds);
	status = fdsock_recv_all(fd, data, length, &came, deadline);
	if (status == ORIEL_OK && came.count > max_fds)
		status = ori_fail(ORIEL_ERR_PROTOCOL, "a peer sent more than %u descriptors",
				  max_fds);
	if (status != ORIEL_OK) {
		ori_fds_close(&came);
		return status;
	}
	for (unsigned i = 0; i < came.count; i++)
		fds[i] = came.of[i];
	*nfds = came.count;
	return ORIEL_OK;
}
