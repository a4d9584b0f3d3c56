/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that do not run any more. A process that is stopped, or whose machine stands still, keeps
 * its sockets and its memory, and a NIC answers for it: only that its watcher does nothing shows
 * it. The watcher calls this, and health.c where a limit has passed.
 */
#include "comm/silence.h"

#include <stdlib.h>

#include <oriel/dev/detail/order.h>
#include <oriel/dev/detail/wait.h>

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

/*
 * A beat is one word, so that memory and NICs move it whole: a number that counts up, and the rank
 * that its writer suspects. Not all ranks have links: a suspicion goes from rank to rank, and each
 * adds its age. Only a rank that gets beats of the suspect itself makes it young again: when the
 * suspect goes on, what ranks tell each other of it ends with SILENCE_OLD_NS.
 */
#define BEAT_COUNT_BITS 22u
#define BEAT_RANK_BITS 21u /* rank + 1; 0: none */
#define BEAT_SILENT_BITS 14u
#define BEAT_AGE_BITS 7u
#define BEAT_UNIT_NS 100000000u    /* of the last two */
#define SILENCE_OLD_NS 5000000000u /* a dozen ranks on the way, each with half an interval */

static_assert(BEAT_COUNT_BITS + BEAT_RANK_BITS + BEAT_SILENT_BITS + BEAT_AGE_BITS == 64,
	      "a beat is one word");
static_assert(SILENCE_OLD_NS / BEAT_UNIT_NS < 1u << BEAT_AGE_BITS, "the age of a suspicion fits");

struct silence_beat {
	uint32_t count;
	uint32_t rank; /* ORIEL_DEV_NO_RANK: none is suspected */
	uint32_t silent;
	uint32_t age;
};

struct silence_peer {
	uint64_t beat;              /* last seen, by the watcher alone */
	uint64_t looked_at;         /* when the watcher last looked for one */
	_Atomic(uint64_t) since_ns; /* when it came, or could have come; 0: none can */
	_Atomic(uint64_t) heard_ns; /* the same as other ranks report it; 0: none does */
	bool was_over;              /* when the communicator broke, by the watcher */
};

struct ori_silence {
	uint64_t turned_at;       /* the watcher's, as all up to @heard_at */
	struct silence_beat beat; /* of this rank */
	bool is_broken;           /* the communicator, in an earlier turn */
	unsigned heard;           /* the rank that others suspect; ORIEL_DEV_NO_RANK: none */
	uint64_t heard_at;        /* when a rank that gets its beats said so */
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
	comm->silence->heard = ORIEL_DEV_NO_RANK;
	return ORIEL_OK;
}

void ori_silence_close(struct oriel_comm *comm)
{
	free(comm->silence);
	comm->silence = NULL;
}

static uint64_t silence_of(const struct oriel_comm *comm, unsigned peer, uint64_t now)
{
	const struct silence_peer *p = &comm->silence->peers[peer];
	uint64_t since = atomic_load_explicit(&p->since_ns, memory_order_relaxed);

	if (!since)
		since = atomic_load_explicit(&p->heard_ns, memory_order_relaxed);
	return since && since < now ? now - since : 0;
}

