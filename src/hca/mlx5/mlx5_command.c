/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands to the firmware (DEVX), and the events that firmware reports. The other files of
 * mlx5/ send them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "hca/mlx5/mlx5_device.h"

/* Event types of the event queue, as the PRM numbers them. */
enum {
	EVENT_CQ_ERROR = 0x04,
	EVENT_WQ_CATASTROPHE = 0x05,
	EVENT_PATH_FAILED = 0x07,
	EVENT_WQ_BAD_REQUEST = 0x10,
	EVENT_WQ_ACCESS = 0x11,
};

/* The type of an event lies at this offset of its entry. */
#define EVENT_TYPE_AT 1u
#define EVENT_ENTRY 64u

/* Both address paths in the answer of QUERY_QP (Linux mlx5_ifc.h, mlx5_ifc_query_qp_out_bits). */
#define QUERY_QP_PATHS 0x30u
#define QUERY_QP_PATHS_END 0x88u

static enum oriel_status command_fail(const struct mlx5_device *d, const char *what, int error,
				      const void *out, size_t length)
{
	uint8_t head[ORI_PRM_REPLY_LENGTH];
	struct ori_prm_reply reply;

	if (length >= sizeof(head)) {
		memcpy(head, out, sizeof(head));
		if (ori_prm_decode_reply(head, sizeof(head), &reply) == ORIEL_OK && reply.status)
			return ori_fail(ORIEL_ERR_SYSTEM,
					"%s: the firmware rejects %s: status 0x%x, syndrome 0x%x",
					d->verbs.name, what, reply.status, reply.syndrome);
	}
	return ori_verbs_fail(&d->verbs, error, "%s", what);
}

enum oriel_status ori_mlx5_create(struct mlx5_device *d, const char *what, const void *in,
				  size_t length, struct mlx5dv_devx_obj **object, uint32_t *number)
{
	uint8_t out[ORI_PRM_REPLY_LENGTH] = {0};
	struct ori_prm_reply reply;
	struct mlx5dv_devx_obj *made;
	enum oriel_status status;

	made = ori_mlx5dv.obj_create(d->verbs.context, in, length, out, sizeof(out));
	if (!made)
		return command_fail(d, what, errno, out, sizeof(out));
	status = ori_prm_decode_reply(out, sizeof(out), &reply);
	if (status != ORIEL_OK) {
		ori_mlx5dv.obj_destroy(made);
		return status;
	}
	*object = made;
	*number = reply.number;
	return ORIEL_OK;
}

enum oriel_status ori_mlx5_modify(struct mlx5_device *d, const char *what,
				  struct mlx5dv_devx_obj *object, const void *in, size_t length)
{
	uint8_t out[ORI_PRM_REPLY_LENGTH] = {0};
	int error = ori_mlx5dv.obj_modify(object, in, length, out, sizeof(out));

	return error ? command_fail(d, what, error, out, sizeof(out)) : ORIEL_OK;
}

/*
 * Log what the firmware answered, rows of zeros apart, for field reports. Addresses of this
 * host and its peer lie between @hide and @show.
 */
static void command_log(const struct mlx5_device *d, const char *what, const uint8_t *out,
			unsigned length, unsigned hide, unsigned show)
{
	static const uint8_t zeros[16];
	uint32_t word[4];

	for (unsigned at = 0; at + sizeof(word) <= length; at += sizeof(word)) {
		memcpy(word, out + at, sizeof(word));
		for (unsigned i = 0; i < 4; i++)
			if (at + 4 * i >= hide && at + 4 * i < show)
				word[i] = 0;
		if (memcmp(word, zeros, sizeof(zeros)) != 0)
			ori_log(ORIEL_LOG_DEBUG, "%s: %s at 0x%03x: %08x %08x %08x %08x",
				d->verbs.name, what, at, ntohl(word[0]), ntohl(word[1]),
				ntohl(word[2]), ntohl(word[3]));
	}
}

static enum oriel_status command_ask_caps(struct mlx5_device *d, enum ori_prm_caps_type type,
					  void *out)
{
	const struct ori_prm_query_caps query = {type};
	uint8_t in[ORI_PRM_COMMAND_LENGTH];
	enum oriel_status status = ori_prm_encode_query_caps(&query, in, sizeof(in));
	char what[32];
	int error;

	if (status != ORIEL_OK)
		return status;
	memset(out, 0, ORI_PRM_QUERY_HCA_CAP_LENGTH);
	error = ori_mlx5dv.general_cmd(d->verbs.context, in, sizeof(in), out,
				       ORI_PRM_QUERY_HCA_CAP_LENGTH);
	if (error)
		return command_fail(d, "QUERY_HCA_CAP", error, out, ORI_PRM_REPLY_LENGTH);
	snprintf(what, sizeof(what), "capabilities %u", (unsigned)type);
	command_log(d, what, out, ORI_PRM_QUERY_HCA_CAP_LENGTH, 0, 0);
	return ORIEL_OK;
}

