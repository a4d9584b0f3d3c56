/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of doctor/doctor.h: a record with all verdicts on it. The tool calls them. */
#include "doctor/doctor.h"

#include <stdlib.h>

#include "base/error.h"
#include "doctor/check.h"
#include "doctor/inspect.h"
#include "sys/ibverbs_built.h"
#include "sys/mlx5dv_built.h"

#define MACHINE_CHECKS 64u

struct ori_machine {
	struct ori_facts facts;
	unsigned count;
	const struct ori_check *checks[MACHINE_CHECKS];
	struct ori_answer answers[MACHINE_CHECKS];
	struct ori_data_path_state states[ORI_DATA_PATH_COUNT];
};

const char *ori_doctor_verdict_name(enum ori_doctor_verdict verdict)
{
	static const char *const verdict_names[] = {"pass", "fail", "unknown", "skip"};

	return (unsigned)verdict < sizeof(verdict_names) / sizeof(verdict_names[0])
		       ? verdict_names[verdict]
		       : "no verdict";
}

/* Run the checks of a list, in the order of the report. */
static void machine_evaluate(struct ori_machine *machine, const struct ori_check_list *list)
{
	for (unsigned i = 0; i < list->count && machine->count < MACHINE_CHECKS; i++) {
		struct ori_answer *answer = &machine->answers[machine->count];

		machine->checks[machine->count++] = &list->checks[i];
		list->checks[i].evaluate(&machine->facts, answer);
	}
}

/* The same for records of this machine and of others: nothing but the facts counts. */
static void machine_judge(struct ori_machine *machine)
{
	struct ori_checked checked[MACHINE_CHECKS];

	machine_evaluate(machine, &ori_checks_of_host);
	machine_evaluate(machine, &ori_checks_of_gpus);
	machine_evaluate(machine, &ori_checks_of_nics);
	for (unsigned i = 0; i < machine->count; i++)
		checked[i] = (struct ori_checked){machine->checks[i], &machine->answers[i]};
	ori_data_paths_judge(&machine->facts, checked, machine->count, machine->states);
}

/* The data paths that this build of the library contains. */
static void machine_inspect_build(struct ori_facts *facts)
{
#ifdef ORI_DOCTOR_HAS_CUDA
	facts->built_gpu = facts->built_fabric = ORI_FACT_YES;
#else
	facts->built_gpu = facts->built_fabric = ORI_FACT_NO;
#endif
	facts->built_t3 = ori_ibverbs_is_built() ? ORI_FACT_YES : ORI_FACT_NO;
	facts->built_posted = ori_mlx5dv_is_built() ? ORI_FACT_YES : ORI_FACT_NO;
}

enum oriel_status ori_machine_create(struct ori_machine **machine)
{
	struct ori_machine *m;

	m = calloc(1, sizeof(*m));
	if (!m)
		return ori_fail_nomem(sizeof(*m), "a record of this machine");
	ori_facts_clear(&m->facts);
	machine_inspect_build(&m->facts);
	ori_inspect_host("", &m->facts);
	ori_inspect_gpus("", &m->facts);
	ori_inspect_nics("", &m->facts);
	machine_judge(m);
	*machine = m;
	return ORIEL_OK;
}

void ori_machine_destroy(struct ori_machine *machine)
{
	free(machine);
}

enum oriel_status ori_machine_import(const char *text, size_t length, struct ori_machine **machine)
{
	struct ori_machine *m;
	enum oriel_status status;

	m = calloc(1, sizeof(*m));
	if (!m)
		return ori_fail_nomem(sizeof(*m), "a record of another machine");
	status = ori_facts_parse(text, length, &m->facts);
	if (status != ORIEL_OK) {
		free(m);
		return status;
	}
	machine_judge(m);
	*machine = m;
	return ORIEL_OK;
}

size_t ori_machine_export(const struct ori_machine *machine, char *buffer, size_t length)
{
	return ori_facts_write(&machine->facts, buffer, length);
}

enum oriel_status ori_machine_finding(const struct ori_machine *machine, unsigned index,
				      struct ori_finding *finding)
{
	const struct ori_check *check;

	if (index >= machine->count)
		return ori_fail(ORIEL_ERR_RANGE, "finding %u of %u", index, machine->count);
	check = machine->checks[index];
	*finding = (struct ori_finding){
		.name = check->name,
		.verdict = machine->answers[index].verdict,
		.found = machine->answers[index].found,
		.means = check->means,
		.fix = machine->answers[index].fix,
		.needs = check->needs,
		.helps = check->helps,
	};
	return ORIEL_OK;
}

enum oriel_status ori_machine_data_path(const struct ori_machine *machine, unsigned index,
					struct ori_data_path_view *state)
{
	if (index >= ORI_DATA_PATH_COUNT)
		return ori_fail(ORIEL_ERR_RANGE, "data path %u of %u", index,
				(unsigned)ORI_DATA_PATH_COUNT);
	*state = (struct ori_data_path_view){
		.path = (enum ori_data_path)index,
		.name = ori_data_path_name((enum ori_data_path)index),
		.tag = ori_data_path_tag((enum ori_data_path)index),
		.verdict = machine->states[index].verdict,
		.is_built = machine->states[index].is_built,
		.is_used = machine->states[index].is_used,
		.why = machine->states[index].why,
	};
	return ORIEL_OK;
}

bool ori_machine_is_well(const struct ori_machine *machine)
{
	return ori_data_paths_are_well(machine->states);
}
