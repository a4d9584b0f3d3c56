/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a description of GPU values and applies it to an open GPU. comm and p2p call it. */
#include "topo/overrides.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"

#define OVERRIDES_PART 64 /* bytes of one part, its NUL included */

/* The values of one text. */
struct overrides {
	const char *text;
	bool is_of_caller;
	uint32_t given;
	uint32_t clique;
	uint8_t cluster[sizeof(((struct ori_gpu_fabric *)0)->cluster)];
};

static enum oriel_status overrides_fail(const struct overrides *o, const char *part,
					const char *flaw)
{
	return ori_fail(o->is_of_caller ? ORIEL_ERR_INVALID : ORIEL_ERR_CONFIG,
			"%s is '%s': '%s' %s", o->is_of_caller ? "topology" : "ORIEL_TOPOLOGY",
			o->text, part, flaw);
}

static int overrides_digit(char c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)((at - digits) & 15) : -1;
}

/* 32 hex digits, with hyphens anywhere, as NVML and nvidia-smi write a UUID. */
static bool overrides_read_cluster(struct overrides *o, const char *text)
{
	unsigned count = 0, any = 0;

	for (; *text; text++) {
		int digit = overrides_digit(*text);

		if (*text == '-' && count)
			continue;
		if (digit < 0 || count == 2 * sizeof(o->cluster))
			return false;
		any |= (unsigned)digit;
		o->cluster[count / 2] = (uint8_t)(o->cluster[count / 2] << 4 | digit);
		count++;
	}
	return count == 2 * sizeof(o->cluster) && any;
}

static bool overrides_read_clique(struct overrides *o, const char *text)
{
	struct ori_error before;
	uint64_t value = 0;
	bool is_number;

	ori_error_save(&before);
	is_number = ori_parse_unsigned("clique", text, UINT32_MAX, &value) == ORIEL_OK;
	ori_error_restore(&before);
	o->clique = (uint32_t)value;
	return is_number;
}

static bool overrides_is_off(struct overrides *o, const char *text)
{
	(void)o;
	return strcmp(text, "off") == 0;
}

static const struct {
	const char *name;
	uint32_t flag;
	bool (*read)(struct overrides *o, const char *text);
	const char *flaw; /* of a value that read() does not accept */
} overrides_names[] = {
	{"cluster=", ORI_GIVEN_CLUSTER, overrides_read_cluster,
	 "is not the UUID of a fabric: 32 hex digits, not all 0"},
	{"clique=", ORI_GIVEN_CLIQUE, overrides_read_clique,
	 "is not a clique: a number from 0 to 4294967295"},
	{"peer_access=", ORI_GIVEN_NO_PEERS, overrides_is_off, "may only be peer_access=off"},
	{"gpudirect=", ORI_GIVEN_NO_RDMA, overrides_is_off, "may only be gpudirect=off"},
};

static enum oriel_status overrides_read_part(struct overrides *o, const char *part)
{
	size_t i, length;

	for (i = 0; i < sizeof(overrides_names) / sizeof(overrides_names[0]); i++) {
		length = strlen(overrides_names[i].name);
		if (strncmp(part, overrides_names[i].name, length) != 0)
			continue;
		if (o->given & overrides_names[i].flag)
			return overrides_fail(o, part, "is given twice");
		if (!overrides_names[i].read(o, part + length))
			return overrides_fail(o, part, overrides_names[i].flaw);
		o->given |= overrides_names[i].flag;
		return ORIEL_OK;
	}
	return overrides_fail(o, part,
			      "is none of cluster=UUID, clique=NUMBER, peer_access=off and "
			      "gpudirect=off");
}

static enum oriel_status overrides_read(struct overrides *o)
{
	const char *at = o->text, *end;
	enum oriel_status status;
	char part[OVERRIDES_PART];

	if (!*at)
		return ORIEL_OK;
	for (;; at = end + 1) {
		end = strchrnul(at, ',');
		snprintf(part, sizeof(part), "%.*s", (int)(end - at), at);
		status = overrides_read_part(o, part);
		if (status != ORIEL_OK || !*end)
			return status;
	}
}

static enum oriel_status overrides_name_fabric(const struct overrides *o, struct ori_gpu *gpu)
{
	char flaw[80 + ORI_GPU_PCI];

	if (!(o->given & (ORI_GIVEN_CLUSTER | ORI_GIVEN_CLIQUE)))
		return ORIEL_OK;
	if (gpu->fabric.state != ORI_FABRIC_READY) {
		snprintf(flaw, sizeof(flaw),
			 "names an NVLink fabric, but GPU %s is in none that is ready", gpu->pci);
		return overrides_fail(o, o->given & ORI_GIVEN_CLUSTER ? "cluster" : "clique", flaw);
	}
	if (o->given & ORI_GIVEN_CLUSTER)
		memcpy(gpu->fabric.cluster, o->cluster, sizeof(o->cluster));
	if (o->given & ORI_GIVEN_CLIQUE)
		gpu->fabric.clique = o->clique;
	return ORIEL_OK;
}

enum oriel_status ori_topology_apply(const char *attribute, struct ori_gpu *gpu, uint32_t *given)
{
	struct overrides o = {.text = attribute ? attribute
						: ori_setting_text(ORI_SETTING_TOPOLOGY),
			      .is_of_caller = attribute != NULL};
	enum oriel_status status = overrides_read(&o);

	if (status == ORIEL_OK && gpu)
		status = overrides_name_fabric(&o, gpu);
	if (status != ORIEL_OK)
		return status;
	*given = o.given | (o.given && attribute ? ORI_GIVEN_BY_CALLER : 0);
	if (gpu && o.given & ORI_GIVEN_NO_PEERS) {
		gpu->flags = (gpu->flags | ORI_GPU_NO_PEERS) & ~(unsigned)ORI_GPU_FABRIC;
		gpu->fabric = (struct ori_gpu_fabric){.state = ORI_FABRIC_NO_PEERS};
	}
	if (gpu && o.given & ORI_GIVEN_NO_RDMA)
		gpu->flags = (gpu->flags | ORI_GPU_NO_RDMA) & ~(unsigned)ORI_GPU_RDMA;
	return ORIEL_OK;
}
