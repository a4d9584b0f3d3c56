/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of ranks on this machine: signals to them, and reports of their ends and stops.
 * The job calls it. Ranks stay zombies until run_ranks_close(), so that their pids are not reused.
 */
#include <stdlib.h>
#include <sys/wait.h>

#include "run.h"

bool run_ranks_open(struct run_ranks *ranks, unsigned first, unsigned count)
{
	*ranks = (struct run_ranks){.first = first, .count = count};
	ranks->pids = calloc(count, sizeof(*ranks->pids));
	ranks->has_ended = calloc(count, sizeof(*ranks->has_ended));
	ranks->is_stopped = calloc(count, sizeof(*ranks->is_stopped));
	return ranks->pids && ranks->has_ended && ranks->is_stopped;
}

void run_ranks_close(struct run_ranks *ranks)
{
	unsigned i;

	for (i = 0; ranks->is_started && i < ranks->count; i++)
		waitpid(ranks->pids[i], NULL, 0);
	free(ranks->pids);
	free(ranks->has_ended);
	free(ranks->is_stopped);
	*ranks = (struct run_ranks){0};
}

void run_ranks_send(const struct run_ranks *ranks, int number)
{
	unsigned i;

	for (i = 0; ranks->is_started && i < ranks->count; i++)
		kill(-ranks->pids[i], number);
}

/* Is this rank stopped now, by the signal of @info? The report stays, for the next call. */
static bool ranks_is_stopped(const struct run_ranks *ranks, unsigned i, siginfo_t *info)
{
	info->si_pid = 0;
	return !ranks->has_ended[i] &&
	       waitid(P_PID, (id_t)ranks->pids[i], info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	       info->si_pid != 0;
}

/*
 * Running ranks get no SIGCONT: it would discard a pending stop, and the debugger or
 * LeakSanitizer that requested the stop would wait for ever.
 */
void run_ranks_continue(const struct run_ranks *ranks)
{
	siginfo_t info;
	unsigned i;

	for (i = 0; ranks->is_started && i < ranks->count; i++)
		if (ranks_is_stopped(ranks, i, &info))
			kill(-ranks->pids[i], SIGCONT);
}

static void ranks_check_stop(struct run_ranks *ranks, unsigned i, run_event_report *report,
			     void *context)
{
	siginfo_t info;
	const bool is_stopped = ranks_is_stopped(ranks, i, &info);
	struct run_event event = {.rank = ranks->first + i, .pid = (unsigned)ranks->pids[i]};

	if (is_stopped == ranks->is_stopped[i])
		return;
	ranks->is_stopped[i] = is_stopped;
	if (ranks->has_ended[i])
		return;
	event.what = is_stopped ? RUN_EVENT_STOPPED : RUN_EVENT_CONTINUED;
	event.status = is_stopped ? (unsigned)info.si_status : 0;
	report(context, &event);
}

static void ranks_check_end(struct run_ranks *ranks, unsigned i, run_event_report *report,
			    void *context)
{
	struct run_event event = {.rank = ranks->first + i, .pid = (unsigned)ranks->pids[i]};
	siginfo_t info = {.si_pid = 0};

	if (ranks->has_ended[i] ||
	    waitid(P_PID, (id_t)ranks->pids[i], &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
	    info.si_pid == 0)
		return;
	ranks->has_ended[i] = true;
	event.what = info.si_code == CLD_EXITED   ? RUN_EVENT_EXITED
		     : info.si_code == CLD_DUMPED ? RUN_EVENT_DUMPED
						  : RUN_EVENT_KILLED;
	event.status = (unsigned)info.si_status;
	report(context, &event);
}

void run_ranks_check(struct run_ranks *ranks, pid_t first, run_event_report *report, void *context)
{
	unsigned i;

	if (!ranks->is_started)
		return;
	for (i = 0; i < ranks->count; i++)
		if (ranks->pids[i] == first)
			ranks_check_end(ranks, i, report, context);
	for (i = 0; i < ranks->count; i++)
		ranks_check_end(ranks, i, report, context);
	for (i = 0; i < ranks->count; i++)
		ranks_check_stop(ranks, i, report, context);
}
