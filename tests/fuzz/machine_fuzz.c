/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the machine records of oriel doctor: writing a record that was read yields the
 * same text, and no verdict becomes a pass because a fact is missing.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"

#include "doctor/facts.h"
#include "fuzz.h"

#define TEXT_MAX (2 * FUZZ_INPUT_MAX)

static char text[TEXT_MAX], again[TEXT_MAX];

static struct ori_machine *machine_import(const char *bytes, size_t length)
{
	struct ori_machine *machine = NULL;
	enum oriel_status status = ori_machine_import(bytes, length, &machine);

	FUZZ_CHECK(status == ORIEL_OK || status == ORIEL_ERR_PROTOCOL ||
		   status == ORIEL_ERR_VERSION);
	FUZZ_CHECK((status == ORIEL_OK) == (machine != NULL));
	return machine;
}

static void machine_look_over(const struct ori_machine *machine)
{
	struct ori_data_path_view state;
	struct ori_finding finding;
	unsigned i, used = 0;

	for (i = 0; ori_machine_finding(machine, i, &finding) == ORIEL_OK; i++) {
		FUZZ_CHECK(finding.verdict <= ORI_DOCTOR_SKIP);
		FUZZ_CHECK(*finding.found && *finding.means);
		FUZZ_CHECK(finding.verdict == ORI_DOCTOR_FAIL || !*finding.fix);
	}
	for (i = 0; ori_machine_data_path(machine, i, &state) == ORIEL_OK; i++) {
		FUZZ_CHECK(state.verdict <= ORI_DOCTOR_SKIP);
		FUZZ_CHECK(!state.is_used || state.is_built);
		FUZZ_CHECK(!state.is_used || state.verdict == ORI_DOCTOR_PASS ||
			   state.verdict == ORI_DOCTOR_UNKNOWN);
		used += state.is_used && i >= ORI_DATA_PATH_SOFT;
	}
	FUZZ_CHECK(used <= 1);
}

static void machines_compare(const struct ori_machine *whole, const struct ori_machine *less)
{
	struct ori_data_path_view before, path;
	struct ori_finding was, is;
	unsigned i;

	for (i = 0; ori_machine_finding(whole, i, &was) == ORIEL_OK; i++) {
		FUZZ_CHECK(ori_machine_finding(less, i, &is) == ORIEL_OK);
		FUZZ_CHECK(is.verdict != ORI_DOCTOR_PASS || was.verdict == ORI_DOCTOR_PASS ||
			   was.verdict == ORI_DOCTOR_SKIP);
	}
	for (i = 0; ori_machine_data_path(whole, i, &before) == ORIEL_OK; i++) {
		FUZZ_CHECK(ori_machine_data_path(less, i, &path) == ORIEL_OK);
		FUZZ_CHECK(path.verdict != ORI_DOCTOR_PASS || before.verdict == ORI_DOCTOR_PASS);
	}
}

/* Remove the line [@from, @to) of the text, unless the line is the one of a GPU or a NIC. */
static void machine_take(const struct ori_machine *machine, size_t length, size_t from, size_t to)
{
	static struct ori_facts whole, less;
	struct ori_machine *other;

	memcpy(again, text, from);
	memcpy(again + from, text + to, length - to);
	FUZZ_CHECK(ori_facts_parse(text, length, &whole) == ORIEL_OK);
	FUZZ_CHECK(ori_facts_parse(again, length - (to - from), &less) == ORIEL_OK);
	if (whole.gpu_count != less.gpu_count || whole.nic_count != less.nic_count)
		return;
	other = machine_import(again, length - (to - from));
	machines_compare(machine, other);
	ori_machine_destroy(other);
}

/* Remove each line in turn, but the first. */
static void machine_take_each(const struct ori_machine *machine, size_t length)
{
	size_t from = (size_t)(strchr(text, '\n') - text) + 1, to;

	for (; from < length; from = to) {
		to = (size_t)(strchr(text + from, '\n') - text) + 1;
		machine_take(machine, length, from, to);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ori_machine *machine = machine_import((const char *)data, size), *twin;
	size_t length;

	if (!machine)
		return 0;
	machine_look_over(machine);
	length = ori_machine_export(machine, text, sizeof(text));
	FUZZ_CHECK(length < sizeof(text) && strlen(text) == length);
	twin = machine_import(text, length);
	FUZZ_CHECK(twin);
	FUZZ_CHECK(ori_machine_export(twin, again, sizeof(again)) == length);
	FUZZ_CHECK(memcmp(text, again, length) == 0);
	machines_compare(machine, twin);
	ori_machine_destroy(twin);
	machine_take_each(machine, length);
	ori_machine_destroy(machine);
	return 0;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	static const char *const seeds[] = {
		"oriel-doctor 1\n",
		"# two\noriel-doctor 1\nmemfd yes\nsockets yes\nmemlock unlimited\n"
		"allows.mapped yes\nallows.rdma yes\nallows.soft yes\nbuilt.gpu yes\n"
		"built.t3 yes\nbuilt.posted yes\nbus.gpus 2\nbus.nics 2\nnics 2\ncuda yes\n"
		"cuda.version 12080\ncuda.result 0\nnvidia.override yes\npeermem yes\n"
		"verbs yes\nmlx5 yes\ncqe.size 0\ncqe.compressed no\n"
		"gpu.0.reach SA\ngpu.0.capability 90\ngpu.0.descriptors yes\ngpu.0.numa 0\n"
		"gpu.0.fabric completed\ngpu.0.cluster yes\ngpu.0.rdma yes\n"
		"gpu.0.rdma.vmm yes\ngpu.0.dmabuf yes\n"
		"gpu.1.reach NS\ngpu.1.capability 86\ngpu.1.descriptors yes\ngpu.1.numa 1\n"
		"nic.0.name mlx5_0\nnic.0.driver mlx5_core\nnic.0.port active\nnic.0.numa 0\n"
		"nic.0.link ethernet\nnic.0.mtu 1024\nnic.0.gid.v1 2\nnic.0.gid.v2 2\n"
		"nic.0.opens yes\nnic.0.pins yes\nnic.0.atomics yes\nnic.0.dmabuf yes\n"
		"nic.0.devx yes\nnic.0.doorbell yes\nnic.0.umem yes\nnic.0.acs no\n"
		"nic.0.iommu identity\nnic.0.pci 0000:18:00.0\n"
		"nic.1.name rxe0\nnic.1.driver none\nnic.1.pci none\nnic.1.port down\n",
		"oriel-doctor 1\nbus.gpus 4\ncuda yes\ncuda.result 802\ncontainer yes\n"
		"files 256\nfiles.most 4096\nshm 67108864\nptrace 2\nmemlock 65536\n"
		"memlock.exempt no\nnics 1\nnic.0.opens no\nimex yes\nimex.channels 0\n",
	};
	size_t length;

	if (n >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	length = strlen(seeds[n]);
	memcpy(bytes, seeds[n], length);
	return length;
}
