/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two HCAs stepped by the test. A litmus test runs once per seed: some seed
 * must show the outcome that the adversary may produce, and no seed may break a
 * promise.
 */
#ifndef ORI_HCA_SOFT_ARENA_TEST_H
#define ORI_HCA_SOFT_ARENA_TEST_H

#include "hca/soft/soft_bench_test.h"

#define SEEDS 60u
#define DATA 1024u
#define LENGTH 65536u

static inline void arena_side(struct arena *r, struct side *s, unsigned which, unsigned slot,
			      unsigned access)
{
	side_open(s, &(struct side_attr){.cluster = r->cluster,
					 .hca = r->hca[which],
					 .slot = slot,
					 .depth = 32,
					 .first = 0xfff8,
					 .length = LENGTH,
					 .access = access,
					 .is_companion = slot > 0});
}

/* Open the two HCAs with their @configs. */
static inline void arena_open_both(struct arena *r, uint64_t seed, const char *const configs[2])
{
	assert_int_equal(ori_soft_cluster_create(seed, &r->cluster), ORIEL_OK);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ori_soft_cluster_open(r->cluster, configs[i], &r->hca[i]),
				 ORIEL_OK);
	arena_side(r, &r->a, 0, 0, 0);
	arena_side(r, &r->b, 1, 0, 0);
	side_join(&r->a, &r->b);
}

static inline void arena_open(struct arena *r, uint64_t seed, const char *config)
{
	const char *const configs[2] = {config, config};

	arena_open_both(r, seed, configs);
}

/*
 * The 8 bytes at DATA of b become 7 before word 0 of b is signaled: did any
 * step see the signal first?
 */
static inline bool saw_signal_first(struct arena *r)
{
	while (*side_word(&r->b, 0) == 0)
		if (!ori_soft_cluster_step(r->cluster))
			return true;
	return r->b.memory[DATA] != 7 || r->b.memory[DATA + 4999] != 7;
}

/* True if this seed breaks the program's assumption. */
typedef bool (*litmus)(uint64_t seed, const char *config);

static inline unsigned broken_by(litmus run, const char *config)
{
	unsigned broken = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		broken += run(seed, config);
	return broken;
}

/*
 * The adversary breaks @wrong for some of the seeds, and its twin @right for
 * none of the same seeds.
 */
static inline void expect_litmus(const char *name, litmus wrong, litmus right, const char *config)
{
	unsigned found = broken_by(wrong, config), none = broken_by(right, config);

	print_message("%s: seeds 1 to %u: %u break it, %u its twin\n", name, SEEDS, found, none);
	assert_true(found > 0);
	assert_int_equal(none, 0);
}

#endif
