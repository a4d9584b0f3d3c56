/* SPDX-License-Identifier: Apache-2.0 */
/* Compares and reads the first records of all ranks. comm.c calls it. */
#include "comm/join_record.h"

#include "base/error.h"
#include "comm/comm_attr.h"
#include "comm/paths.h"

static enum oriel_status join_record_flags(const struct ori_join_record *joins, unsigned peer)
{
	static const struct {
		unsigned flag;
		const char *name;
	} names[] = {
		{ORIEL_COMM_BOTH_PATHS, "ORIEL_COMM_BOTH_PATHS"},
		{ORIEL_COMM_SHRINK, "ORIEL_COMM_SHRINK"},
		{ORIEL_COMM_KILL_SUSPECTS, "ORIEL_COMM_KILL_SUSPECTS"},
	};
	unsigned differ = joins[peer].flags ^ joins[0].flags, i = 0;

	while (i + 1 < sizeof(names) / sizeof(names[0]) && !(differ & names[i].flag))
		i++;
	return ori_fail(ORIEL_ERR_MISMATCH, "%s is set on rank %u and not on rank %u",
			names[i].name, joins[0].flags & names[i].flag ? 0 : peer,
			joins[0].flags & names[i].flag ? peer : 0);
}

enum oriel_status ori_join_record_compare(const struct ori_join_record *joins, unsigned size)
{
	unsigned peer;

	for (peer = 1; peer < size; peer++) {
		if (joins[peer].device_version != joins[0].device_version ||
		    joins[peer].control_length != joins[0].control_length)
			return ori_fail(ORIEL_ERR_VERSION,
					"handles of version %u and control segments of %u bytes on "
					"rank 0, of version %u and %u bytes on rank %u: all ranks "
					"need one version of the library",
					joins[0].device_version, joins[0].control_length,
					joins[peer].device_version, joins[peer].control_length,
					peer);
		if (joins[peer].timeout_ns != joins[0].timeout_ns)
			return ori_fail(ORIEL_ERR_MISMATCH,
					"a timeout of %g s on rank 0 and of %g s on rank %u",
					(double)joins[0].timeout_ns / 1e9,
					(double)joins[peer].timeout_ns / 1e9, peer);
		if (joins[peer].connect != joins[0].connect)
			return ori_fail(ORIEL_ERR_MISMATCH,
					"ORIEL_CONNECT is %s on rank 0 and %s on rank %u",
					ori_comm_connect_name(joins[0].connect),
					ori_comm_connect_name(joins[peer].connect), peer);
		if (joins[peer].flags != joins[0].flags)
			return join_record_flags(joins, peer);
		if (joins[peer].rails != joins[0].rails)
			return ori_fail(ORIEL_ERR_MISMATCH,
					"ORIEL_RAILS is %u on rank 0 and %u on rank %u",
					joins[0].rails, joins[peer].rails, peer);
	}
	return ORIEL_OK;
}

enum oriel_status ori_join_record_read(struct oriel_comm *comm, const struct ori_join_record *joins)
{
	enum oriel_status status;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		status = ori_host_parse(&joins[peer].host, sizeof(joins[peer].host),
					&comm->hosts[peer]);
		if (status != ORIEL_OK)
			return status;
		comm->listen_addresses[peer] = joins[peer].listen;
	}
	comm->has_both_paths = joins[comm->rank].flags & ORIEL_COMM_BOTH_PATHS;
	return ori_comm_select(comm);
}
