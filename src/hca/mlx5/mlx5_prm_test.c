/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the commands and answers, against bytes computed by hand from the PRM. */
#include "hca/test_support/mlx5_firmware.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LONGEST ORI_PRM_QUERY_HCA_CAP_LENGTH
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Golden bytes: the words that are not zero, computed by hand from the PRM. */
struct golden {
	uint16_t at;
	uint8_t bytes[4];
};

static void assert_golden(const uint8_t *bytes, size_t length, const struct golden *golden,
			  size_t count)
{
	uint8_t expected[LONGEST] = {0};
	size_t i;

	for (i = 0; i < count; i++)
		memcpy(expected + golden[i].at, golden[i].bytes, 4);
	assert_memory_equal(bytes, expected, length);
}

static const struct ori_prm_cq ring_cq = {
	.depth = 256,
	.ignores_overrun = true,
	.uar_page = 0x123,
	.eqn = 5,
	.page_length = 65536,
	.umem = 0x77,
	.umem_offset = 0x100002000,
	.record_umem = 0x78,
	.record_offset = 0x3040,
};

static const struct ori_prm_qp main_qp = {
	.pd = 0x21,
	.depth = 1024,
	.uar_page = 0x123,
	.user_index = 0xabcdef,
	.page_length = 65536,
	.send_cqn = 0x445,
	.receive_cqn = 0x446,
	.timestamps = ORI_PRM_TIMESTAMPS_DEFAULT,
	.umem = 0x88,
	.umem_offset = 0x4000,
	.record_umem = 0x89,
	.record_offset = 0x10080,
};

static const struct ori_prm_init init = {
	.qpn = 0x1234,
	.port = 1,
	.pkey_index = 2,
	.allows_read = true,
	.allows_write = true,
	.allows_atomic = true,
	.atomic_mode = ORI_PRM_ATOMIC_UP_TO_8,
	.counter_set = 9,
	.user_index = 0xabcdef,
};

static const struct ori_prm_rtr ib_rtr = {
	.qpn = 0x1234,
	.mtu = 4096,
	.remote_qpn = 0x5678,
	.receive_psn = 0x9abcde,
	.max_rd_atomic = 16,
	.min_rnr_timer = 12,
	.path = {.port = 1, .service_level = 3, .traffic_class = 0x20, .lid = 0x0102},
};

static const struct ori_prm_rtr roce_rtr = {
	.qpn = 0x1234,
	.mtu = 1024,
	.remote_qpn = 0x5678,
	.receive_psn = 1,
	.max_rd_atomic = 1,
	.min_rnr_timer = 12,
	.path =
		{
			.port = 2,
			.is_ethernet = true,
			.service_level = 3,
			.traffic_class = 0x68,
			.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1},
			.gid_index = 3,
			.hop_limit = 64,
			.flow_label = 0x12345,
			.mac = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55},
			.udp_source_port = 0xc123,
		},
};

static const struct ori_prm_rts rts = {
	.qpn = 0x1234,
	.send_psn = 0xabc,
	.max_rd_atomic = 8,
	.retry_count = 7,
	.rnr_retry = 6,
	.ack_timeout = 14,
};

static void test_create_cq_has_the_bytes_of_the_prm(void **state)
{
	static const struct golden golden[] = {
		{0x00, {0x04, 0x00}},
		{0x10, {0x02, 0x02}},
		{0x14, {0x00, 0x00, 0x00, 0x78}},
		{0x1c, {0x08, 0x00, 0x01, 0x23}},
		{0x24, {0x00, 0x00, 0x00, 0x05}},
		{0x28, {0x04}},
		{0x4c, {0x00, 0x00, 0x30, 0x40}},
		{0x50, {0x00, 0x00, 0x00, 0x01}},
		{0x54, {0x00, 0x00, 0x20, 0x00}},
		{0x58, {0x00, 0x00, 0x00, 0x77}},
		{0x5c, {0x80}},
	};
	struct ori_prm_cq collapsed = ring_cq;
	uint8_t in[ORI_PRM_CREATE_LENGTH];
	uint8_t other[ORI_PRM_CREATE_LENGTH];

	(void)state;
	assert_int_equal(ori_prm_encode_create_cq(&ring_cq, in, sizeof(in)), ORIEL_OK);
	assert_golden(in, sizeof(in), golden, COUNT(golden));

	collapsed.is_collapsed = true;
	assert_int_equal(ori_prm_encode_create_cq(&collapsed, other, sizeof(other)), ORIEL_OK);
	assert_int_equal(other[0x11], 0x12);
	other[0x11] = 0x02;
	assert_memory_equal(other, in, sizeof(in));
}

