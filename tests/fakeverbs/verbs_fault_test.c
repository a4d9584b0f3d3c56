/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of faults of HCAs, and of the choice between them. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "fakeverbs.h"
#include "hca/call_bench_test.h"

static struct ori_hca *open_one(const char *config, unsigned rail)
{
	struct ori_hca *hca;

	assert_int_equal(ori_hca_verbs()->open(config, rail, &hca), ORIEL_OK);
	return hca;
}

static void duo_start(struct duo *d)
{
	end_start(&d->a, ori_hca_verbs(), "=fake0");
	end_start(&d->b, ori_hca_verbs(), "=fake1");
}

static void duo_stop(struct duo *d)
{
	end_stop(&d->a);
	end_stop(&d->b);
	assert_int_equal(fake_left(), 0);
}

static void assert_name(const char *config, unsigned rail, const char *name)
{
	struct ori_hca *hca = open_one(config, rail);
	struct ori_hca_caps caps;

	ori_hca_verbs()->caps(hca, &caps);
	assert_string_equal(caps.name, name);
	ori_hca_verbs()->close(hca);
}

static void assert_refused(const char *config, unsigned rail, enum oriel_status status,
			   const char *text)
{
	struct ori_hca *hca;

	assert_int_equal(ori_hca_verbs()->open(config, rail, &hca), status);
	if (!strstr(oriel_last_error(), text))
		fail_msg("no '%s' in '%s'", text, oriel_last_error());
	assert_int_equal(fake_left(), 0);
}

static void test_rails_take_the_selected_ports_that_are_up_in_turn(void **state)
{
	(void)state;
	assert_name("", 0, "fake0:1");
	assert_name(NULL, 1, "fake1:1");
	assert_name("fake1", 0, "fake1:1");
	assert_name("^fake0", 0, "fake1:1");
	assert_refused("", 2, ORIEL_ERR_NO_PATH, "2 ports are up");
	assert_refused("fake1:2", 0, ORIEL_ERR_NO_PATH, "fake1:2");
	assert_refused("mlx5", 0, ORIEL_ERR_NO_PATH, "ORIEL_HCA ('mlx5')");
	assert_refused("fake0,", 0, ORIEL_ERR_CONFIG, "comma");
}

static void write_node(const char *directory, const char *device, unsigned node)
{
	char path[300];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, device);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/device", directory, device);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/device/numa_node", directory, device);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%u\n", node);
	fclose(file);
}

static void remove_node(const char *directory, const char *device)
{
	static const char *const parts[] = {"/device/numa_node", "/device", ""};
	char path[300];

	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s%s", directory, device, parts[i]);
		assert_int_equal(remove(path), 0);
	}
}

static void test_the_hca_of_the_numa_node_of_the_thread_comes_first(void **state)
{
	char directory[] = "/tmp/fakeverbs.XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(directory));
	write_node(directory, "fake0", 63);
	write_node(directory, "fake1", 0);
	fake_set_sysfs(directory);
	if (access("/sys/devices/system/node/node1", F_OK) != 0) {
		assert_name("", 0, "fake1:1");
		assert_name("", 1, "fake0:1");
	}
	fake_set_sysfs("/nowhere");
	assert_name("", 0, "fake0:1");
	remove_node(directory, "fake0");
	remove_node(directory, "fake1");
	assert_int_equal(rmdir(directory), 0);
}

static void test_both_sides_take_the_smaller_mtu(void **state)
{
	const struct ibv_qp_attr *a, *b;
	struct ori_hca_wr wr;
	struct duo d;

	(void)state;
	fake_set_mtu("fake1", IBV_MTU_1024);
	duo_start(&d);
	fake_set_mtu("fake1", IBV_MTU_4096);
	assert_int_equal(d.a.address.mtu, 4096);
	assert_int_equal(d.b.address.mtu, 1024);
	duo_join(&d);
	a = fake_attr(d.a.address.qpn);
	b = fake_attr(d.b.address.qpn);
	assert_int_equal(a->path_mtu, IBV_MTU_1024);
	assert_int_equal(b->path_mtu, IBV_MTU_1024);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 64);
	end_post(&d.a, &wr, 1);
	end_expect(&d.a, 0);
	duo_stop(&d);
}