/* The rank that has been silent for longest, and *@silent_ns. */
static unsigned silence_longest(const struct oriel_comm *comm, uint64_t *silent_ns)
{
	unsigned peer, found = ORIEL_DEV_NO_RANK;
	uint64_t now = ori_clock_ns(), silent;

	*silent_ns = 0;
	for (peer = 0; comm->silence && peer < comm->size; peer++) {
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
	record->peer = silence_longest(comm, &record->age_ns);
	return record->age_ns >= silence->limit_ns;
}

bool ori_silence_was_over(const struct oriel_comm *comm, unsigned peer)
{
	const struct ori_silence *silence = comm->silence;
	struct oriel_dev_fault record;

	if (!silence || !silence->limit_ns)
		return false;
	if (silence->peers[peer].was_over)
		return true;
	record = ori_dev_fault_copy(&comm->control->health);
	return record.what == ORIEL_DEV_HEARTBEAT && record.peer == peer;
}

static uint64_t beat_pack(const struct silence_beat *beat)
{
	uint64_t word = beat->age;

	word = word << BEAT_SILENT_BITS | beat->silent;
	word = word << BEAT_RANK_BITS | (uint32_t)(beat->rank + 1);
	return word << BEAT_COUNT_BITS | (beat->count & ((1u << BEAT_COUNT_BITS) - 1));
}

static struct silence_beat beat_unpack(uint64_t word)
{
	struct silence_beat beat;

	beat.count = word & ((1u << BEAT_COUNT_BITS) - 1);
	word >>= BEAT_COUNT_BITS;
	beat.rank = (uint32_t)(word & ((1u << BEAT_RANK_BITS) - 1)) - 1;
	word >>= BEAT_RANK_BITS;
	beat.silent = word & ((1u << BEAT_SILENT_BITS) - 1);
	beat.age = (uint32_t)(word >> BEAT_SILENT_BITS);
	return beat;
}

/* @ns in units, as many as @bits can say. */
static uint32_t beat_units(uint64_t ns, unsigned bits)
{
	uint64_t most = ((uint64_t)1 << bits) - 1;

	return (uint32_t)(ns / BEAT_UNIT_NS < most ? ns / BEAT_UNIT_NS : most);
}

static void silence_set_heard(struct ori_silence *silence, unsigned rank, uint64_t since_ns)
{
	if (silence->heard != rank && silence->heard != ORIEL_DEV_NO_RANK)
		atomic_store_explicit(&silence->peers[silence->heard].heard_ns, 0,
				      memory_order_relaxed);
	silence->heard = rank;
	if (rank != ORIEL_DEV_NO_RANK)
		atomic_store_explicit(&silence->peers[rank].heard_ns, since_ns,
				      memory_order_relaxed);
}

/*
 * Takes the suspicion of a peer over, unless beats of that rank come here, too. The beat was
 * written @stale_ns ago at most: no rank on the way makes a suspicion younger, so that one that
 * comes back to a rank is not taken for news.
 */
static void silence_listen(struct oriel_comm *comm, const struct silence_beat *beat,
			   uint64_t stale_ns)
{
	struct ori_silence *silence = comm->silence;
	uint64_t now = ori_clock_ns();
	uint64_t age = (uint64_t)beat->age * BEAT_UNIT_NS + stale_ns;
	/* It was silent for so long when a rank that gets its beats said so, and is since. */
	uint64_t silent = (uint64_t)beat->silent * BEAT_UNIT_NS + age;

	if (beat->rank >= comm->size || beat->rank == comm->rank || age >= SILENCE_OLD_NS ||
	    age >= now || atomic_load(&silence->peers[beat->rank].since_ns))
		return;
	/* The same again, by another way. */
	if (silence->heard == beat->rank && now - age <= silence->heard_at)
		return;
	if (silence->heard != beat->rank && silence->heard != ORIEL_DEV_NO_RANK &&
	    silent <= silence_of(comm, silence->heard, now))
		return;
	silence->heard_at = now - age;
	silence_set_heard(silence, beat->rank, silent < now ? now - silent : 1);
}

void ori_silence_see(struct oriel_comm *comm, unsigned peer, uint64_t beat)
{
	struct silence_peer *p = &comm->silence->peers[peer];
	struct silence_beat said = beat_unpack(beat);
	uint64_t now = ori_clock_ns(), stale = now - p->looked_at;
	bool is_new = beat != p->beat;

	if (is_new || !p->since_ns)
		atomic_store_explicit(&p->since_ns, now, memory_order_relaxed);
	p->beat = beat;
	p->looked_at = now;
	if (is_new)
		silence_listen(comm, &said, stale);
}

/* The rank that the next beats of this one name. */
static void silence_suspect(struct oriel_comm *comm, uint64_t now)
{
	struct ori_silence *silence = comm->silence;
	struct silence_beat *beat = &silence->beat;
	uint64_t silent, age;

	beat->rank = silence_longest(comm, &silent);
	beat->age = 0;
	if (silent < SILENCE_LEAST_NS) {
		beat->rank = ORIEL_DEV_NO_RANK;
	} else if (beat->rank == silence->heard) {
		age = now - silence->heard_at;
		beat->age = beat_units(age + BEAT_UNIT_NS - 1, BEAT_AGE_BITS);
		silent -= age;
	}
	beat->silent = beat_units(silent, BEAT_SILENT_BITS);
}

/*
 * This rank did not run itself for @pause, and so saw no beats: that time is no rank's silence, and
 * what a rank was silent before stays.
 */
static void silence_forgive(struct oriel_comm *comm, uint64_t now, uint64_t pause)
{
	struct silence_peer *p;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		p = &comm->silence->peers[peer];
		if (p->since_ns)
			atomic_fetch_add_explicit(&p->since_ns, pause, memory_order_relaxed);
		if (p->heard_ns)
			atomic_fetch_add_explicit(&p->heard_ns, pause, memory_order_relaxed);
	}
	/* It may have heard since its last turn. */
	comm->silence->heard_at += pause;
	if (comm->silence->heard_at > now)
		comm->silence->heard_at = now;
}

