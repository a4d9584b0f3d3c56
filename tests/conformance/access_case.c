/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts and gets over memory of the caller that cannot be read or written. A host call rejects
 * such memory and breaks nothing. A request that a thread posts by itself ends its queue, and
 * every rank learns whose memory it was.
 */
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define MEBIBYTE (1u << 20)
#define CULPRIT 1u

enum flaw {
	INACCESSIBLE,    /* none of it may be touched */
	HALF_ACCESSIBLE, /* the second half may not */
	UNMAPPED,        /* the second half is not there */
	WITH_A_HOLE,     /* a page in the middle may not */
	READ_ONLY,       /* none of it may be written */
	FLAWS
};

static const size_t lengths[] = {8, PAGE, MEBIBYTE};

struct bad {
	char *area;
	size_t size;
	char *at;
};

static bool bad_protect(char *at, size_t length, int protection)
{
	return mprotect(at, length, protection) == 0;
}

/* Fill in @bad: @length bytes that have @flaw. */
static void bad_open(const struct rank *r, struct bad *bad, enum flaw flaw, size_t length)
{
	size_t half = (length / 2 + PAGE - 1) / PAGE * PAGE;
	char *middle;
	bool is_made = false;

	bad->size = 2 * half + PAGE;
	bad->area =
		mmap(NULL, bad->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bad->area == MAP_FAILED)
		give_up(r, "mmap");
	memset(bad->area, 5, bad->size);
	middle = bad->area + half;
	bad->at = middle - length / 2;
	switch (flaw) {
	case INACCESSIBLE:
		is_made = bad_protect(bad->area, bad->size, PROT_NONE);
		break;
	case HALF_ACCESSIBLE:
		is_made = bad_protect(middle, half, PROT_NONE);
		break;
	case UNMAPPED:
		/* Unmapping would let another thread map something there at once. */
		is_made = r->is_thread ? bad_protect(middle, half + PAGE, PROT_NONE)
				       : munmap(middle, half + PAGE) == 0;
		if (!r->is_thread)
			bad->size = half;
		break;
	case WITH_A_HOLE:
		is_made = bad_protect(middle, PAGE, PROT_NONE);
		break;
	case READ_ONLY:
		is_made = bad_protect(bad->area, bad->size, PROT_READ);
		break;
	case FLAWS:
		break;
	}
	if (!is_made)
		give_up(r, "mprotect");
}

static void bad_close(const struct bad *bad)
{
	munmap(bad->area, bad->size);
}

/* A rank that @r reaches through a NIC; @r itself if there is none. */
static unsigned rdma_peer(const struct rank *r)
{
	unsigned i;

	for (i = 0; i < r->size; i++)
		if (!rank_is_mapped(r, r->rank, i))
			return i;
	return r->rank;
}

enum host_call {
	HOST_PUT,
	HOST_PUT_SIGNAL,
	HOST_PUT_COUNTER,
	HOST_PUT_SIGNAL_COUNTER,
	HOST_SEND,
	HOST_GET,
	HOST_CALLS
};

static enum oriel_status call_host(struct oriel_window *w, enum host_call call, unsigned peer,
				   void *at, size_t length)
{
	switch (call) {
	case HOST_PUT:
		return oriel_window_put(w, peer, 0, at, length);
	case HOST_PUT_SIGNAL:
		return oriel_window_put_signal(w, peer, 0, at, length, 0, 1);
	case HOST_PUT_COUNTER:
		return oriel_window_put_counter(w, peer, 0, at, length, 0);
	case HOST_PUT_SIGNAL_COUNTER:
		return oriel_window_put_signal_counter(w, peer, 0, at, length, 0, 1, 0);
	case HOST_SEND:
		return oriel_window_send(w, peer, 0, at, length, MOMENT_NS);
	case HOST_GET:
		return oriel_window_get(w, peer, 0, at, length);
	case HOST_CALLS:
		break;
	}
	return ORIEL_OK;
}

static void reject_all(struct rank *r, unsigned peer, enum flaw flaw, size_t length)
{
	char memory[64];
	struct bad bad;
	int call;

	bad_open(r, &bad, flaw, length);
	snprintf(memory, sizeof(memory), "%zu bytes at %p", length, (void *)bad.at);
	for (call = 0; call < HOST_CALLS; call++) {
		if (flaw == READ_ONLY && call != HOST_GET)
			continue;
		CHECK_STATUS(r, call_host(r->window, (enum host_call)call, peer, bad.at, length),
			     ORIEL_ERR_ACCESS);
		CHECK_TEXT(r, oriel_last_error(), memory);
		CHECK_TEXT(r, oriel_last_error(),
			   call == HOST_GET ? "may not be written" : "may not be read");
		CHECK_TEXT(r, oriel_last_error(), "nothing was posted");
	}
	bad_close(&bad);
}