static void test_settings_reach_the_queues(void **state)
{
	const struct ibv_qp_attr *a;
	struct duo d;

	(void)state;
	setenv("ORIEL_IB_TC", "106", 1);
	setenv("ORIEL_IB_SL", "3", 1);
	setenv("ORIEL_IB_TIMEOUT", "14", 1);
	setenv("ORIEL_IB_RETRY", "5", 1);
	setenv("ORIEL_IB_RNR_RETRY", "4", 1);
	setenv("ORIEL_IB_MTU", "2048", 1);
	setenv("ORIEL_IB_GID_INDEX", "1", 1);
	duo_start(&d);
	unsetenv("ORIEL_IB_TC");
	unsetenv("ORIEL_IB_SL");
	unsetenv("ORIEL_IB_TIMEOUT");
	unsetenv("ORIEL_IB_RETRY");
	unsetenv("ORIEL_IB_RNR_RETRY");
	unsetenv("ORIEL_IB_MTU");
	unsetenv("ORIEL_IB_GID_INDEX");
	duo_join(&d);
	a = fake_attr(d.a.address.qpn);
	assert_int_equal(a->ah_attr.grh.traffic_class, 106);
	assert_int_equal(a->ah_attr.grh.sgid_index, 1);
	assert_int_equal(a->ah_attr.grh.dgid.raw[14], 1);
	assert_int_equal(a->ah_attr.is_global, 1);
	assert_int_equal(a->ah_attr.sl, 3);
	assert_int_equal(a->timeout, 14);
	assert_int_equal(a->retry_cnt, 5);
	assert_int_equal(a->rnr_retry, 4);
	assert_int_equal(a->path_mtu, IBV_MTU_2048);
	assert_int_equal(a->max_rd_atomic, 16);
	assert_int_equal(a->max_dest_rd_atomic, 16);
	duo_stop(&d);
	setenv("ORIEL_IB_MTU", "1500", 1);
	assert_refused("", 0, ORIEL_ERR_CONFIG, "ORIEL_IB_MTU is '1500'");
	unsetenv("ORIEL_IB_MTU");
	setenv("ORIEL_IB_GID_INDEX", "7", 1);
	assert_refused("", 0, ORIEL_ERR_SYSTEM, "ORIEL_IB_GID_INDEX");
	unsetenv("ORIEL_IB_GID_INDEX");
}

/* RoCE v1 is skipped, and IPv4 comes before link-local. */
static void test_a_gid_of_roce_v2_is_chosen(void **state)
{
	struct duo d;

	(void)state;
	duo_start(&d);
	duo_join(&d);
	assert_int_equal(fake_attr(d.a.address.qpn)->ah_attr.grh.sgid_index, 2);
	duo_stop(&d);
}

static void test_a_failed_open_leaks_nothing(void **state)
{
	static const struct {
		const char *call;
		unsigned after;
		enum oriel_status status;
	} cases[] = {
		/* The first two calls are of candidates, the third of the chosen one. */
		{"open_device", 2, ORIEL_ERR_SYSTEM}, {"query_device", 2, ORIEL_ERR_SYSTEM},
		{"query_port", 3, ORIEL_ERR_SYSTEM},  {"query_gid", 0, ORIEL_ERR_SYSTEM},
		{"alloc_pd", 0, ORIEL_ERR_NOMEM},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_fail(cases[i].call, cases[i].after,
			  cases[i].status == ORIEL_ERR_NOMEM ? ENOMEM : EIO);
		assert_refused("", 0, cases[i].status, "fake0:1: ");
	}
}

