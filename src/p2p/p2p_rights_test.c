/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of p2p's keys: peers may write what p2p gives them and no more, and memory that a
 * region has registered is not registered again for what the region allows.
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include "p2p/p2p.h"
#include "p2p/pair_of_endpoints_test.h"

#define LENGTH 65536u
#define ODD 100u /* regions begin and end inside pages */

static const struct oriel_p2p_attr zero_copy = {.size = sizeof(zero_copy),
						.mode = ORIEL_P2P_ZERO_COPY};

/* The software HCA, which counts its registrations, and does without the key of all memory. */
static struct ori_hca_ops ops;
static atomic_uint registrations;
static bool reaches_all;

static enum oriel_status count_register(struct ori_hca *hca, void *address, size_t length,
					uint64_t iova, unsigned access, struct ori_hca_mr **mr,
					struct ori_hca_keys *keys)
{
	atomic_fetch_add(&registrations, 1);
	return ori_hca_soft_ops.register_memory(hca, address, length, iova, access, mr, keys);
}

static void count_caps(const struct ori_hca *hca, struct ori_hca_caps *caps)
{
	ori_hca_soft_ops.caps(hca, caps);
	caps->reaches_all = reaches_all;
}

/* Two queues of one HCA, joined, which post what p2p does not. */
struct raw {
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qps[2];
};

static void raw_open(struct raw *raw, struct ori_hca *hca)
{
	const struct ori_hca_cq_attr cq = {.depth = 4};
	struct ori_hca_qp_attr attr = {.depth = 4};
	struct ori_hca_qp_address addresses[2];
	uint32_t cqn;

	assert_int_equal(ops.create_cq(hca, &cq, &raw->cq, &cqn), ORIEL_OK);
	attr.send_cq = attr.receive_cq = raw->cq;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ops.create_qp(hca, &attr, &raw->qps[i], &addresses[i]), ORIEL_OK);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ops.connect_qp(raw->qps[i], &addresses[!i]), ORIEL_OK);
}

static void raw_close(struct raw *raw)
{
	for (unsigned i = 0; i < 2; i++)
		ops.destroy_qp(raw->qps[i]);
	ops.destroy_cq(raw->cq);
}

/* By queues of its own, since a refused request ends them. */
static enum oriel_status raw_try(struct ori_hca *hca, enum ori_hca_opcode opcode, uint64_t remote,
				 uint32_t rkey)
{
	static uint64_t word;
	struct ori_hca_wr wr = {.local = (uintptr_t)&word,
				.remote = remote,
				.rkey = rkey,
				.length = sizeof(word),
				.operand = 1,
				.opcode = (uint8_t)opcode,
				.flags = ORI_HCA_SIGNALED};
	struct ori_hca_keys keys;
	struct ori_hca_mr *mr;
	struct ori_hca_wc wc;
	struct raw raw;
	unsigned count = 0;

	raw_open(&raw, hca);
	assert_int_equal(ops.register_memory(hca, &word, sizeof(word), (uintptr_t)&word,
					     ORI_HCA_LOCAL_WRITE, &mr, &keys),
			 ORIEL_OK);
	wr.lkey = keys.lkey;
	assert_int_equal(ops.calls->post(raw.qps[0], &wr, 1, &count), ORIEL_OK);
	for (count = 0; !count;)
		assert_int_equal(ops.calls->poll(raw.cq, &wc, 1, &count), ORIEL_OK);
	raw_close(&raw);
	ops.unregister_memory(mr);
	return wc.status;
}

static void expect_rights(struct oriel_p2p_context *ctx, uint64_t address, uint32_t rkey,
			  enum oriel_status others)
{
	static const enum ori_hca_opcode opcodes[] = {ORI_HCA_READ, ORI_HCA_FETCH_ADD, ORI_HCA_CAS};
	struct ori_hca *hca = ori_rdma_hca(ctx->rdma, 0);

	assert_int_equal(raw_try(hca, ORI_HCA_WRITE, address, rkey), ORIEL_OK);
	for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++)
		assert_int_equal(raw_try(hca, opcodes[i], address, rkey), others);
}

/* One context of NICs for both endpoints, as the ranks of one process could have. */
static void start(struct endpoints *e, struct ori_rdma **rdma, bool is_whole)
{
	static const struct p2p_listeners none = {.local = -1, .tcp = -1};
	const struct ori_rdma_attr attr = {.hca = &ops};
	const struct ori_rdma_links_attr links = {.depth = 64};
	struct oriel_p2p_context_attr context = small;

	reaches_all = is_whole;
	assert_int_equal(ori_rdma_open(&attr, rdma), ORIEL_OK);
	assert_int_equal(ori_rdma_open_links(*rdma, &links), ORIEL_OK);
	context.paths = 1u << ORIEL_PATH_RDMA;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ori_p2p_context_create_at(&context, &none, NULL, *rdma,
							   &e->contexts[i]),
				 ORIEL_OK);
	assert_int_equal(oriel_p2p_create(e->contexts[0], &zero_copy, &e->a), ORIEL_OK);
	assert_int_equal(oriel_p2p_create(e->contexts[1], &zero_copy, &e->b), ORIEL_OK);
	endpoints_join(e);
}

