/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts ROUNDS: the ranks of a job make and destroy communicators of some of them, in random order
 * and up to LIVE of them at once, and use those that live. In the end the process has as many
 * descriptors, threads and mappings as after the first rounds: none is leaked.
 */
#include <oriel/oriel.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE 6u
#define WARM_UP 20u /* rounds until caches of the library and of libc are as large as they get */

#define MUST(claim)                                                                             \
	((claim) ? (void)0                                                                      \
		 : (fprintf(stderr, "line %d: %s: %s\n", __LINE__, #claim, oriel_last_error()), \
		    exit(1)))

static unsigned entries(const char *path)
{
	DIR *folder = opendir(path);
	unsigned count = 0;

	MUST(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* Mappings of files and shared memory: those of the heap come and go with its arenas. */
static unsigned mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned count = 0;
	char line[512];

	MUST(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "/memfd:") != NULL;
	fclose(maps);
	return count;
}

struct counts {
	unsigned descriptors, threads, mappings;
};

static struct counts count(void)
{
	return (struct counts){entries("/proc/self/fd"), entries("/proc/self/task"), mappings()};
}

/* The same on all ranks. */
static unsigned draw(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33);
}

/* The colour of @rank in round @round: pairs, halves, every other rank, all but one, all. */
static uint32_t colour_of(unsigned kind, unsigned rank, unsigned size)
{
	switch (kind) {
	case 0:
		return rank / 2;
	case 1:
		return rank < size / 2;
	case 2:
		return rank % 2;
	case 3:
		return rank == size - 1 ? ORIEL_SPLIT_NONE : 1;
	case 4:
		return ORIEL_SPLIT_DOMAIN;
	default:
		return 5;
	}
}

static void use(struct oriel_comm *part)
{
	unsigned size = oriel_comm_size(part), i;
	uint64_t mine = 100 + oriel_comm_rank(part), all[64];

	MUST(oriel_comm_all_gather(part, &mine, all, sizeof(mine)) == ORIEL_OK);
	for (i = 0; i < size; i++)
		MUST(all[i] == 100 + i);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 200, round, rank, size, at;
	struct oriel_comm *whole, *parts[LIVE] = {NULL};
	struct counts before = {0}, after;

	MUST(oriel_comm_create(NULL, NULL, &whole) == ORIEL_OK);
	rank = oriel_comm_rank(whole);
	size = oriel_comm_size(whole);
	MUST(size <= 64);
	for (round = 0; round < rounds + WARM_UP; round++) {
		if (round == WARM_UP) {
			for (at = 0; at < LIVE; at++) {
				MUST(oriel_comm_destroy(parts[at]) == ORIEL_OK);
				parts[at] = NULL;
			}
			MUST(oriel_comm_barrier(whole) == ORIEL_OK);
			before = count();
		}
		at = draw() % LIVE;
		if (parts[at]) {
			use(parts[at]);
			MUST(oriel_comm_destroy(parts[at]) == ORIEL_OK);
		}
		MUST(oriel_comm_split(whole, colour_of(draw() % 6, rank, size),
				      (int)(draw() % 2) ? -(int)rank : 0, NULL,
				      &parts[at]) == ORIEL_OK);
		for (at = 0; at < LIVE; at++)
			if (parts[at])
				use(parts[at]);
	}
	for (at = 0; at < LIVE; at++)
		MUST(oriel_comm_destroy(parts[at]) == ORIEL_OK);
	MUST(oriel_comm_barrier(whole) == ORIEL_OK);
	after = count();
	printf("%u rounds; descriptors %u -> %u, threads %u -> %u, mappings %u -> %u\n", rounds,
	       before.descriptors, after.descriptors, before.threads, after.threads,
	       before.mappings, after.mappings);
	MUST(after.descriptors <= before.descriptors && after.threads <= before.threads &&
	     after.mappings <= before.mappings);
	MUST(oriel_comm_destroy(whole) == ORIEL_OK);
	return 0;
}