static void test_a_failed_create_leaks_nothing(void **state)
{
	struct ori_hca_cq_attr cq = {.depth = 4};
	struct ori_hca_qp_attr qp = {.depth = 4};
	struct ori_hca_qp_address address;
	const struct ori_hca_ops *ops = ori_hca_verbs();
	struct ori_hca_keys keys;
	struct ori_hca_cq *made;
	struct ori_hca_qp *queue;
	struct ori_hca_mr *mr;
	uint32_t cqn;
	struct end e;
	int left;

	(void)state;
	end_start(&e, ori_hca_verbs(), "");
	left = fake_left();
	qp.send_cq = e.cq;
	fake_fail("create_cq", 0, ENOMEM);
	assert_int_equal(ops->create_cq(e.hca, &cq, &made, &cqn), ORIEL_ERR_NOMEM);
	assert_non_null(strstr(oriel_last_error(), "fake0:1: cannot create a CQ of 4 entries"));
	fake_fail("create_qp", 0, EPERM);
	assert_int_equal(ops->create_qp(e.hca, &qp, &queue, &address), ORIEL_ERR_SYSTEM);
	fake_fail("modify_qp", 0, EINVAL);
	assert_int_equal(ops->create_qp(e.hca, &qp, &queue, &address), ORIEL_ERR_SYSTEM);
	assert_non_null(strstr(oriel_last_error(), "does not become initialised"));
	fake_fail("reg_mr", 0, ENOMEM);
	assert_int_equal(ops->register_memory(e.hca, e.memory, 4096, 0, CALL_ALL, &mr, &keys),
			 ORIEL_ERR_NOMEM);
	assert_non_null(strstr(oriel_last_error(), "ulimit -l"));
	qp.depth = 100000;
	assert_int_equal(ops->create_qp(e.hca, &qp, &queue, &address), ORIEL_ERR_RANGE);
	cq.depth = 100000;
	assert_int_equal(ops->create_cq(e.hca, &cq, &made, &cqn), ORIEL_ERR_RANGE);
	qp.ring = cq.ring = e.memory;
	assert_int_equal(ops->create_qp(e.hca, &qp, &queue, &address), ORIEL_ERR_UNSUPPORTED);
	assert_int_equal(ops->create_cq(e.hca, &cq, &made, &cqn), ORIEL_ERR_UNSUPPORTED);
	assert_int_equal(fake_left(), left);
	end_stop(&e);
	assert_int_equal(fake_left(), 0);
}

/* fake0 takes 92 bytes inline: longer data needs a key. */
static void test_data_is_inline_up_to_the_limit_of_the_hca(void **state)
{
	struct ori_hca_wr wr;
	struct ori_hca_wc wc;
	struct duo d;

	(void)state;
	duo_start(&d);
	duo_join(&d);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 92);
	wr.data = d.a.memory;
	wr.lkey = 0;
	end_post(&d.a, &wr, 1);
	end_expect(&d.a, 0);
	wr.length = 93;
	end_post(&d.a, &wr, 1);
	end_next(&d.a, &wc);
	assert_int_equal(wc.syndrome, ORIEL_SYNDROME_LOCAL_PROTECTION);
	duo_stop(&d);
}

static void test_an_address_that_does_not_fit_is_rejected(void **state)
{
	const struct ori_hca_ops *ops = ori_hca_verbs();
	struct ori_hca_qp_address wrong;
	struct duo d;

	(void)state;
	duo_start(&d);
	wrong = d.b.address;
	wrong.version++;
	assert_int_equal(ops->connect_qp(d.a.qp, &wrong), ORIEL_ERR_VERSION);
	wrong = d.b.address;
	wrong.hca_address[0]++;
	assert_int_equal(ops->connect_qp(d.a.qp, &wrong), ORIEL_ERR_MISMATCH);
	wrong = d.b.address;
	wrong.hca_address[4]++;
	assert_int_equal(ops->connect_qp(d.a.qp, &wrong), ORIEL_ERR_VERSION);
	wrong = d.b.address;
	wrong.hca_address[24] ^= 1;
	assert_int_equal(ops->connect_qp(d.a.qp, &wrong), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), "Ethernet"));
	wrong = d.b.address;
	wrong.mtu = 1500;
	assert_int_equal(ops->connect_qp(d.a.qp, &wrong), ORIEL_ERR_PROTOCOL);
	fake_fail("rtr", 0, ETIMEDOUT);
	assert_int_equal(ops->connect_qp(d.a.qp, &d.b.address), ORIEL_ERR_SYSTEM);
	assert_non_null(strstr(oriel_last_error(), "fake0:1: QP 0x"));
	assert_int_equal(ops->connect_qp(d.a.qp, &d.b.address), ORIEL_OK);
	assert_int_equal(ops->connect_qp(d.a.qp, &d.b.address), ORIEL_ERR_STATE);
	duo_stop(&d);
}

