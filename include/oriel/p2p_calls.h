/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of oriel/p2p.h, answered by a script: for unit tests of programs over it, without an
 * endpoint, a peer or a transport. A test lists the calls that it expects, in their order, with
 * their arguments and answers; another call, other arguments, a call too many or too few fail the
 * test at once. Programs link liboriel_p2p_calls.a before liboriel.so (oriel::p2p_calls of the
 * CMake package does), and every oriel_p2p_ call of the process is a call of the script.
 */
#ifndef ORIEL_P2P_CALLS_H
#define ORIEL_P2P_CALLS_H

#include <oriel/p2p.h>

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_dev_copy_group;

#define ORIEL_P2P_CALL_OBJECTS 63u          /* numbers of each kind of object: 1 to 63 */
#define ORIEL_P2P_CALL_NONE UINT32_MAX      /* instead of a number of memory: NULL */
#define ORIEL_P2P_CALL_ANY (UINT64_MAX - 1) /* instead of a value: it is not compared */
#define ORIEL_P2P_CALL_EVERY UINT32_MAX     /* of times: as often as it comes, or never */

/*
 * The step of a call, named for oriel_p2p_<name>(). oriel_p2p_mode_name() and
 * oriel_p2p_copy_group_hooks() are answered by the library, and calls with NULL that do nothing
 * (destroy, unregister) by the script at once: neither is a step.
 */
enum oriel_p2p_call_kind {
	ORIEL_P2P_CALL_CONTEXT_CREATE = 1, /* ctx (created), context_attr */
	ORIEL_P2P_CALL_CONTEXT_DESTROY,    /* ctx */
	ORIEL_P2P_CALL_COPY_GROUP_CREATE,  /* ctx, group (created), group_attr */
	ORIEL_P2P_CALL_COPY_GROUP_DEVICE,  /* group; answers device */
	ORIEL_P2P_CALL_COPY_GROUP_DESTROY, /* group */
	ORIEL_P2P_CALL_CREATE,             /* ctx, p2p (created), attr */
	ORIEL_P2P_CALL_DESTROY,            /* p2p */
	ORIEL_P2P_CALL_ADDRESS,            /* p2p; answers data */
	ORIEL_P2P_CALL_CONNECT,            /* p2p, data, length, timeout_ns */
	ORIEL_P2P_CALL_CHECK,              /* p2p */
	ORIEL_P2P_CALL_DESCRIBE,           /* p2p; answers info */
	ORIEL_P2P_CALL_SEND_CONTROL,       /* p2p, tag, data, length, address, request */
	ORIEL_P2P_CALL_RECV_CONTROL,       /* p2p, tag, length (the room), address, request */
	ORIEL_P2P_CALL_REGISTER,           /* ctx, address, length, flags, memory (created) */
	ORIEL_P2P_CALL_MEMORY_CHECK,       /* memory */
	ORIEL_P2P_CALL_UNREGISTER,         /* memory */
	ORIEL_P2P_CALL_SEND,       /* p2p, channel, address, length, memory, data, request */
	ORIEL_P2P_CALL_RECV,       /* p2p, channel, address, length, memory, request */
	ORIEL_P2P_CALL_SEND_CHUNK, /* as SEND, slot, round */
	ORIEL_P2P_CALL_RECV_CHUNK, /* as RECV, slot, round */
	ORIEL_P2P_CALL_EXPORT,     /* p2p, address, length, memory; answers data */
	ORIEL_P2P_CALL_IMPORT,     /* p2p, data, length; answers remote */
	ORIEL_P2P_CALL_PUT,        /* as SEND, remote, offset */
	ORIEL_P2P_CALL_EXPECT,     /* p2p, channel, request */
	ORIEL_P2P_CALL_CANCEL,     /* p2p, request */
	ORIEL_P2P_CALL_PROGRESS,   /* p2p */
	ORIEL_P2P_CALL_TEST,       /* p2p, request; answers data, length */
	ORIEL_P2P_CALL_WAIT,       /* p2p, request, timeout_ns; answers data, length */
	ORIEL_P2P_CALL_DRAIN,      /* p2p, timeout_ns */
	ORIEL_P2P_CALL_COMM, /* oriel_comm_p2p(): address (the comm), peer, attr, p2p (made) */
	ORIEL_P2P_CALL_COMM_CONTEXT, /* oriel_comm_p2p_context(): address (the comm), ctx (made) */
	/*
	 * No call: @request ends with @status, and with @length bytes of @data if it receives,
	 * before the call of the step above returns.
	 */
	ORIEL_P2P_CALL_REQUEST_DONE,
};