/*
 * The communicator is broken: ranks that stood still by then, two beats short of the limit, as
 * those that stopped with the one that broke it. Beats of the others end from now on.
 */
static void silence_close_turns(struct oriel_comm *comm, uint64_t now)
{
	struct ori_silence *silence = comm->silence;
	uint64_t least = silence->limit_ns > 2 * SILENCE_LEAST_NS
				 ? silence->limit_ns - SILENCE_LEAST_NS
				 : silence->limit_ns;
	unsigned peer;

	if (silence->is_broken || !silence->limit_ns ||
	    ori_dev_load_acquire32(&comm->control->health.state) != ORIEL_DEV_FAULT_FULL)
		return;
	silence->is_broken = true;
	for (peer = 0; peer < comm->size; peer++)
		if (peer != comm->rank)
			silence->peers[peer].was_over = silence_of(comm, peer, now) >= least;
}

void ori_silence_watch(struct oriel_comm *comm)
{
	struct ori_silence *silence = comm->silence;
	uint64_t now = ori_clock_ns(), pause = now - silence->turned_at;
	bool is_turn = !silence->turned_at || pause >= SILENCE_TURN_NS;
	const struct ori_control *control;
	unsigned peer;

	silence->beat.count++;
	if (is_turn) {
		if (silence->turned_at && pause >= SILENCE_GAP_NS)
			silence_forgive(comm, now, pause);
		silence->turned_at = now;
		for (peer = 0; peer < comm->size; peer++) {
			control = comm->peers[peer].address;
			if (control && peer != comm->rank)
				ori_silence_see(comm, peer, oriel_dev_load_relaxed(&control->beat));
		}
		if (silence->heard != ORIEL_DEV_NO_RANK &&
		    (now - silence->heard_at >= SILENCE_OLD_NS ||
		     atomic_load(&silence->peers[silence->heard].since_ns)))
			silence_set_heard(silence, ORIEL_DEV_NO_RANK, 0);
	}
	silence_close_turns(comm, now);
	silence_suspect(comm, now);
	oriel_dev_store_relaxed(&comm->control->beat, beat_pack(&silence->beat));
}

uint64_t ori_silence_beat(const struct oriel_comm *comm)
{
	return beat_pack(&comm->silence->beat);
}

/* How long a rank is silent at least that is to blame for a wait of @age_ns. */
static uint64_t silence_least(uint64_t age_ns)
{
	return age_ns / 2 > SILENCE_LEAST_NS ? age_ns / 2 : SILENCE_LEAST_NS;
}

unsigned ori_silence_past(const struct oriel_comm *comm)
{
	uint64_t limit = comm->timeout_ns, silent_ns;
	unsigned rank = silence_longest(comm, &silent_ns);

	/* Its beats are noticed late, and so is their end. */
	limit = limit > 2 * SILENCE_LEAST_NS ? limit - SILENCE_LEAST_NS : limit;
	return silent_ns >= limit ? rank : ORIEL_DEV_NO_RANK;
}

unsigned ori_silence_suspect(const struct oriel_comm *comm, uint64_t age_ns, uint64_t *silent_ns)
{
	unsigned rank = silence_longest(comm, silent_ns);

	return *silent_ns >= silence_least(age_ns) ? rank : ORIEL_DEV_NO_RANK;
}

unsigned ori_silence_blame(const struct oriel_comm *comm, uint64_t age_ns, uint64_t *silent_ns)
{
	uint64_t least = silence_least(age_ns);
	struct ori_silence *silence = comm->silence;
	uint64_t blamed, fresh = SILENCE_BLAMED;
	unsigned rank;

	*silent_ns = 0;
	if (!silence)
		return ORIEL_DEV_NO_RANK;
	blamed = atomic_load(&silence->blamed);
	if (!blamed) {
		rank = silence_longest(comm, silent_ns);
		if (*silent_ns >= least)
			fresh |= *silent_ns / 1000000 << SILENCE_RANK_BITS | (rank + 1);
		if (atomic_compare_exchange_strong(&silence->blamed, &blamed, fresh))
			blamed = fresh;
	}
	blamed &= ~SILENCE_BLAMED;
	*silent_ns = (blamed >> SILENCE_RANK_BITS) * 1000000;
	return (unsigned)(blamed & ((1u << SILENCE_RANK_BITS) - 1)) - 1;
}