static void stop(struct endpoints *e, struct ori_rdma *rdma)
{
	endpoints_close(e);
	ori_rdma_close(rdma);
}

static void test_peers_only_write_what_p2p_gives_them(void **state)
{
	char *memory = aligned_alloc(4096, 3 * LENGTH);
	struct oriel_p2p_buffer all = buffer(memory + LENGTH, LENGTH, NULL);
	struct oriel_p2p_memory *registered;
	struct oriel_p2p_request receive;
	struct oriel_dev_keys rkeys, lkeys;
	struct oriel_p2p_context *ctx;
	struct ori_rdma *rdma;
	struct ori_rdma_mr *mr;
	struct endpoints e;
	uint64_t address;

	(void)state;
	assert_non_null(memory);
	start(&e, &rdma, true);
	ctx = e.contexts[1];
	assert_int_equal(oriel_p2p_register(ctx, memory, LENGTH, 0, &registered), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(e.b, 0, &all, &receive), ORIEL_OK);
	expect_rights(ctx, registered->iova, registered->rkeys.rail[0], ORIEL_ERR_ACCESS);
	expect_rights(ctx, receive.memory->iova, receive.memory->rkeys.rail[0], ORIEL_ERR_ACCESS);
	/* Its last word, which nothing uses. */
	expect_rights(ctx, ctx->pool.area.length - 8, ctx->pool.area.rkeys.rail[0],
		      ORIEL_ERR_ACCESS);
	expect_rights(ctx, e.b->area.length - 8, e.b->area.rkeys.rail[0], ORIEL_ERR_ACCESS);
	/* A region over it allows more by keys of its own. */
	assert_int_equal(ori_rdma_register(rdma, memory, 3 * LENGTH, ORI_RDMA_SHARED, &mr, &rkeys),
			 ORIEL_OK);
	ori_rdma_mr_local(mr, &address, &lkeys);
	expect_rights(ctx, address, rkeys.rail[0], ORIEL_OK);
	expect_rights(ctx, registered->iova, registered->rkeys.rail[0], ORIEL_ERR_ACCESS);
	ori_rdma_unregister(rdma, mr);
	oriel_p2p_unregister(registered);
	stop(&e, rdma);
	free(memory);
}

static void transfer(struct endpoints *e, char *from, char *to, size_t length)
{
	struct oriel_p2p_buffer out = buffer(from, length, NULL), in = buffer(to, length, NULL);
	struct oriel_p2p_request r[2];

	endpoints_fill(from, length, (unsigned)length);
	assert_int_equal(oriel_p2p_recv(e->b, 0, &in, &r[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(e->a, 0, &out, &r[1]), ORIEL_OK);
	assert_int_equal(endpoints_wait(e, &r[0]), ORIEL_OK);
	assert_int_equal(endpoints_wait(e, &r[1]), ORIEL_OK);
	assert_memory_equal(from, to, length);
}

static void regions_serve_transfers(bool is_whole)
{
	char *own = aligned_alloc(4096, LENGTH), *shared = aligned_alloc(4096, LENGTH);
	struct ori_rdma_mr *mrs[2];
	struct oriel_dev_keys keys;
	struct ori_rdma *rdma;
	struct endpoints e;
	unsigned before;

	assert_true(own && shared);
	start(&e, &rdma, is_whole);
	assert_int_equal(ori_rdma_register(rdma, own + ODD, LENGTH - 2 * ODD, ORI_RDMA_OWN, &mrs[0],
					   &keys),
			 ORIEL_OK);
	assert_int_equal(ori_rdma_register(rdma, shared + ODD, LENGTH - 2 * ODD, ORI_RDMA_SHARED,
					   &mrs[1], &keys),
			 ORIEL_OK);
	before = registrations;
	transfer(&e, own + ODD, shared + ODD, LENGTH - 2 * ODD);
	transfer(&e, shared + 5 * ODD, shared + LENGTH / 2, LENGTH / 4);
	assert_int_equal(registrations, before);
	/* Peers write no memory that is registered for this process alone. */
	transfer(&e, shared + ODD, own + ODD, LENGTH - 2 * ODD);
	assert_int_equal(registrations, before + 1);
	/* Its neighbour is in no region. */
	transfer(&e, own, shared + ODD, 50);
	assert_int_equal(registrations, before + 2);
	for (unsigned i = 0; i < 2; i++)
		ori_rdma_unregister(rdma, mrs[i]);
	stop(&e, rdma);
	free(own);
	free(shared);
}

static void test_regions_serve_transfers(void **state)
{
	(void)state;
	regions_serve_transfers(true);
	regions_serve_transfers(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peers_only_write_what_p2p_gives_them),
		cmocka_unit_test(test_regions_serve_transfers),
	};

	ops = ori_hca_soft_ops;
	ops.register_memory = count_register;
	ops.caps = count_caps;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
