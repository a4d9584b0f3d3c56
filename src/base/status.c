/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of all statuses, and the version. Programs and the tools print them. */
#include "base/error.h"

#ifndef ORIEL_COMMIT
#define ORIEL_COMMIT "unknown"
#endif

#define STATUS_STRING(x) #x
#define STATUS_VERSION(major, minor, patch) \
	STATUS_STRING(major) "." STATUS_STRING(minor) "." STATUS_STRING(patch)

static const struct status_entry {
	enum oriel_status status;
	const char *name;
	const char *text;
} status_entries[] = {
	{ORIEL_OK, "ORIEL_OK", "Success."},
	{ORIEL_AGAIN, "ORIEL_AGAIN", "Not yet: call again."},
	{ORIEL_ERR_INVALID, "ORIEL_ERR_INVALID", "An argument is invalid."},
	{ORIEL_ERR_RANGE, "ORIEL_ERR_RANGE", "A rank, id, offset or length lies beyond its limit."},
	{ORIEL_ERR_STATE, "ORIEL_ERR_STATE", "The state of the object does not allow the call."},
	{ORIEL_ERR_NOMEM, "ORIEL_ERR_NOMEM", "Memory or descriptors are used up."},
	{ORIEL_ERR_TIMEOUT, "ORIEL_ERR_TIMEOUT", "A deadline passed."},
	{ORIEL_ERR_PEER, "ORIEL_ERR_PEER", "Another rank has left or died."},
	{ORIEL_ERR_ABORTED, "ORIEL_ERR_ABORTED", "A rank aborted the communicator."},
	{ORIEL_ERR_MISMATCH, "ORIEL_ERR_MISMATCH", "The ranks disagree about a parameter."},
	{ORIEL_ERR_NO_PATH, "ORIEL_ERR_NO_PATH", "No path reaches a peer."},
	{ORIEL_ERR_UNSUPPORTED, "ORIEL_ERR_UNSUPPORTED",
	 "This machine or this build cannot do that."},
	{ORIEL_ERR_CONFIG, "ORIEL_ERR_CONFIG", "A setting of the environment is unknown or wrong."},
	{ORIEL_ERR_AUTH, "ORIEL_ERR_AUTH", "The peer does not belong to this job."},
	{ORIEL_ERR_PROTOCOL, "ORIEL_ERR_PROTOCOL", "The bytes from a peer are malformed."},
	{ORIEL_ERR_VERSION, "ORIEL_ERR_VERSION",
	 "A peer or the program was built with another version."},
	{ORIEL_ERR_SYSTEM, "ORIEL_ERR_SYSTEM", "A call of the operating system failed."},
	{ORIEL_ERR_ACCESS, "ORIEL_ERR_ACCESS", "A NIC rejected a request."},
	{ORIEL_ERR_FORKED, "ORIEL_ERR_FORKED",
	 "The handle belongs to the process that this one was forked from."},
};

static const struct status_entry *status_find(enum oriel_status status)
{
	static const struct status_entry unknown = {
		.name = "unknown status",
		.text = "This number is no status of the library.",
	};
	size_t i;

	for (i = 0; i < sizeof(status_entries) / sizeof(status_entries[0]); i++)
		if (status_entries[i].status == status)
			return &status_entries[i];
	return &unknown;
}

bool ori_status_is_failure(int64_t number)
{
	return number < 0 && number >= INT32_MIN &&
	       status_find((enum oriel_status)number)->status == number;
}

const char *oriel_status_name(enum oriel_status status)
{
	return status_find(status)->name;
}

const char *oriel_status_text(enum oriel_status status)
{
	return status_find(status)->text;
}

const char *oriel_version(void)
{
	return STATUS_VERSION(ORIEL_VERSION_MAJOR, ORIEL_VERSION_MINOR,
			      ORIEL_VERSION_PATCH) " (commit " ORIEL_COMMIT ")";
}
