/* SPDX-License-Identifier: Apache-2.0 */
/* `oriel hang`: which ranks wait for which, in the job of a process of this host. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/comm.h>
#include <oriel/dev/types.h>

#include "hang/hang.h"
#include "json.h"
#include "tool.h"

#define HANG_TEXT 256

static const char hang_usage[] =
	"usage: oriel hang [--json] PID\n"
	"\n"
	"Prints, for each rank of this host that has a communicator with process PID, what its\n"
	"threads wait for, which ranks wait for which, and a cycle of ranks that wait for each\n"
	"other, if there is one. The processes need not run for that: one that is stopped or\n"
	"that spins is shown as well. They must be this user's. Waits of threads of the CPU are\n"
	"shown once they have lasted 4 ms, those of kernels after about 1 ms.\n"
	"\n"
	"      --json  print one line of JSON\n"
	"  -h, --help  this text\n"
	"\n"
	"Exit code 0: no cycle, and no rank for which others wait while it waits for none;\n"
	"3: there is a cycle, or such a rank; 1: PID cannot be read; 2: the command line is\n"
	"invalid.\n";

#define HANG_FOUND 3

static const char *hang_state(const struct ori_hang_process *process)
{
	switch (process->state) {
	case 'T':
		return "stopped (SIGSTOP)";
	case 't':
		return "stopped by a debugger";
	case 'Z':
		return "exited, and not waited for";
	case 'R':
		return "runs";
	case 'D':
		return "sleeps in the kernel, and cannot be interrupted";
	case 'S':
		return "sleeps";
	}
	return "exited";
}

/* "rank 2", "ranks 0, 3", "any of ranks 1-3" */
static void hang_peers(const struct ori_hang_comm *comm, unsigned rank,
		       const struct ori_hang_wait *wait, char *text, size_t length)
{
	unsigned peer, end, count = 0;
	size_t used;

	for (peer = 0; peer < comm->size; peer++)
		count += ori_hang_wait_is_for(comm, rank, wait, peer);
	used = (size_t)snprintf(text, length, "%s%s", wait->is_strict ? "" : "any of ",
				count == 1 ? "rank" : "ranks");
	for (peer = 0, count = 0; peer < comm->size && used < length; peer = end + 1) {
		end = peer;
		if (!ori_hang_wait_is_for(comm, rank, wait, peer))
			continue;
		while (end + 1 < comm->size && ori_hang_wait_is_for(comm, rank, wait, end + 1))
			end++;
		used += (size_t)snprintf(text + used, length - used, count++ ? ", %u" : " %u",
					 peer);
		if (end > peer && used < length)
			used += (size_t)snprintf(text + used, length - used, "-%u", end);
	}
	if (!count)
		snprintf(text, length, "%s",
			 ori_wait_outside(&wait->note) ? ori_wait_outside(&wait->note) : "no rank");
}

static void hang_print_wait(const struct ori_hang_comm *comm, unsigned rank,
			    const struct ori_hang_wait *wait)
{
	char text[HANG_TEXT], peers[HANG_TEXT], who[32] = "a kernel";

	ori_hang_wait_text(wait, text, sizeof(text));
	hang_peers(comm, rank, wait, peers, sizeof(peers));
	if (wait->thread)
		snprintf(who, sizeof(who), "thread %d", wait->thread);
	printf("    %s has waited %.1f s for %s: %s\n", who, (double)wait->age_ns / 1e9, peers,
	       text);
}

static void hang_print_rank(const struct ori_hang_comm *comm, unsigned rank)
{
	const struct ori_hang_rank *r = &comm->ranks[rank];
	unsigned i;

	if (!r->process) {
		printf("  rank %u: no process of this host that can be read has it\n", rank);
		return;
	}
	printf("  rank %u, process %d (%s), %s%s\n", rank, r->process->pid, r->process->name,
	       hang_state(r->process), r->wait_count ? "" : ", waits for nothing in Oriel");
	if (r->health.state == ORIEL_DEV_FAULT_FULL)
		printf("    its communicator is broken: %s\n",
		       oriel_status_text((enum oriel_status)r->health.status));
	for (i = 0; i < r->wait_count; i++)
		hang_print_wait(comm, rank, &r->waits[i]);
}

/* True: the communicator cannot go on by itself, as far as this host knows. */
static bool hang_print_end(const struct ori_hang_comm *comm)
{
	bool is_found = comm->cycle_length > 0;
	unsigned i;

	if (comm->cycle_length) {
		printf("  cycle: ");
		for (i = 0; i < comm->cycle_length; i++)
			printf("rank %u waits for ", comm->cycle[i]);
		printf("rank %u\n", comm->cycle[0]);
	}
	for (i = 0; i < comm->size; i++) {
		if (!ori_hang_is_root(comm, i))
			continue;
		is_found = true;
		printf("  others wait for rank %u, which waits for no rank: %s\n", i,
		       comm->ranks[i].process ? hang_state(comm->ranks[i].process)
					      : "not on this host");
	}
	return is_found;
}

static bool hang_print(const struct ori_hang *hang)
{
	bool is_found = false;
	unsigned i, rank;

	for (i = 0; i < hang->comm_count; i++) {
		const struct ori_hang_comm *comm = &hang->comms[i];

		printf("communicator %02x%02x%02x%02x of %u rank%s\n", comm->id[0], comm->id[1],
		       comm->id[2], comm->id[3], comm->size, comm->size == 1 ? "" : "s");
		for (rank = 0; rank < comm->size; rank++)
			hang_print_rank(comm, rank);
		is_found |= hang_print_end(comm);
	}
	return is_found;
}