static void test_create_qp_has_the_bytes_of_the_prm(void **state)
{
	static const struct golden golden[] = {
		{0x00, {0x05, 0x00}},
		{0x18, {0x00, 0x00, 0x18, 0x00}},
		{0x1c, {0x00, 0x00, 0x00, 0x21}},
		{0x20, {0x00, 0x00, 0x50, 0x40}},
		{0x24, {0x00, 0x00, 0x01, 0x23}},
		{0x28, {0x00, 0xab, 0xcd, 0xef}},
		{0x2c, {0x04}},
		{0x94, {0x00, 0x00, 0x04, 0x45}},
		{0xb4, {0x00, 0x00, 0x04, 0x46}},
		{0xbc, {0x00, 0x01, 0x00, 0x80}},
		{0xc4, {0x03}},
		{0xe8, {0x10}},
		{0xfc, {0x00, 0x00, 0x00, 0x89}},
		{0x104, {0x00, 0x00, 0x40, 0x00}},
		{0x108, {0x00, 0x00, 0x00, 0x88}},
		{0x10c, {0x80}},
	};
	uint8_t in[ORI_PRM_CREATE_LENGTH];

	(void)state;
	assert_int_equal(ori_prm_encode_create_qp(&main_qp, in, sizeof(in)), ORIEL_OK);
	assert_golden(in, sizeof(in), golden, COUNT(golden));
}

static void test_a_companion_differs_in_the_one_bit_cd_master(void **state)
{
	struct ori_prm_qp companion = main_qp;
	uint8_t in[ORI_PRM_CREATE_LENGTH];
	uint8_t other[ORI_PRM_CREATE_LENGTH];

	(void)state;
	companion.is_companion = true;
	assert_int_equal(ori_prm_encode_create_qp(&main_qp, in, sizeof(in)), ORIEL_OK);
	assert_int_equal(ori_prm_encode_create_qp(&companion, other, sizeof(other)), ORIEL_OK);
	assert_int_equal(other[0xab], 0x01);
	other[0xab] = 0;
	assert_memory_equal(other, in, sizeof(in));
}

static void test_rst2init_has_the_bytes_of_the_prm(void **state)
{
	static const struct golden golden[] = {
		{0x00, {0x05, 0x02}},
		{0x08, {0x00, 0x00, 0x12, 0x34}},
		{0x18, {0x00, 0x00, 0x18, 0x00}},
		{0x24, {0x09}},
		{0x28, {0x00, 0xab, 0xcd, 0xef}},
		{0x30, {0x00, 0x00, 0x00, 0x02}},
		{0x54, {0x00, 0x01, 0x00, 0x00}},
		{0xa8, {0x00, 0x03, 0xe0, 0x00}},
	};
	uint8_t in[ORI_PRM_MODIFY_LENGTH];

	(void)state;
	assert_int_equal(ori_prm_encode_rst2init(&init, in, sizeof(in)), ORIEL_OK);
	assert_golden(in, sizeof(in), golden, COUNT(golden));
}

static void test_each_permission_of_rst2init_is_its_own_bit(void **state)
{
	struct ori_prm_init one = {.port = 1, .allows_read = true};
	uint8_t in[ORI_PRM_MODIFY_LENGTH];

	(void)state;
	assert_int_equal(ori_prm_encode_rst2init(&one, in, sizeof(in)), ORIEL_OK);
	assert_int_equal(in[0xaa], 0x80);
	one = (struct ori_prm_init){.port = 1, .allows_write = true};
	assert_int_equal(ori_prm_encode_rst2init(&one, in, sizeof(in)), ORIEL_OK);
	assert_int_equal(in[0xaa], 0x40);
	one = (struct ori_prm_init){.port = 1, .allows_atomic = true};
	assert_int_equal(ori_prm_encode_rst2init(&one, in, sizeof(in)), ORIEL_OK);
	assert_int_equal(in[0xaa], 0x20);
}

