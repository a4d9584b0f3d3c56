/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes and file descriptors between processes of one machine, over abstract
 * unix stream sockets. Names are random bytes: who they belong to is the
 * caller's business. Nothing blocks past its deadline (base/clock.h); sockets
 * are non-blocking and closed on exec. A socket belongs to one thread at a time.
 */
#ifndef ORI_MEM_FDSOCK_H
#define ORI_MEM_FDSOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <oriel/status.h>

#define ORI_FDSOCK_NAME 16
#define ORI_FDSOCK_FDS 253u /* most descriptors in one message (SCM_MAX_FD) */

struct ucred; /* <sys/socket.h> */

enum oriel_status ori_fdsock_listen(uint8_t name[ORI_FDSOCK_NAME], int *fd);

/*
 * ORIEL_ERR_PEER: nobody listens at @name. ORIEL_ERR_AUTH: whoever does is
 * not process @pid (0: any) of user @uid.
 */
enum oriel_status ori_fdsock_connect(const uint8_t name[ORI_FDSOCK_NAME], uid_t uid, pid_t pid,
				     uint64_t deadline, int *fd);

/*
 * The next connection of a process of this user; others are turned away.
 * @peer says which process it is. Without descriptors it waits for some;
 * ORIEL_ERR_NOMEM if there are none at the deadline.
 */
enum oriel_status ori_fdsock_accept(int listener, uint64_t deadline, int *fd, struct ucred *peer);

/*
 * The same without waiting. ORIEL_AGAIN: nobody is there, or one that was turned away.
 * ORIEL_ERR_NOMEM, which leaves no text but errno: no descriptor or memory is left, and the
 * connection stays in the backlog.
 */
enum oriel_status ori_fdsock_accept_once(int listener, int *fd, struct ucred *peer);

/* All of @data, @length > 0; @fds stay open here. ORIEL_ERR_PEER: the other end is closed. */
enum oriel_status ori_fdsock_send(int fd, const void *data, size_t length, const int *fds,
				  unsigned nfds, uint64_t deadline);

/*
 * Exactly @length > 0 bytes and the descriptors that came with them, which
 * become the caller's. ORIEL_ERR_PROTOCOL if more than @max_fds came. Whatever
 * fails, no descriptor stays open; @data may have been written.
 */
enum oriel_status ori_fdsock_recv(int fd, void *data, size_t length, int *fds, unsigned max_fds,
				  unsigned *nfds, uint64_t deadline);

#endif
