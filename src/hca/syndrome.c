/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the syndromes of failed CQEs. src/rdma puts them into error texts. */
#include "hca/syndrome.h"

#include <oriel/dev/detail/queue.h>

static const char *const syndrome_texts[] = {
	[ORIEL_SYNDROME_LOCAL_LENGTH] = "local length error",
	[ORIEL_SYNDROME_LOCAL_OPERATION] = "malformed work request",
	[ORIEL_SYNDROME_LOCAL_PROTECTION] = "local protection error (key or bounds)",
	[ORIEL_SYNDROME_FLUSHED] = "flushed after an earlier failure",
	[ORIEL_SYNDROME_WINDOW_BIND] = "memory window bind error",
	[ORIEL_SYNDROME_BAD_RESPONSE] = "bad response",
	[ORIEL_SYNDROME_LOCAL_ACCESS] = "local access error",
	[ORIEL_SYNDROME_REMOTE_REQUEST] = "remote invalid request",
	[ORIEL_SYNDROME_REMOTE_ACCESS] = "remote access error (key, bounds or permission)",
	[ORIEL_SYNDROME_REMOTE_OPERATION] = "remote operation error",
	[ORIEL_SYNDROME_RETRY_EXCEEDED] = "the peer does not answer (transport retries used up)",
	[ORIEL_SYNDROME_NOT_READY_EXCEEDED] = "the peer is not ready (receiver retries used up)",
	[ORIEL_SYNDROME_REMOTE_ABORTED] = "the peer aborted",
};

const char *ori_syndrome_text(uint8_t syndrome)
{
	if (syndrome < sizeof(syndrome_texts) / sizeof(syndrome_texts[0]) &&
	    syndrome_texts[syndrome])
		return syndrome_texts[syndrome];
	return "unknown syndrome";
}