static void test_init2rtr_over_infiniband_has_the_bytes_of_the_prm(void **state)
{
	static const struct golden flat[] = {
		{0x00, {0x05, 0x03}},
		{0x08, {0x00, 0x00, 0x12, 0x34}},
		{0x20, {0xbe}},
		{0x2c, {0x00, 0x00, 0x56, 0x78}},
		{0x34, {0x00, 0x00, 0x01, 0x02}},
		{0x3c, {0x02}},
		{0x54, {0x03, 0x01, 0x00, 0x00}},
		{0xa8, {0x00, 0x80, 0x00, 0x00}},
		{0xac, {0x0c, 0x9a, 0xbc, 0xde}},
	};
	static const struct golden routed[] = {
		{0x34, {0x00, 0x80, 0x01, 0x02}}, {0x38, {0x00, 0x02, 0x00, 0x40}},
		{0x3c, {0x02, 0x00, 0x00, 0x07}}, {0x40, {0xfe, 0x80, 0x00, 0x00}},
		{0x4c, {0x00, 0x00, 0x00, 0x99}},
	};
	struct ori_prm_rtr rtr = ib_rtr;
	struct golden both[COUNT(flat) + COUNT(routed)];
	uint8_t in[ORI_PRM_MODIFY_LENGTH];

	(void)state;
	assert_int_equal(ori_prm_encode_init2rtr(&rtr, in, sizeof(in)), ORIEL_OK);
	assert_golden(in, sizeof(in), flat, COUNT(flat));

	rtr.path.has_grh = true;
	rtr.path.gid_index = 2;
	rtr.path.hop_limit = 64;
	rtr.path.flow_label = 7;
	rtr.path.gid[0] = 0xfe;
	rtr.path.gid[1] = 0x80;
	rtr.path.gid[15] = 0x99;
	memcpy(both, flat, sizeof(flat));
	memcpy(both + COUNT(flat), routed, sizeof(routed));
	assert_int_equal(ori_prm_encode_init2rtr(&rtr, in, sizeof(in)), ORIEL_OK);
	assert_golden(in, sizeof(in), both, COUNT(both));
}

static void test_init2rtr_over_roce_has_the_bytes_of_the_prm(void **state)
{
	static const struct golden golden[] = {
		{0x00, {0x05, 0x03}},
		{0x08, {0x00, 0x00, 0x12, 0x34}},
		{0x20, {0x7e}},
		{0x2c, {0x00, 0x00, 0x56, 0x78}},
		{0x38, {0x00, 0x03, 0x00, 0x40}},
		{0x3c, {0x06, 0x81, 0x23, 0x45}},
		{0x48, {0x00, 0x00, 0xff, 0xff}},
		{0x4c, {0x0a, 0x00, 0x00, 0x01}},
		{0x50, {0x00, 0x1a, 0xc1, 0x23}},
		{0x54, {0x30, 0x02, 0x02, 0x11}},
		{0x58, {0x22, 0x33, 0x44, 0x55}},
		{0xac, {0x0c, 0x00, 0x00, 0x01}},
	};
	uint8_t in[ORI_PRM_MODIFY_LENGTH];

	(void)state;
	assert_int_equal(ori_prm_encode_init2rtr(&roce_rtr, in, sizeof(in)), ORIEL_OK);
	assert_golden(in, sizeof(in), golden, COUNT(golden));
}

static void test_rtr2rts_has_the_bytes_of_the_prm(void **state)
{
	static const struct golden golden[] = {
		{0x00, {0x05, 0x04}},
		{0x08, {0x00, 0x00, 0x12, 0x34}},
		{0x38, {0x70}},
		{0x88, {0x00, 0x67, 0xc0, 0x00}},
		{0x90, {0x00, 0x00, 0x0a, 0xbc}},
	};
	uint8_t in[ORI_PRM_MODIFY_LENGTH];

	(void)state;
	assert_int_equal(ori_prm_encode_rtr2rts(&rts, in, sizeof(in)), ORIEL_OK);
	assert_golden(in, sizeof(in), golden, COUNT(golden));
}

