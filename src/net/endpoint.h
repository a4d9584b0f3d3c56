/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets by address, of TCP, or unix sockets of this machine: resolve names, open listeners,
 * begin connections. Connections and listeners of this module, the bootstrap, src/comm and src/p2p
 * call it.
 */
#ifndef ORI_NET_ENDPOINT_H
#define ORI_NET_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#include "sys/hosts.h"

#define ORI_ENDPOINT_NAMES 8   /* addresses of one host name that are tried */
#define ORI_ENDPOINT_LENGTH 64 /* "[::1]:29500" */

#define ORI_ADDRESS_UNIX 1u

struct ori_address {
	uint16_t family;      /* 4, 6, ORI_ADDRESS_UNIX, or 0 for none */
	uint16_t port;        /* 0 for a unix socket */
	unsigned char ip[16]; /* of a unix socket its name, see net/fdsock.h */
};

const char *ori_endpoint_text(const struct ori_address *address, char text[ORI_ENDPOINT_LENGTH]);

/* Up to ORI_ENDPOINT_NAMES addresses of @host; retries a name server until @deadline. */
enum oriel_status ori_endpoint_resolve(const char *host, uint16_t port, uint64_t deadline,
				       struct ori_address *addresses, unsigned *count);

/*
 * Is it an address of the loopback interface? Other processes of this machine reach it, too, but no
 * other machine does.
 */
bool ori_endpoint_is_loopback(const struct ori_address *address);

/*
 * Open a non-blocking listener; port 0 in @address means any port, and is filled in, and so is the
 * name of a unix socket if all its bytes are 0.
 */
enum oriel_status ori_endpoint_listen(struct ori_address *address, int *fd);
/* The addresses of @hosts, with @port; returns their number. */
unsigned ori_endpoint_of_hosts(const struct ori_hosts *hosts, uint16_t port,
			       struct ori_address addresses[ORI_HOSTS]);
/*
 * Address number @attempt, from 0 on, at which a listener of @hosts is reached; family 0: there are
 * no more. @is_here: those are of this machine, so that loopback leads there.
 */
struct ori_address ori_endpoint_attempt(const struct ori_hosts *hosts, uint16_t port, bool is_here,
					unsigned attempt);
/* The address that ORIEL_IFACE chooses, with @port. False: it chooses none. */
bool ori_endpoint_chosen(uint16_t port, struct ori_address *address);
/*
 * The same at all addresses of this machine, IPv4 and IPv6, or at that of ORIEL_IFACE alone, with a
 * port that the kernel chooses. @hosts gets the addresses that other machines can use.
 */
enum oriel_status ori_endpoint_listen_all(struct ori_hosts *hosts, uint16_t *port, int *fd);
/*
 * Take over @fd of ORIEL_LISTEN_FD and make it close-on-exec and non-blocking.
 * ORIEL_ERR_CONFIG, and @fd stays as it is, unless it is a TCP socket that listens at @port.
 */
enum oriel_status ori_endpoint_adopt(int fd, uint16_t port);

/*
 * Begin to connect. Returns a socket for ori_endpoint_outcome(), or -1 and errno; sets no last
 * error. EADDRINUSE: the unix socket is that of another user; EAGAIN: its backlog is full.
 */
int ori_endpoint_begin(const struct ori_address *address);
/* 0: connected; EINPROGRESS: not yet; else the errno of the failure. Never waits. */
int ori_endpoint_outcome(int fd);
/* Accept the next connection, which becomes non-blocking; -1 and errno if there is none. */
int ori_endpoint_accept(int listener);

/*
 * Looks at whether the host of a peer still acknowledges. Looks count, not time: a process that was
 * stopped itself has made none.
 */
struct ori_hearing {
	uint64_t at;     /* of the last look; 0: there was none */
	unsigned silent; /* looks, one after the other, between which no acknowledgement came */
};

#define ORI_HEARING_NS UINT64_C(1000000000) /* between two looks, at least */
#define ORI_HEARING_MOST 30u                /* until a host is lost */

/*
 * Has the host of the peer of @fd been silent at @most looks, of which this is one, and left seven
 * packets in a row unanswered? Never for a unix socket, nor while the peer keeps its window closed
 * and its host answers. TCP itself would go on for a quarter of an hour (tcp(7), tcp_retries2).
 * TCP_USER_TIMEOUT is no limit for it: its time also runs while a stopped process keeps its window
 * closed, although its host answers each probe (Linux 6.18: such a connection ended after that
 * time; net/ipv4/tcp_timer.c, tcp_probe_timer()).
 */
bool ori_hearing_lost(struct ori_hearing *hearing, int fd, uint64_t now, unsigned most);

enum oriel_status ori_endpoint_local(int fd, struct ori_address *address);
enum oriel_status ori_endpoint_remote(int fd, struct ori_address *address);

#endif
