/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into kill_rank.c instead of its shim: in the victim the Nth call of a phase that wants
 * memory or a thread fails, of the calls that the library makes, for which the linker puts these
 * functions in place. At its end the rank prints what is left: starve_test.py.
 *
 *     CALLS <of the phase>
 *     LEFT <blocks> <descriptors> <threads>
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 65536u

void kill_shim_arm(long steps);
void kill_shim_end(void);

void *__real_malloc(size_t length);
void *__real_calloc(size_t count, size_t length);
void *__real_realloc(void *block, size_t length);
void *__real_aligned_alloc(size_t alignment, size_t length);
char *__real_strdup(const char *text);
void __real_free(void *block);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *argument);

static atomic_bool is_armed;
static atomic_long calls, fails_at; /* 0: none fails */
static _Atomic(void *) blocks[BLOCKS];
static int descriptors;

void kill_shim_arm(long steps)
{
	atomic_store(&fails_at, steps);
	atomic_store(&is_armed, true);
}

void kill_shim_end(void)
{
	if (!atomic_exchange(&is_armed, false))
		return;
	printf("CALLS %ld\n", atomic_load(&calls));
	fflush(stdout);
}

static bool fails(void)
{
	return atomic_load(&is_armed) && atomic_fetch_add(&calls, 1) + 1 == atomic_load(&fails_at);
}

static size_t slot_of(const void *block)
{
	return ((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15u >> 48;
}

static void *keep(void *block)
{
	size_t i, at;
	void *none;

	for (i = 0, at = slot_of(block); block && i < BLOCKS; i++, at = (at + 1) % BLOCKS) {
		none = NULL;
		if (atomic_compare_exchange_strong(&blocks[at], &none, block))
			break;
	}
	return block;
}

/* Blocks that the library got from others are not here. */
static void forget(void *block)
{
	size_t at, i;
	void *expected = block;

	for (i = 0, at = slot_of(block); block && i < BLOCKS; i++, at = (at + 1) % BLOCKS) {
		expected = block;
		if (atomic_compare_exchange_strong(&blocks[at], &expected, NULL))
			break;
	}
}

static void *refuse(void)
{
	errno = ENOMEM;
	return NULL;
}

void *__wrap_malloc(size_t length);
void *__wrap_malloc(size_t length)
{
	return fails() ? refuse() : keep(__real_malloc(length));
}

void *__wrap_calloc(size_t count, size_t length);
void *__wrap_calloc(size_t count, size_t length)
{
	return fails() ? refuse() : keep(__real_calloc(count, length));
}

void *__wrap_realloc(void *block, size_t length);
void *__wrap_realloc(void *block, size_t length)
{
	void *moved;

	if (fails())
		return refuse();
	forget(block);
	moved = __real_realloc(block, length);
	return keep(moved ? moved : block);
}

void *__wrap_aligned_alloc(size_t alignment, size_t length);
void *__wrap_aligned_alloc(size_t alignment, size_t length)
{
	return fails() ? refuse() : keep(__real_aligned_alloc(alignment, length));
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
	return fails() ? refuse() : keep(__real_strdup(text));
}

void __wrap_free(void *block);
void __wrap_free(void *block)
{
	forget(block);
	__real_free(block);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *argument)
{
	return fails() ? EAGAIN : __real_pthread_create(thread, attr, run, argument);
}

static int entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	while (directory && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	return count;
}

__attribute__((constructor)) static void begin(void)
{
	descriptors = entries("/proc/self/fd");
}

__attribute__((destructor)) static void end(void)
{
	int left = 0;
	size_t i;

	for (i = 0; i < BLOCKS; i++)
		left += atomic_load(&blocks[i]) != NULL;
	/* "." and "..", and this thread. */
	printf("LEFT %d %d %d\n", left, entries("/proc/self/fd") - descriptors,
	       entries("/proc/self/task") - 3);
}
