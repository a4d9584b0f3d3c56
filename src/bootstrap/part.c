/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place where the ranks of a part of a job meet: a local job where they are threads of one
 * process, else a unix socket
 * where they are on one machine, or a TCP port that the kernel chooses. comm/split.c calls it.
 */
#include "bootstrap/part.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap/local.h"
#include "bootstrap/tcp.h"
#include "net/endpoint.h"
#include "sys/process.h"

static_assert(sizeof(struct ori_part_offer) == 32 + ORI_TAG_LENGTH,
	      "struct ori_part_offer goes over the wire");

static enum oriel_status part_listen(enum ori_part_extent extent, struct ori_part_root *root,
				     struct ori_part_offer *offer)
{
	enum oriel_status status;
	uint16_t port = 0;

	if (extent == ORI_PART_NETWORK)
		status = ori_endpoint_listen_all(&offer->hosts, &port, &root->listen_fd);
	else
		status = ori_fdsock_listen(offer->name, &root->listen_fd);
	offer->port = port;
	return status == ORIEL_OK ? ori_random(offer->tag, sizeof(offer->tag)) : status;
}

enum oriel_status ori_part_offer(enum ori_part_extent extent, unsigned size,
				 struct ori_part_root *root, struct ori_part_offer *offer)
{
	enum oriel_status status;

	*root = (struct ori_part_root){.listen_fd = -1};
	*offer = (struct ori_part_offer){0};
	if (extent != ORI_PART_PROCESS)
		return part_listen(extent, root, offer);
	status = oriel_local_job_create(size, &root->job);
	if (status != ORIEL_OK)
		return status;
	offer->job = (uint64_t)(uintptr_t)root->job;
	offer->number = ori_local_number(root->job);
	return ORIEL_OK;
}

void ori_part_close(struct ori_part_root *root)
{
	if (root->listen_fd >= 0)
		close(root->listen_fd);
	root->listen_fd = -1;
	if (root->job)
		(void)oriel_local_job_destroy(root->job);
	root->job = NULL;
}

enum oriel_status ori_part_open(const struct ori_part_join *join, struct oriel_bootstrap *bootstrap)
{
	const struct ori_part_offer *offer = join->offer;
	struct ori_tcp_job job = {.rank = join->rank,
				  .size = join->size,
				  .host = "a part of the communicator",
				  .port = (uint16_t)offer->port,
				  .listen_fd = -1,
				  .timeout_ns = join->timeout_ns,
				  .abort_fd = join->abort_fd,
				  .own.tag.kind = ORI_JOB_TAG_PART};
	enum oriel_status status;

	if (join->extent == ORI_PART_PROCESS)
		return ori_local_open((struct oriel_local_job *)(uintptr_t)offer->job,
				      offer->number, join->rank, bootstrap);
	job.address_count = 1;
	job.addresses[0] = (struct ori_address){.family = ORI_ADDRESS_UNIX};
	static_assert(sizeof(job.addresses[0].ip) == sizeof(offer->name), "a name fits");
	memcpy(job.addresses[0].ip, offer->name, sizeof(offer->name));
	if (join->extent == ORI_PART_NETWORK)
		job.address_count =
			ori_endpoint_of_hosts(&offer->hosts, (uint16_t)offer->port, job.addresses);
	if (!job.address_count)
		return ori_fail(ORIEL_ERR_NO_PATH, "rank 0 of the part has no IP address but "
						   "loopback, and its ranks are on several "
						   "machines");
	memcpy(job.own.tag.bytes, offer->tag, sizeof(offer->tag));
	job.own.key = *join->key;
	status = ori_process_token(&job.own.process);
	if (status == ORIEL_OK) {
		if (join->root) {
			job.listen_fd = join->root->listen_fd;
			join->root->listen_fd = -1;
		}
		status = ori_tcp_open(&job, bootstrap);
	}
	explicit_bzero(&job.own, sizeof(job.own));
	return status;
}