/* The rings read CQEs of version 1 only, and posters never update a consumer index. */
static enum oriel_status command_check_caps(const struct mlx5_device *d)
{
	if (d->caps.cqe_version != 1)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s: its CQEs have version %u, not 1",
				d->verbs.name, d->caps.cqe_version);
	if (!d->caps.can_ignore_overrun)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: its CQs cannot ignore overruns (no cq_oi)", d->verbs.name);
	return ORIEL_OK;
}

static enum oriel_status command_ask_numbers(struct mlx5_device *d)
{
	struct mlx5dv_pd pd = {0};
	struct mlx5dv_obj obj = {.pd = {.in = d->verbs.pd, .out = &pd}};
	int error = ori_mlx5dv.query_eqn(d->verbs.context, 0, &d->eqn);

	if (error)
		return ori_verbs_fail(&d->verbs, error, "cannot find its event queue");
	error = ori_mlx5dv.init_obj(&obj, MLX5DV_OBJ_PD);
	if (error)
		return ori_verbs_fail(&d->verbs, error,
				      "cannot find the number of its protection domain");
	d->pd = pd.pdn;
	return ORIEL_OK;
}

/* Firmware without on-demand paging may refuse the query. */
static void command_ask_paging(struct mlx5_device *d)
{
	uint8_t out[ORI_PRM_QUERY_HCA_CAP_LENGTH];
	struct ori_error before;

	ori_error_save(&before);
	if (command_ask_caps(d, ORI_PRM_CAPS_PAGING, out) != ORIEL_OK ||
	    ori_prm_decode_paging_caps(out, sizeof(out), &d->paging_caps) != ORIEL_OK)
		d->paging_caps = (struct ori_prm_paging_caps){0};
	ori_error_restore(&before);
}

enum oriel_status ori_mlx5_ask(struct mlx5_device *d)
{
	uint8_t out[ORI_PRM_QUERY_HCA_CAP_LENGTH];
	enum oriel_status status = command_ask_caps(d, ORI_PRM_CAPS_GENERAL, out);

	if (status == ORIEL_OK)
		status = ori_prm_decode_caps(out, sizeof(out), &d->caps);
	if (status == ORIEL_OK)
		status = command_check_caps(d);
	if (status == ORIEL_OK)
		status = command_ask_caps(d, ORI_PRM_CAPS_ATOMIC, out);
	if (status == ORIEL_OK)
		status = ori_prm_decode_atomic_caps(out, sizeof(out), &d->atomic_caps);
	if (status == ORIEL_OK)
		status = command_ask_numbers(d);
	if (status == ORIEL_OK)
		command_ask_paging(d);
	return status;
}

/* False: the firmware does not say. */
static bool command_ask_qp(const struct mlx5_qp *qp, struct ori_prm_qp_state *state)
{
	const struct ori_prm_object query = {ORI_PRM_QUERY_QP, qp->number};
	uint8_t in[ORI_PRM_COMMAND_LENGTH], out[ORI_PRM_QUERY_LENGTH] = {0};

	if (!ori_mlx5dv.obj_query || ori_prm_encode_object(&query, in, sizeof(in)) != ORIEL_OK ||
	    ori_mlx5dv.obj_query(qp->object, in, sizeof(in), out, sizeof(out)))
		return false;
	command_log(qp->device, "context of a QP", out, sizeof(out), QUERY_QP_PATHS,
		    QUERY_QP_PATHS_END);
	return ori_prm_decode_qp_state(out, sizeof(out), state) == ORIEL_OK;
}

/* Are ports joined, so that packets of one queue may leave by either? */
static bool command_has_lag(struct mlx5_device *d)
{
	const struct ori_prm_object query = {ORI_PRM_QUERY_LAG, 0};
	uint8_t in[ORI_PRM_COMMAND_LENGTH], out[ORI_PRM_REPLY_LENGTH] = {0};
	struct ori_prm_reply reply;

	return ori_prm_encode_object(&query, in, sizeof(in)) == ORIEL_OK &&
	       !ori_mlx5dv.general_cmd(d->verbs.context, in, sizeof(in), out, sizeof(out)) &&
	       ori_prm_decode_reply(out, sizeof(out), &reply) == ORIEL_OK && !reply.status &&
	       reply.number & ORI_PRM_LAG_STATE;
}

/*
 * Ordering 0 that is not forced leaves it to what the port does by default (UCX
 * dc_mlx5.c: by service level), which says nothing.
 */
enum ori_hca_order ori_mlx5_ask_order(struct mlx5_device *d, const struct mlx5_qp *qp)
{
	enum ori_hca_order order = ORI_HCA_ORDER_UNKNOWN;
	struct ori_prm_qp_state state = {0};
	struct ori_error before;

