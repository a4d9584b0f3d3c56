/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that do not run any more. A process that is stopped, or whose machine stands still, keeps
 * its sockets and its memory, and a NIC answers for it: only that its watcher does nothing shows
 * it. The watcher calls this, and health.c where a limit has passed.
 */
#include "comm/silence.h"

#include <stdlib.h>

#include <oriel/dev/detail/order.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"

#define SILENCE_TURN_NS 100000000u         /* between two looks at the words of others */
#define SILENCE_GAP_NS 1000000000u         /* a watcher that made no turn for so long did not run */
#define SILENCE_LEAST_NS 1000000000u       /* two beats of heartbeat.c */
#define SILENCE_BLAMED ((uint64_t)1 << 63) /* of the answer: it was given */
#define SILENCE_RANK_BITS                                                       \
	24 /* rank + 1, at most 2^20 (bootstrap/tcp.h), or 0; then milliseconds \
	    */

struct silence_peer {
	uint64_t beat;              /* last seen, by the watcher alone */
	_Atomic(uint64_t) since_ns; /* when it came, or could have come; 0: none can */
};

struct ori_silence {
	uint64_t turned_at;       /* this and the next: of the watcher alone */
	bool is_back;             /* this rank did not run itself, and so saw no beats */
	uint64_t limit_ns;        /* ORIEL_HEARTBEAT; 0: none */
	_Atomic(uint64_t) blamed; /* the first answer */
	struct silence_peer peers[];
};

enum oriel_status ori_silence_open(struct oriel_comm *comm)
{
	size_t length = sizeof(struct ori_silence) + comm->size * sizeof(struct silence_peer);

	comm->silence = calloc(1, length);
	if (!comm->silence)
		return ori_fail_nomem(length, "the beats of %u ranks", comm->size);
	comm->silence->limit_ns = ori_setting_heartbeat();
	return ORIEL_OK;
}

void ori_silence_close(struct oriel_comm *comm)
{
	free(comm->silence);
	comm->silence = NULL;
}

static uint64_t silence_of(const struct oriel_comm *comm, unsigned peer, uint64_t now)
{
	uint64_t since =
		atomic_load_explicit(&comm->silence->peers[peer].since_ns, memory_order_relaxed);

	return since && since < now ? now - since : 0;
}

/* The rank that has been silent for longest, and *@silent_ns. */
static unsigned silence_find(const struct oriel_comm *comm, uint64_t *silent_ns)
{
	unsigned peer, found = ORIEL_DEV_NO_RANK;
	uint64_t now = ori_clock_ns(), silent;

	*silent_ns = 0;
	for (peer = 0; peer < comm->size; peer++) {
		silent = peer == comm->rank ? 0 : silence_of(comm, peer, now);
		if (silent > *silent_ns) {
			*silent_ns = silent;
			found = peer;
		}
	}
	return found;
}

bool ori_silence_is_over(const struct oriel_comm *comm, struct oriel_dev_fault *record)
{
	const struct ori_silence *silence = comm->silence;

	*record =
		(struct oriel_dev_fault){.status = ORIEL_ERR_TIMEOUT, .what = ORIEL_DEV_HEARTBEAT};
	if (!silence->limit_ns)
		return false;
	record->peer = silence_find(comm, &record->age_ns);
	return record->age_ns >= silence->limit_ns;
}

void ori_silence_see(struct oriel_comm *comm, unsigned peer, uint64_t beat)
{
	struct silence_peer *p = &comm->silence->peers[peer];

	if (beat != p->beat || comm->silence->is_back || !p->since_ns)
		atomic_store_explicit(&p->since_ns, ori_clock_ns(), memory_order_relaxed);
	p->beat = beat;
}

void ori_silence_watch(struct oriel_comm *comm)
{
	struct ori_silence *silence = comm->silence;
	uint64_t now = ori_clock_ns(), pause = now - silence->turned_at;
	const struct ori_control *control;
	unsigned peer;

	oriel_dev_store_relaxed(&comm->control->beat, comm->control->beat + 1);
	if (silence->turned_at && pause < SILENCE_TURN_NS)
		return;
	silence->is_back = silence->turned_at && pause >= SILENCE_GAP_NS;
	silence->turned_at = now;
	for (peer = 0; peer < comm->size; peer++) {
		control = comm->peers[peer].address;
		if (control && peer != comm->rank)
			ori_silence_see(comm, peer, oriel_dev_load_relaxed(&control->beat));
	}
}

unsigned ori_silence_blame(const struct oriel_comm *comm, uint64_t age_ns, uint64_t *silent_ns)
{
	uint64_t least = age_ns / 2 > SILENCE_LEAST_NS ? age_ns / 2 : SILENCE_LEAST_NS;
	struct ori_silence *silence = comm->silence;
	uint64_t blamed, fresh = SILENCE_BLAMED;
	unsigned rank;

	*silent_ns = 0;
	if (!silence)
		return ORIEL_DEV_NO_RANK;
	blamed = atomic_load(&silence->blamed);
	if (!blamed) {
		rank = silence_find(comm, silent_ns);
		if (*silent_ns >= least)
			fresh |= *silent_ns / 1000000 << SILENCE_RANK_BITS | (rank + 1);
		if (atomic_compare_exchange_strong(&silence->blamed, &blamed, fresh))
			blamed = fresh;
	}
	blamed &= ~SILENCE_BLAMED;
	*silent_ns = (blamed >> SILENCE_RANK_BITS) * 1000000;
	return (unsigned)(blamed & ((1u << SILENCE_RANK_BITS) - 1)) - 1;
}
