/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: the seeds, the files of a corpus, and mutations of both,
 * the same ones each time. ctest calls it.
 *
 *   x_fuzz [CORPUS]       run them
 *   x_fuzz --seeds DIR    write the seeds to files, for libFuzzer
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

#ifndef REPLAY_MUTATIONS
#define REPLAY_MUTATIONS 20000u
#endif
#define REPLAY_GOOD_MAX 256u

int LLVMFuzzerInitialize(int *argc, char ***argv);
/* The runtime of the sanitizers defines it; NULL without one. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

struct replay_bytes {
	size_t length;
	uint8_t bytes[FUZZ_INPUT_MAX];
};

static struct replay_bytes replay_good[REPLAY_GOOD_MAX];
static unsigned replay_goods;

/* The current input, in a heap block of its own so that a sanitizer finds reads past its end. */
static uint8_t *replay_now;
static size_t replay_length;

static uint64_t replay_state = 0x0123456789abcdef;

/* A random number below @limit, by splitmix64. */
static size_t replay_random(size_t limit)
{
	uint64_t z = replay_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return limit ? (size_t)((z ^ z >> 31) % limit) : 0;
}

/* Print the input in hex, for xxd -r -p. Async-signal-safe. */
static void replay_show_input(void)
{
	static const char digits[] = "0123456789abcdef", end[] = "\nthe input in hex:\n";
	char pair[2];
	size_t i;

	(void)!write(STDERR_FILENO, end, sizeof(end) - 1);
	for (i = 0; i < replay_length; i++) {
		pair[0] = digits[replay_now[i] >> 4];
		pair[1] = digits[replay_now[i] & 15];
		(void)!write(STDERR_FILENO, pair, sizeof(pair));
	}
	(void)!write(STDERR_FILENO, end, 1);
}

static void replay_die(int number)
{
	replay_show_input();
	signal(number, SIG_DFL);
	raise(number);
}

static void replay_run(const struct replay_bytes *input)
{
	replay_now = malloc(input->length ? input->length : 1);
	FUZZ_CHECK(replay_now);
	memcpy(replay_now, input->bytes, input->length);
	replay_length = input->length;
	LLVMFuzzerTestOneInput(replay_now, replay_length);
	replay_length = 0;
	free(replay_now);
}

static void replay_overwrite(struct replay_bytes *b, size_t at)
{
	static const uint64_t telling[] = {0,          1,          2,          63,
					   64,         127,        255,        256,
					   4095,       4096,       65535,      65536,
					   INT32_MAX,  0x80000000, UINT32_MAX, INT64_MAX,
					   1ull << 63, UINT64_MAX, 1ull << 48};
	uint64_t value = telling[replay_random(sizeof(telling) / sizeof(telling[0]))];
	size_t width = (size_t)1 << replay_random(4);

	if (replay_random(4) == 0)
		value = replay_state;
	if (width > b->length - at)
		width = b->length - at;
	memcpy(b->bytes + at, &value, width);
}

static void replay_insert(struct replay_bytes *b, size_t at)
{
	size_t count = 1 + replay_random(replay_random(8) ? 8 : 1024);

	if (count > FUZZ_INPUT_MAX - b->length)
		return;
	memmove(b->bytes + at + count, b->bytes + at, b->length - at);
	memset(b->bytes + at, (int)replay_random(256), count);
	b->length += count;
}

static void replay_erase(struct replay_bytes *b, size_t at)
{
	size_t count = 1 + replay_random(16);

	if (count > b->length - at)
		count = b->length - at;
	memmove(b->bytes + at, b->bytes + at + count, b->length - at - count);
	b->length -= count;
}