static void test_short_commands_have_the_bytes_of_the_prm(void **state)
{
	static const struct {
		struct ori_prm_object object;
		uint8_t opcode[2];
	} cases[] = {
		{{ORI_PRM_DESTROY_CQ, 0x123456}, {0x04, 0x01}},
		{{ORI_PRM_QUERY_CQ, 0x123456}, {0x04, 0x02}},
		{{ORI_PRM_DESTROY_QP, 0x123456}, {0x05, 0x01}},
		{{ORI_PRM_2ERR_QP, 0x123456}, {0x05, 0x07}},
		{{ORI_PRM_2RST_QP, 0x123456}, {0x05, 0x0a}},
		{{ORI_PRM_QUERY_QP, 0x123456}, {0x05, 0x0b}},
	};
	static const struct golden caps[] = {{0x00, {0x01, 0x00}}, {0x04, {0, 0, 0, 0x07}}};
	const struct ori_prm_query_caps query = {ORI_PRM_CAPS_ATOMIC};
	uint8_t in[ORI_PRM_COMMAND_LENGTH];
	struct ori_prm_object got;
	enum ori_prm_opcode opcode;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		const struct golden golden[] = {
			{0x00, {cases[i].opcode[0], cases[i].opcode[1]}},
			{0x08, {0x00, 0x12, 0x34, 0x56}},
		};

		assert_int_equal(ori_prm_encode_object(&cases[i].object, in, sizeof(in)), ORIEL_OK);
		assert_golden(in, sizeof(in), golden, COUNT(golden));
		assert_int_equal(ori_prm_command_opcode(in, sizeof(in), &opcode), ORIEL_OK);
		assert_int_equal(opcode, cases[i].object.opcode);
		assert_int_equal(ori_prm_decode_object(in, sizeof(in), &got), ORIEL_OK);
		assert_memory_equal(&got, &cases[i].object, sizeof(got));
	}
	assert_int_equal(ori_prm_encode_query_caps(&query, in, sizeof(in)), ORIEL_OK);
	assert_golden(in, sizeof(in), caps, COUNT(caps));
}

static void test_answers_are_read_where_the_prm_has_them(void **state)
{
	uint8_t out[ORI_PRM_QUERY_LENGTH] = {0};
	struct ori_prm_reply reply;
	struct ori_prm_qp_state qp;
	struct ori_prm_cq_state cq;

	(void)state;
	memcpy(out, "\x03\xff\xff\xff\x11\x22\x33\x44\xff\xab\xcd\xef", 12);
	assert_int_equal(ori_prm_decode_reply(out, ORI_PRM_REPLY_LENGTH, &reply), ORIEL_OK);
	assert_int_equal(reply.status, 3);
	assert_int_equal(reply.syndrome, 0x11223344);
	assert_int_equal(reply.number, 0xabcdef);

	/* A device may set bits beside the known fields; the decoder ignores them. */
	memset(out, 0xff, sizeof(out));
	memset(out, 0, 8);
	memcpy(out + 0x18, "\x6f", 1);
	memcpy(out + 0x18 + 0xb4, "\x12\x34\x56\x78", 4);
	assert_int_equal(ori_prm_decode_qp_state(out, sizeof(out), &qp), ORIEL_OK);
	assert_int_equal(qp.status, ORI_PRM_QP_ERROR);
	assert_int_equal(qp.executed, 0x1234);
	assert_int_equal(qp.posted, 0x5678);
	assert_true(qp.ordering == 3 && qp.is_order_forced);
	memcpy(out + 0x18 + 0x04, "\xfe", 1);
	memcpy(out + 0x18 + 0x93, "\xf7", 1);
	assert_int_equal(ori_prm_decode_qp_state(out, sizeof(out), &qp), ORIEL_OK);
	assert_true(qp.ordering == 1 && !qp.is_order_forced);

	memcpy(out + 0x10, "\x9f", 1);
	memcpy(out + 0x10 + 0x28, "\xff\x00\x00\x07\xff\x12\x34\x56", 8);
	assert_int_equal(ori_prm_decode_cq_state(out, sizeof(out), &cq), ORIEL_OK);
	assert_int_equal(cq.status, 9);
	assert_int_equal(cq.consumer, 7);
	assert_int_equal(cq.producer, 0x123456);
}

