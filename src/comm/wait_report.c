/* SPDX-License-Identifier: Apache-2.0 */
/* The waits of this process in its log: see wait_report.h, which names the callers. */
#include "comm/wait_report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/wait_text.h"
#include "comm/answers.h"
#include "comm/health_text.h"

static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int report_event = -1; /* the handler writes to it; -1: there is no thread */

static void report_p2p_text(const struct ori_wait_note *n, char *text, size_t length)
{
	static const char *const names[] = {"send",
					    "receive",
					    "put",
					    "expected put",
					    "send of a control message",
					    "receive of a control message",
					    "drain"};
	unsigned which = n->what - ORI_WAIT_P2P;
	const char *name = which < sizeof(names) / sizeof(names[0]) ? names[which] : "wait";

	switch (n->what) {
	case ORI_WAIT_P2P_DRAIN:
		snprintf(text, length, "p2p drain");
		break;
	case ORI_WAIT_P2P_SEND_CONTROL:
	case ORI_WAIT_P2P_RECV_CONTROL:
		snprintf(text, length, "p2p %s, tag %" PRIu64, name, n->expected);
		break;
	default:
		snprintf(text, length,
			 "p2p %s: channel %u, %" PRIu64 " bytes, %" PRIu64 " chunks done", name,
			 n->id, n->expected, n->seen);
	}
}

void ori_wait_note_text(const struct ori_wait_note *n, char *text, size_t length)
{
	if (n->what == ORI_WAIT_SHRINK)
		snprintf(text, length, "oriel_comm_shrink, agreement %" PRIu64, n->expected);
	else if (n->what >= ORI_WAIT_SHRINK)
		snprintf(text, length, "%s",
			 n->what == ORI_WAIT_GROW ? "oriel_comm_grow" : "oriel_comm_merge");
	else if (n->what >= ORI_WAIT_P2P)
		report_p2p_text(n, text, length);
	else if (n->what == ORIEL_DEV_EXCHANGE && !n->window)
		snprintf(text, length, "%s", ori_call_name(n->id));
	else if (n->what == ORIEL_DEV_NIC)
		snprintf(text, length, "requests for rank %u are not completed", n->peer);
	else if (ori_collective_noun(n->window))
		snprintf(text, length, "%s: expected %s %" PRIu64 ", seen %" PRIu64,
			 ori_collective_noun(n->window), ori_compare_sign(n->compare), n->expected,
			 n->seen);
	else
		snprintf(text, length,
			 "%s: window %u, %s %u: expected %s %" PRIu64 ", seen %" PRIu64,
			 ori_what_name(n->what), ORIEL_DEV_WINDOW_NUMBER(n->window),
			 ori_what_noun(n->what), n->id, ori_compare_sign(n->compare), n->expected,
			 n->seen);
}

/* @thread is 0 for a kernel. */
static void report_one(const struct ori_wait_note *note, int thread)
{
	char text[256], peer[32] = "other ranks", who[32] = "a kernel";

	if (thread)
		snprintf(who, sizeof(who), "thread %d", thread);
	if (ori_wait_outside(note))
		snprintf(peer, sizeof(peer), "%s", ori_wait_outside(note));
	else if (note->peer != ORIEL_DEV_NO_RANK)
		snprintf(peer, sizeof(peer), "rank %u", note->peer);
	ori_wait_note_text(note, text, sizeof(text));
	ori_log_rank(ORIEL_LOG_WARN, note->rank, "%s has waited %.1f s for %s: %s", who,
		     (double)(ori_clock_ns() - note->begun) / 1e9, peer, text);
}

/* A thread shows its wait while it sleeps between two polls, so that one look may miss it. */
#define REPORT_LOOKS 20u
#define REPORT_PAUSE_US 500u
#define REPORT_ANSWER_US 1000u

/*
 * Asks the kernels of all communicators, by files of the caller's own, since a communicator may end
 * meanwhile.
 */
static void report_ask(struct ori_answers_list *answers)
{
	const struct ori_wait_page *page = ori_wait_page_lock();
	unsigned i;

	for (i = 0; page && i < ORI_WAIT_COMMS; i++)
		if (page->comm[i].key && page->comm[i].answers_at)
			ori_answers_list_ask(answers, &page->comm[i],
					     fcntl(page->comm[i].health_fd, F_DUPFD_CLOEXEC, 0),
					     ori_clock_ns());
	ori_wait_page_unlock();
}

