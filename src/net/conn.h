/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that carries frames: over TCP with TLS where the job has a key, plain where it has
 * none; over a unix socket plain, with descriptors. A connector dials and an acceptor accepts; both
 * step the connection until it is open. The listener of this module, the bootstrap, the mesh of
 * src/comm, the endpoints of src/p2p and the software HCA call it.
 *
 * No function blocks, and none sets the last error: only the caller knows who the peer is.
 * ORIEL_AGAIN means poll() first, and that no received byte is left in the connection.
 * ORIEL_ERR_PEER means that it is closed; ORIEL_ERR_AUTH means what ori_net_doubt() says.
 * A connection is used by one thread at a time.
 */
#ifndef ORI_NET_CONN_H
#define ORI_NET_CONN_H

#include "net/endpoint.h"
#include "net/fdsock.h"
#include "net/frame.h"
#include "net/tls.h"

#define ORI_NET_HELLO_MAX 512 /* bytes of the first frame's body that an acceptor takes */

/* The traffic that the owner of some connections has sent over them, maybe by several threads. */
struct ori_traffic {
	_Atomic(uint64_t) frames;
	_Atomic(uint64_t) bytes; /* with those of TLS */
};

enum ori_net_state {
	ORI_NET_CLOSED,
	ORI_NET_CONNECTING, /* TCP */
	ORI_NET_TLS,        /* the handshake; an acceptor waits for the first byte */
	ORI_NET_HELLO,      /* an acceptor waits for the first frame */
	ORI_NET_OPEN,
};

struct ori_net_conn {
	enum ori_net_state state;
	int fd;        /* -1: closed */
	unsigned peer; /* the caller's number for the peer */
	bool is_connector;
	bool is_local;                   /* a unix socket */
	bool lacks_key;                  /* the peer speaks plainly, although this side has a key */
	bool is_mid_frame;               /* a part of a frame is written, the rest is not */
	struct ori_tls_context *context; /* borrowed; NULL: plain */
	struct ori_tls *tls;             /* owned; NULL: plain, or not begun */
	struct ori_traffic *traffic;     /* borrowed; NULL: not counted */
	const char *doubt;               /* NULL: none */
	struct ori_fds fds; /* they came with the last frame over a unix socket, in any state but
			       ORI_NET_HELLO; the next ori_net_take() closes them */
	size_t start, end;  /* of the received bytes that no call has read yet */
	unsigned char received[4096];
};

/* Takes over @fd, connected and trusted, for plain frames; -1: the connection is closed. */
void ori_net_open(struct ori_net_conn *conn, int fd, struct ori_traffic *traffic);
/* Begin to connect; by a unix socket without TLS. False, with errno, if that fails at once. */
bool ori_net_dial(struct ori_net_conn *conn, const struct ori_address *address,
		  struct ori_tls_context *context, struct ori_traffic *traffic);
/* Takes over @fd, which a listener has accepted. */
void ori_net_accept(struct ori_net_conn *conn, int fd, struct ori_tls_context *context,
		    struct ori_traffic *traffic);
void ori_net_close(struct ori_net_conn *conn);
/* @to becomes the connection, @from is closed. */
void ori_net_move(struct ori_net_conn *to, struct ori_net_conn *from);

/*
 * Continue until the connection is open, ORIEL_OK. A connector's is open once the acceptor has
 * proved that it knows the key; an acceptor's once it has the first frame, which
 * ori_net_take() returns. While the state is ORI_NET_CONNECTING, ORIEL_ERR_PEER has an errno.
 */
enum oriel_status ori_net_step(struct ori_net_conn *conn);
/* The poll() events that the next step needs. */
short ori_net_events(const struct ori_net_conn *conn);
/*
 * After ORIEL_ERR_AUTH: "has another ORIEL_JOB_KEY than this process", or what else the peer, or
 * the connection, "has".
 */
const char *ori_net_doubt(const struct ori_net_conn *conn);

/* Parse the header of the next frame, which stays in the buffer. */
enum oriel_status ori_net_peek(struct ori_net_conn *conn, struct ori_frame *frame);
/* Consume the header that ori_net_peek() has returned. */
void ori_net_skip(struct ori_net_conn *conn);
/* Continue to read a body at *@done; ORIEL_OK once *@done is @length. */
enum oriel_status ori_net_read(struct ori_net_conn *conn, void *data, size_t length, size_t *done);

/*
 * Read a whole frame with a body of at most @most bytes; ORIEL_AGAIN until all of it has
 * arrived, ORIEL_ERR_PROTOCOL if it is longer. @most is less than the buffer of a connection.
 */
enum oriel_status ori_net_take(struct ori_net_conn *conn, struct ori_frame *frame, void *body,
			       size_t most);

/* Has the peer closed its side? All that it sent has arrived then, read or not. */
bool ori_net_is_ending(const struct ori_net_conn *conn);
/*
 * On a connection that is ending: skip all frames before one of @type, which stays in the buffer.
 * ORIEL_ERR_PEER if there is none.
 */
enum oriel_status ori_net_seek(struct ori_net_conn *conn, unsigned type);

/* Continue to write a frame at *@done, which counts the header, too. ORIEL_OK once it is sent. */
enum oriel_status ori_net_write(struct ori_net_conn *conn, const struct ori_frame *frame,
				const void *body, size_t *done);
/* The same over a unix socket, with copies of @fds; after ORIEL_AGAIN at *@done 0, none is sent. */
enum oriel_status ori_net_write_fds(struct ori_net_conn *conn, const struct ori_frame *frame,
				    const void *body, const int *fds, unsigned nfds, size_t *done);
/*
 * Bytes without frames, over an open connection whose owner has bytes of another form behind its
 * first frames. A call reads or writes a part of @length. After ORIEL_AGAIN the next write has
 * the same bytes.
 */
enum oriel_status ori_net_stream_read(struct ori_net_conn *conn, void *data, size_t length,
				      size_t *got);
enum oriel_status ori_net_stream_write(struct ori_net_conn *conn, const void *data, size_t length,
				       size_t *done);
/* Does the connection hold bytes that no call has read yet? poll() does not know of them. */
bool ori_net_stream_holds(const struct ori_net_conn *conn);

/*
 * Send a small frame at once, or give it up (ORIEL_ERR_PEER): a full socket buffer means that the
 * peer does not read.
 */
enum oriel_status ori_net_send(struct ori_net_conn *conn, unsigned type, const void *body,
			       size_t length);
/* The same for the last frame: the peer sees the end of the stream behind it. */
enum oriel_status ori_net_send_last(struct ori_net_conn *conn, unsigned type, const void *body,
				    size_t length);

#endif