static void test_a_rejected_query_is_an_error_that_changes_nothing(void **state)
{
	static const struct ori_prm_reply refused = {.status = 5, .syndrome = 0x11223344};
	uint8_t out[ORI_PRM_QUERY_LENGTH] = {0};
	struct ori_prm_cq_state cq = {.producer = 77};

	(void)state;
	assert_int_equal(ori_prm_encode_reply(&refused, out, ORI_PRM_REPLY_LENGTH), ORIEL_OK);
	assert_int_equal(ori_prm_decode_cq_state(out, sizeof(out), &cq), ORIEL_ERR_SYSTEM);
	assert_non_null(strstr(oriel_last_error(), "0x11223344"));
	assert_int_equal(cq.producer, 77);
}

static void test_capabilities_are_read_where_the_prm_has_them(void **state)
{
	static const struct ori_prm_caps general = {
		.qp_depth_max = 32768,
		.cq_depth_max = 4194304,
		.cqe_version = 1,
		.can_ignore_overrun = true,
		.can_wait = true,
		.has_uar_4k = true,
		.bf_length = 512,
		.uar_page_length = 4096,
	};
	static const struct ori_prm_atomic_caps atomic = {1, 0xf, 12, 8, 3, 2, 1};
	struct ori_prm_atomic_caps got_atomic;
	struct ori_prm_paging_caps paging;
	struct ori_prm_caps got;
	uint8_t out[LONGEST] = {0};

	(void)state;
	out[0x10 + 0x11] = 15;
	out[0x10 + 0x19] = 22;
	out[0x10 + 0x3f] = 0xf1;
	out[0x10 + 0x44] = 0x80;
	out[0x10 + 0x45] = 0x08;
	out[0x10 + 0x48] = 0x80;
	out[0x10 + 0x4d] = 9;
	assert_int_equal(ori_prm_decode_caps(out, sizeof(out), &got), ORIEL_OK);
	assert_int_equal(got.cqe_version, 1);
	assert_memory_equal(&got, &general, sizeof(got));

	memset(out, 0, sizeof(out));
	assert_int_equal(ori_prm_decode_paging_caps(out, sizeof(out), &paging), ORIEL_OK);
	assert_false(paging.has_memory_faults);
	out[0x10 + 0xc0] = 0x80;
	assert_int_equal(ori_prm_decode_paging_caps(out, sizeof(out), &paging), ORIEL_OK);
	assert_true(paging.has_memory_faults);

	memset(out, 0, sizeof(out));
	out[0x10 + 0x08] = 0x40;
	out[0x10 + 0x13] = 0x0f;
	out[0x10 + 0x17] = 12;
	out[0x10 + 0x1b] = 8;
	out[0x10 + 0x51] = 3;
	out[0x10 + 0x53] = 2;
	out[0x10 + 0x55] = 1;
	assert_int_equal(ori_prm_decode_atomic_caps(out, sizeof(out), &got_atomic), ORIEL_OK);
	assert_memory_equal(&got_atomic, &atomic, sizeof(atomic));
}

/* A message without its types, so that one loop serves all of them. */
struct pair {
	const char *name;
	const void *parameters;
	size_t size;
	size_t length;
	enum oriel_status (*encode)(const void *parameters, void *bytes, size_t length);
	enum oriel_status (*decode)(const void *bytes, size_t length, void *parameters);
	bool is_strict;
};

#define PAIR(name, type)                                                                       \
	static enum oriel_status pair_encode_##name(const void *p, void *bytes, size_t length) \
	{                                                                                      \
		return ori_prm_encode_##name(p, bytes, length);                                \
	}                                                                                      \
	static enum oriel_status pair_decode_##name(const void *bytes, size_t length, void *p) \
	{                                                                                      \
		struct type *typed = p;                                                        \
                                                                                               \
		return ori_prm_decode_##name(bytes, length, typed);                            \
	}

