/* SPDX-License-Identifier: Apache-2.0 */
/* Implements base/late.h. */
#include "base/late.h"

#include <stdarg.h>
#include <stdio.h>

#include <oriel/status.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

void ori_late_begin(struct ori_late *late)
{
	uint64_t after = ori_setting_late();

	late->begun = ori_clock_ns();
	late->at = after ? late->begun + after : ORIEL_FOREVER;
}

bool ori_late_is_due(struct ori_late *late)
{
	if (late->at == ORIEL_FOREVER || !ori_deadline_passed(late->at))
		return false;
	late->at = ORIEL_FOREVER;
	return true;
}

void ori_late_warn(const struct ori_late *late, uint64_t timeout_ns, const char *format, ...)
{
	char text[384], limit[48] = "for ever";
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (timeout_ns != ORIEL_FOREVER)
		snprintf(limit, sizeof(limit), "until %g s have passed", (double)timeout_ns / 1e9);
	ori_log(ORIEL_LOG_WARN, "%s within %.3g s; this rank goes on waiting, %s (ORIEL_TIMEOUT)",
		text, (double)(ori_clock_ns() - late->begun) / 1e9, limit);
}