static void hang_json_wait(struct json *json, const struct ori_hang_comm *comm, unsigned rank,
			   const struct ori_hang_wait *wait)
{
	char text[HANG_TEXT];
	unsigned peer;

	ori_hang_wait_text(wait, text, sizeof(text));
	json_open_object(json, NULL);
	json_bool(json, "kernel", !wait->thread);
	if (wait->thread)
		json_unsigned(json, "thread", (uint64_t)wait->thread);
	json_number(json, "seconds", (double)wait->age_ns / 1e9);
	json_text(json, "text", text);
	json_unsigned(json, "window", ORIEL_DEV_WINDOW_NUMBER(wait->note.window));
	json_unsigned(json, "id", wait->note.id);
	json_unsigned(json, "expected", wait->note.expected);
	json_unsigned(json, "seen", wait->note.seen);
	json_bool(json, "any", !wait->is_strict);
	json_open_array(json, "for");
	for (peer = 0; peer < comm->size; peer++)
		if (ori_hang_wait_is_for(comm, rank, wait, peer))
			json_unsigned(json, NULL, peer);
	json_close_array(json);
	json_close_object(json);
}

static void hang_json_rank(struct json *json, const struct ori_hang_comm *comm, unsigned rank)
{
	const struct ori_hang_rank *r = &comm->ranks[rank];
	unsigned i;

	json_open_object(json, NULL);
	json_unsigned(json, "rank", rank);
	if (r->process) {
		char state[] = {r->process->state, '\0'};

		json_unsigned(json, "process", (uint64_t)r->process->pid);
		json_text(json, "program", r->process->name);
		json_text(json, "state", state);
		json_text(json, "health",
			  r->health.state == ORIEL_DEV_FAULT_FULL
				  ? oriel_status_name((enum oriel_status)r->health.status)
				  : oriel_status_name(ORIEL_OK));
	}
	json_open_array(json, "waits");
	for (i = 0; i < r->wait_count; i++)
		hang_json_wait(json, comm, rank, &r->waits[i]);
	json_close_array(json);
	json_close_object(json);
}

static bool hang_json_comm(struct json *json, const struct ori_hang_comm *comm)
{
	bool is_found = comm->cycle_length > 0;
	char id[2 * ORI_WAIT_ID + 1];
	unsigned i;

	for (i = 0; i < ORI_WAIT_ID; i++)
		snprintf(id + 2 * (size_t)i, 3, "%02x", comm->id[i]);
	json_open_object(json, NULL);
	json_text(json, "id", id);
	json_unsigned(json, "size", comm->size);
	json_open_array(json, "ranks");
	for (i = 0; i < comm->size; i++)
		hang_json_rank(json, comm, i);
	json_close_array(json);
	json_open_array(json, "cycle");
	for (i = 0; i < comm->cycle_length; i++)
		json_unsigned(json, NULL, comm->cycle[i]);
	json_close_array(json);
	json_open_array(json, "awaited");
	for (i = 0; i < comm->size; i++) {
		if (!ori_hang_is_root(comm, i))
			continue;
		json_unsigned(json, NULL, i);
		is_found = true;
	}
	json_close_array(json);
	json_close_object(json);
	return is_found;
}

static bool hang_json(const struct ori_hang *hang)
{
	struct json json = {.to = stdout};
	bool is_found = false;
	unsigned i;

	json_open_object(&json, NULL);
	json_open_array(&json, "communicators");
	for (i = 0; i < hang->comm_count; i++)
		is_found |= hang_json_comm(&json, &hang->comms[i]);
	json_close_array(&json);
	json_close_object(&json);
	putchar('\n');
	return is_found;
}

static int hang_misuse(const char *text)
{
	fprintf(stderr, "oriel hang: %s\nTry `oriel help hang`.\n", text);
	return TOOL_USAGE;
}

int oriel_tool_hang(int argc, char **argv)
{
	static const struct option names[] = {{"json", no_argument, NULL, 'j'},
					      {"help", no_argument, NULL, 'h'},
					      {NULL, 0, NULL, 0}};
	char name[] = "oriel hang", *end;
	struct ori_hang hang;
	bool is_json = false, is_found;
	int option;
	long pid;

	argv[0] = name; /* the prefix of getopt_long()'s messages */
	while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		if (option == 'h') {
			fputs(hang_usage, stdout);
			return TOOL_OK;
		}
		if (option != 'j')
			return hang_misuse("unknown option");
		is_json = true;
	}
	if (optind + 1 != argc)
		return hang_misuse("give the number of one process");
	pid = strtol(argv[optind], &end, 10);
	if (*end || end == argv[optind] || pid <= 0 || pid > INT32_MAX)
		return hang_misuse("PID is no number of a process");
	if (ori_hang_read((int)pid, &hang) != ORIEL_OK) {
		fprintf(stderr, "oriel hang: %s\n", oriel_last_error());
		return TOOL_FAILED;
	}
	is_found = is_json ? hang_json(&hang) : hang_print(&hang);
	ori_hang_free(&hang);
	return is_found ? HANG_FOUND : TOOL_OK;
}