/* If the device takes a part of a chain, that part runs and is counted. */
static void test_a_chain_that_breaks_says_where(void **state)
{
	struct ori_hca_wr wr[5];
	unsigned posted;
	struct duo d;

	(void)state;
	duo_start(&d);
	assert_int_equal(d.a.ops->calls->post(d.a.qp, wr, 1, &posted), ORIEL_ERR_STATE);
	duo_join(&d);
	for (unsigned i = 0; i < 5; i++) {
		wr[i] = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 64);
		wr[i].id = 40 + i;
	}
	fake_fail("post_send", 3, EINVAL);
	assert_int_equal(d.a.ops->calls->post(d.a.qp, wr, 5, &posted), ORIEL_ERR_SYSTEM);
	assert_int_equal(posted, 3);
	end_post(&d.a, wr + 3, 2);
	for (unsigned i = 0; i < 5; i++)
		end_expect(&d.a, 40 + i);
	wr[2].length = 1u << 30;
	assert_int_equal(d.a.ops->calls->post(d.a.qp, wr, 5, &posted), ORIEL_ERR_INVALID);
	assert_int_equal(posted, 2);
	end_expect(&d.a, 40);
	end_expect(&d.a, 41);
	duo_stop(&d);
}

/* Their slots in the table are used again, their completions are not. */
static void test_completions_of_a_destroyed_qp_are_dropped(void **state)
{
	struct ori_hca_qp_attr attr = {.depth = 4};
	struct ori_hca_qp_address address;
	struct ori_hca_wr wr;
	struct ori_hca_wc wc;
	unsigned count;
	struct duo d;

	(void)state;
	duo_start(&d);
	duo_join(&d);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 64);
	end_post(&d.a, &wr, 1);
	d.a.ops->destroy_qp(d.a.qp);
	attr.send_cq = d.a.cq;
	for (unsigned i = 0; i < 4095; i++) {
		assert_int_equal(d.a.ops->create_qp(d.a.hca, &attr, &d.a.qp, &address), ORIEL_OK);
		d.a.ops->destroy_qp(d.a.qp);
	}
	assert_int_equal(d.a.ops->create_qp(d.a.hca, &attr, &d.a.qp, &d.a.address), ORIEL_OK);
	assert_int_equal(d.a.ops->calls->poll(d.a.cq, &wc, 1, &count), ORIEL_OK);
	assert_int_equal(count, 0);
	duo_stop(&d);
}

/* The syndrome of a WRITE after the cable is cut; returns its status. */
static enum oriel_status end_when_cut(bool is_down, uint8_t *syndrome)
{
	struct ori_hca_wr wr;
	struct ori_hca_wc wc;
	struct duo d;

	duo_start(&d);
	duo_join(&d);
	fake_cut("fake0", true, is_down);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 64);
	end_post(&d.a, &wr, 1);
	end_next(&d.a, &wc);
	fake_cut("fake0", false, false);
	duo_stop(&d);
	*syndrome = wc.syndrome;
	return wc.status;
}

static void test_a_port_that_is_down_is_no_fault_of_a_request(void **state)
{
	uint8_t syndrome;

	(void)state;
	assert_int_equal(end_when_cut(true, &syndrome), ORIEL_ERR_PEER);
	assert_int_equal(syndrome, ORIEL_SYNDROME_RETRY_EXCEEDED);
	assert_int_equal(end_when_cut(false, &syndrome), ORIEL_ERR_ACCESS);
	assert_int_equal(syndrome, ORIEL_SYNDROME_LOCAL_OPERATION);
}

static void await_event(struct ori_hca *hca, struct ori_hca_event *event)
{
	uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS;

	while (ori_hca_verbs()->poll_event(hca, event) == ORIEL_AGAIN) {
		assert_true(ori_clock_ns() < until);
		sched_yield();
	}
}

