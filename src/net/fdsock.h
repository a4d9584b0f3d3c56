/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes and file descriptors between processes of one machine, over abstract unix stream sockets.
 * A socket's name is random bytes; the caller sends it to its peers. No call blocks past its
 * deadline (base/clock.h); sockets are non-blocking and closed on exec. A socket belongs to one
 * thread at a time.
 */
#ifndef ORI_NET_FDSOCK_H
#define ORI_NET_FDSOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <oriel/status.h>

#define ORI_FDSOCK_NAME 16
#define ORI_FDSOCK_FDS 253u /* most descriptors in one message (SCM_MAX_FD) */

struct msghdr; /* <sys/socket.h> */
struct ucred;

/* Descriptors that have arrived, and belong to this process. */
struct ori_fds {
	int of[ORI_FDSOCK_FDS];
	unsigned count;
};

void ori_fds_close(struct ori_fds *fds);

/* Room for the descriptors of one message, aligned for the kernel. */
union ori_fds_room {
	size_t align;
	char bytes[1040]; /* CMSG_SPACE(sizeof(struct ori_fds.of)) */
};

/* Is @fd a unix socket? */
bool ori_fdsock_is(int fd);
enum oriel_status ori_fdsock_peer(int fd, struct ucred *peer);

enum oriel_status ori_fdsock_listen(uint8_t name[ORI_FDSOCK_NAME], int *fd);
/* The same with a name that the caller has chosen, and errno on failure: EADDRINUSE. */
enum oriel_status ori_fdsock_listen_at(const uint8_t name[ORI_FDSOCK_NAME], int *fd);
/*
 * Connect without waiting. Returns the socket, or -1 and errno, without a last error. ECONNREFUSED:
 * no process has @name; EADDRINUSE: one of another user has, and so none of this one.
 */
int ori_fdsock_begin(const uint8_t name[ORI_FDSOCK_NAME], uid_t uid);

/*
 * ORIEL_ERR_PEER: no socket listens at @name. ORIEL_ERR_AUTH: the listener is not process @pid (0:
 * any) of user @uid.
 */
enum oriel_status ori_fdsock_connect(const uint8_t name[ORI_FDSOCK_NAME], uid_t uid, pid_t pid,
				     uint64_t deadline, int *fd);

/* @nfds > 0 descriptors go with @message; @room lasts until it is sent. */
void ori_fdsock_attach(struct msghdr *message, union ori_fds_room *room, const int *fds,
		       unsigned nfds);

/*
 * Receive up to @length bytes without blocking, and add the descriptors that come along to @fds.
 * No error text: ORIEL_AGAIN, ORIEL_ERR_PEER, ORIEL_ERR_SYSTEM with errno, ORIEL_ERR_PROTOCOL for
 * more descriptors than there is room for, ORIEL_ERR_NOMEM if this process cannot hold them.
 */
enum oriel_status ori_fdsock_pull(int fd, void *data, size_t length, struct ori_fds *fds,
				  size_t *got);

#endif
