/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions between float and the types of 8 and 16 bits, without branches, so that compilers
 * make vectors of loops around them. fold_loops.h uses them.
 */
#ifndef ORI_REDUCE_FOLD_CONVERT_H
#define ORI_REDUCE_FOLD_CONVERT_H

#include <stdint.h>
#include <string.h>

#define FOLD_INFINITY 0x7f800000u

static inline uint32_t fold_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float fold_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline float fold_from_bf16(uint16_t x)
{
	return fold_float((uint32_t)x << 16);
}

static inline float fold_from_fp16(uint16_t x)
{
	uint32_t sign = (uint32_t)(x & 0x8000u) << 16, low = x & 0x7fffu;
	uint32_t normal = (low << 13) + (112u << 23);
	uint32_t small = fold_bits((float)(int32_t)low * 0x1p-24f);
	uint32_t special = FOLD_INFINITY | low << 13;

	return fold_float(sign | (low < 0x400u ? small : low >= 0x7c00u ? special : normal));
}

/* Its bits are the upper byte of a binary16. */
static inline float fold_from_e5m2(uint8_t x)
{
	return fold_from_fp16((uint16_t)(x << 8));
}

static inline float fold_from_e4m3(uint8_t x)
{
	uint32_t sign = (uint32_t)(x & 0x80u) << 24, low = x & 0x7fu;
	uint32_t normal = (low << 20) + (120u << 23);
	uint32_t small = fold_bits((float)(int32_t)low * 0x1p-9f);

	return fold_float(sign | (low < 8u ? small : low == 0x7fu ? 0x7fc00000u : normal));
}

/*
 * The magnitude of @x in a type with @digits bits of mantissa whose least normal number is
 * 2^@least, not limited to what the type has: to nearest, ties to even. @x is not a NaN. The unit
 * of the sum with @step is that of the subnormal numbers, so that the addition rounds to one of
 * them.
 */
static inline uint32_t fold_narrow(uint32_t x, int digits, int least)
{
	int shift = 23 - digits;
	uint32_t begin = (uint32_t)(least + 127) << 23;
	uint32_t step = (uint32_t)(least - digits + 23 + 127) << 23;
	uint32_t normal = x - begin + (1u << 23);
	uint32_t small = fold_bits(fold_float(x < begin ? x : 0) + fold_float(step)) - step;

	normal = (normal + (1u << (shift - 1)) - 1 + (normal >> shift & 1)) >> shift;
	return x < begin ? small : normal;
}

static inline uint16_t fold_to_fp16(float value)
{
	uint32_t bits = fold_bits(value), x = bits & 0x7fffffffu, y = fold_narrow(x, 10, -14);

	y = y < 0x7c00u ? y : 0x7c00u;
	return (uint16_t)(x > FOLD_INFINITY ? 0x7e00u : (bits >> 16 & 0x8000u) | y);
}

static inline uint16_t fold_to_bf16(float value)
{
	uint32_t bits = fold_bits(value);
	uint32_t y = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;

	return (uint16_t)((bits & 0x7fffffffu) > FOLD_INFINITY ? 0x7fc0u : y);
}

static inline uint8_t fold_to_e5m2(float value)
{
	uint32_t bits = fold_bits(value), x = bits & 0x7fffffffu, y = fold_narrow(x, 2, -14);

	y = y < 0x7cu ? y : 0x7cu;
	return (uint8_t)(x > FOLD_INFINITY ? 0x7fu : (bits >> 24 & 0x80u) | y);
}

static inline uint8_t fold_to_e4m3(float value)
{
	uint32_t bits = fold_bits(value), x = bits & 0x7fffffffu, y = fold_narrow(x, 3, -6);

	return (uint8_t)(x >= FOLD_INFINITY || y > 0x7eu ? 0x7fu : (bits >> 24 & 0x80u) | y);
}

#endif
