/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions between float and the types of 8 and 16 bits, without branches, so that compilers
 * make vectors of loops around them. oriel/dev/detail/fold.h uses them, and so does src/reduce.
 *
 * Options of the compiler that flush subnormal numbers or fuse operations do not change a result:
 * no product is added, and the one float that may be subnormal is too small to change its sum.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_CONVERT_H
#define ORIEL_DEV_DETAIL_CONVERT_H

#include <string.h>

#include <oriel/dev/types.h>

#define ORIEL_FLOAT_INFINITY 0x7f800000u

ORIEL_DEV uint32_t ori_dev_float_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

ORIEL_DEV float ori_dev_bits_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

ORIEL_DEV float ori_dev_from_bf16(uint16_t x)
{
	return ori_dev_bits_float((uint32_t)x << 16);
}

ORIEL_DEV float ori_dev_from_fp16(uint16_t x)
{
	uint32_t sign = (uint32_t)(x & 0x8000u) << 16, low = x & 0x7fffu;
	uint32_t normal = (low << 13) + (112u << 23);
	uint32_t small = ori_dev_float_bits((float)(int32_t)low * 0x1p-24f);
	uint32_t special = ORIEL_FLOAT_INFINITY | low << 13;

	return ori_dev_bits_float(sign | (low < 0x400u     ? small
					  : low >= 0x7c00u ? special
							   : normal));
}

/* Its bits are the upper byte of a binary16. */
ORIEL_DEV float ori_dev_from_e5m2(uint8_t x)
{
	return ori_dev_from_fp16((uint16_t)(x << 8));
}

ORIEL_DEV float ori_dev_from_e4m3(uint8_t x)
{
	uint32_t sign = (uint32_t)(x & 0x80u) << 24, low = x & 0x7fu;
	uint32_t normal = (low << 20) + (120u << 23);
	uint32_t small = ori_dev_float_bits((float)(int32_t)low * 0x1p-9f);

	return ori_dev_bits_float(sign | (low < 8u ? small : low == 0x7fu ? 0x7fc00000u : normal));
}

/*
 * The magnitude of @x in a type with @digits bits of mantissa whose least normal number is
 * 2^@least, not limited to what the type has: to nearest, ties to even. @x is not a NaN. The unit
 * of the sum with @step is that of the subnormal numbers, so that the addition rounds to one of
 * them.
 */
ORIEL_DEV uint32_t ori_dev_float_narrow(uint32_t x, int digits, int least)
{
	int shift = 23 - digits;
	uint32_t begin = (uint32_t)(least + 127) << 23;
	uint32_t step = (uint32_t)(least - digits + 23 + 127) << 23;
	uint32_t normal = x - begin + (1u << 23);
	uint32_t small = ori_dev_float_bits(ori_dev_bits_float(x < begin ? x : 0) +
					    ori_dev_bits_float(step)) -
			 step;

	normal = (normal + (1u << (shift - 1)) - 1 + (normal >> shift & 1)) >> shift;
	return x < begin ? small : normal;
}

ORIEL_DEV uint16_t ori_dev_to_fp16(float value)
{
	uint32_t bits = ori_dev_float_bits(value), x = bits & 0x7fffffffu,
		 y = ori_dev_float_narrow(x, 10, -14);

	y = y < 0x7c00u ? y : 0x7c00u;
	return (uint16_t)(x > ORIEL_FLOAT_INFINITY ? 0x7e00u : (bits >> 16 & 0x8000u) | y);
}

ORIEL_DEV uint16_t ori_dev_to_bf16(float value)
{
	uint32_t bits = ori_dev_float_bits(value);
	uint32_t y = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;

	return (uint16_t)((bits & 0x7fffffffu) > ORIEL_FLOAT_INFINITY ? 0x7fc0u : y);
}

ORIEL_DEV uint8_t ori_dev_to_e5m2(float value)
{
	uint32_t bits = ori_dev_float_bits(value), x = bits & 0x7fffffffu,
		 y = ori_dev_float_narrow(x, 2, -14);

	y = y < 0x7cu ? y : 0x7cu;
	return (uint8_t)(x > ORIEL_FLOAT_INFINITY ? 0x7fu : (bits >> 24 & 0x80u) | y);
}

ORIEL_DEV uint8_t ori_dev_to_e4m3(float value)
{
	uint32_t bits = ori_dev_float_bits(value), x = bits & 0x7fffffffu,
		 y = ori_dev_float_narrow(x, 3, -6);

	return (uint8_t)(x >= ORIEL_FLOAT_INFINITY || y > 0x7eu ? 0x7fu : (bits >> 24 & 0x80u) | y);
}

#endif
