/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one file with the two functions declared here. libFuzzer calls it for a given
 * time, replay.c for a fixed set of inputs.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

#define FUZZ_INPUT_MAX 16384u
#define FUZZ_SEED_MAX 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Write the valid input number @n, from which mutation begins. Returns its length, 0 at the end. */
size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX]);

/* Checks in every build, unlike assert(). */
#define FUZZ_CHECK(claim) ((claim) ? (void)0 : fuzz_broken(#claim, __FILE__, __LINE__))

_Noreturn void fuzz_broken(const char *claim, const char *file, int line);

/* The unread part of an input. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

/* Take the next byte of @input, 0 at its end. */
uint8_t fuzz_byte(struct fuzz_input *input);

/* Open a connection whose buffer has room for FUZZ_INPUT_MAX unread bytes. */
void fuzz_connect(int ends[2]);
void fuzz_say(int end, const uint8_t *bytes, size_t length);

#endif
