/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The script behind the calls of p2p_calls.c: what a call was given, as the steps of the script
 * have it. p2p_calls_kinds.c knows the kinds of calls, p2p_calls_compare.c compares,
 * p2p_calls_objects.c keeps objects and requests, p2p_calls_script.c goes from step to step.
 */
#ifndef ORI_P2P_CALLS_P2P_CALLS_SCRIPT_H
#define ORI_P2P_CALLS_P2P_CALLS_SCRIPT_H

#include <oriel/p2p_calls.h>

#define CALL_TEXT 256u /* bytes of a sentence */

enum call_object_kind { CALL_CTX, CALL_P2P, CALL_MEMORY, CALL_GROUP, CALL_OBJECT_KINDS };

enum call_value {
	CALL_CHANNEL,
	CALL_SLOT,
	CALL_ROUND,
	CALL_TAG,
	CALL_OFFSET,
	CALL_LENGTH,
	CALL_FLAGS,
	CALL_TIMEOUT,
	CALL_PEER,
	CALL_VALUES
};

/* Fields of a step, as bits: objects and values first, by their numbers. */
#define CALL_HAS_OBJECT(kind) (1u << (kind))
#define CALL_HAS_VALUE(value) (1u << (CALL_OBJECT_KINDS + (value)))
enum {
	CALL_HAS_REQUEST = 1u << (CALL_OBJECT_KINDS + CALL_VALUES),
	CALL_HAS_ADDRESS = CALL_HAS_REQUEST << 1,
	CALL_HAS_DATA = CALL_HAS_REQUEST << 2, /* of the caller or of the answer */
	CALL_HAS_ATTR = CALL_HAS_REQUEST << 3,
	CALL_HAS_CONTEXT_ATTR = CALL_HAS_REQUEST << 4,
	CALL_HAS_GROUP_ATTR = CALL_HAS_REQUEST << 5,
	CALL_HAS_REMOTE = CALL_HAS_REQUEST << 6,
	CALL_HAS_INFO = CALL_HAS_REQUEST << 7,
	CALL_HAS_DEVICE = CALL_HAS_REQUEST << 8,
	CALL_HAS_STATUS = CALL_HAS_REQUEST << 9,
};

enum call_effect {
	CALL_ONLY_ANSWERS,
	CALL_CREATES,  /* @object of its kind, if the status is ORIEL_OK */
	CALL_FINDS,    /* the same; it may exist, and belongs to a communicator */
	CALL_DESTROYS, /* @object of its kind */
	CALL_BEGINS,   /* the request, if the status is ORIEL_OK */
	CALL_ASKS,     /* for the request: a status that is final ends it */
	CALL_CANCELS,
};

struct call_kind {
	const char *name;
	unsigned has; /* bits */
	enum call_effect effect;
	enum call_object_kind object;
};

/* One call, as the program made it. */
struct call {
	enum oriel_p2p_call_kind kind;
	const void *objects[CALL_OBJECT_KINDS];
	uint64_t values[CALL_VALUES];
	struct oriel_p2p_request *request;
	const void *address;
	const void *data; /* to be compared; NULL: none */
	void *room;       /* of a receive */
	const void *attr; /* of any kind */
	const struct oriel_p2p_remote *remote;
};

/* NULL for a number that is no kind. */
const struct call_kind *ori_p2p_call_kind(enum oriel_p2p_call_kind kind);

/* p2p_calls_objects.c; the script's lock is held. They return false with the reason in @text. */
void ori_p2p_calls_objects_clear(void);
/* The handle of a number; NULL if it is none. */
void *ori_p2p_calls_object(enum call_object_kind kind, unsigned number);
/* "endpoint 3", "NULL", ... of what a program handed over. */
void ori_p2p_calls_name(enum call_object_kind kind, const void *object, char *text, size_t room);
bool ori_p2p_calls_check_objects(const struct call *call, char text[CALL_TEXT]);
/* CALL_CREATES, CALL_FINDS, or CALL_ONLY_ANSWERS for one that the test hands out. */
bool ori_p2p_calls_create(enum call_object_kind kind, unsigned number, const void *ctx,
			  enum call_effect effect, char text[CALL_TEXT]);
bool ori_p2p_calls_destroy(enum call_object_kind kind, const void *object, char text[CALL_TEXT]);
bool ori_p2p_calls_request_is(const struct oriel_p2p_request *request, unsigned number);
bool ori_p2p_calls_begin_request(const struct call *call, const struct oriel_p2p_call *step,
				 char text[CALL_TEXT]);
bool ori_p2p_calls_ask(const struct call *call, const struct oriel_p2p_call *step,
		       char text[CALL_TEXT]);
bool ori_p2p_calls_cancel(const struct call *call, const struct oriel_p2p_call *step,
			  char text[CALL_TEXT]);
bool ori_p2p_calls_end_request(const struct oriel_p2p_call *step, char text[CALL_TEXT]);

/* p2p_calls_compare.c */
/* Does the step expect something else? Then why. */
bool ori_p2p_calls_differ(const struct oriel_p2p_call *step, const struct call *call,
			  char text[CALL_TEXT]);
/* Does the step make no sense? Then why. */
bool ori_p2p_calls_refuse(const struct oriel_p2p_call *step, char text[CALL_TEXT]);

/* p2p_calls_script.c */
/* The step that answers @call, after its effects; NULL: the script has failed. */
const struct oriel_p2p_call *ori_p2p_calls_take(const struct call *call);

#endif
