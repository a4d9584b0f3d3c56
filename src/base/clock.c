/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time and deadlines. Every module that waits calls it; any thread. */
#include "base/clock.h"

#include <oriel/status.h>
#include <time.h>

/* The result fits in an int, and callers check their condition once a second at least. */
#define CLOCK_POLL_MAX_MS 1000

uint64_t ori_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ori_deadline(uint64_t timeout_ns)
{
	uint64_t now = ori_clock_ns();

	return timeout_ns > ORIEL_TIMEOUT_INFINITE - now ? ORIEL_TIMEOUT_INFINITE
							 : now + timeout_ns;
}

bool ori_deadline_passed(uint64_t deadline)
{
	return deadline != ORIEL_TIMEOUT_INFINITE && ori_clock_ns() >= deadline;
}

int ori_deadline_poll_ms(uint64_t deadline)
{
	uint64_t now;

	if (deadline == ORIEL_TIMEOUT_INFINITE)
		return CLOCK_POLL_MAX_MS;
	now = ori_clock_ns();
	if (now >= deadline)
		return 0;
	if (deadline - now > CLOCK_POLL_MAX_MS * 1000000ull)
		return CLOCK_POLL_MAX_MS;
	/* Rounded up: 0 would make the caller spin through the last millisecond. */
	return (int)((deadline - now + 999999u) / 1000000u);
}