PAIR(create_cq, ori_prm_cq)
PAIR(create_qp, ori_prm_qp)
PAIR(rst2init, ori_prm_init)
PAIR(init2rtr, ori_prm_rtr)
PAIR(rtr2rts, ori_prm_rts)
PAIR(object, ori_prm_object)
PAIR(query_caps, ori_prm_query_caps)
PAIR(reply, ori_prm_reply)
PAIR(qp_state, ori_prm_qp_state)
PAIR(cq_state, ori_prm_cq_state)
PAIR(caps, ori_prm_caps)
PAIR(paging_caps, ori_prm_paging_caps)
PAIR(atomic_caps, ori_prm_atomic_caps)

static const struct ori_prm_object object = {ORI_PRM_2ERR_QP, 0x123456};
static const struct ori_prm_query_caps query_caps = {ORI_PRM_CAPS_ATOMIC};
static const struct ori_prm_reply reply = {3, 0xdeadbeef, 0x123456};
static const struct ori_prm_qp_state qp_state = {ORI_PRM_QP_RTS, 0xffff, 0x8001, 2, true};
static const struct ori_prm_cq_state cq_state = {10, 0xffffff, 0x800001};
static const struct ori_prm_caps caps = {1, 1u << 31, 15, true, false, true, 1u << 31, 1u << 31};
static const struct ori_prm_paging_caps paging_caps = {true};
static const struct ori_prm_atomic_caps atomic_caps = {3, 1, 0xffff, 4, 0x8000, 5, 0xffff};

#define ENTRY(name, what, length, is_strict)                                                \
	{                                                                                   \
#name, &what, sizeof(what), length, pair_encode_##name, pair_decode_##name, \
			is_strict,                                                          \
	}

static const struct pair pairs[] = {
	ENTRY(create_cq, ring_cq, ORI_PRM_CREATE_LENGTH, true),
	ENTRY(create_qp, main_qp, ORI_PRM_CREATE_LENGTH, true),
	ENTRY(rst2init, init, ORI_PRM_MODIFY_LENGTH, true),
	ENTRY(init2rtr, ib_rtr, ORI_PRM_MODIFY_LENGTH, true),
	ENTRY(init2rtr, roce_rtr, ORI_PRM_MODIFY_LENGTH, true),
	ENTRY(rtr2rts, rts, ORI_PRM_MODIFY_LENGTH, true),
	ENTRY(object, object, ORI_PRM_COMMAND_LENGTH, true),
	ENTRY(query_caps, query_caps, ORI_PRM_COMMAND_LENGTH, true),
	ENTRY(reply, reply, ORI_PRM_REPLY_LENGTH, false),
	ENTRY(qp_state, qp_state, ORI_PRM_QUERY_LENGTH, false),
	ENTRY(cq_state, cq_state, ORI_PRM_QUERY_LENGTH, false),
	ENTRY(caps, caps, ORI_PRM_QUERY_HCA_CAP_LENGTH, false),
	ENTRY(paging_caps, paging_caps, ORI_PRM_QUERY_HCA_CAP_LENGTH, false),
	ENTRY(atomic_caps, atomic_caps, ORI_PRM_QUERY_HCA_CAP_LENGTH, false),
};

static void test_decoding_reverses_encoding(void **state)
{
	uint8_t bytes[LONGEST], again[LONGEST], got[256];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(pairs); i++) {
		const struct pair *p = &pairs[i];

		memset(got, 0xa5, sizeof(got));
		assert_int_equal(p->encode(p->parameters, bytes, p->length), ORIEL_OK);
		assert_int_equal(p->decode(bytes, p->length, got), ORIEL_OK);
		assert_memory_equal(got, p->parameters, p->size);
		assert_int_equal(got[p->size], 0xa5);
		assert_int_equal(p->encode(got, again, p->length), ORIEL_OK);
		assert_memory_equal(again, bytes, p->length);
	}
}