/* Insert a piece of another valid input, taken from any of its offsets or from the same one. */
static void replay_splice(struct replay_bytes *b, size_t at)
{
	const struct replay_bytes *other = &replay_good[replay_random(replay_goods)];
	size_t from = replay_random(2) ? at : replay_random(other->length), count;

	if (from >= other->length)
		return;
	count = 1 + replay_random(other->length - from);
	if (count > FUZZ_INPUT_MAX - at)
		count = FUZZ_INPUT_MAX - at;
	memcpy(b->bytes + at, other->bytes + from, count);
	if (at + count > b->length)
		b->length = at + count;
}

static void replay_mutate(struct replay_bytes *b)
{
	size_t at = replay_random(b->length);

	switch (b->length ? replay_random(8) : 4) {
	case 0:
	case 1:
		b->bytes[at] ^= (uint8_t)(1u << replay_random(8));
		break;
	case 2:
		b->bytes[at] = (uint8_t)replay_random(256);
		break;
	case 3:
		replay_overwrite(b, at);
		break;
	case 4:
		replay_insert(b, at);
		break;
	case 5:
		replay_erase(b, at);
		break;
	case 6:
		replay_splice(b, at);
		break;
	default:
		replay_overwrite(b, at & ~(size_t)7);
		break;
	}
}

static void replay_add_seeds(void)
{
	struct replay_bytes *b;

	for (; replay_goods < REPLAY_GOOD_MAX; replay_goods++) {
		b = &replay_good[replay_goods];
		b->length = fuzz_seed(replay_goods, b->bytes);
		if (b->length == 0)
			break;
	}
}

static void replay_add_file(const char *dir, const char *name)
{
	struct replay_bytes *b = &replay_good[replay_goods++];
	char path[4096];
	FILE *file;

	FUZZ_CHECK(replay_goods < REPLAY_GOOD_MAX);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "rbe");
	FUZZ_CHECK(file);
	b->length = fread(b->bytes, 1, sizeof(b->bytes), file);
	FUZZ_CHECK(!ferror(file));
	fclose(file);
}

/* Files sort by name, so that the mutations do not depend on the file system. */
static void replay_add_corpus(const char *dir)
{
	struct dirent **entries;
	int count = scandir(dir, &entries, NULL, alphasort), i;

	if (count < 0) {
		fprintf(stderr, "%s: %s\n", dir, strerror(errno));
		exit(1);
	}
	for (i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.')
			replay_add_file(dir, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
}

static void replay_write_seeds(const char *dir)
{
	char path[4096];
	FILE *file;
	unsigned i;

	for (i = 0; i < replay_goods; i++) {
		snprintf(path, sizeof(path), "%s/seed-%u", dir, i);
		file = fopen(path, "wbe");
		FUZZ_CHECK(file);
		FUZZ_CHECK(fwrite(replay_good[i].bytes, 1, replay_good[i].length, file) ==
			   replay_good[i].length);
		FUZZ_CHECK(fclose(file) == 0);
	}
}

static void replay_all(void)
{
	static struct replay_bytes b;
	size_t changes;
	unsigned i;

	b.length = 0;
	replay_run(&b);
	for (i = 0; i < replay_goods; i++)
		replay_run(&replay_good[i]);
	for (i = 0; i < REPLAY_MUTATIONS; i++) {
		const struct replay_bytes *good = &replay_good[replay_random(replay_goods)];

		b.length = good->length;
		memcpy(b.bytes, good->bytes, good->length);
		for (changes = 1 + replay_random(6); changes > 0; changes--)
			replay_mutate(&b);
		replay_run(&b);
	}
	printf("%u seeds and files, %u mutations of them\n", replay_goods, REPLAY_MUTATIONS);
}

int main(int argc, char **argv)
{
	LLVMFuzzerInitialize(&argc, &argv);
	replay_add_seeds();
	FUZZ_CHECK(replay_goods > 0);
	if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
		replay_write_seeds(argv[2]);
		return 0;
	}
	if (argc == 2)
		replay_add_corpus(argv[1]);
	signal(SIGABRT, replay_die);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(replay_show_input);
	else
		signal(SIGSEGV, replay_die);
	replay_all();
	return 0;
}
