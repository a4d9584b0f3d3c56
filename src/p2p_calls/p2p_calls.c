/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of oriel/p2p.h as a program calls them: each asks the script for its answer. */
#include <string.h>

#include <oriel/dev/copy_group.h>

#include "p2p_calls/p2p_calls_script.h"

static enum oriel_status answer_of(const struct oriel_p2p_call *step)
{
	return step ? step->status : ORIEL_ERR_STATE;
}

static enum oriel_status take(const struct call *call)
{
	return answer_of(ori_p2p_calls_take(call));
}

/* A copy of what the step has, or zeros, if the answer is ORIEL_OK. */
static enum oriel_status hand_back(const struct oriel_p2p_call *step, const void *from, void *to,
				   size_t length)
{
	if (!step || step->status != ORIEL_OK)
		return answer_of(step);
	if (from)
		memcpy(to, from, length);
	else
		memset(to, 0, length);
	return ORIEL_OK;
}

static void call_buffer(struct call *call, const struct oriel_p2p_buffer *buffer, bool is_out)
{
	if (!buffer)
		return;
	call->objects[CALL_MEMORY] = buffer->memory;
	call->values[CALL_LENGTH] = buffer->length;
	call->address = buffer->address;
	call->data = is_out ? buffer->address : NULL;
	call->room = is_out ? NULL : buffer->address;
}

static struct call call_transfer(enum oriel_p2p_call_kind kind, const struct oriel_p2p *p2p,
				 unsigned channel, const struct oriel_p2p_buffer *buffer,
				 struct oriel_p2p_request *request)
{
	struct call call = {.kind = kind, .request = request};

	call.objects[CALL_P2P] = p2p;
	call.values[CALL_CHANNEL] = channel;
	call_buffer(&call, buffer,
		    kind != ORIEL_P2P_CALL_RECV && kind != ORIEL_P2P_CALL_RECV_CHUNK);
	return call;
}

static struct call call_of(enum oriel_p2p_call_kind kind, enum call_object_kind object,
			   const void *handle)
{
	struct call call = {.kind = kind};

	call.objects[object] = handle;
	return call;
}

enum oriel_status oriel_p2p_context_create(const struct oriel_p2p_context_attr *attr,
					   struct oriel_p2p_context **ctx)
{
	const struct call call = {.kind = ORIEL_P2P_CALL_CONTEXT_CREATE, .attr = attr};
	const struct oriel_p2p_call *step = ori_p2p_calls_take(&call);

	if (step && step->status == ORIEL_OK)
		*ctx = ori_p2p_calls_object(CALL_CTX, step->ctx);
	return answer_of(step);
}

enum oriel_status oriel_p2p_context_destroy(struct oriel_p2p_context *ctx)
{
	const struct call call = call_of(ORIEL_P2P_CALL_CONTEXT_DESTROY, CALL_CTX, ctx);

	return ctx ? take(&call) : ORIEL_OK;
}

enum oriel_status oriel_p2p_copy_group_create(struct oriel_p2p_context *ctx,
					      const struct oriel_p2p_copy_group_attr *attr,
					      struct oriel_p2p_copy_group **group)
{
	struct call call = call_of(ORIEL_P2P_CALL_COPY_GROUP_CREATE, CALL_CTX, ctx);
	const struct oriel_p2p_call *step;

	call.attr = attr;
	step = ori_p2p_calls_take(&call);
	if (step && step->status == ORIEL_OK)
		*group = ori_p2p_calls_object(CALL_GROUP, step->group);
	return answer_of(step);
}

enum oriel_status oriel_p2p_copy_group_device_as(const struct oriel_p2p_copy_group *group,
						 uint32_t version, size_t size,
						 struct oriel_dev_copy_group *device)
{
	const struct call call = call_of(ORIEL_P2P_CALL_COPY_GROUP_DEVICE, CALL_GROUP, group);
	const struct oriel_p2p_call *step;

	/* The library answers so, too, whatever the script says. */
	if (version != ORIEL_DEV_VERSION || size != sizeof(*device))
		return ORIEL_ERR_VERSION;
	step = ori_p2p_calls_take(&call);
	return hand_back(step, step ? step->device : NULL, device, sizeof(*device));
}

enum oriel_status oriel_p2p_copy_group_destroy(struct oriel_p2p_copy_group *group)
{
	const struct call call = call_of(ORIEL_P2P_CALL_COPY_GROUP_DESTROY, CALL_GROUP, group);

	return group ? take(&call) : ORIEL_OK;
}

enum oriel_status oriel_p2p_create(struct oriel_p2p_context *ctx, const struct oriel_p2p_attr *attr,
				   struct oriel_p2p **p2p)
{
	struct call call = call_of(ORIEL_P2P_CALL_CREATE, CALL_CTX, ctx);
	const struct oriel_p2p_call *step;

	call.attr = attr;
	step = ori_p2p_calls_take(&call);
	if (step && step->status == ORIEL_OK)
		*p2p = ori_p2p_calls_object(CALL_P2P, step->p2p);
	return answer_of(step);
}

