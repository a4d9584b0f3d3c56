/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of launch.c and of the launchers that are variables alone: which one is chosen, what
 * it reads, and the errors.
 */
#include "bootstrap/launch_kubernetes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHORT 100000000u /* ns */
#define LOG_LENGTH 2000

static const char *const names[] = {"RANK",
				    "WORLD_SIZE",
				    "MASTER_ADDR",
				    "MASTER_PORT",
				    "ORIEL_BOOTSTRAP",
				    "ORIEL_PORT",
				    "ORIEL_LOG",
				    "ORIEL_LISTEN_FD",
				    "ORIEL_TIMEOUT",
				    "ORIEL_JOB_KEY",
				    "ORIEL_MEET",
				    "ORIEL_IFACE",
				    "LOCAL_WORLD_SIZE",
				    "TORCHELASTIC_RUN_ID",
				    "TORCHELASTIC_USE_AGENT_STORE",
				    "PMI_SIZE",
				    "PMIX_RANK",
				    "OMPI_COMM_WORLD_SIZE",
				    "JOB_COMPLETION_INDEX",
				    "SLURM_PROCID",
				    "SLURM_NTASKS",
				    "SLURM_JOB_ID",
				    "SLURM_STEP_ID",
				    "SLURM_STEP_NUM_TASKS",
				    "SLURM_STEP_NUM_NODES",
				    "SLURM_STEP_NODELIST"};

static char lines[LOG_LENGTH];

static int forget_all(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	return 0;
}

static void keep_line(void *context, enum oriel_log_level level, const char *message)
{
	size_t used = strlen(lines);

	(void)context;
	if (level == ORIEL_LOG_DEBUG)
		return;
	snprintf(lines + used, sizeof(lines) - used, "%s\n", message);
}

/* Sets "NAME=value NAME=value ...", and opens; a rank of a larger job fails within SHORT. */
static enum oriel_status open_with(const char *environment)
{
	char copy[400], *word, *rest = copy;
	struct oriel_bootstrap b = {0};
	enum oriel_status status;

	forget_all(NULL);
	setenv("ORIEL_LOG", "info", 1);
	snprintf(copy, sizeof(copy), "%s", environment);
	while ((word = strsep(&rest, " "))) {
		char *value = strchr(word, '=');

		if (value) {
			*value = '\0';
			setenv(word, value + 1, 1);
		}
	}
	lines[0] = '\0';
	oriel_log_set_sink(keep_line, NULL);
	status = oriel_bootstrap_open_env(SHORT, &b);
	oriel_log_set_sink(NULL, NULL);
	if (status == ORIEL_OK)
		oriel_bootstrap_close(&b);
	return status;
}

static void check_text(const char *environment, enum oriel_status expected, const char *part)
{
	enum oriel_status status = open_with(environment);

	if (status != expected || !strstr(oriel_last_error(), part))
		print_error("'%s': %s\n", environment, oriel_last_error());
	assert_int_equal(status, expected);
	assert_non_null(strstr(oriel_last_error(), part));
}

static void check_log(const char *environment, const char *part)
{
	open_with(environment);
	if (!strstr(lines, part))
		print_error("'%s': %s\n", environment, lines);
	assert_non_null(strstr(lines, part));
}

#define STEP "SLURM_PROCID=1 SLURM_JOB_ID=3 SLURM_STEP_ID=2 SLURM_STEP_NUM_TASKS=2 "
#define STEP_0 "SLURM_PROCID=0 SLURM_JOB_ID=3 SLURM_STEP_ID=2 SLURM_STEP_NUM_TASKS=2 "

static void test_the_reason_of_the_choice_is_logged(void **state)
{
	(void)state;
	check_log("",
		  "bootstrap: local, since RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are not "
		  "set, and no launcher is found: this process alone");
	check_log("ORIEL_BOOTSTRAP=local RANK=1 WORLD_SIZE=2",
		  "bootstrap: local, since ORIEL_BOOTSTRAP is 'local': this process alone");
	check_log("RANK=0 WORLD_SIZE=1", "bootstrap: env, since RANK is set: this process alone");
	check_log("RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=20001 " STEP_0,
		  "bootstrap: env, since RANK is set: rank 0 of 2 listens at 127.0.0.1 "
		  "(MASTER_ADDR), TCP port 20001 (MASTER_PORT), by a socket of its own, without a "
		  "job key");
	check_log(
		"JOB_COMPLETION_INDEX=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=20002",
		"bootstrap: kubernetes, since JOB_COMPLETION_INDEX and WORLD_SIZE are set: rank 0 "
		"of 2 listens at 127.0.0.1 (MASTER_ADDR), TCP port 20002 (MASTER_PORT)");
	check_log(
		STEP_0 "SLURM_STEP_NUM_NODES=1",
		"bootstrap: slurm, since SLURM_PROCID, SLURM_STEP_ID and SLURM_STEP_NUM_TASKS are "
		"set: rank 0 of 2 listens at unix socket @oriel-");
	check_log(STEP_0 "SLURM_STEP_NUM_NODES=1",
		  " (SLURM_STEP_NUM_NODES is 1), without a job key");
	check_log(STEP_0 "SLURM_STEP_NUM_NODES=1 ORIEL_MEET=tcp",
		  "rank 0 of 2 listens at 127.0.0.1 (SLURM_STEP_NUM_NODES is 1), TCP port 20665 "
		  "(SLURM_JOB_ID, SLURM_STEP_ID)");
}

