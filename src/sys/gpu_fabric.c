/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether a GPU is in an NVLink fabric that spans nodes. ori_gpu_open() calls it. */
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
	char why[FABRIC_WHY]; /* the obstacle, or "" */
};

/* Each GPU is tried once in the life of the process, since the trial allocates memory. */
static struct {
	pthread_mutex_t lock;
	struct fabric_answer of[FABRIC_DEVICES]; /* by device number */
} fabric_answers = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Export a fabric handle and import it. No attribute replaces the trial: some drivers report
 * support on nodes where this process has no IMEX channel.
 */
static enum oriel_status fabric_try(const struct ori_gpu *gpu)
{
	struct ori_gpu_handles handles;
	struct ori_gpu trial = *gpu;
	enum oriel_status status;
	void *memory, *again;
	size_t length = 1;

	trial.flags |= ORI_GPU_FABRIC;
	status = ori_gpu_alloc(&trial, &length, &memory, &handles);
	if (status != ORIEL_OK)
		return status;
	close(handles.fd);
	status = ori_gpu_import_fabric(&trial, handles.fabric, length, &again);
	if (status == ORIEL_OK)
		ori_gpu_unmap(again, length);
	ori_gpu_unmap(memory, length);
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
	struct ori_nvml_fabric reported;
	char why[ORI_NVML_WHY];

	if (!ori_gpu_attribute(gpu->device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED))
		return fabric_deny(answer, ORI_FABRIC_NONE,
				   "the GPU or the driver does not support it");
	if (!ori_nvml_fabric(gpu->pci, &reported, why))
		return fabric_deny(answer, ORI_FABRIC_UNKNOWN, why);
	if (reported.state == ORI_NVML_FABRIC_NONE)
		return fabric_deny(answer, ORI_FABRIC_NONE, "NVML reports none");
	if (reported.state != ORI_NVML_FABRIC_COMPLETE || reported.status) {
		snprintf(why, sizeof(why), "the GPU has not joined it: state %d, status %d",
			 (int)reported.state, reported.status);
		return fabric_deny(answer, ORI_FABRIC_PENDING, why);
	}
	if (memcmp(reported.cluster, none, sizeof(none)) == 0)
		return fabric_deny(answer, ORI_FABRIC_LOCAL, "it is confined to this node");
	if (fabric_try(gpu) != ORIEL_OK)
		return fabric_deny(answer, ORI_FABRIC_NO_HANDLES, oriel_last_error());
	answer->fabric.clique = reported.clique;
	memcpy(answer->fabric.cluster, reported.cluster, sizeof(reported.cluster));
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
		/* A missing fabric is not an error of the calling thread. */
		ori_error_restore(&before);
		ori_log(ORIEL_LOG_DEBUG, "GPU %s: NVLink fabric: %s", gpu->pci,
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
