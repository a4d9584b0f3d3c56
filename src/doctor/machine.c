/* SPDX-License-Identifier: Apache-2.0 */
/* The public face: a record with all that was judged of it. */
#include <oriel/doctor.h>

#include "base/error.h"
#include "base/handle.h"
#include "doctor/check.h"
#include "doctor/look.h"
#include "sys/ibverbs_built.h"
#include "sys/mlx5dv_built.h"

#define MACHINE_CHECKS 64u

struct oriel_machine {
	struct ori_facts facts;
	unsigned count;
	const struct ori_check *checks[MACHINE_CHECKS];
	struct ori_answer answers[MACHINE_CHECKS];
	struct ori_prospect prospects[ORIEL_WAYS];
};

const char *oriel_verdict_name(enum oriel_verdict verdict)
{
	static const char *const verdict_names[] = {"pass", "fail", "unknown", "skip"};

	return (unsigned)verdict < sizeof(verdict_names) / sizeof(verdict_names[0])
		       ? verdict_names[verdict]
		       : "no verdict";
}

static void machine_ask(struct oriel_machine *machine, const struct ori_check_list *list)
{
	for (unsigned i = 0; i < list->count && machine->count < MACHINE_CHECKS; i++) {
		struct ori_answer *answer = &machine->answers[machine->count];

		machine->checks[machine->count++] = &list->checks[i];
		list->checks[i].ask(&machine->facts, answer);
	}
}

static void machine_judge(struct oriel_machine *machine)
{
	struct ori_ruling rulings[MACHINE_CHECKS];

	machine_ask(machine, &ori_checks_of_host);
	machine_ask(machine, &ori_checks_of_gpus);
	machine_ask(machine, &ori_checks_of_nics);
	for (unsigned i = 0; i < machine->count; i++)
		rulings[i] = (struct ori_ruling){machine->checks[i], &machine->answers[i]};
	ori_ways_judge(&machine->facts, rulings, machine->count, machine->prospects);
}

/* What of the ways this library has; that kernels post to a real NIC is still to come. */
static void machine_look_built(struct ori_facts *facts)
{
#ifdef ORI_DOCTOR_HAS_CUDA
	facts->built_gpu = facts->built_fabric = ORI_FACT_YES;
#else
	facts->built_gpu = facts->built_fabric = ORI_FACT_NO;
#endif
	facts->built_t3 = ori_ibverbs_is_built() ? ORI_FACT_YES : ORI_FACT_NO;
	facts->built_posted = ori_mlx5dv_is_built() ? ORI_FACT_YES : ORI_FACT_NO;
}

enum oriel_status oriel_machine_create(struct oriel_machine **machine)
{
	struct oriel_machine *m;

	if (!machine)
		return ori_fail(ORIEL_ERR_INVALID, "no place for the machine");
	m = ori_handle_alloc(ORI_HANDLE_MACHINE, sizeof(*m));
	if (!m)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a record of this machine");
	ori_facts_clear(&m->facts);
	machine_look_built(&m->facts);
	ori_look_host("", &m->facts);
	ori_look_gpus("", &m->facts);
	ori_look_nics("", &m->facts);
	machine_judge(m);
	ori_handle_open(m, NULL);
	*machine = m;
	return ORIEL_OK;
}

void oriel_machine_destroy(struct oriel_machine *machine)
{
	if (ori_handle_shut(machine, ORI_HANDLE_MACHINE, __func__))
		ori_handle_free(machine);
}

enum oriel_status oriel_machine_import(const char *text, size_t length,
				       struct oriel_machine **machine)
{
	struct oriel_machine *m;
	enum oriel_status status;

	if (!text || !machine)
		return ori_fail(ORIEL_ERR_INVALID, "no record, or no place for the machine");
	m = ori_handle_alloc(ORI_HANDLE_MACHINE, sizeof(*m));
	if (!m)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a record");
	status = ori_facts_parse(text, length, &m->facts);
	if (status != ORIEL_OK) {
		ori_handle_free(m);
		return status;
	}
	machine_judge(m);
	ori_handle_open(m, NULL);
	*machine = m;
	return ORIEL_OK;
}

size_t oriel_machine_export(const struct oriel_machine *machine, char *buffer, size_t length)
{
	if (!ori_handle_use(machine, ORI_HANDLE_MACHINE, __func__))
		return 0;
	return ori_facts_write(&machine->facts, buffer, length);
}

enum oriel_status oriel_machine_finding(const struct oriel_machine *machine, unsigned index,
					struct oriel_finding *finding)
{
	enum oriel_status status = ori_handle_check(machine, ORI_HANDLE_MACHINE, __func__);
	const struct ori_check *check;

	if (status != ORIEL_OK)
		return status;
	if (!finding)
		return ori_fail(ORIEL_ERR_INVALID, "no place for the finding");
	if (index >= machine->count)
		return ori_fail(ORIEL_ERR_RANGE, "finding %u of %u", index, machine->count);
	check = machine->checks[index];
	*finding = (struct oriel_finding){
		.name = check->name,
		.verdict = machine->answers[index].verdict,
		.found = machine->answers[index].found,
		.means = check->means,
		.mend = machine->answers[index].mend,
		.needs = check->needs,
		.helps = check->helps,
	};
	return ORIEL_OK;
}

enum oriel_status oriel_machine_prospect(const struct oriel_machine *machine, unsigned index,
					 struct oriel_prospect *prospect)
{
	enum oriel_status status = ori_handle_check(machine, ORI_HANDLE_MACHINE, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!prospect)
		return ori_fail(ORIEL_ERR_INVALID, "no place for the prospect");
	if (index >= ORIEL_WAYS)
		return ori_fail(ORIEL_ERR_RANGE, "way %u of %u", index, (unsigned)ORIEL_WAYS);
	*prospect = (struct oriel_prospect){
		.way = (enum oriel_way)index,
		.name = ori_way_name((enum oriel_way)index),
		.tag = ori_way_tag((enum oriel_way)index),
		.verdict = machine->prospects[index].verdict,
		.is_built = machine->prospects[index].is_built,
		.is_used = machine->prospects[index].is_used,
		.why = machine->prospects[index].why,
	};
	return ORIEL_OK;
}

bool oriel_machine_is_well(const struct oriel_machine *machine)
{
	return ori_handle_use(machine, ORI_HANDLE_MACHINE, __func__) &&
	       ori_ways_are_well(machine->prospects);
}
