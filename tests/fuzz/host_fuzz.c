/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of src/topo: the descriptions of up to three processes, one behind the other, and
 * the paths between them.
 */
#include <string.h>

#include "fuzz.h"
#include "topo/classify.h"

#define HOSTS 3u

static void host_refuses_other_versions(const struct ori_host *host)
{
	struct ori_host other = *host, out;
	unsigned bit;

	for (bit = 0; bit < 32; bit++) {
		other.version = host->version ^ 1u << bit;
		FUZZ_CHECK(ori_host_parse(&other, sizeof(other), &out) == ORIEL_ERR_VERSION);
	}
}

static bool host_parse(const uint8_t *bytes, size_t length, struct ori_host *host)
{
	struct ori_host out, before;
	enum oriel_status status;

	memset(&out, 0xa5, sizeof(out));
	before = out;
	status = ori_host_parse(bytes, length, &out);
	if (status != ORIEL_OK) {
		FUZZ_CHECK(status == ORIEL_ERR_PROTOCOL || status == ORIEL_ERR_VERSION);
		FUZZ_CHECK(memcmp(&out, &before, sizeof(out)) == 0);
		return false;
	}
	FUZZ_CHECK(length == sizeof(out) && memcmp(&out, bytes, length) == 0);
	FUZZ_CHECK(memchr(out.hostname, '\0', sizeof(out.hostname)));
	FUZZ_CHECK(memchr(out.node, '\0', sizeof(out.node)));
	FUZZ_CHECK(memchr(out.gpu.pci, '\0', sizeof(out.gpu.pci)));
	FUZZ_CHECK(out.gpu.count <= ORI_HOST_REACH);
	host_refuses_other_versions(&out);
	*host = out;
	return true;
}

/*
 * Windows on GPUs use the path of windows in host memory, or a fabric, or a NIC if GPUs of one node
 * do not reach each other.
 */
static void host_compare_gpus(const struct ori_host *a, const struct ori_host *b,
			      enum oriel_path path)
{
	char forth[ORI_REASON_LENGTH], back[ORI_REASON_LENGTH];
	enum oriel_path gpus = ori_classify_gpus(a, 0, b, 1, forth, sizeof(forth));

	FUZZ_CHECK(ori_classify_gpus(b, 1, a, 0, back, sizeof(back)) == gpus);
	FUZZ_CHECK(strcmp(forth, back) == 0 && strlen(forth) < sizeof(forth) - 1);
	FUZZ_CHECK(ori_classify_gpus(a, 0, b, 1, NULL, 0) == gpus);
	if (gpus == path)
		return;
	if (path == ORIEL_PATH_MAPPED) {
		FUZZ_CHECK(a->gpu.pci[0] && b->gpu.pci[0]);
		return;
	}
	FUZZ_CHECK(gpus == ORIEL_PATH_MAPPED && a->paths & b->paths & 1u << gpus);
	FUZZ_CHECK(memcmp(&a->gpu.fabric, &b->gpu.fabric, sizeof(a->gpu.fabric)) == 0);
}

static void host_compare(const struct ori_host *a, const struct ori_host *b)
{
	char forth[ORI_REASON_LENGTH], back[ORI_REASON_LENGTH], cut[8];
	enum oriel_path path = ori_classify(a, 0, b, 1, forth, sizeof(forth));

	FUZZ_CHECK(ori_classify(b, 1, a, 0, back, sizeof(back)) == path);
	FUZZ_CHECK(strcmp(forth, back) == 0);
	FUZZ_CHECK(strlen(forth) < sizeof(forth) - 1); /* the text is not cut */
	FUZZ_CHECK(ori_classify(a, 1, b, 0, NULL, 0) == path);
	FUZZ_CHECK(ori_classify(a, 0, b, 1, cut, sizeof(cut)) == path);
	FUZZ_CHECK(strncmp(cut, forth, sizeof(cut) - 1) == 0 && cut[sizeof(cut) - 1] == '\0');
	FUZZ_CHECK(ori_classify(a, 5, b, 5, NULL, 0) == ORIEL_PATH_SELF);

	host_compare_gpus(a, b, path);
	FUZZ_CHECK(path == ORIEL_PATH_NONE || path == ORIEL_PATH_MAPPED || path == ORIEL_PATH_RDMA);
	if (path == ORIEL_PATH_NONE)
		return;
	FUZZ_CHECK(a->paths & b->paths & 1u << path);
	if (path == ORIEL_PATH_MAPPED)
		FUZZ_CHECK(strcmp(a->node, b->node) == 0);
	else
		FUZZ_CHECK(a->hca_count > 0 && b->hca_count > 0);
}

