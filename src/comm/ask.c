/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the watcher of a peer over a connection of its own. demand.c and lend.c call it. */
#include "comm/ask.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "net/fdsock.h"

#define ASK_PAUSE_NS 10000000 /* before a rank asks again */

void ori_ask_begin(struct ori_ask *ask, struct oriel_comm *comm, unsigned peer, const char *format,
		   ...)
{
	va_list args;

	ask->comm = comm;
	ask->peer = peer;
	ask->limit_ns = ori_comm_answer_limit(comm);
	ask->deadline = ori_deadline(ask->limit_ns);
	ask->doubt = NULL;
	ori_late_begin(&ask->late);
	ori_net_open(&ask->conn, -1, NULL);
	va_start(args, format);
	vsnprintf(ask->what, sizeof(ask->what), format, args);
	va_end(args);
}

void ori_ask_end(struct ori_ask *ask)
{
	ori_net_close(&ask->conn);
}

enum oriel_status ori_ask_may_wait(struct ori_ask *ask)
{
	if (!ori_comm_is_well(ask->comm))
		return ori_comm_check(ask->comm);
	if (ori_deadline_passed(ask->deadline))
		return ori_fail(ORIEL_ERR_TIMEOUT,
				"rank %u did not answer rank %u, which %s, within %g s: half of "
				"ORIEL_TIMEOUT, or ORIEL_HEARTBEAT%s%s",
				ask->peer, ask->comm->rank, ask->what, (double)ask->limit_ns / 1e9,
				ask->doubt ? "; the process there, or the connection, " : "",
				ask->doubt ? ask->doubt : "");
	if (ori_late_is_due(&ask->late))
		ori_late_warn(&ask->late, ask->limit_ns,
			      "rank %u does not answer rank %u, which %s", ask->peer,
			      ask->comm->rank, ask->what);
	return ORIEL_OK;
}

enum oriel_status ori_ask_may_retry(struct ori_ask *ask)
{
	const struct timespec pause = {0, ASK_PAUSE_NS};
	enum oriel_status status = ori_ask_may_wait(ask);

	if (status == ORIEL_OK)
		nanosleep(&pause, NULL);
	return status;
}

enum oriel_status ori_ask_poll(struct ori_ask *ask)
{
	struct pollfd polled = {.fd = ask->conn.fd, .events = ori_net_events(&ask->conn)};

	if (poll(&polled, 1, ORI_ASK_TICK_MS) < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	return ori_ask_may_wait(ask);
}

enum oriel_status ori_ask_dial(struct ori_ask *ask, const uint8_t *name, uint32_t pid)
{
	uint64_t until = ori_deadline(ORI_ASK_TICK_MS * UINT64_C(1000000));
	struct ori_error before;
	enum oriel_status status;
	int fd;

	ori_error_save(&before);
	status = ori_fdsock_connect(name, ask->comm->hosts[ask->peer].uid, (pid_t)pid, until, &fd);
	if (status == ORIEL_ERR_TIMEOUT)
		status = ORIEL_AGAIN;
	if (status == ORIEL_OK)
		ori_net_open(&ask->conn, fd, NULL);
	if (status == ORIEL_OK || status == ORIEL_AGAIN)
		ori_error_restore(&before);
	return status;
}

void ori_ask_doubt(struct ori_ask *ask, enum oriel_status status)
{
	const char *doubt = "has sent malformed bytes";

	if (status == ORIEL_ERR_AUTH)
		doubt = ori_net_doubt(&ask->conn);
	else if (status != ORIEL_ERR_PROTOCOL)
		return;
	if (!ask->doubt || strcmp(ask->doubt, doubt) != 0)
		ori_log_rank(ORIEL_LOG_WARN, ask->comm->rank,
			     "asks rank %u again: the process there, or the connection, %s",
			     ask->peer, doubt);
	ask->doubt = doubt;
}

enum oriel_status ori_ask_once(struct ori_ask *ask, const struct ori_ask_frames *frames)
{
	struct ori_frame frame;
	enum oriel_status status, may;

	if (ori_net_send(&ask->conn, frames->ask_type, frames->ask, frames->ask_length) != ORIEL_OK)
		return ORIEL_AGAIN;
	while ((status = ori_net_take(&ask->conn, &frame, frames->answer, frames->answer_length)) ==
	       ORIEL_AGAIN) {
		may = ori_ask_poll(ask);
		if (may != ORIEL_OK)
			return may;
	}
	ori_ask_doubt(ask, status);
	if (status == ORIEL_ERR_PEER || status == ORIEL_ERR_AUTH)
		return ORIEL_AGAIN;
	if (status == ORIEL_ERR_NOMEM)
		return ori_fail(status,
				"descriptors of rank %u were lost: raise the limit of open files "
				"(ulimit -n)",
				ask->peer);
	if (status != ORIEL_OK || frame.type != frames->answer_type ||
	    frame.length != frames->answer_length)
		return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u sent no answer to rank %u", ask->peer,
				ask->comm->rank);
	return ORIEL_OK;
}
