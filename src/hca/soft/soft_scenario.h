/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults and limits of one software HCA, parsed by nodes at open from text such as
 * "seed=7,drop=0.01,delay=50us". Times are in nanoseconds, chances of SOFT_CERTAIN. Every fault
 * is off by default.
 */
#ifndef ORI_HCA_SOFT_SCENARIO_H
#define ORI_HCA_SOFT_SCENARIO_H

#include <stdint.h>

#include <oriel/status.h>

#define SOFT_OFF UINT64_MAX /* of a count that may be 0 */
#define SOFT_FOR_EVER 7u    /* of retries, as on the wire */

struct soft_scenario {
	uint64_t seed;

	/* the wire */
	uint64_t drop;       /* chance that a packet is lost */
	uint64_t dup;        /* chance that it arrives twice */
	uint64_t delay;      /* each packet waits up to this long; order within a QP stays */
	uint64_t reorder;    /* WRITEs are executed up to this long later, in any order */
	uint64_t black_hole; /* packets after which a QP is cut off */

	/* a QP rests up to this long before a WQE ... */
	uint64_t stall;      /* a QP rests up to this long before a WQE ... */
	uint64_t stall_rate; /* ... with this chance */
	uint64_t gather;     /* local data is read up to this long after the WQE */
	uint64_t shuffle;    /* QPs are served in random order */
	uint64_t fail_wqe;   /* QPs are forced into error at this WQE, counted from 0 */
	uint64_t scrub;      /* retired WQEs are overwritten */
	uint64_t halt;       /* the HCA halts for this long, once ... */
	uint64_t halt_at;    /* ... after it has sent so many packets */
	uint64_t sink;       /* work requests complete at once and move nothing */

	/* memory */
	uint64_t relaxed;   /* writes held back for relaxed-ordering memory */
	uint64_t late_read; /* data of READs too, beyond their CQE, until a DUMP */
	uint64_t late_cqe;  /* the last word of a CQE is written up to this long after the rest */
	uint64_t dup_cqe;   /* chance that a CQE is written once more */
	/*
	 * Payload waits up to this long for a READ or DUMP at this HCA that
	 * pushes it out; atomics do not push: no order between writes holds
	 * (writes-ordering below OWNER).
	 */
	uint64_t below_owner;
	/*
	 * The same, but all writes keep their order and atomics push, too: what a NIC has
	 * acknowledged is not visible yet.
	 */
	uint64_t invisible;
	uint64_t slow_atomic; /* an atomic stores up to this long after its load */

	/* doorbells */
	uint64_t db_loss;     /* chance that a doorbell is lost ... */
	uint64_t db_delay;    /* ... and recovered from the record within this time */
	uint64_t double_ring; /* the doorbell may be rung before the record is written */

	/* the QP, by the number of its creation, that counted faults concern */
	uint64_t qp;

	uint64_t ack;       /* time without progress until the peer is asked what has arrived */
	uint64_t retry;     /* times that lost packets are sent again */
	uint64_t rnr;       /* time until a peer without a receive gets the request again */
	uint64_t rnr_retry; /* times that it does; SOFT_FOR_EVER */
	uint64_t mtu;
	uint64_t reads;      /* READs and atomics outstanding per QP */
	uint64_t big_endian; /* results of atomics */
	uint64_t masked;     /* says that it has masked atomics */
	uint64_t tcp;        /* even to processes of this host */
	uint64_t ipv6;       /* ... and not over IPv4 */
	uint64_t first;      /* first index of queues */
	uint64_t gpu;        /* posters cannot call oriel_cpu_wake() */
	uint64_t policy_b;   /* WAIT treats an error CQE like any other */
};

/* NULL or "": defaults. ORIEL_ERR_CONFIG names what is wrong. */
enum oriel_status ori_soft_scenario_parse(const char *text, struct soft_scenario *scenario);

#endif
