/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types and bodies of the frames that the bootstrap sends. All numbers are little-endian.
 * Parsing has no side effects: bytes in, struct out, false if the bytes are malformed. All other
 * files of the bootstrap call it.
 */
#ifndef ORI_BOOTSTRAP_BODY_H
#define ORI_BOOTSTRAP_BODY_H

#include <oriel/bootstrap.h>

#include "net/conn.h"

#define ORI_ADDRESS_LENGTH 20
#define ORI_TAG_LENGTH 32
#define ORI_HELLO_LENGTH (24 + ORI_ADDRESS_LENGTH + 16 + ORI_TAG_LENGTH)
#define ORI_FAILURE_HEADER 8
#define ORI_FAILURE_LENGTH 512
#define ORI_MESSAGE_MAX (1ull << 30)

enum ori_frame_type {
	ORI_FRAME_HELLO = 1, /* identity of the connector */
	ORI_FRAME_WELCOME,   /* address of the parent in the tree */
	ORI_FRAME_GATHER,    /* data of a subtree, in rank order */
	ORI_FRAME_SPREAD,    /* data of all ranks */
	ORI_FRAME_MESSAGE,   /* send and recv */
	ORI_FRAME_FAILURE,   /* status, rank and text; no frame follows */
	ORI_FRAME_ANSWER,    /* to a hello that is not rejected: enum ori_answer, a byte */
	ORI_FRAME_WAIT,      /* rank 0 runs, and waits for others to join; empty */
};

enum ori_answer {
	ORI_ANSWER_IN,
	ORI_ANSWER_LATER, /* connect again: rank 0 is in another job */
};

enum ori_purpose {
	ORI_PURPOSE_JOIN,    /* with the root */
	ORI_PURPOSE_TREE,    /* with the parent */
	ORI_PURPOSE_MESSAGE, /* send and recv */
};

struct ori_job_tag {
	uint32_t kind; /* enum ori_job_tag_kind */
	unsigned char bytes[ORI_TAG_LENGTH];
};

struct ori_hello {
	enum ori_purpose purpose;
	uint32_t rank;
	uint32_t to; /* the rank to which it connects: all ranks have the same key */
	uint32_t size;
	uint32_t timeout_ms; /* 0 = for ever */
	uint32_t left_ms;    /* the part of the timeout that is left */
	struct ori_address address;
	uint64_t process; /* ori_process_token() */
	uint32_t pid;     /* for texts */
	struct ori_job_tag tag;
};

struct ori_failure {
	enum oriel_status status;
	uint32_t rank; /* the rank at fault; ORIEL_NO_RANK: none */
	char text[ORI_FAILURE_LENGTH];
};

void ori_address_encode(const struct ori_address *address, unsigned char bytes[ORI_ADDRESS_LENGTH]);
bool ori_address_parse(const unsigned char *bytes, size_t length, struct ori_address *address);

void ori_hello_encode(const struct ori_hello *hello, unsigned char bytes[ORI_HELLO_LENGTH]);
bool ori_hello_parse(const unsigned char *bytes, size_t length, struct ori_hello *hello);

/* Returns the length of the body. */
size_t ori_failure_encode(const struct ori_failure *failure,
			  unsigned char bytes[ORI_FAILURE_LENGTH]);
bool ori_failure_parse(const unsigned char *bytes, size_t length, struct ori_failure *failure);
/* Send @failure as the last frame, if there is room for it. */
void ori_failure_send(const struct ori_failure *failure, struct ori_net_conn *conn);

#endif
