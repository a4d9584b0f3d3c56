/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software HCA beyond the table of hca.h: whole clusters of HCAs in one
 * process that a test steps one action at a time, and counters of events. For
 * development and tests: it is no NIC.
 */
#ifndef ORI_HCA_SOFT_H
#define ORI_HCA_SOFT_H

#include <stdbool.h>
#include <stdint.h>

#include "hca/hca.h"

/* Counters of one HCA, since it was opened. */
struct ori_soft_counters {
	uint64_t doorbells;     /* changes that the HCA saw */
	uint64_t doorbell_lost; /* ... and ignored on purpose */
	uint64_t wqes;          /* fetched */
	uint64_t cqes;          /* written */
	uint64_t packets;       /* sent, or runs of packets */
	uint64_t received;
	uint64_t dropped;
	uint64_t duplicated;
	uint64_t delayed;
	uint64_t swallowed; /* sent into a black hole or over a lost connection */
	uint64_t replayed;  /* requests that had been executed already */
	uint64_t rewound;   /* times that packets were sent again */
	uint64_t timeouts;  /* questions about losses, sent or impossible to send */
	uint64_t lost;      /* times that packets were lost */
	uint64_t refused;   /* requests answered with an error */
	uint64_t not_ready; /* ... put off, since no receive was posted */
	uint64_t stalled;
	uint64_t relaxed; /* writes held back, for any reason */
	uint64_t late_cqes;
	uint64_t dup_cqes;
	uint64_t overruns; /* of CQs */
	uint64_t halted;
	uint64_t violations; /* WQEs and doorbells that break the rules */
	uint64_t events_lost;
};

/* Any thread. @hca is of ori_hca_soft_ops or of a cluster. */
void ori_soft_counters(struct ori_hca *hca, struct ori_soft_counters *counters);

/*
 * HCAs that do nothing but what step() makes them do, in virtual time, and
 * always the same for the same @seed. One thread at a time.
 */
struct ori_soft_cluster;

enum oriel_status ori_soft_cluster_create(uint64_t seed, struct ori_soft_cluster **cluster);
/* The caller has closed its HCAs. NULL is allowed. */
void ori_soft_cluster_destroy(struct ori_soft_cluster *cluster);

/* An HCA for the calls of ori_hca_soft_ops other than open(). */
enum oriel_status ori_soft_cluster_open(struct ori_soft_cluster *cluster, const char *config,
					struct ori_hca **hca);

/* One action of one HCA; false if no action is possible and none is due later. */
bool ori_soft_cluster_step(struct ori_soft_cluster *cluster);

/* A hash of all actions so far. */
uint64_t ori_soft_cluster_trace(const struct ori_soft_cluster *cluster);

#endif