/* How many waits of kernels there are. */
static unsigned report_kernels(void)
{
	struct ori_answers_list answers = {0};
	unsigned count = 0, read, i, k;

	report_ask(&answers);
	for (read = 0; answers.count && read < ORI_ANSWERS_READS; read++) {
		usleep(REPORT_ANSWER_US);
		ori_answers_list_read(&answers);
	}
	ori_answers_list_end(&answers);
	for (i = 0; i < answers.count; i++) {
		for (k = 0; k < answers.of[i].count; k++)
			report_one(&answers.of[i].notes[k], 0);
		count += answers.of[i].count;
	}
	ori_answers_list_free(&answers);
	return count;
}

static void report_all(void)
{
	const struct ori_wait_page *page;
	bool is_written[ORI_WAIT_SLOTS] = {false};
	struct ori_wait_slot slot;
	unsigned look, i, count = 0;

	for (look = 0; look < REPORT_LOOKS; look++) {
		page = ori_wait_page_lock();
		for (i = 0; page && i < ORI_WAIT_SLOTS; i++) {
			if (is_written[i] || !ori_wait_read(&page->slot[i], &slot))
				continue;
			is_written[i] = true;
			report_one(&slot.note, slot.thread);
			count++;
		}
		ori_wait_page_unlock();
		usleep(REPORT_PAUSE_US);
	}
	count += report_kernels();
	if (!count)
		ori_log(ORIEL_LOG_WARN, "process %d: no thread waits in Oriel", (int)getpid());
}

static void *report_main(void *unused)
{
	eventfd_t times;

	(void)unused;
	while (eventfd_read(atomic_load(&report_event), &times) == 0 || errno == EINTR)
		report_all();
	return NULL;
}

static void report_handle(int number)
{
	const uint64_t once = 1;
	int error = errno;

	(void)number;
	/* write() may be called in a handler: signal-safety(7). */
	if (atomic_load(&report_event) >= 0)
		(void)!write(atomic_load(&report_event), &once, sizeof(once));
	errno = error;
}

static int report_number(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {{"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGQUIT", SIGQUIT}};
	unsigned i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (strcmp(name, signals[i].name) == 0)
			return signals[i].number;
	return 0; /* off */
}

/* The descriptor is the parent's, whose thread it would wake. */
static void report_fork_child(void)
{
	if (atomic_load(&report_event) >= 0)
		close(atomic_load(&report_event));
	atomic_store(&report_event, -1);
}

/* The caller has the lock. */
static void report_start_locked(void)
{
	pthread_t thread;
	int event = eventfd(0, EFD_CLOEXEC);

	atomic_store(&report_event, event);
	if (event >= 0 && ori_thread_start(&thread, report_main, NULL) == 0) {
		pthread_detach(thread);
		return;
	}
	ori_log(ORIEL_LOG_WARN, "ORIEL_HANG_SIGNAL: no thread for the report: %s", strerror(errno));
	if (event >= 0)
		close(event);
	atomic_store(&report_event, -1);
}

void ori_wait_report_open(void)
{
	static const struct ori_fork_hook hook = {.lock = &report_lock, .child = report_fork_child};
	const char *name = ori_setting_text(ORI_SETTING_HANG_SIGNAL);
	struct sigaction action = {.sa_handler = report_handle, .sa_flags = SA_RESTART}, before;
	int number = report_number(name);

	if (!number)
		return;
	ori_fork_add(ORI_FORK_WAIT_REPORT, &hook);
	pthread_mutex_lock(&report_lock);
	if (sigaction(number, NULL, &before) != 0 ||
	    (before.sa_handler != SIG_DFL && before.sa_handler != report_handle))
		ori_log(ORIEL_LOG_WARN,
			"ORIEL_HANG_SIGNAL: the program handles or ignores %s itself, which stays "
			"so: choose another signal, or use `oriel hang %d`",
			name, (int)getpid());
	else if (atomic_load(&report_event) < 0)
		report_start_locked();
	if (atomic_load(&report_event) >= 0 && before.sa_handler == SIG_DFL)
		sigaction(number, &action, NULL);
	pthread_mutex_unlock(&report_lock);
}