enum oriel_status oriel_p2p_destroy(struct oriel_p2p *p2p)
{
	const struct call call = call_of(ORIEL_P2P_CALL_DESTROY, CALL_P2P, p2p);

	return p2p ? take(&call) : ORIEL_OK;
}

enum oriel_status oriel_p2p_address(const struct oriel_p2p *p2p, void *bytes)
{
	const struct call call = call_of(ORIEL_P2P_CALL_ADDRESS, CALL_P2P, p2p);
	const struct oriel_p2p_call *step = ori_p2p_calls_take(&call);

	return hand_back(step, step ? step->data : NULL, bytes, ORIEL_P2P_ADDRESS);
}

enum oriel_status oriel_p2p_connect(struct oriel_p2p *p2p, const void *address, size_t length,
				    uint64_t timeout_ns)
{
	struct call call = call_of(ORIEL_P2P_CALL_CONNECT, CALL_P2P, p2p);

	call.data = address;
	call.values[CALL_LENGTH] = length;
	call.values[CALL_TIMEOUT] = timeout_ns;
	return take(&call);
}

enum oriel_status oriel_p2p_check(const struct oriel_p2p *p2p)
{
	const struct call call = call_of(ORIEL_P2P_CALL_CHECK, CALL_P2P, p2p);

	return take(&call);
}

enum oriel_status oriel_p2p_describe(const struct oriel_p2p *p2p, struct oriel_p2p_info *info)
{
	const struct call call = call_of(ORIEL_P2P_CALL_DESCRIBE, CALL_P2P, p2p);
	const struct oriel_p2p_call *step = ori_p2p_calls_take(&call);

	/* The size is the caller's. */
	return hand_back(step, step && step->info ? &step->info->path : NULL, &info->path,
			 sizeof(*info) - offsetof(struct oriel_p2p_info, path));
}

enum oriel_status oriel_p2p_send_control(struct oriel_p2p *p2p, uint64_t tag, const void *data,
					 size_t length, struct oriel_p2p_request *request)
{
	struct call call = call_of(ORIEL_P2P_CALL_SEND_CONTROL, CALL_P2P, p2p);

	call.request = request;
	call.values[CALL_TAG] = tag;
	call.values[CALL_LENGTH] = length;
	call.address = call.data = data;
	return take(&call);
}

enum oriel_status oriel_p2p_recv_control(struct oriel_p2p *p2p, uint64_t tag, void *data,
					 size_t room, struct oriel_p2p_request *request)
{
	struct call call = call_of(ORIEL_P2P_CALL_RECV_CONTROL, CALL_P2P, p2p);

	call.request = request;
	call.values[CALL_TAG] = tag;
	call.values[CALL_LENGTH] = room;
	call.address = call.room = data;
	return take(&call);
}

enum oriel_status oriel_p2p_register(struct oriel_p2p_context *ctx, void *address, size_t length,
				     unsigned flags, struct oriel_p2p_memory **memory)
{
	struct call call = call_of(ORIEL_P2P_CALL_REGISTER, CALL_CTX, ctx);
	const struct oriel_p2p_call *step;

	call.address = address;
	call.values[CALL_LENGTH] = length;
	call.values[CALL_FLAGS] = flags;
	step = ori_p2p_calls_take(&call);
	if (step && step->status == ORIEL_OK)
		*memory = ori_p2p_calls_object(CALL_MEMORY, step->memory);
	return answer_of(step);
}

enum oriel_status oriel_p2p_memory_check(const struct oriel_p2p_memory *memory)
{
	const struct call call = call_of(ORIEL_P2P_CALL_MEMORY_CHECK, CALL_MEMORY, memory);

	return take(&call);
}

enum oriel_status oriel_p2p_unregister(struct oriel_p2p_memory *memory)
{
	const struct call call = call_of(ORIEL_P2P_CALL_UNREGISTER, CALL_MEMORY, memory);

	return memory ? take(&call) : ORIEL_OK;
}

enum oriel_status oriel_p2p_send(struct oriel_p2p *p2p, unsigned channel,
				 const struct oriel_p2p_buffer *from,
				 struct oriel_p2p_request *request)
{
	const struct call call = call_transfer(ORIEL_P2P_CALL_SEND, p2p, channel, from, request);

	return take(&call);
}

enum oriel_status oriel_p2p_recv(struct oriel_p2p *p2p, unsigned channel,
				 const struct oriel_p2p_buffer *to,
				 struct oriel_p2p_request *request)
{
	const struct call call = call_transfer(ORIEL_P2P_CALL_RECV, p2p, channel, to, request);

	return take(&call);
}

static enum oriel_status take_chunk(struct call *call, unsigned slot, uint64_t round)
{
	call->values[CALL_SLOT] = slot;
	call->values[CALL_ROUND] = round;
	return take(call);
}

enum oriel_status oriel_p2p_send_chunk(struct oriel_p2p *p2p, unsigned channel, unsigned slot,
				       uint64_t round, const struct oriel_p2p_buffer *from,
				       struct oriel_p2p_request *request)
{
	struct call call = call_transfer(ORIEL_P2P_CALL_SEND_CHUNK, p2p, channel, from, request);

