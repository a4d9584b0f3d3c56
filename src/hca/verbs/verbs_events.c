/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events of an HCA, taken by a thread of its own. verbs_device.c starts and stops
 * the thread.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "hca/verbs/verbs.h"

/* ORIEL_OK: the event matters to no caller. */
static enum oriel_status events_status(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR:
		return ORIEL_ERR_ACCESS;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		return ORIEL_ERR_SYSTEM;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
		return ORIEL_ERR_NO_PATH;
	default:
		return ORIEL_OK;
	}
}

static bool events_is_of_qp(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	       type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_PATH_MIG_ERR;
}

static void events_push(struct verbs_device *d, const struct ori_hca_event *event)
{
	pthread_mutex_lock(&d->lock);
	if (d->event_count < VERBS_EVENTS)
		d->events[(d->event_first + d->event_count++) % VERBS_EVENTS] = *event;
	pthread_mutex_unlock(&d->lock);
}

/* Interfaces get and lose addresses all the time: does the port still have the GID in use? */
static bool events_has_gid(const struct verbs_device *d)
{
	union ibv_gid gid;

	return ori_ibverbs.query_gid(d->context, d->port, d->gid_index, &gid) == 0 &&
	       memcmp(gid.raw, d->address.gid, sizeof(d->address.gid)) == 0;
}

/* A subnet manager that starts anew says so of each LID, and mostly finds the old ones good. */
static bool events_has_lid(const struct verbs_device *d)
{
	struct ibv_port_attr attr;

	return ori_verbs_query_port(d, &attr) == 0 && attr.lid == d->address.lid;
}

static bool events_has_pkey(const struct verbs_device *d)
{
	uint16_t pkey;

	return d->address.is_ethernet ||
	       (ori_verbs_query_pkey(d, &pkey) == 0 && pkey == d->address.pkey);
}

/* Does the event concern another port, or no object in use? */
static bool events_is_foreign(const struct verbs_device *d, const struct ibv_async_event *async)
{
	switch (async->event_type) {
	case IBV_EVENT_PORT_ERR:
		return async->element.port_num != d->port;
	case IBV_EVENT_LID_CHANGE:
		return async->element.port_num != d->port || events_has_lid(d);
	case IBV_EVENT_PKEY_CHANGE:
		return async->element.port_num != d->port || events_has_pkey(d);
	case IBV_EVENT_GID_CHANGE:
		return async->element.port_num != d->port || events_has_gid(d);
	default:
		return false;
	}
}

/* Objects that an event names stay until it is acknowledged. */
static void events_take(struct verbs_device *d, const struct ibv_async_event *async)
{
	struct ori_hca_event event = {.status = events_status(async->event_type)};

	if (events_is_foreign(d, async))
		event.status = ORIEL_OK;
	if (async->event_type == IBV_EVENT_CQ_ERR)
		atomic_store(&((struct verbs_cq *)async->element.cq->cq_context)->is_dead, true);
	if (events_is_of_qp(async->event_type))
		event.qpn = async->element.qp->qp_num;
	snprintf(event.text, sizeof(event.text), "%s: %s", d->name,
		 ori_ibverbs.event_type_str(async->event_type));
	ori_log(event.status == ORIEL_OK ? ORIEL_LOG_DEBUG : ORIEL_LOG_INFO, "%s", event.text);
	if (event.status != ORIEL_OK)
		events_push(d, &event);
}

static void *events_main(void *context)
{
	struct verbs_device *d = context;
	struct pollfd fds[] = {{.fd = d->context->async_fd, .events = POLLIN},
			       {.fd = d->stop, .events = POLLIN}};
	struct ibv_async_event async;

	for (;;) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents)
			return NULL;
		if (ori_ibverbs.get_async_event(d->context, &async) != 0)
			continue;
		events_take(d, &async);
		ori_ibverbs.ack_async_event(&async);
	}
}

/*
 * Without O_NONBLOCK the thread could block in the read of an event, and stop()
 * would wait for it.
 */
enum oriel_status ori_verbs_events_start(struct verbs_device *d)
{
	int flags = fcntl(d->context->async_fd, F_GETFL);

	if (flags < 0 || fcntl(d->context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "%s: cannot watch its events", d->name);
	d->stop = eventfd(0, EFD_CLOEXEC);
	if (d->stop < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "%s: cannot watch its events", d->name);
	if (ori_thread_start(&d->thread, events_main, d) == 0)
		return ORIEL_OK;
	close(d->stop);
	return ori_fail(ORIEL_ERR_NOMEM, "%s: cannot start the thread of its events", d->name);
}

void ori_verbs_events_stop(struct verbs_device *d)
{
	const uint64_t once = 1;

	(void)!write(d->stop, &once, sizeof(once));
	pthread_join(d->thread, NULL);
	close(d->stop);
}

enum oriel_status ori_verbs_poll_event(struct ori_hca *hca, struct ori_hca_event *event)
{
	struct verbs_device *d = (struct verbs_device *)hca;
	enum oriel_status status = ORIEL_AGAIN;

	pthread_mutex_lock(&d->lock);
	if (d->event_count > 0) {
		*event = d->events[d->event_first];
		d->event_first = (d->event_first + 1) % VERBS_EVENTS;
		d->event_count--;
		status = ORIEL_OK;
	}
	pthread_mutex_unlock(&d->lock);
	return status;
}