static void test_events_are_reported(void **state)
{
	struct ori_hca_event event;
	struct ori_hca_wr wr;
	struct ori_hca_wc wc;
	struct duo d;

	(void)state;
	duo_start(&d);
	duo_join(&d);
	assert_int_equal(d.a.ops->poll_event(d.a.hca, &event), ORIEL_AGAIN);
	fake_report(IBV_EVENT_COMM_EST, d.a.address.qpn);
	fake_report_port(IBV_EVENT_PORT_ERR, d.a.address.qpn, 1);
	await_event(d.a.hca, &event);
	assert_int_equal(event.status, ORIEL_ERR_NO_PATH);
	assert_int_equal(event.qpn, 0);
	assert_non_null(strstr(event.text, "fake0:1"));
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0, 64);
	wr.rkey ^= 0x5500;
	end_post(&d.a, &wr, 1);
	end_next(&d.a, &wc);
	await_event(d.b.hca, &event);
	assert_int_equal(event.status, ORIEL_ERR_ACCESS);
	assert_int_equal(event.qpn, d.b.address.qpn);
	duo_stop(&d);
}

/* Ports that are not in use, and addresses of other users. */
static void test_events_of_unused_objects_are_ignored(void **state)
{
	struct ori_hca_event event;
	struct duo d;

	(void)state;
	duo_start(&d);
	duo_join(&d);
	fake_report_port(IBV_EVENT_PORT_ERR, d.a.address.qpn, 2);
	fake_report_port(IBV_EVENT_LID_CHANGE, d.a.address.qpn, 2);
	fake_report_port(IBV_EVENT_GID_CHANGE, d.a.address.qpn, 1);
	/* Events arrive in order: the next one is this one. */
	fake_report(IBV_EVENT_QP_FATAL, d.a.address.qpn);
	await_event(d.a.hca, &event);
	assert_int_equal(event.qpn, d.a.address.qpn);
	assert_int_equal(event.status, ORIEL_ERR_ACCESS);
	fake_lose_gids(true);
	fake_report_port(IBV_EVENT_GID_CHANGE, d.a.address.qpn, 2);
	fake_report(IBV_EVENT_QP_FATAL, d.a.address.qpn);
	await_event(d.a.hca, &event);
	assert_int_equal(event.status, ORIEL_ERR_ACCESS);
	fake_report_port(IBV_EVENT_GID_CHANGE, d.a.address.qpn, 1);
	await_event(d.a.hca, &event);
	fake_lose_gids(false);
	assert_int_equal(event.status, ORIEL_ERR_NO_PATH);
	assert_int_equal(d.a.ops->poll_event(d.a.hca, &event), ORIEL_AGAIN);
	duo_stop(&d);
}

static void test_usable_ports_are_counted(void **state)
{
	(void)state;
	(void)ori_fail(ORIEL_ERR_RANGE, "an earlier failure");
	assert_int_equal(ori_hca_verbs_ports(""), 2);
	assert_int_equal(ori_hca_verbs_ports("=fake1"), 1);
	assert_int_equal(ori_hca_verbs_ports("fake1:2"), 0);
	assert_int_equal(ori_hca_verbs_ports("=fake1:1;near=0000:3b:00.0"), 1);
	assert_int_equal(ori_hca_verbs_ports("fake0:x"), 0);
	assert_string_equal(oriel_last_error(), "an earlier failure");
	assert_int_equal(fake_left(), 0);
}

static void assert_lack(unsigned rails, const char *text)
{
	char why[88];

	ori_hca_verbs_lack(rails, why, sizeof(why));
	assert_string_equal(why, text);
	assert_int_equal(fake_left(), 0);
}

static void test_a_lack_of_ports_is_explained(void **state)
{
	char little[12];

	(void)state;
	assert_lack(3, "2 ports are active, ORIEL_RAILS is 3");
	fake_cut("fake0", false, true);
	assert_lack(2, "1 port is active, ORIEL_RAILS is 2");
	fake_cut("fake1", false, true);
	assert_lack(1, "fake0:1 is down, fake1:1 is down, fake1:2 is down");
	ori_hca_verbs_lack(1, little, sizeof(little));
	assert_string_equal(little, "fake0:1 is ");
	/* The first two calls count ports. */
	fake_fail("open_device", 2, EACCES);
	assert_lack(1,
		    "fake0 cannot be opened by this process (Permission denied), fake1:1 is down");
	fake_cut("fake0", false, false);
	fake_cut("fake1", false, false);
}

