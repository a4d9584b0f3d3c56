/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two sides of verbs_check, their queue pairs, and requests from one to the other.
 * verbs_side.c defines them, the tests of verbs_check.c use them.
 */
#ifndef RXE_VERBS_SIDE_H
#define RXE_VERBS_SIDE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define BUFFER (1u << 20)
#define QUEUE 64u
#define INLINE 64u
#define WAIT_S 10.0
#define ALL                                                                          \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
	 IBV_ACCESS_REMOTE_ATOMIC)

/*
 * Seven retries are endless with rxe. Six are too few for long messages if
 * packets are lost, since rxe counts those of a whole message. But if the
 * answer to a rejected request is lost, the queue that rejected it never
 * answers again, so the retries must end.
 */
enum retries {
	FEW = 2,
	SOME = 6,
	ENDLESS = 7,
};

/* One side of the connection. */
struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_mr *based; /* the same buffer from address 0 on */
	char *buffer;
	union ibv_gid gid;
	uint8_t gid_index;
	struct ibv_qp *qp; /* of the running test */
};

extern struct side local_side, remote_side;
extern bool is_lossy;
extern char why[256]; /* of a failed test */

#define CHECK(claim)                                                                 \
	do {                                                                         \
		if (!(claim)) {                                                      \
			snprintf(why, sizeof(why), "line %d: %s", __LINE__, #claim); \
			return false;                                                \
		}                                                                    \
	} while (0)

/* A request that goes from @offset of the local buffer to the same offset of the remote one. */
struct request {
	struct ibv_sge sge;
	struct ibv_send_wr wr;
};

static inline uint64_t word_at(const struct side *side, size_t offset)
{
	return __atomic_load_n((uint64_t *)(void *)(side->buffer + offset), __ATOMIC_ACQUIRE);
}

static inline void word_set(struct side *side, size_t offset, uint64_t value)
{
	__atomic_store_n((uint64_t *)(void *)(side->buffer + offset), value, __ATOMIC_RELEASE);
}

/* In seconds. */
double now(void);

/* False: CHECK() wrote why. */
bool side_open(struct side *side, const char *name);
void side_close(struct side *side);

/* Queue pairs of both sides, connected. */
bool pair_open(enum retries retries);
void pair_close(void);
bool completion_wait(struct side *side, struct ibv_wc *wc);

void request_fill(struct request *r, enum ibv_wr_opcode opcode, size_t offset, uint32_t length);
int request_post(struct request *r);
/* Returns its status; -1: it was not posted, -2: no completion arrived. */
int request_do(struct request *r);
/* The answer that gives the cause may be lost. */
bool is_refused(int status, enum ibv_wc_status why_not);

void buffer_fill(struct side *side, unsigned seed);
bool buffers_agree(size_t offset, size_t length);

#endif
