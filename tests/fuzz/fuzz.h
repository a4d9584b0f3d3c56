/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one file with the two functions declared here. libFuzzer
 * calls it for as long as it is told, replay.c for a fixed set of inputs.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

#define FUZZ_INPUT_MAX 16384u
#define FUZZ_SEED_MAX 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The good input number @n, for mutation to begin with. Its length, 0 past the last. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX]);

/* Holds in every build, unlike assert(). */
#define FUZZ_CHECK(claim) ((claim) ? (void)0 : fuzz_broken(#claim, __FILE__, __LINE__))

_Noreturn void fuzz_broken(const char *claim, const char *file, int line);

/* What is left of an input. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

/* 0 where nothing is left. */
uint8_t fuzz_byte(struct fuzz_input *input);

/* The two ends of a connection, which takes FUZZ_INPUT_MAX bytes that nobody reads. */
void fuzz_connect(int ends[2]);
void fuzz_say(int end, const uint8_t *bytes, size_t length);

#endif