/* No signal arrived over the link, and the link still works. */
static void check_link(struct rank *r, unsigned peer)
{
	uint64_t value = 1;

	CHECK_OK(r, oriel_window_drain(r->window, LONG_NS));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_window_read_signal(r->window, 0, &value));
	CHECK_EQ(r, value, 0);
	CHECK_EQ(r, not_all(r->base, r->length, 0), 0);
	CHECK_OK(r, oriel_window_read_counter(r->window, peer, 0, &value));
	CHECK_EQ(r, value, 0);
	rank_check_healthy(r);
}

static void put_well(struct rank *r, size_t length)
{
	char *from = rank_alloc(r, length);
	unsigned peer;

	for (peer = 0; peer < r->size; peer++) {
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		if (rdma_peer(r) != peer)
			continue;
		fill(from, length, r->rank);
		CHECK_OK(r, oriel_window_put_signal(r->window, peer, 0, from, length, 1, 1));
		CHECK_OK(r, oriel_window_drain(r->window, LONG_NS));
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	rank_free(r, from);
}

static void host_calls_reject_bad_memory(struct rank *r)
{
	unsigned peer = rdma_peer(r);
	enum oriel_path path = ORIEL_PATH_NONE;
	uint64_t arrived = 0;
	unsigned i, k, expected = 0;

	for (i = 0; i < 3; i++)
		for (k = 0; k < FLAWS && peer != r->rank; k++)
			/*
			 * The host call does not see a bad page in the middle; the NIC finds it.
			 */
			if (k != WITH_A_HOLE)
				reject_all(r, peer, (enum flaw)k, lengths[i]);
	check_link(r, peer);
	for (i = 0; i < r->size; i++) {
		struct rank other = *r;

		other.rank = i;
		expected += rdma_peer(&other) == r->rank && i != r->rank;
	}
	put_well(r, MEBIBYTE);
	CHECK_OK(r, oriel_comm_path(r->comm, peer, &path));
	CHECK_OK(r, oriel_window_read_signal(r->window, 1, &arrived));
	CHECK_EQ(r, arrived, expected + (peer == r->rank));
	rank_check_healthy(r);
}

static void check_culprit(struct rank *r, const char *what, const struct bad *bad, size_t length)
{
	struct oriel_health health = {.size = sizeof(health)};
	char text[512], memory[64];

	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	CHECK_EQ(r, health.status, (uint64_t)ORIEL_ERR_ACCESS);
	CHECK_EQ(r, health.rank, CULPRIT);
	CHECK_EQ(r, health.finder, CULPRIT);
	CHECK_EQ(r, health.syndrome, 4);
	CHECK(r, strcmp(health.what, what) == 0);
	CHECK_EQ(r, health.length, length);
	CHECK(r, oriel_health_text(&health, text, sizeof(text)) < sizeof(text));
	CHECK_TEXT(r, text, "rank 1 ended its queue after a local access error of its own");
	CHECK_TEXT(r, text, "local protection error");
	if (bad) {
		CHECK_EQ(r, health.address, (uintptr_t)bad->at);
		snprintf(memory, sizeof(memory), "%s of %zu bytes at %p", what, length,
			 (void *)bad->at);
		CHECK_TEXT(r, text, memory);
	}
	CHECK_STATUS(r, oriel_comm_barrier(r->comm), ORIEL_ERR_ACCESS);
	CHECK_TEXT(r, oriel_last_error(), "rank 1 ended its queue");
	CHECK(r, oriel_health_json(&health, text, sizeof(text)) < sizeof(text));
	CHECK_TEXT(r, text, "\"rank\":1");
	CHECK_TEXT(r, text, "\"length\":");
}

/* Post a good put and its signal, and the bad request behind them. */
static void post_bad_request(struct rank *r, const struct bad *bad, size_t length, bool is_get)
{
	unsigned peer = rdma_peer(r);
	struct oriel_dev_ticket ticket = {0, 0, 0};

	fill(r->base, 64, CULPRIT);
	CHECK_POSTED(r, oriel_dev_put_signal(&r->dev, r->group, peer, 0, r->base, 64, 2, 1, NULL));
	if (is_get)
		CHECK_POSTED(r,
			     oriel_dev_get(&r->dev, r->group, peer, 0, bad->at, length, &ticket));
	else
		CHECK_POSTED(r, oriel_dev_put_signal(&r->dev, r->group, peer, PAGE, bad->at, length,
						     3, 1, &ticket));
	CHECK_STATUS(r, oriel_dev_wait_local(&r->dev, r->group, ticket, 0), ORIEL_ERR_ACCESS);
}

static void end_by(struct rank *r, enum flaw flaw, size_t length, bool is_get)
{
	struct rank culprit = *r;
	struct bad bad;

	culprit.rank = CULPRIT;
	if (rdma_peer(&culprit) == CULPRIT)
		return;
	if (r->rank == CULPRIT) {
		bad_open(r, &bad, flaw, length);
		post_bad_request(r, &bad, length, is_get);
		check_culprit(r, is_get ? "get" : "put", &bad, length);
		bad_close(&bad);
		return;
	}
	/* The good put arrives; the signal of the bad one does not. */
	if (rdma_peer(&culprit) == r->rank) {
		CHECK_OK(r, oriel_dev_wait_signal(&r->dev, r->group, 2, ORIEL_GE, 1, 0));
		CHECK_EQ(r, wrong(r->base, 64, CULPRIT), 0);
	}
	CHECK_STATUS(r, oriel_dev_wait_signal(&r->dev, r->group, 3, ORIEL_GE, 1, 0),
		     ORIEL_ERR_ACCESS);
	check_culprit(r, is_get ? "get" : "put", NULL, length);
}

#define ENDS(name, flaw, length, is_get)         \
	static void name(struct rank *r)         \
	{                                        \
		end_by(r, flaw, length, is_get); \
	}

ENDS(an_inaccessible_source_of_8_bytes_ends_its_queue, INACCESSIBLE, 8, false)
ENDS(an_inaccessible_source_of_a_page_ends_its_queue, INACCESSIBLE, PAGE, false)
ENDS(an_inaccessible_source_of_a_mebibyte_ends_its_queue, INACCESSIBLE, MEBIBYTE, false)
ENDS(a_half_accessible_source_of_8_bytes_ends_its_queue, HALF_ACCESSIBLE, 8, false)
ENDS(a_half_accessible_source_of_a_page_ends_its_queue, HALF_ACCESSIBLE, PAGE, false)
ENDS(a_half_accessible_source_of_a_mebibyte_ends_its_queue, UNMAPPED, MEBIBYTE, false)
ENDS(a_source_with_a_hole_ends_its_queue, WITH_A_HOLE, MEBIBYTE, false)
ENDS(an_inaccessible_target_of_8_bytes_ends_its_queue, INACCESSIBLE, 8, true)
ENDS(a_half_accessible_target_of_a_page_ends_its_queue, HALF_ACCESSIBLE, PAGE, true)
ENDS(a_half_accessible_target_of_a_mebibyte_ends_its_queue, UNMAPPED, MEBIBYTE, true)
ENDS(a_target_with_a_hole_ends_its_queue, WITH_A_HOLE, MEBIBYTE, true)
ENDS(a_read_only_target_ends_its_queue, READ_ONLY, MEBIBYTE, true)

static const struct oriel_window_attr access_window = {.size = sizeof(access_window),
						       .length = MEBIBYTE + PAGE,
						       .signals = 8,
						       .counters = 1,
						       .channels = 1,
						       .channel_bytes = 2 * MEBIBYTE};

#define ACCESS_ROW(name)                                    \
	{                                                   \
#name, name, &access_window, 2, BREAKS_COMM \
	}

static const struct test_case access_cases[] = {
	{"host_calls_reject_bad_memory", host_calls_reject_bad_memory, &access_window, 2, 0},
	ACCESS_ROW(an_inaccessible_source_of_8_bytes_ends_its_queue),
	ACCESS_ROW(an_inaccessible_source_of_a_page_ends_its_queue),
	ACCESS_ROW(an_inaccessible_source_of_a_mebibyte_ends_its_queue),
	ACCESS_ROW(a_half_accessible_source_of_8_bytes_ends_its_queue),
	ACCESS_ROW(a_half_accessible_source_of_a_page_ends_its_queue),
	ACCESS_ROW(a_half_accessible_source_of_a_mebibyte_ends_its_queue),
	ACCESS_ROW(a_source_with_a_hole_ends_its_queue),
	ACCESS_ROW(an_inaccessible_target_of_8_bytes_ends_its_queue),
	ACCESS_ROW(a_half_accessible_target_of_a_page_ends_its_queue),
	ACCESS_ROW(a_half_accessible_target_of_a_mebibyte_ends_its_queue),
	ACCESS_ROW(a_target_with_a_hole_ends_its_queue),
	ACCESS_ROW(a_read_only_target_ends_its_queue),
};

const struct suite access_suite = SUITE(access);
