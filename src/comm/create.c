/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs of which a program makes communicators. Public functions of oriel/comm.h. */
#include "base/attr.h"
#include "base/config.h"
#include "base/error.h"
#include "bootstrap/job_id.h"
#include "comm/comm.h"
#include "comm/newcomer.h"

/* Attributes that are wrong are reported to all ranks, once they have met. */
static uint64_t create_timeout(const struct oriel_comm_attr *given)
{
	struct oriel_comm_attr attr = {0};

	if (ori_attr_read("oriel_comm_attr", given, &attr, sizeof(attr)) != ORIEL_OK)
		return 0;
	return attr.timeout_ns;
}

enum oriel_status oriel_comm_create(const struct oriel_bootstrap *bootstrap,
				    const struct oriel_comm_attr *attr, struct oriel_comm **comm)
{
	struct oriel_bootstrap own;
	enum oriel_status status;

	if (!comm)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_create: comm is NULL");
	if (bootstrap)
		return ori_comm_create_on(bootstrap, attr, comm);
	if (*ori_setting_text(ORI_SETTING_INVITATION))
		return ori_newcomer_create(attr, comm);
	status = oriel_bootstrap_open_env(create_timeout(attr), &own);
	return status == ORIEL_OK ? ori_comm_create_own(&own, attr, comm) : status;
}

enum oriel_status oriel_comm_create_id(const struct oriel_job_id *id, unsigned rank, unsigned size,
				       const struct oriel_comm_attr *attr, struct oriel_comm **comm)
{
	struct oriel_bootstrap own;
	enum oriel_status status;

	if (!comm)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_create_id: comm is NULL");
	status = oriel_bootstrap_open_id(id, rank, size, create_timeout(attr), &own);
	return status == ORIEL_OK ? ori_comm_create_own(&own, attr, comm) : status;
}

enum oriel_status oriel_comm_create_ids(const struct oriel_job_id *ids, unsigned rank,
					unsigned size, uint64_t number,
					const struct oriel_comm_attr *attr,
					struct oriel_comm **comm)
{
	struct oriel_bootstrap own;
	enum oriel_status status;

	if (!comm)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_create_ids: comm is NULL");
	status = ori_bootstrap_open_ids(ids, rank, size, number, create_timeout(attr), &own);
	return status == ORIEL_OK ? ori_comm_create_own(&own, attr, comm) : status;
}