	return take_chunk(&call, slot, round);
}

enum oriel_status oriel_p2p_recv_chunk(struct oriel_p2p *p2p, unsigned channel, unsigned slot,
				       uint64_t round, const struct oriel_p2p_buffer *to,
				       struct oriel_p2p_request *request)
{
	struct call call = call_transfer(ORIEL_P2P_CALL_RECV_CHUNK, p2p, channel, to, request);

	return take_chunk(&call, slot, round);
}

enum oriel_status oriel_p2p_export(struct oriel_p2p *p2p, const struct oriel_p2p_buffer *buffer,
				   void *bytes)
{
	struct call call = call_of(ORIEL_P2P_CALL_EXPORT, CALL_P2P, p2p);
	const struct oriel_p2p_call *step;

	call_buffer(&call, buffer, false);
	step = ori_p2p_calls_take(&call);
	return hand_back(step, step ? step->data : NULL, bytes, ORIEL_P2P_EXPORT);
}

enum oriel_status oriel_p2p_import(struct oriel_p2p *p2p, const void *bytes, size_t length,
				   struct oriel_p2p_remote *remote)
{
	struct call call = call_of(ORIEL_P2P_CALL_IMPORT, CALL_P2P, p2p);
	const struct oriel_p2p_call *step;

	call.data = bytes;
	call.values[CALL_LENGTH] = length;
	step = ori_p2p_calls_take(&call);
	return hand_back(step, step ? step->remote : NULL, remote, sizeof(*remote));
}

enum oriel_status oriel_p2p_put(struct oriel_p2p *p2p, unsigned channel,
				const struct oriel_p2p_buffer *from,
				const struct oriel_p2p_remote *to, uint64_t offset,
				struct oriel_p2p_request *request)
{
	struct call call = call_transfer(ORIEL_P2P_CALL_PUT, p2p, channel, from, request);

	call.remote = to;
	call.values[CALL_OFFSET] = offset;
	return take(&call);
}

enum oriel_status oriel_p2p_expect(struct oriel_p2p *p2p, unsigned channel,
				   struct oriel_p2p_request *request)
{
	const struct call call = call_transfer(ORIEL_P2P_CALL_EXPECT, p2p, channel, NULL, request);

	return take(&call);
}

enum oriel_status oriel_p2p_cancel(struct oriel_p2p *p2p, struct oriel_p2p_request *request)
{
	struct call call = call_of(ORIEL_P2P_CALL_CANCEL, CALL_P2P, p2p);

	call.request = request;
	return take(&call);
}

enum oriel_status oriel_p2p_progress(struct oriel_p2p *p2p)
{
	const struct call call = call_of(ORIEL_P2P_CALL_PROGRESS, CALL_P2P, p2p);

	return take(&call);
}

/* The script keeps what it writes to: the request that was begun, which is not constant. */
enum oriel_status oriel_p2p_test(struct oriel_p2p *p2p, const struct oriel_p2p_request *request)
{
	struct call call = call_of(ORIEL_P2P_CALL_TEST, CALL_P2P, p2p);

	call.request = (struct oriel_p2p_request *)(uintptr_t)request;
	return take(&call);
}

enum oriel_status oriel_p2p_wait(struct oriel_p2p *p2p, const struct oriel_p2p_request *request,
				 uint64_t timeout_ns)
{
	struct call call = call_of(ORIEL_P2P_CALL_WAIT, CALL_P2P, p2p);

	call.request = (struct oriel_p2p_request *)(uintptr_t)request;
	call.values[CALL_TIMEOUT] = timeout_ns;
	return take(&call);
}

enum oriel_status oriel_p2p_drain(struct oriel_p2p *p2p, uint64_t timeout_ns)
{
	struct call call = call_of(ORIEL_P2P_CALL_DRAIN, CALL_P2P, p2p);

	call.values[CALL_TIMEOUT] = timeout_ns;
	return take(&call);
}

enum oriel_status oriel_comm_p2p(struct oriel_comm *comm, unsigned peer,
				 const struct oriel_p2p_attr *attr, struct oriel_p2p **p2p)
{
	struct call call = {.kind = ORIEL_P2P_CALL_COMM, .address = comm, .attr = attr};
	const struct oriel_p2p_call *step;

	call.values[CALL_PEER] = peer;
	step = ori_p2p_calls_take(&call);
	if (step && step->status == ORIEL_OK)
		*p2p = ori_p2p_calls_object(CALL_P2P, step->p2p);
	return answer_of(step);
}

enum oriel_status oriel_comm_p2p_context(struct oriel_comm *comm, struct oriel_p2p_context **ctx)
{
	const struct call call = {.kind = ORIEL_P2P_CALL_COMM_CONTEXT, .address = comm};
	const struct oriel_p2p_call *step = ori_p2p_calls_take(&call);

	if (step && step->status == ORIEL_OK)
		*ctx = ori_p2p_calls_object(CALL_CTX, step->ctx);
	return answer_of(step);
}