static void test_a_message_of_another_length_is_rejected(void **state)
{
	uint8_t bytes[LONGEST + 1], got[256];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(pairs); i++) {
		const struct pair *p = &pairs[i];

		memset(bytes, 0, sizeof(bytes));
		assert_int_equal(p->encode(p->parameters, bytes, p->length - 1), ORIEL_ERR_INVALID);
		assert_int_equal(p->encode(p->parameters, bytes, p->length + 1), ORIEL_ERR_INVALID);
		assert_int_equal(bytes[0], 0);
		assert_int_equal(p->encode(p->parameters, bytes, p->length), ORIEL_OK);
		assert_int_equal(p->decode(bytes, p->length - 1, got), ORIEL_ERR_INVALID);
		assert_int_equal(p->decode(bytes, p->length + 1, got), ORIEL_ERR_INVALID);
	}
}

/* A decoder either understands a bit or rejects it; it drops none. */
static void test_no_bit_of_a_command_is_ignored(void **state)
{
	uint8_t bytes[LONGEST], again[LONGEST], got[256];
	size_t i, bit, understood = 0, refused = 0;

	(void)state;
	for (i = 0; i < COUNT(pairs); i++) {
		const struct pair *p = &pairs[i];

		if (!p->is_strict)
			continue;
		assert_int_equal(p->encode(p->parameters, bytes, p->length), ORIEL_OK);
		for (bit = 0; bit < p->length * 8; bit++) {
			bytes[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
			if (p->decode(bytes, p->length, got) == ORIEL_OK) {
				understood++;
				assert_memory_not_equal(got, p->parameters, p->size);
				assert_int_equal(p->encode(got, again, p->length), ORIEL_OK);
				assert_memory_equal(again, bytes, p->length);
			} else {
				refused++;
			}
			bytes[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
		}
	}
	assert_true(understood > 1000);
	assert_true(refused > 1000);
}

static void test_a_command_for_another_state_is_rejected(void **state)
{
	uint8_t in[ORI_PRM_MODIFY_LENGTH];
	struct ori_prm_rts got;

	(void)state;
	assert_int_equal(ori_prm_encode_rst2init(&init, in, sizeof(in)), ORIEL_OK);
	assert_int_equal(ori_prm_decode_rtr2rts(in, sizeof(in), &got), ORIEL_ERR_PROTOCOL);
	assert_non_null(strstr(oriel_last_error(), "opcode is 0x502, must be 0x504"));
}

static void test_a_depth_that_is_no_power_of_two_is_rejected(void **state)
{
	static const uint32_t wrong[] = {0, 3, 255, 257, 1000, UINT32_MAX};
	uint8_t in[ORI_PRM_CREATE_LENGTH] = {0};
	struct ori_prm_cq cq = ring_cq;
	struct ori_prm_qp qp = main_qp;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(wrong); i++) {
		cq.depth = wrong[i];
		qp.depth = wrong[i];
		assert_int_equal(ori_prm_encode_create_cq(&cq, in, sizeof(in)), ORIEL_ERR_INVALID);
		assert_int_equal(ori_prm_encode_create_qp(&qp, in, sizeof(in)), ORIEL_ERR_INVALID);
	}
	assert_int_equal(in[0], 0);

	qp.depth = 32768;
	assert_int_equal(ori_prm_encode_create_qp(&qp, in, sizeof(in)), ORIEL_OK);
	assert_int_equal(in[0x22], 0x78);
	qp.depth = 65536;
	assert_int_equal(ori_prm_encode_create_qp(&qp, in, sizeof(in)), ORIEL_ERR_RANGE);
	cq.depth = 1;
	cq.page_length = 2048;
	assert_int_equal(ori_prm_encode_create_cq(&cq, in, sizeof(in)), ORIEL_ERR_INVALID);
}

static void test_parameters_beyond_their_field_are_rejected(void **state)
{
	uint8_t in[ORI_PRM_MODIFY_LENGTH];
	struct ori_prm_rtr rtr = roce_rtr;
	struct ori_prm_rts send = rts;

	(void)state;
	rtr.path.service_level = 8;
	assert_int_equal(ori_prm_encode_init2rtr(&rtr, in, sizeof(in)), ORIEL_ERR_RANGE);
	assert_non_null(strstr(oriel_last_error(), "ads.eth_prio"));
	rtr = roce_rtr;
	rtr.remote_qpn = 1u << 24;
	assert_int_equal(ori_prm_encode_init2rtr(&rtr, in, sizeof(in)), ORIEL_ERR_RANGE);
	rtr = roce_rtr;
	rtr.mtu = 1500;
	assert_int_equal(ori_prm_encode_init2rtr(&rtr, in, sizeof(in)), ORIEL_ERR_INVALID);
	rtr.mtu = 8192;
	assert_int_equal(ori_prm_encode_init2rtr(&rtr, in, sizeof(in)), ORIEL_ERR_INVALID);
	send.max_rd_atomic = 12;
	assert_int_equal(ori_prm_encode_rtr2rts(&send, in, sizeof(in)), ORIEL_ERR_INVALID);
	send = rts;
	send.retry_count = 8;
	assert_int_equal(ori_prm_encode_rtr2rts(&send, in, sizeof(in)), ORIEL_ERR_RANGE);
}

static void test_a_path_has_a_lid_exactly_on_infiniband(void **state)
{
	uint8_t in[ORI_PRM_MODIFY_LENGTH];
	struct ori_prm_rtr rtr = roce_rtr;

	(void)state;
	rtr.path.lid = 1;
	assert_int_equal(ori_prm_encode_init2rtr(&rtr, in, sizeof(in)), ORIEL_ERR_INVALID);
	rtr = ib_rtr;
	rtr.path.lid = 0;
	assert_int_equal(ori_prm_encode_init2rtr(&rtr, in, sizeof(in)), ORIEL_ERR_INVALID);
}

static void test_the_mtu_of_a_path_is_the_smaller_one(void **state)
{
	uint32_t mtu = 7;

	(void)state;
	assert_int_equal(ori_prm_path_mtu(4096, 1024, &mtu), ORIEL_OK);
	assert_int_equal(mtu, 1024);
	assert_int_equal(ori_prm_path_mtu(256, 4096, &mtu), ORIEL_OK);
	assert_int_equal(mtu, 256);
	assert_int_equal(ori_prm_path_mtu(2048, 2048, &mtu), ORIEL_OK);
	assert_int_equal(mtu, 2048);
	assert_int_equal(ori_prm_path_mtu(1500, 4096, &mtu), ORIEL_ERR_INVALID);
	assert_int_equal(ori_prm_path_mtu(4096, 0, &mtu), ORIEL_ERR_INVALID);
	assert_int_equal(ori_prm_path_mtu(8192, 4096, &mtu), ORIEL_ERR_INVALID);
	assert_int_equal(mtu, 2048);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_cq_has_the_bytes_of_the_prm),
		cmocka_unit_test(test_create_qp_has_the_bytes_of_the_prm),
		cmocka_unit_test(test_a_companion_differs_in_the_one_bit_cd_master),
		cmocka_unit_test(test_rst2init_has_the_bytes_of_the_prm),
		cmocka_unit_test(test_each_permission_of_rst2init_is_its_own_bit),
		cmocka_unit_test(test_init2rtr_over_infiniband_has_the_bytes_of_the_prm),
		cmocka_unit_test(test_init2rtr_over_roce_has_the_bytes_of_the_prm),
		cmocka_unit_test(test_rtr2rts_has_the_bytes_of_the_prm),
		cmocka_unit_test(test_short_commands_have_the_bytes_of_the_prm),
		cmocka_unit_test(test_answers_are_read_where_the_prm_has_them),
		cmocka_unit_test(test_a_rejected_query_is_an_error_that_changes_nothing),
		cmocka_unit_test(test_capabilities_are_read_where_the_prm_has_them),
		cmocka_unit_test(test_decoding_reverses_encoding),
		cmocka_unit_test(test_a_message_of_another_length_is_rejected),
		cmocka_unit_test(test_no_bit_of_a_command_is_ignored),
		cmocka_unit_test(test_a_command_for_another_state_is_rejected),
		cmocka_unit_test(test_a_depth_that_is_no_power_of_two_is_rejected),
		cmocka_unit_test(test_parameters_beyond_their_field_are_rejected),
		cmocka_unit_test(test_a_path_has_a_lid_exactly_on_infiniband),
		cmocka_unit_test(test_the_mtu_of_a_path_is_the_smaller_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
