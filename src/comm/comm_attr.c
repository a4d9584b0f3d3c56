/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what attributes and settings say of a communicator; comm.c calls it. */
#include "comm/comm_attr.h"

#include <string.h>

#include "base/config.h"
#include "base/error.h"

enum oriel_status ori_comm_read_connect(unsigned connect, uint16_t *read)
{
	const char *text = ori_setting_text(ORI_SETTING_CONNECT);

	if (connect > ORIEL_CONNECT_DEMAND)
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_comm_create: connect is %u, at most %u "
				"(ORIEL_CONNECT_DEMAND)",
				connect, ORIEL_CONNECT_DEMAND);
	if (connect == ORIEL_CONNECT_DEFAULT && strcmp(text, "lazy") == 0)
		connect = ORIEL_CONNECT_LAZY;
	else if (connect == ORIEL_CONNECT_DEFAULT && strcmp(text, "eager") == 0)
		connect = ORIEL_CONNECT_EAGER;
	else if (connect == ORIEL_CONNECT_DEFAULT)
		connect = ORIEL_CONNECT_DEMAND;
	*read = (uint16_t)connect;
	return ORIEL_OK;
}

const char *ori_comm_connect_name(unsigned connect)
{
	if (connect == ORIEL_CONNECT_LAZY)
		return "lazy";
	return connect == ORIEL_CONNECT_EAGER ? "eager" : "demand";
}

enum oriel_status ori_comm_read_depth(unsigned given, uint32_t *depth)
{
	bool is_power = given && !(given & (given - 1));

	if (given && (!is_power || given < ORIEL_QUEUE_DEPTH_MIN || given > ORIEL_QUEUE_DEPTH_MAX))
		return ori_fail(ORIEL_ERR_INVALID,
				"queue_depth is %u, not a power of two from %u to %u", given,
				ORIEL_QUEUE_DEPTH_MIN, ORIEL_QUEUE_DEPTH_MAX);
	*depth = given;
	return ORIEL_OK;
}

enum oriel_status ori_comm_read_rails(uint32_t *rails)
{
	uint64_t given;
	enum oriel_status status = ori_setting_unsigned(ORI_SETTING_RAILS, ORIEL_DEV_RAILS, &given);

	if (status == ORIEL_OK)
		*rails = (uint32_t)given;
	return status;
}

enum oriel_status ori_comm_check_flags(unsigned flags)
{
	const unsigned known = ORIEL_COMM_GPU | ORIEL_COMM_BOTH_PATHS | ORIEL_COMM_SHRINK |
			       ORIEL_COMM_KILL_SUSPECTS;

	if (flags & ~known)
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_comm_create: unknown flags 0x%x, known are ORIEL_COMM_GPU, "
				"_BOTH_PATHS, _SHRINK and _KILL_SUSPECTS",
				flags & ~known);
	if ((flags & ORIEL_COMM_KILL_SUSPECTS) && !(flags & ORIEL_COMM_SHRINK))
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_create: ORIEL_COMM_KILL_SUSPECTS "
						   "without ORIEL_COMM_SHRINK");
	return ORIEL_OK;
}

static enum oriel_status comm_keep_text(const char **text)
{
	const char *given = *text;

	*text = given ? strdup(given) : NULL;
	return given && !*text ? ori_fail_nomem(strlen(given) + 1, "an attribute") : ORIEL_OK;
}

enum oriel_status ori_comm_keep_attr(struct oriel_comm *comm, const struct oriel_comm_attr *attr)
{
	enum oriel_status status, topology;

	comm->attr = *attr;
	comm->attr.size = sizeof(comm->attr);
	status = comm_keep_text(&comm->attr.node);
	topology = comm_keep_text(&comm->attr.topology);
	return status == ORIEL_OK ? topology : status;
}