#define RANK_0 "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=20004 "

static void test_ranks_of_one_machine_meet_by_unix_sockets(void **state)
{
	(void)state;
	check_log(RANK_0 "LOCAL_WORLD_SIZE=2",
		  " (LOCAL_WORLD_SIZE is WORLD_SIZE), without a job key");
	check_log(RANK_0 "LOCAL_WORLD_SIZE=2", "rank 0 of 2 listens at unix socket @oriel-");
	check_log(RANK_0 "LOCAL_WORLD_SIZE=1", "rank 0 of 2 listens at 127.0.0.1 (MASTER_ADDR)");
	check_log(RANK_0 "LOCAL_WORLD_SIZE=1 ORIEL_MEET=unix", " (ORIEL_MEET is 'unix'), without");
	check_log(RANK_0 "LOCAL_WORLD_SIZE=2 ORIEL_MEET=tcp", "listens at 127.0.0.1 (MASTER_ADDR)");
	check_log(RANK_0 "LOCAL_WORLD_SIZE=2 ORIEL_IFACE=nosuch", "at unix socket");
	check_text(RANK_0 "LOCAL_WORLD_SIZE=two", ORIEL_ERR_CONFIG, "LOCAL_WORLD_SIZE is 'two'");
}

/* The sockets of two jobs differ wherever their ports, names or keys do. */
static void test_the_name_of_the_socket_is_that_of_the_job(void **state)
{
	static const char *const jobs[] = {
		RANK_0 "ORIEL_MEET=unix",
		RANK_0 "ORIEL_MEET=unix ORIEL_PORT=20005",
		RANK_0 "ORIEL_MEET=unix TORCHELASTIC_RUN_ID=a",
		RANK_0 "ORIEL_MEET=unix TORCHELASTIC_RUN_ID=b",
		RANK_0 "ORIEL_MEET=unix ORIEL_JOB_KEY=00112233445566778899aabbccddeeff",
		RANK_0 "ORIEL_MEET=unix ORIEL_JOB_KEY=00112233445566778899aabbccddeefe",
	};
	char sockets[6][33];
	size_t i, j;

	(void)state;
	for (i = 0; i < 6; i++) {
		open_with(jobs[i]);
		assert_non_null(strstr(lines, "@oriel-"));
		snprintf(sockets[i], sizeof(sockets[i]), "%s", strstr(lines, "@oriel-") + 7);
		for (j = 0; j < i; j++)
			assert_string_not_equal(sockets[i], sockets[j]);
	}
	open_with(jobs[2]);
	assert_non_null(strstr(lines, sockets[2]));
}

static void test_ranks_of_a_step_of_slurm_meet_at_the_first_node(void **state)
{
	(void)state;
	check_text(STEP "SLURM_STEP_NUM_NODES=1 ORIEL_MEET=tcp", ORIEL_ERR_TIMEOUT,
		   "rank 1 of 2 cannot connect to rank 0 at 127.0.0.1:20665");
	check_text(STEP "SLURM_STEP_NUM_NODES=1", ORIEL_ERR_TIMEOUT,
		   "rank 1 of 2 cannot connect to rank 0 at @oriel-");
	check_text(STEP "SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=127.0.0.[1-2]",
		   ORIEL_ERR_TIMEOUT, "rank 1 of 2 cannot connect to rank 0 at 127.0.0.1:20665");
	check_text(STEP "MASTER_ADDR=127.0.0.1 ORIEL_PORT=20003", ORIEL_ERR_TIMEOUT,
		   "rank 1 of 2 cannot connect to rank 0 at 127.0.0.1:20003");
}

/* A script of sbatch is one process, though its SLURM_NTASKS may be larger. */
static void test_a_batch_script_is_one_rank(void **state)
{
	(void)state;
	assert_int_equal(open_with("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=3"), ORIEL_OK);
	assert_non_null(strstr(lines, "bootstrap: local"));
	assert_int_equal(open_with("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1"),
			 ORIEL_OK);
	assert_non_null(strstr(lines, "bootstrap: slurm"));
}

