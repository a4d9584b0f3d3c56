/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of shared memory has the waits of the threads of this process. Another process of the
 * user reads it without this one's help: `oriel hang` does (src/hang), by /proc/PID/fd, and so it
 * shows a process that is stopped or that spins as well. comm.c opens the page; waits of the host
 * and of device functions on the CPU write it once they have lasted ORI_WAIT_RECORD_NS.
 *
 * The layout is read by the same version of the library alone.
 */
#ifndef ORI_BASE_WAIT_PAGE_H
#define ORI_BASE_WAIT_PAGE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/dev/types.h>

#define ORI_WAIT_PAGE_NAME "oriel-waits" /* of the memfd */
#define ORI_WAIT_MAGIC UINT64_C(0x53544941574c524f)
#define ORI_WAIT_VERSION 4u
#define ORI_WAIT_COMMS 1024u
#define ORI_WAIT_SLOTS 1024u
#define ORI_WAIT_ID 16u

/* A wait is recorded when it is so old: most end before, and those cost nothing. */
#define ORI_WAIT_RECORD_NS 4000000u

/* A communicator of this process. */
struct ori_wait_comm {
	uint64_t key;            /* this process's name for it, of waits; 0: a free entry */
	uint8_t id[ORI_WAIT_ID]; /* the same on all ranks, and no other communicator has it */
	uint32_t rank, size;
	int32_t health_fd;   /* the file that begins with its struct oriel_dev_fault */
	uint32_t answers_at; /* struct oriel_dev_answers there; 0: it has no GPU */
};

static_assert(sizeof(struct ori_wait_comm) == 40, "the page is read by another process");

enum ori_wait_state {
	ORI_WAIT_FREE,
	ORI_WAIT_IDLE, /* of a thread that does not wait now */
	ORI_WAIT_BUSY,
};

/*
 * Waits for requests of an endpoint of p2p, beside enum oriel_dev_what. The id of the note is the
 * channel, expected has the bytes, seen the chunks that are done; for control messages expected is
 * the tag.
 */
enum ori_wait_what {
	ORI_WAIT_P2P = 0x10000, /* the least of them */
	ORI_WAIT_P2P_SEND = ORI_WAIT_P2P,
	ORI_WAIT_P2P_RECV,
	ORI_WAIT_P2P_PUT,
	ORI_WAIT_P2P_EXPECT,
	ORI_WAIT_P2P_SEND_CONTROL,
	ORI_WAIT_P2P_RECV_CONTROL,
	ORI_WAIT_P2P_DRAIN,
};

/*
 * Waits of the host for no memory of a peer. In those of a shrink expected is the number of the
 * agreement; the others are for processes that are not of the communicator.
 */
enum ori_wait_call {
	ORI_WAIT_SHRINK = 0x20000, /* the least of them */
	ORI_WAIT_GROW,
	ORI_WAIT_MERGE,
};

/* The wait of one thread. */
struct ori_wait_note {
	uint64_t comm;   /* the key of its communicator */
	uint32_t rank;   /* that waits */
	uint32_t what;   /* enum oriel_dev_what, enum ori_wait_what or enum ori_wait_call */
	uint32_t peer;   /* that is waited for; ORIEL_DEV_NO_RANK: several, or any */
	uint32_t window; /* 0: a call of the communicator, of which @id is the enum ori_call, or p2p
			  */
	uint32_t id;
	uint32_t compare; /* enum oriel_compare */
	uint64_t expected, seen;
	uint64_t begun; /* CLOCK_MONOTONIC */
	uint64_t limit_ns;
};

struct ori_wait_slot {
	uint32_t turn;  /* odd while the owner writes the note */
	uint32_t state; /* enum ori_wait_state */
	int32_t thread; /* its number in the system */
	uint32_t reserved;
	struct ori_wait_note note; /* of the last wait */
	uint64_t reserved1[6];
};

/* For whom a wait is that no rank of the communicator ends; NULL: for ranks. */
static inline const char *ori_wait_outside(const struct ori_wait_note *note)
{
	switch (note->what) {
	case ORIEL_DEV_NIC:
		return "a NIC";
	case ORI_WAIT_GROW:
		return "new ranks";
	case ORI_WAIT_MERGE:
		return "the ranks that invite";
	default:
		return NULL;
	}
}

static_assert(sizeof(struct ori_wait_note) == 64, "notes are copied by words");
static_assert(sizeof(struct ori_wait_slot) == 128, "the page is read by another process");

struct ori_wait_page {
	uint64_t magic;
	uint32_t version;
	int32_t process; /* a child of fork() has a descriptor of its parent's page */
	uint32_t comms, slots;
	uint32_t lost; /* waits of threads that found no free slot */
	uint32_t reserved[25];
	struct ori_wait_comm comm[ORI_WAIT_COMMS];
	struct ori_wait_slot slot[ORI_WAIT_SLOTS];
};

/*
 * Any thread: the page is there between the two, which are counted. A communicator is between them
 * with its first and its last wait: its ranks meet before it has a name to be added by, and other
 * threads may close theirs meanwhile. Without memory or a descriptor for it waits are not recorded,
 * and nothing else changes.
 */
void ori_wait_page_open(void);
void ori_wait_page_close(void);

/* Any thread, between them: a communicator of this process, and its end. */
void ori_wait_page_add(const struct ori_wait_comm *comm);
void ori_wait_page_remove(uint64_t key);
/* The rank of this process there; ORIEL_DEV_NO_RANK: it has not been added. */
uint32_t ori_wait_page_rank(uint64_t key);

/*
 * This thread waits by oriel_cpu_back_off(), which it calls next: @note is shown while that sleeps.
 * A thread that calls it for each sleep needs no call for the end of its wait.
 */
void ori_wait_note(const struct ori_wait_note *note);
/* oriel_cpu_back_off(): the sleep begins, and ends. */
void ori_wait_show(void);
void ori_wait_hide(void);

/* A wait that does not call oriel_cpu_back_off(): from here to ori_wait_end(). */
void ori_wait_begin(const struct ori_wait_note *note);
void ori_wait_end(void);

/* The page of this process, which stays until the unlock; NULL: there is none. */
const struct ori_wait_page *ori_wait_page_lock(void);
void ori_wait_page_unlock(void);

/* Copies a slot that its owner may write meanwhile. False: that thread does not wait. */
bool ori_wait_read(const struct ori_wait_slot *slot, struct ori_wait_slot *copy);

#endif
