/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waits of this process as lines of the log, when a signal asks for them (ORIEL_HANG_SIGNAL),
 * and the text of a wait. comm.c opens it; src/hang has the text from here.
 */
#ifndef ORI_COMM_WAIT_REPORT_H
#define ORI_COMM_WAIT_REPORT_H

#include <stddef.h>

#include "base/wait_page.h"

/* "barrier: window 1, barrier slot 0: expected >= 5, seen 4" */
void ori_wait_note_text(const struct ori_wait_note *note, char *text, size_t length);

/*
 * Takes the signal of ORIEL_HANG_SIGNAL, once for the process: its handler wakes a thread, which
 * writes the lines, so that the handler may interrupt any code. A signal that the program handles,
 * or ignores, is left alone, with a warning; and so are its actions that come later.
 */
void ori_wait_report_open(void);

#endif
