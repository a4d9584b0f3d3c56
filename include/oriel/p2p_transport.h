/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport of the caller for the endpoints of a p2p context (oriel_p2p_context_attr): a table
 * of functions that carry messages, write into memory of the other endpoint, and notify it. The
 * library builds all of oriel/p2p.h on them; examples/p2p_pipe.c implements one over sockets.
 */
#ifndef ORIEL_P2P_TRANSPORT_H
#define ORIEL_P2P_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORIEL_P2P_MESSAGE 1024u      /* bytes of a message of send() at most */
#define ORIEL_P2P_TRANSPORT_NAME 32u /* bytes of a name at most, with its NUL */

/*
 * Registered memory as the transport names it to the other endpoint: the library carries it there
 * as it is, but for offsets within the memory, which it adds to @address.
 */
struct oriel_p2p_target {
	uint64_t address;
	uint32_t keys[4];
};

struct oriel_p2p_transport_put {
	const void *from; /* stays until the put is done */
	struct oriel_p2p_target to;
	size_t length; /* may be 0 with an immediate */
	bool has_immediate;
	uint32_t immediate; /* any value */
};

/*
 * A link joins two endpoints. One thread at a time calls the functions of a link, from within the
 * calls of that endpoint; none of them waits, or calls oriel/p2p.h. ORIEL_AGAIN: not now, and
 * nothing was taken. Any failure of a link but ORIEL_ERR_PEER breaks its endpoint with that status.
 * All members are set.
 */
struct oriel_p2p_transport {
	size_t size;      /* of this struct, as the caller knew it */
	const char *name; /* equal at both endpoints; outlives the context */

	/*
	 * The other endpoints of the links of @context may write to this memory, of the host, until
	 * it is unregistered. Several threads may call these two at once.
	 */
	enum oriel_status (*register_memory)(void *context, void *address, size_t length,
					     struct oriel_p2p_target *target);
	/* On return no write of a link goes there. */
	void (*unregister_memory)(void *context, const struct oriel_p2p_target *target);

	/* @data: oriel_p2p_attr.transport_data. May return before the other endpoint is there. */
	enum oriel_status (*open)(void *context, void *data, void **link);
	/*
	 * On return no source of a put is read, and no put of the other endpoint arrives. Messages
	 * that were sent still arrive there.
	 */
	void (*close)(void *link);

	/*
	 * Messages of up to ORIEL_P2P_MESSAGE bytes, a handful in the life of a link, arrive whole
	 * and in order, also while puts find no room. A put that was done before the other endpoint
	 * sent a message has arrived when the message has. ORIEL_ERR_PEER, of recv() after the last
	 * message: the other endpoint has closed its link, or its process exited.
	 */
	enum oriel_status (*send)(void *link, const void *bytes, size_t length);
	enum oriel_status (*recv)(void *link, void *bytes, size_t room, size_t *length);

	/*
	 * Write @put->from to memory of the other endpoint, and then, if it has an immediate,
	 * notify that endpoint. An immediate arrives after all puts before it; other puts have no
	 * order. Eight aligned bytes are read and written as one word. take() of the
	 * other endpoint fails with ORIEL_ERR_PROTOCOL, and writes nothing, if that endpoint has
	 * not registered the memory.
	 */
	enum oriel_status (*put)(void *link, const struct oriel_p2p_transport_put *put);
	/*
	 * *@done: puts of this link whose source is not needed any more, of all so far; they end in
	 * their order. Not called any more once the other endpoint has left.
	 */
	enum oriel_status (*progress)(void *link, uint64_t *done);
	/*
	 * Receives puts that have arrived. ORIEL_OK: up to the next immediate; ORIEL_AGAIN: all,
	 * and none of them has one.
	 */
	enum oriel_status (*take)(void *link, uint32_t *immediate);
};

#ifdef __cplusplus
}
#endif

#endif
