/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library defines these for device functions that run on a CPU; the headers of
 * oriel/dev/detail call them.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_CPU_H
#define ORIEL_DEV_DETAIL_CPU_H

#include <oriel/dev/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library defines it, for waits on the CPU: CLOCK_MONOTONIC in ns. */
uint64_t oriel_cpu_clock_ns(void);

/*
 * The library defines it: yield the core, for the longer the longer the wait has been, since
 * ranks often outnumber cores. A sleeper costs its peer up to 1/32 of the time already waited
 * and never more than 2 ms.
 */
void oriel_cpu_back_off(uint64_t waited_ns);

/*
 * The library defines it: set *@asleep to 0 and wake the HCA whose word it is. The sleeper sets
 * the word, does a full fence, polls once more for work and only then sleeps; a thread that
 * makes work does a full fence before it reads the word.
 */
void oriel_cpu_wake(uint32_t *asleep);

/* The same for a thread that sleeps on the word itself. */
void oriel_cpu_wake_thread(uint32_t *asleep);

/*
 * The library defines it: the thread of a proxy sleeps, and a request was published in the ring
 * whose @seat it is, after which came a full fence. The caller posts the request, or the thread
 * is woken.
 */
void oriel_cpu_ask_proxy(void *seat);

/*
 * The library defines it: the same for a thread that waits for its request; no thread is woken.
 */
void oriel_cpu_help_proxy(void *seat);

struct oriel_dev_link;

/*
 * The library defines it: connect @l, which has ORIEL_LINK_DEMAND. Waits for the peer, whatever its
 * program does; a failure breaks the communicator, and @l stays unconnected.
 */
void oriel_cpu_connect(const struct oriel_dev_link *l);

/* The library defines it: do a part of the work of its threads, while the caller waits. */
void oriel_cpu_help(void);

/*
 * The library defines it: a wait that has taken @record->age_ns goes on, at most until
 * @timeout_ns, and the thread is about to back off. From an age of some ms on it records the
 * wait for `oriel hang`, and it logs a warning once the age exceeds ORIEL_LATE. Returns the age
 * from which on the wait calls it again.
 */
uint64_t oriel_cpu_late(const struct oriel_dev_fault *record, uint32_t compare,
			uint64_t timeout_ns);

/*
 * The library defines it: a wait of this thread has passed its limit, which @is_own if its
 * caller set it. oriel_last_error() has the text from now on.
 */
void oriel_cpu_expire(const struct oriel_dev_fault *record, uint32_t compare, bool is_own);

/*
 * The library defines it: in the barrier of @ranks ranks whose wait has just expired on this
 * thread, @peer had not arrived. Called for each such peer, in order.
 */
void oriel_cpu_absent(uint32_t peer, uint32_t ranks);

/* The library defines it: the same for arguments that were rejected. */
void oriel_cpu_reject(const struct oriel_dev_window *w, const struct oriel_dev_fault *record);

#ifdef __cplusplus
}
#endif

#endif
