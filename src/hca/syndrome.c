/* SPDX-License-Identifier: Apache-2.0 */
#include "hca/syndrome.h"

#include <oriel/dev/mlx5.h>

static const char *const syndrome_texts[] = {
	[ORIEL_MLX5_LOCAL_LENGTH] = "local length error",
	[ORIEL_MLX5_LOCAL_OPERATION] = "malformed work request",
	[ORIEL_MLX5_LOCAL_PROTECTION] = "local key or bounds refused",
	[ORIEL_MLX5_FLUSHED] = "flushed after an earlier failure",
	[ORIEL_MLX5_WINDOW_BIND] = "memory window bind error",
	[ORIEL_MLX5_BAD_RESPONSE] = "bad response",
	[ORIEL_MLX5_LOCAL_ACCESS] = "local access refused",
	[ORIEL_MLX5_REMOTE_REQUEST] = "peer: invalid request",
	[ORIEL_MLX5_REMOTE_ACCESS] = "peer: key, bounds or permission refused",
	[ORIEL_MLX5_REMOTE_OPERATION] = "peer: operation failed",
	[ORIEL_MLX5_RETRY_EXCEEDED] = "peer does not answer (transport retries used up)",
	[ORIEL_MLX5_NOT_READY_EXCEEDED] = "peer is not ready (receiver retries used up)",
	[ORIEL_MLX5_REMOTE_ABORTED] = "peer aborted",
};

const char *ori_mlx5_syndrome_text(uint8_t syndrome)
{
	if (syndrome < sizeof(syndrome_texts) / sizeof(syndrome_texts[0]) &&
	    syndrome_texts[syndrome])
		return syndrome_texts[syndrome];
	return "unknown syndrome";
}
