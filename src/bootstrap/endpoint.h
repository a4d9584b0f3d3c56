/* SPDX-License-Identifier: Apache-2.0 */
/* TCP sockets by address: names resolved, listeners opened, connections begun. */
#ifndef ORI_BOOTSTRAP_ENDPOINT_H
#define ORI_BOOTSTRAP_ENDPOINT_H

#include "bootstrap/frame.h"
#include "sys/hosts.h"

#define ORI_ENDPOINT_NAMES 8   /* addresses of one host name that are tried */
#define ORI_ENDPOINT_LENGTH 64 /* "[::1]:29500" */

const char *ori_endpoint_text(const struct ori_address *address, char text[ORI_ENDPOINT_LENGTH]);

/* Up to ORI_ENDPOINT_NAMES addresses of @host; retries a name server until @deadline. */
enum oriel_status ori_endpoint_resolve(const char *host, uint16_t port, uint64_t deadline,
				       struct ori_address *addresses, unsigned *count);

/* A non-blocking listener; @address->port 0 takes any and is filled in. */
enum oriel_status ori_endpoint_listen(struct ori_address *address, int *fd);
/*
 * The same at all addresses of this machine, of IPv4 and of IPv6, and a port of its
 * own. @hosts are those of them that others know.
 */
enum oriel_status ori_endpoint_listen_all(struct ori_hosts *hosts, uint16_t *port, int *fd);
/*
 * Takes over @fd of ORIEL_LISTEN_FD: close-on-exec, non-blocking. ORIEL_ERR_CONFIG, and
 * @fd is left as it was, if it is no TCP socket that listens at @port.
 */
enum oriel_status ori_endpoint_adopt(int fd, uint16_t port);

/* A socket that ori_endpoint_outcome() tells of, or -1 and errno; logs and keeps no text. */
int ori_endpoint_begin(const struct ori_address *address);
/* 0: connected; EINPROGRESS: not yet; else why not. Never waits. */
int ori_endpoint_outcome(int fd);
/* Connected, or -1 and errno (ETIMEDOUT past @deadline); logs and keeps no text. */
int ori_endpoint_connect(const struct ori_address *address, uint64_t deadline);
/* The next connection, non-blocking, or -1 and errno. */
int ori_endpoint_accept(int listener);

enum oriel_status ori_endpoint_local(int fd, struct ori_address *address);
enum oriel_status ori_endpoint_remote(int fd, struct ori_address *address);

#endif