	ori_error_save(&before);
	d->report.has_no_contexts = !command_ask_qp(qp, &state);
	if (!d->report.has_no_contexts && (state.ordering || state.is_order_forced))
		order = state.ordering ? ORI_HCA_REORDERED : ORI_HCA_ORDERED;
	else if (command_has_lag(d))
		order = ORI_HCA_ORDER_MULTIPATH;
	ori_error_restore(&before);
	return order;
}

/* False, with errno: the device reports no events. */
static bool event_open_channel(struct mlx5_device *d)
{
	struct mlx5dv_devx_event_channel *channel;
	int flags;

	channel = ori_mlx5dv.create_event_channel(d->verbs.context, 0);
	if (!channel)
		return false;
	flags = fcntl(channel->fd, F_GETFL);
	if (flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		ori_mlx5dv.destroy_event_channel(channel);
		return false;
	}
	/* A thread that polls for events does not take the lock of this device. */
	__atomic_store_n(&d->events, channel, __ATOMIC_RELEASE);
	return true;
}

static bool event_is_supported(void)
{
	return ori_mlx5dv.create_event_channel && ori_mlx5dv.destroy_event_channel &&
	       ori_mlx5dv.subscribe_event && ori_mlx5dv.get_event;
}

/*
 * The kernel refuses all of a call for one type that the device does not report
 * (Linux devx.c, is_valid_events), so that each type has a call of its own.
 */
static void event_subscribe(struct mlx5_device *d, struct mlx5dv_devx_obj *object, uint32_t qpn)
{
	static const uint16_t of_qp[] = {EVENT_WQ_CATASTROPHE, EVENT_PATH_FAILED,
					 EVENT_WQ_BAD_REQUEST, EVENT_WQ_ACCESS};

	for (size_t i = 0; i < sizeof(of_qp) / sizeof(of_qp[0]); i++) {
		uint16_t type = of_qp[i];

		if (d->refused_events >> type & 1 ||
		    !ori_mlx5dv.subscribe_event(d->events, object, sizeof(type), &type, qpn))
			continue;
		ori_log(ORIEL_LOG_DEBUG, "%s: it does not report events of type 0x%02x: %s",
			d->verbs.name, type, strerror(errno));
		d->refused_events |= UINT32_C(1) << type;
	}
}

void ori_mlx5_subscribe(struct mlx5_device *d, struct mlx5dv_devx_obj *object, uint32_t qpn)
{
	if (!event_is_supported())
		return;
	pthread_mutex_lock(&d->lock);
	if (!d->events && !d->has_no_events && !event_open_channel(d)) {
		ori_log(ORIEL_LOG_DEBUG, "%s: it does not report events of queues: %s",
			d->verbs.name, strerror(errno));
		d->has_no_events = true;
	}
	if (d->events)
		event_subscribe(d, object, qpn);
	pthread_mutex_unlock(&d->lock);
}

static const char *event_text(uint8_t type)
{
	switch (type) {
	case EVENT_WQ_CATASTROPHE:
		return "its work queue failed";
	case EVENT_PATH_FAILED:
		return "its path failed";
	case EVENT_WQ_BAD_REQUEST:
		return "the peer sent an invalid request";
	case EVENT_WQ_ACCESS:
		return "the peer asked for memory without permission";
	default:
		return "an event";
	}
}

enum oriel_status ori_mlx5_poll_event(struct ori_hca *hca, struct ori_hca_event *event)
{
	struct mlx5_device *d = to_mlx5(hca);
	struct mlx5dv_devx_event_channel *channel = __atomic_load_n(&d->events, __ATOMIC_ACQUIRE);
	union {
		struct mlx5dv_devx_async_event_hdr head;
		uint8_t bytes[sizeof(struct mlx5dv_devx_async_event_hdr) + EVENT_ENTRY];
	} report;
	uint8_t type = 0;
	ssize_t got;

	if (ori_verbs_poll_event(hca, event) == ORIEL_OK)
		return ORIEL_OK;
	if (!channel)
		return ORIEL_AGAIN;
	got = ori_mlx5dv.get_event(channel, &report.head, sizeof(report));
	if (got < (ssize_t)sizeof(report.head))
		return ORIEL_AGAIN;
	if (got > (ssize_t)(sizeof(report.head) + EVENT_TYPE_AT))
		type = report.bytes[sizeof(report.head) + EVENT_TYPE_AT];
	*event = (struct ori_hca_event){.status = ORIEL_ERR_ACCESS,
					.qpn = (uint32_t)report.head.cookie};
	snprintf(event->text, sizeof(event->text), "QP 0x%06x: %s (event 0x%02x)", event->qpn,
		 event_text(type), type);
	ori_log(ORIEL_LOG_DEBUG, "%s: %s", d->verbs.name, event->text);
	return ORIEL_OK;
}