/*
 * A step: a call that is expected, and its answer. A call has the fields that its kind names
 * above; a script that sets another one is refused.
 */
struct oriel_p2p_call {
	enum oriel_p2p_call_kind call;
	enum oriel_status status; /* the answer */
	unsigned times;           /* in a row; 0 = once; ORIEL_P2P_CALL_EVERY */

	/*
	 * Objects have numbers, given by the step that creates or begins them; in others 0 is not
	 * compared. A number may be given again once its object is destroyed, or its request done.
	 */
	unsigned ctx, p2p, memory, group, request;

	/* Compared: 0 is a value like another one. */
	uint64_t channel, slot, round, tag, offset, length, flags, timeout_ns, peer;

	const void *address; /* of the caller's buffer; NULL: not compared */
	/*
	 * @length bytes that the caller hands over, compared, or that a receive gets; of address
	 * and export the answer, ORIEL_P2P_ADDRESS or ORIEL_P2P_EXPORT bytes. NULL: not compared,
	 * nothing is written, an answer of zeros.
	 */
	const void *data;

	/* NULL: not compared, or an answer of zeros. Each field of attributes is compared. */
	const struct oriel_p2p_attr *attr;
	const struct oriel_p2p_context_attr *context_attr;
	const struct oriel_p2p_copy_group_attr *group_attr;
	const struct oriel_p2p_remote *remote;
	const struct oriel_p2p_info *info;
	const struct oriel_dev_copy_group *device;
};

/* Zero means default for every field. */
struct oriel_p2p_calls_attr {
	size_t size;                        /* of this struct, as the caller knew it */
	const struct oriel_p2p_call *steps; /* in their order; they stay until the script ends */
	unsigned count;
	unsigned reserved; /* 0 */
	/*
	 * Called with one sentence when the script is not followed, once. It may end the test by
	 * longjmp(), as cmocka's fail() does. If it returns, the call that differs and all later
	 * ones return ORIEL_ERR_STATE, and so does oriel_p2p_calls_end(). NULL: the sentence goes
	 * to standard error, and the process aborts.
	 */
	void (*fail)(void *context, const char *text);
	void *context; /* of @fail */
};

/*
 * Begin a script; one at a time in a process, which calls of any thread follow. A script that makes
 * no sense, or begins before the last one has ended, fails as if it were not followed.
 */
enum oriel_status oriel_p2p_calls_begin(const struct oriel_p2p_calls_attr *attr);

/* End it, after all of its calls. ORIEL_ERR_STATE: it was not followed, or no script runs. */
enum oriel_status oriel_p2p_calls_end(void);

/*
 * The objects with these numbers, made as if by a call, for programs that get them from outside.
 * Between begin and end; NULL if @number is none.
 */
struct oriel_p2p_context *oriel_p2p_calls_context(unsigned number);
struct oriel_p2p *oriel_p2p_calls_endpoint(unsigned number);
struct oriel_p2p_memory *oriel_p2p_calls_memory(unsigned number);

/*
 * Beside the script, these fail as well: an object that no step made, or that is destroyed; a
 * request that is begun again while it is under way, or asked for before it is begun; a context
 * that is destroyed before its objects; memory that is unregistered while a request uses it;
 * an endpoint of a communicator that is destroyed. oriel_last_error() is the library's, and has no
 * text for answers of a script.
 */

#ifdef __cplusplus
}
#endif

#endif
