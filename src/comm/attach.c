/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that code above the communicator attaches to it. Public functions of oriel/comm.h. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/attach.h"

struct ori_attachment {
	struct ori_attachment *next; /* attached before */
	const void *key;
	void *object;
	void (*close)(struct oriel_comm *comm, void *object);
};

static struct ori_attachment *attach_find_locked(const struct oriel_comm *comm, const void *key)
{
	struct ori_attachment *a = comm->attachments;

	while (a && a->key != key)
		a = a->next;
	return a;
}

enum oriel_status oriel_comm_attach(struct oriel_comm *comm, const void *key, void *object,
				    void (*close)(struct oriel_comm *comm, void *object))
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_attachment *a;
	bool is_known;

	if (status != ORIEL_OK)
		return status;
	if (!key || !close)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_attach: %s is NULL",
				key ? "close" : "key");
	a = malloc(sizeof(*a));
	if (!a)
		return ori_fail_nomem(sizeof(*a), "an attached object");
	*a = (struct ori_attachment){.key = key, .object = object, .close = close};
	pthread_mutex_lock(&comm->attachments_lock);
	is_known = attach_find_locked(comm, key);
	if (!is_known) {
		a->next = comm->attachments;
		comm->attachments = a;
	}
	pthread_mutex_unlock(&comm->attachments_lock);
	if (!is_known)
		return ORIEL_OK;
	free(a);
	return ori_fail(ORIEL_ERR_STATE, "oriel_comm_attach: there is an object with this key");
}

enum oriel_status oriel_comm_attached(struct oriel_comm *comm, const void *key, void **object)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	const struct ori_attachment *a;

	if (status == ORIEL_OK && !object)
		status = ori_fail_null(__func__, "object");
	if (status != ORIEL_OK)
		return status;
	pthread_mutex_lock(&comm->attachments_lock);
	a = attach_find_locked(comm, key);
	*object = a ? a->object : NULL;
	pthread_mutex_unlock(&comm->attachments_lock);
	return ORIEL_OK;
}

/* No other thread uses a communicator that is destroyed; closing may look up what is left. */
void ori_comm_close_attachments(struct oriel_comm *comm)
{
	struct ori_attachment *a;

	while ((a = comm->attachments)) {
		comm->attachments = a->next;
		a->close(comm, a->object);
		free(a);
	}
}
