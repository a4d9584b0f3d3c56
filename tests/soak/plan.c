/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a round, drawn from its seed: ranks, nodes, lanes, and faults. soak.c calls it. */
#include "soak.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const fate_names[] = {
	[SOAK_SURVIVES] = "survives", [SOAK_ABORT] = "abort",
	[SOAK_KILL] = "kill",         [SOAK_STOP] = "stop",
	[SOAK_FAIL_WQE] = "fail_wqe", [SOAK_BLACK_HOLE] = "black_hole",
};

const char *soak_fate_name(enum soak_fate fate)
{
	return fate_names[fate];
}

static const char *const heal_names[] = {
	[SOAK_ENDS] = "ends",
	[SOAK_SHRINKS] = "shrinks",
	[SOAK_REPLACES] = "replaces",
};

const char *soak_heal_name(enum soak_heal heal)
{
	return heal_names[heal];
}

bool soak_fate_is_sure(enum soak_fate fate)
{
	return fate == SOAK_ABORT || fate == SOAK_KILL || fate == SOAK_STOP;
}

__attribute__((format(printf, 2, 3))) static void plan_add(struct soak_plan *plan,
							   const char *format, ...)
{
	size_t used = strlen(plan->hca);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(plan->hca + used, sizeof(plan->hca) - used, format, arguments);
	va_end(arguments);
}

/* Draw faults of the HCA that a program must not notice. */
static void plan_draw_harm(struct soak_plan *plan, struct soak_random *random)
{
	static const char *const flags[] = {"shuffle=1", "scrub=1", "late_read=1",  "double_ring=1",
					    "tcp=1",     "gpu=1",   "big_endian=1", "policy_b=1"};
	unsigned i, harm = (unsigned)soak_below(random, 4);

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (soak_chance(random, 4))
			plan_add(plan, ",%s", flags[i]);
	if (soak_chance(random, 3))
		plan_add(plan, ",mtu=%u", 256u << soak_below(random, 5));
	if (soak_chance(random, 3))
		plan_add(plan, ",reads=%u", 1 + (unsigned)soak_below(random, 16));
	if (soak_chance(random, 3))
		plan_add(plan, ",relaxed=%u", 1 + (unsigned)soak_below(random, 64));
	if (soak_chance(random, 3))
		plan_add(plan, ",gather=%uus", 1 + (unsigned)soak_below(random, 2000));
	if (soak_chance(random, 3))
		plan_add(plan, ",late_cqe=%uus", 1 + (unsigned)soak_below(random, 200));
	if (soak_chance(random, 3))
		plan_add(plan, ",delay=%uus", 1 + (unsigned)soak_below(random, 100));
	if (soak_chance(random, 2))
		plan_add(plan, ",stall=%uus,stall_rate=0.%02u",
			 1 + (unsigned)soak_below(random, 2500),
			 1 + (unsigned)soak_below(random, 30));
	if (soak_chance(random, 4))
		plan_add(plan, ",db_loss=0.%u,db_delay=%uus", 1 + (unsigned)soak_below(random, 9),
			 20 + (unsigned)soak_below(random, 300));
	if (harm == 0)
		plan_add(plan, ",drop=0.0%u,ack=3ms,retry=1000",
			 1 + (unsigned)soak_below(random, 4));
	if (harm <= 1)
		plan_add(plan, ",dup=0.%02u", 1 + (unsigned)soak_below(random, 20));
}

static void plan_draw_fate(struct soak_plan *plan, struct soak_random *random)
{
	static const enum soak_fate fates[] = {SOAK_ABORT, SOAK_KILL, SOAK_STOP, SOAK_FAIL_WQE,
					       SOAK_BLACK_HOLE};
	unsigned count = plan->nodes > 1 ? 5 : 3;

	plan->fate = fates[soak_below(random, count)];
	if (plan->is_threads && plan->fate == SOAK_KILL)
		plan->fate = SOAK_ABORT;
	plan->victim = (unsigned)soak_below(random, plan->ranks);
	plan->fatal_epoch = (unsigned)soak_below(random, plan->epochs);
	plan->fatal_op = (unsigned)soak_below(random, 40);
	if (plan->fate == SOAK_FAIL_WQE)
		plan_add(plan, ",fail_wqe=%u", (unsigned)soak_below(random, 60));
	if (plan->fate == SOAK_BLACK_HOLE)
		plan_add(plan, ",black_hole=%u", (unsigned)soak_below(random, 120));
	if (plan->fate >= SOAK_FAIL_WQE && soak_chance(random, 2))
		plan_add(plan, ",qp=%u", (unsigned)soak_below(random, 4));
}

static void plan_draw_heal(struct soak_plan *plan, struct soak_random *random)
{
	unsigned left = plan->ranks - (plan->fate == SOAK_KILL),
		 heal = (unsigned)soak_below(random, 4);

	plan->newcomers = 1 + (unsigned)soak_below(random, 2);
	if (left + plan->newcomers > SOAK_RANKS)
		plan->newcomers = SOAK_RANKS - left;
	if (!soak_fate_is_sure(plan->fate) || heal == 0)
		return;
	/* A communicator whose ranks are threads of one process takes in no other process. */
	plan->heal =
		heal == 1 || plan->is_threads || !plan->newcomers ? SOAK_SHRINKS : SOAK_REPLACES;
}

static void plan_draw_life(struct soak_plan *plan, struct soak_random *random)
{
	unsigned r, l;

	plan->epochs = 2 + (unsigned)soak_below(random, 5);
	plan->lanes = 1 + (unsigned)soak_below(random, plan->ranks > 4 ? 2 : SOAK_LANES);
	for (r = 0; r < SOAK_RANKS; r++)
		for (l = 0; l < SOAK_LANES; l++)
			plan->teams[r][l] =
				soak_chance(random, 2)
					? 1
					: 1 + (unsigned)soak_below(random, plan->ranks > 4 ? 2 : 3);
}

void soak_plan_draw(struct soak_plan *plan, uint64_t seed)
{
	struct soak_random random = {seed};

	memset(plan, 0, sizeof(*plan));
	plan->seed = seed;
	plan->ranks =
		2 + (unsigned)soak_below(&random, soak_chance(&random, 3) ? SOAK_RANKS - 1 : 3);
	plan->nodes = 2 + (unsigned)soak_below(&random, plan->ranks - 1);
	if (soak_chance(&random, 4))
		plan->nodes = 1;
	if (soak_chance(&random, 20))
		plan->ranks = plan->nodes = 1;
	plan->is_threads = soak_chance(&random, 2);
	plan_draw_life(plan, &random);
	plan_add(plan, "seed=%u", 1 + (unsigned)soak_below(&random, 1000000));
	if (!soak_chance(&random, 4))
		plan_draw_harm(plan, &random);
	if (plan->ranks > 1 && soak_chance(&random, 5))
		plan_draw_fate(plan, &random);
	plan->is_lazy = soak_chance(&random, 2);
	plan->has_connect = soak_chance(&random, 2);
	plan->is_proxied = soak_chance(&random, 4);
	plan_draw_heal(plan, &random);
}

void soak_plan_follow(const struct soak_plan *before, unsigned ranks, struct soak_plan *plan)
{
	struct soak_random random = {soak_word(before->seed, 100 + before->life)};

	*plan = *before;
	plan->life++;
	plan->ranks = ranks;
	plan->fate = SOAK_SURVIVES;
	plan_draw_life(plan, &random);
}
