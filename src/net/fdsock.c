/* SPDX-License-Identifier: Apache-2.0 */
/* Implements net/fdsock.h: messages with descriptors (SCM_RIGHTS) over abstract unix sockets. */
#include "net/fdsock.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "sys/process.h"

static_assert(sizeof(union ori_fds_room) >= CMSG_SPACE(ORI_FDSOCK_FDS * sizeof(int)) &&
		      _Alignof(union ori_fds_room) >= _Alignof(struct cmsghdr),
	      "as many descriptors as the kernel passes");

/* "\0oriel-" and the name in hex: seen as @oriel-... in /proc/net/unix. */
static socklen_t fdsock_address(const uint8_t name[ORI_FDSOCK_NAME], struct sockaddr_un *address)
{
	static const char digits[] = "0123456789abcdef";
	char *at;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	at = address->sun_path;
	/* The address has a length: NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
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

enum oriel_status ori_fdsock_listen_at(const uint8_t name[ORI_FDSOCK_NAME], int *fd)
{
	struct sockaddr_un address;
	enum oriel_status status;
	socklen_t length;
	int sock, error;

	status = fdsock_open(&sock);
	if (status != ORIEL_OK)
		return status;
	length = fdsock_address(name, &address);
	if (bind(sock, (struct sockaddr *)&address, length) != 0 || listen(sock, SOMAXCONN) != 0) {
		error = errno;
		status = ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot listen on a unix socket");
		close(sock);
		errno = error;
		return status;
	}
	*fd = sock;
	return ORIEL_OK;
}

enum oriel_status ori_fdsock_listen(uint8_t name[ORI_FDSOCK_NAME], int *fd)
{
	uint8_t fresh[ORI_FDSOCK_NAME];
	enum oriel_status status;

	status = ori_random(fresh, sizeof(fresh));
	if (status == ORIEL_OK)
		status = ori_fdsock_listen_at(fresh, fd);
	if (status == ORIEL_OK)
		memcpy(name, fresh, sizeof(fresh));
	return status;
}

int ori_fdsock_begin(const uint8_t name[ORI_FDSOCK_NAME], uid_t uid)
{
	struct sockaddr_un address;
	socklen_t length = fdsock_address(name, &address), room = sizeof(struct ucred);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
	struct ucred peer;

	if (fd < 0)
		return -1;
	ori_fork_socket(fd);
	if (connect(fd, (struct sockaddr *)&address, length) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &room) != 0)
		error = errno;
	else if (peer.uid != uid)
		error = EADDRINUSE;
	if (!error)
		return fd;
	close(fd);
	errno = error;
	return -1;
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

void ori_fdsock_attach(struct msghdr *message, union ori_fds_room *room, const int *fds,
		       unsigned nfds)
{
	struct cmsghdr *c;

	memset(room, 0, sizeof(*room));
	message->msg_control = room->bytes;
	message->msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	c = CMSG_FIRSTHDR(message);
	assert(c);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
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