static void test_a_demanded_launcher_that_is_not_there_is_named(void **state)
{
	static const char *const bad[][2] = {
		{"ORIEL_BOOTSTRAP=env", "WORLD_SIZE is not set, but ORIEL_BOOTSTRAP is 'env'"},
		{"ORIEL_BOOTSTRAP=pmix", "ORIEL_BOOTSTRAP is 'pmix', but PMIX_RANK is not set"},
		{"ORIEL_BOOTSTRAP=slurm", "SLURM_STEP_NUM_TASKS is not set"},
		{"ORIEL_BOOTSTRAP=kubernetes", "WORLD_SIZE is not set"},
		{"ORIEL_BOOTSTRAP=kubernetes WORLD_SIZE=2", "JOB_COMPLETION_INDEX is not set"},
		{"ORIEL_BOOTSTRAP=mpi", "ORIEL_BOOTSTRAP is 'mpi', but it may be auto, env, pmix, "
					"slurm, kubernetes or local"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_text(bad[i][0], ORIEL_ERR_CONFIG, bad[i][1]);
}

static void test_a_bad_variable_is_named(void **state)
{
	static const char *const bad[][2] = {
		{STEP "SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=a[1",
		 "SLURM_STEP_NODELIST is 'a[1', which is no list of hosts"},
		{STEP "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NODELIST is ''"},
		{STEP, "SLURM_STEP_NUM_NODES is not set"},
		{STEP "SLURM_STEP_NUM_NODES=1 WORLD_SIZE=4",
		 "WORLD_SIZE is 4, but the launcher (slurm) has started 2 ranks"},
		{STEP "SLURM_STEP_NUM_NODES=1 MASTER_PORT=0", "MASTER_PORT is 0"},
		{"SLURM_PROCID=2 SLURM_STEP_ID=2 SLURM_STEP_NUM_TASKS=2",
		 "SLURM_PROCID is 2, but SLURM_STEP_NUM_TASKS is 2"},
		{"JOB_COMPLETION_INDEX=2 WORLD_SIZE=2",
		 "JOB_COMPLETION_INDEX is 2, but WORLD_SIZE is 2"},
		{"JOB_COMPLETION_INDEX=999999 WORLD_SIZE=1000000",
		 "a pod of an indexed job begins with NAME-999999"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_text(bad[i][0], ORIEL_ERR_CONFIG, bad[i][1]);
}

static void test_an_indexed_job_without_its_size_causes_a_warning(void **state)
{
	(void)state;
	assert_int_equal(open_with("JOB_COMPLETION_INDEX=3"), ORIEL_OK);
	assert_non_null(strstr(lines, "JOB_COMPLETION_INDEX is '3', but WORLD_SIZE is not set"));
	assert_int_equal(open_with("JOB_COMPLETION_INDEX=3 ORIEL_BOOTSTRAP=local"), ORIEL_OK);
	assert_null(strstr(lines, "JOB_COMPLETION_INDEX"));
}

static void test_pod_0_is_found_by_the_name_of_another(void **state)
{
	static const struct {
		const char *name;
		unsigned index;
		const char *host; /* NULL: not found */
	} pods[] = {
		{"train-0.mesh.ns.svc.cluster.local", 0, "train-0.mesh.ns.svc.cluster.local"},
		{"train-12.mesh.ns.svc.cluster.local", 12, "train-0.mesh.ns.svc.cluster.local"},
		{"a-1-1", 1, "a-1-0"},
		{"train-12.mesh", 2, NULL},
		{"train-1", 12, NULL},
		{"-1", 1, NULL},
		{"", 1, NULL},
		{"mesh.train-1", 1, NULL},
	};
	char host[ORI_LAUNCH_HOST];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
		bool is_found = ori_kubernetes_host(pods[i].name, pods[i].index, host);

		assert_int_equal(is_found, pods[i].host != NULL);
		if (pods[i].host)
			assert_string_equal(host, pods[i].host);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_reason_of_the_choice_is_logged),
		cmocka_unit_test(test_ranks_of_a_step_of_slurm_meet_at_the_first_node),
		cmocka_unit_test(test_ranks_of_one_machine_meet_by_unix_sockets),
		cmocka_unit_test(test_the_name_of_the_socket_is_that_of_the_job),
		cmocka_unit_test(test_a_batch_script_is_one_rank),
		cmocka_unit_test(test_a_demanded_launcher_that_is_not_there_is_named),
		cmocka_unit_test(test_a_bad_variable_is_named),
		cmocka_unit_test(test_an_indexed_job_without_its_size_causes_a_warning),
		cmocka_unit_test(test_pod_0_is_found_by_the_name_of_another),
	};

	return cmocka_run_group_tests(tests, forget_all, forget_all);
}