static bool host_shares_domain(const struct ori_host *joined, unsigned a, unsigned b)
{
	return joined[a].gpu.pci[0] && joined[b].gpu.pci[0] &&
	       (a == b || ori_gpus_are_mapped(joined, a, b));
}

static void host_gather(const struct ori_host *hosts, unsigned count)
{
	static const unsigned members[HOSTS] = {0, 1, 2};
	struct ori_machine_load load = ori_machine_load_of(hosts, count, 0);
	struct ori_host joined[HOSTS];
	bool is_domain = true;
	enum oriel_status status;
	unsigned a, b, c;

	for (a = 0; a < count; a++) {
		for (b = a + 1; b < count; b++) {
			host_compare(&hosts[a], &hosts[b]);
			is_domain = is_domain && ori_hosts_are_mapped(hosts, a, b);
		}
	}
	memcpy(joined, hosts, count * sizeof(*hosts));
	ori_hosts_join(joined, count);
	for (a = 0; a < count; a++) {
		FUZZ_CHECK(joined[a].gpu.domain <= a);
		for (b = 0; b < count; b++)
			for (c = 0; c < count; c++)
				FUZZ_CHECK(!host_shares_domain(joined, a, b) ||
					   !host_shares_domain(joined, b, c) ||
					   host_shares_domain(joined, a, c));
	}
	for (a = 0; a < count; a++) {
		joined[a].gpu.domain = 0;
		FUZZ_CHECK(ori_host_parse(&joined[a], sizeof(joined[a]), &joined[a]) == ORIEL_OK);
	}
	status = ori_domain_check(0, members, count, ori_hosts_are_mapped, hosts);
	FUZZ_CHECK(status == (is_domain ? ORIEL_OK : ORIEL_ERR_NO_PATH));
	FUZZ_CHECK(load.ranks >= 1 && load.ranks <= count && load.cpus <= ORI_HOST_CPUS);
	FUZZ_CHECK(load.is_oversubscribed == (load.ranks > load.cpus));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ori_host hosts[HOSTS], whole;
	unsigned count = 0;
	size_t part;

	host_parse(data, size, &whole);
	for (; size > 0 && count < HOSTS; data += part, size -= part) {
		part = size < sizeof(hosts[0]) ? size : sizeof(hosts[0]);
		count += host_parse(data, part, &hosts[count]);
	}
	if (count)
		host_gather(hosts, count);
	return 0;
}

static struct ori_host host_good(unsigned n)
{
	struct ori_host h = {
		.magic = ORI_HOST_MAGIC,
		.version = ORI_HOST_VERSION,
		.length = sizeof(h),
		.paths = ORI_HOST_PATHS,
		.boot_id = {1, 2, 3},
		.pid_ns = 4026531836,
		.ipc_ns = 4026531839,
		.net_ns = 4026531840,
		.user_ns = 4026531837,
		.token = 1000 + n,
		.pid = 100 + n,
		.page_size = 4096,
		.hostname = "node01",
		.cpus = {3},
	};

	return h;
}

/* Change one field in the description of the second of three processes. */
static void host_change(struct ori_host *h, unsigned n)
{
	switch (n) {
	case 1:
		h->paths = 1u << ORIEL_PATH_RDMA;
		break;
	case 2:
		h->boot_id[0]++;
		break;
	case 3:
		h->ipc_ns++;
		break;
	case 4:
		h->uid = 1000;
		break;
	case 5:
		h->hca_count = 1;
		memset(h->node, 'n', sizeof(h->node) - 1);
		break;
	case 6:
		h->token--;
		memset(h->hostname, 'h', sizeof(h->hostname) - 1);
		break;
	case 7:
	case 8:
		h->gpu.uuid[0] = 2;
		break;
	case 9:
		h->boot_id[0]++;
		break;
	default:
		break;
	}
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	struct ori_host host;
	unsigned i;

	if (n > 9)
		return 0;
	for (i = 0; i < HOSTS; i++) {
		host = host_good(i);
		if (n == 5)
			host.hca_count = 1;
		if (n > 6)
			host.gpu =
				(struct ori_host_gpu){.uuid = {1},
						      .pci = "0000:01:00.0",
						      .count = 2,
						      .fabric.state = n == 9 ? ORI_FABRIC_READY
									     : ORI_FABRIC_LOCAL,
						      .reach = {{{1}, n == 7 ? 7 : 0}, {{2}, 1}}};
		host.gpu.fabric.cluster[3] = n == 9 ? 5 : 0;
		if (i == 1)
			host_change(&host, n);
		FUZZ_CHECK(ori_host_parse(&host, sizeof(host), &host) == ORIEL_OK);
		memcpy(bytes + i * sizeof(host), &host, sizeof(host));
	}
	return HOSTS * sizeof(host);
}
