/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the fake GPUs that the CPU must not reach: it is poisoned for code that
 * AddressSanitizer instruments, in any thread. Code that stands for kernels and copy engines is
 * not instrumented.
 */
#include <stddef.h>

#include "fakecuda.h"

#ifdef FAKECUDA_POISON
/*
 * Replacements for string.h in this folder, byte by byte: compilers would call the sanitizer's
 * functions.
 */
void *fakecuda_memcpy(void *to, const void *from, size_t length);
void *fakecuda_memset(void *at, int value, size_t length);
int fakecuda_memcmp(const void *a, const void *b, size_t length);

void *fakecuda_memcpy(void *to, const void *from, size_t length)
{
	const volatile char *source = from;
	volatile char *target = to;

	while (length--)
		*target++ = *source++;
	return to;
}

void *fakecuda_memset(void *at, int value, size_t length)
{
	volatile char *target = at;

	while (length--)
		*target++ = (char)value;
	return at;
}

int fakecuda_memcmp(const void *a, const void *b, size_t length)
{
	const volatile unsigned char *one = a, *other = b;

	for (; length--; one++, other++)
		if (*one != *other)
			return *one < *other ? -1 : 1;
	return 0;
}

void __asan_poison_memory_region(const volatile void *at, size_t length);
void __asan_unpoison_memory_region(const volatile void *at, size_t length);

void fake_hide(void *at, size_t length)
{
	__asan_poison_memory_region(at, length);
}

void fake_show(void *at, size_t length)
{
	__asan_unpoison_memory_region(at, length);
}
#else
void fake_hide(void *at, size_t length)
{
	(void)at;
	(void)length;
}

void fake_show(void *at, size_t length)
{
	(void)at;
	(void)length;
}
#endif