/* The reason depends on whether this machine has NICs that the fake does not show. */
static void test_a_lack_of_a_kernel_is_explained(void **state)
{
	char host[32] = "", why[88], text[300];

	(void)state;
	fake_lose_kernel(true);
	ori_hca_verbs_lack(1, why, sizeof(why));
	assert_true(why[0]);
	(void)gethostname(host, sizeof(host) - 1);
	snprintf(text, sizeof(text),
		 "ORIEL_HCA is 'verbs', but no NIC of host %s is usable: %s (see oriel doctor)",
		 host, why);
	assert_refused("", 0, ORIEL_ERR_NO_PATH, text);
	assert_refused("fake0", 0, ORIEL_ERR_NO_PATH, "ORIEL_HCA is 'fake0'");
	fake_lose_kernel(false);
}

static void test_a_cq_that_fails_says_so(void **state)
{
	struct ori_hca_event event;
	struct ori_hca_wc wc;
	unsigned count;
	struct duo d;

	(void)state;
	duo_start(&d);
	duo_join(&d);
	assert_int_equal(d.a.ops->calls->poll(d.a.cq, &wc, 1, &count), ORIEL_OK);
	fake_report(IBV_EVENT_CQ_ERR, d.a.address.qpn);
	await_event(d.a.hca, &event);
	assert_int_equal(event.status, ORIEL_ERR_SYSTEM);
	assert_int_equal(d.a.ops->calls->poll(d.a.cq, &wc, 1, &count), ORIEL_ERR_STATE);
	duo_stop(&d);
}

/* As if of a GPU: the bytes of a descriptor, under addresses of choice. */
static void test_a_dma_buf_is_registered(void **state)
{
	int fd = memfd_create("fakeverbs", MFD_CLOEXEC);
	struct ori_hca_keys keys;
	struct ori_hca_mr *mr;
	struct ori_hca_wr wr;
	char seen[64];
	struct duo d;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 3 * 4096), 0);
	duo_start(&d);
	duo_join(&d);
	assert_int_equal(d.b.ops->register_dmabuf(d.b.hca, fd, 4096, 8192, 0x10000, CALL_ALL, &mr,
						  &keys),
			 ORIEL_OK);
	memset(d.a.memory, 9, 64);
	wr = call_wr(&d.a, &d.b, ORI_HCA_WRITE, 0, 0x10000 + 100, 64);
	wr.rkey = keys.rkey;
	end_post(&d.a, &wr, 1);
	end_expect(&d.a, 0);
	assert_int_equal(pread(fd, seen, 64, 4096 + 100), 64);
	assert_memory_equal(seen, d.a.memory, 64);
	d.b.ops->unregister_memory(mr);
	fake_fail("reg_dmabuf_mr", 0, EOPNOTSUPP);
	assert_int_equal(d.b.ops->register_dmabuf(d.b.hca, fd, 0, 4096, 0, CALL_ALL, &mr, &keys),
			 ORIEL_ERR_UNSUPPORTED);
	duo_stop(&d);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rails_take_the_selected_ports_that_are_up_in_turn),
		cmocka_unit_test(test_the_hca_of_the_numa_node_of_the_thread_comes_first),
		cmocka_unit_test(test_both_sides_take_the_smaller_mtu),
		cmocka_unit_test(test_settings_reach_the_queues),
		cmocka_unit_test(test_a_gid_of_roce_v2_is_chosen),
		cmocka_unit_test(test_a_failed_open_leaks_nothing),
		cmocka_unit_test(test_a_failed_create_leaks_nothing),
		cmocka_unit_test(test_data_is_inline_up_to_the_limit_of_the_hca),
		cmocka_unit_test(test_an_address_that_does_not_fit_is_rejected),
		cmocka_unit_test(test_a_chain_that_breaks_says_where),
		cmocka_unit_test(test_completions_of_a_destroyed_qp_are_dropped),
		cmocka_unit_test(test_a_port_that_is_down_is_no_fault_of_a_request),
		cmocka_unit_test(test_events_are_reported),
		cmocka_unit_test(test_events_of_unused_objects_are_ignored),
		cmocka_unit_test(test_usable_ports_are_counted),
		cmocka_unit_test(test_a_lack_of_ports_is_explained),
		cmocka_unit_test(test_a_lack_of_a_kernel_is_explained),
		cmocka_unit_test(test_a_cq_that_fails_says_so),
		cmocka_unit_test(test_a_dma_buf_is_registered),
	};

	fake_set_sysfs("/nowhere");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
