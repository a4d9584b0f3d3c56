/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, and bytes that are a function of a key and an offset. All files of soak use it.
 */
#include "soak.h"

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

uint64_t soak_next(struct soak_random *random)
{
	return mix(random->state += 0x9e3779b97f4a7c15);
}

uint64_t soak_below(struct soak_random *random, uint64_t limit)
{
	uint64_t value = soak_next(random);

	return limit ? value % limit : 0;
}

bool soak_chance(struct soak_random *random, unsigned one_in)
{
	return soak_below(random, one_in) == 0;
}

uint64_t soak_word(uint64_t key, uint64_t index)
{
	return mix(key + (index + 1) * 0x9e3779b97f4a7c15);
}

void soak_fill(void *at, size_t length, uint64_t key, uint64_t from)
{
	uint8_t *to = at;
	uint64_t word;
	size_t part;

	for (; length; to += part, from += part, length -= part) {
		word = soak_word(key, from / 8) >> 8 * (from % 8);
		part = 8 - from % 8 < length ? 8 - from % 8 : length;
		memcpy(to, &word, part);
	}
}

size_t soak_first_wrong(const void *at, size_t length, uint64_t key, uint64_t from)
{
	const uint8_t *bytes = at;
	uint64_t word;
	size_t done, part, i;

	for (done = 0; done < length; done += part) {
		word = soak_word(key, (from + done) / 8) >> 8 * ((from + done) % 8);
		part = 8 - (from + done) % 8;
		if (part > length - done)
			part = length - done;
		if (memcmp(bytes + done, &word, part) == 0)
			continue;
		for (i = 0; bytes[done + i] == (uint8_t)(word >> 8 * i);)
			i++;
		return done + i;
	}
	return length;
}
