/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a GPU is in an NVLink fabric that ends at no node. */
#include "sys/gpu_driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "sys/nvml.h"

#define FABRIC_DEVICES 64
#define FABRIC_WHY 400

struct fabric_answer {
	bool is_known;
	struct ori_gpu_fabric fabric;
	char why[FABRIC_WHY]; /* why not, or "" */
};

/* A GPU is asked once in the life of the process: the trial allocates. */
static struct {
	pthread_mutex_t lock;
	struct fabric_answer of[FABRIC_DEVICES]; /* by device number */
} fabric_answers = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * A handle made and opened. No attribute replaces that: there are drivers that say
 * they can, on nodes where nobody has opened an IMEX channel to this process.
 */
static enum oriel_status fabric_try(const struct ori_gpu *gpu)
{
	struct ori_gpu_handles handles;
	struct ori_gpu trial = *gpu;
	enum oriel_status status;
	void *piece, *again;
	size_t length = 1;

	trial.flags |= ORI_GPU_FABRIC;
	status = ori_gpu_alloc(&trial, &length, &piece, &handles);
	if (status != ORIEL_OK)
		return status;
	close(handles.fd);
	status = ori_gpu_import_fabric(&trial, handles.fabric, length, &again);
	if (status == ORIEL_OK)
		ori_gpu_unmap(again, length);
	ori_gpu_unmap(piece, length);
	return status;
}

static enum ori_fabric_state fabric_deny(struct fabric_answer *answer, enum ori_fabric_state state,
					 const char *why)
{
	snprintf(answer->why, sizeof(answer->why), "%s", why);
	return state;
}

static enum ori_fabric_state fabric_ask(const struct ori_gpu *gpu, struct fabric_answer *answer)
{
	static const uint8_t none[sizeof(answer->fabric.cluster)];
	struct ori_nvml_fabric told;
	char why[ORI_NVML_WHY];

	if (!ori_gpu_attribute(gpu->device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED))
		return fabric_deny(answer, ORI_FABRIC_NONE, "GPU or driver know no such thing");
	if (!ori_nvml_fabric(gpu->pci, &told, why))
		return fabric_deny(answer, ORI_FABRIC_UNKNOWN, why);
	if (told.state == ORI_NVML_FABRIC_NONE)
		return fabric_deny(answer, ORI_FABRIC_NONE, "NVML says that it has none");
	if (told.state != ORI_NVML_FABRIC_COMPLETE || told.status) {
		snprintf(why, sizeof(why), "it has not been joined: state %d, status %d",
			 (int)told.state, told.status);
		return fabric_deny(answer, ORI_FABRIC_PENDING, why);
	}
	if (memcmp(told.cluster, none, sizeof(none)) == 0)
		return fabric_deny(answer, ORI_FABRIC_LOCAL, "it ends at this node");
	if (fabric_try(gpu) != ORIEL_OK)
		return fabric_deny(answer, ORI_FABRIC_NO_HANDLES, oriel_last_error());
	answer->fabric.clique = told.clique;
	memcpy(answer->fabric.cluster, told.cluster, sizeof(told.cluster));
	return ORI_FABRIC_READY;
}

static struct fabric_answer fabric_answer_of(const struct ori_gpu *gpu)
{
	struct fabric_answer answer = {.is_known = true};
	struct ori_error before;

	if (gpu->device >= FABRIC_DEVICES) {
		answer.fabric.state = fabric_deny(&answer, ORI_FABRIC_NONE, "too many GPUs");
		return answer;
	}
	pthread_mutex_lock(&fabric_answers.lock);
	if (fabric_answers.of[gpu->device].is_known) {
		answer = fabric_answers.of[gpu->device];
	} else {
		ori_error_save(&before);
		answer.fabric.state = fabric_ask(gpu, &answer);
		fabric_answers.of[gpu->device] = answer;
		/* That there is none is no failure of this thread's. */
		ori_error_restore(&before);
		ori_log(ORIEL_LOG_INFO, "GPU %s: NVLink fabric: %s", gpu->pci,
			answer.why[0] ? answer.why : "ready");
	}
	pthread_mutex_unlock(&fabric_answers.lock);
	return answer;
}

enum oriel_status ori_gpu_fabric_open(struct ori_gpu *gpu)
{
	const char *setting = ori_setting_text(ORI_SETTING_FABRIC);
	struct fabric_answer answer;

	if (strcmp(setting, "off") == 0) {
		gpu->fabric.state = ORI_FABRIC_OFF;
		return ORIEL_OK;
	}
	answer = fabric_answer_of(gpu);
	if (answer.why[0] && strcmp(setting, "require") == 0)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"ORIEL_FABRIC requires an NVLink fabric, GPU %s (%s) has none: %s",
				gpu->pci, gpu->name, answer.why);
	gpu->fabric = answer.fabric;
	if (!answer.why[0])
		gpu->flags |= ORI_GPU_FABRIC;
	return ORIEL_OK;
}
