/* SPDX-License-Identifier: Apache-2.0 */
/* Each rank writes a greeting into the next rank's window, and reads the one that it receives. */
#include <stdio.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

enum { ROOM = 64, ARRIVED = 0 /* a signal id */ };

/* Every rank runs this. @w is the window's handle for device functions. */
static enum oriel_status greet(const struct oriel_dev_window *w)
{
	struct oriel_dev_group me = oriel_dev_thread();
	uint32_t next = (w->rank + 1) % w->ranks;
	uint32_t before = (w->rank + w->ranks - 1) % w->ranks;
	char text[ROOM] = "";
	enum oriel_status status;
	int64_t ticket;

	snprintf(text, sizeof(text), "greetings from rank %u", w->rank);
	ticket = oriel_dev_put_signal(w, me, next, 0, text, sizeof(text), ARRIVED, 1);
	if (ticket < 0)
		return (enum oriel_status)ticket;

	status = oriel_dev_wait_signal_next(w, me, before, ARRIVED, 1, 0);
	if (status == ORIEL_OK)
		status = oriel_dev_wait_local(w, me, next, ticket, 0); /* @text may be reused */
	if (status == ORIEL_OK)
		printf("rank %u of %u got: %s\n", w->rank, w->ranks,
		       (char *)oriel_dev_address(w, w->rank, 0));
	return status;
}

int main(void)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = ROOM};
	struct oriel_bootstrap bootstrap = {0};
	struct oriel_window *window = NULL;
	struct oriel_dev_window device;
	struct oriel_comm *comm = NULL;
	enum oriel_status status;

	status = oriel_bootstrap_open_env(0, &bootstrap);
	if (status == ORIEL_OK)
		status = oriel_comm_create(&bootstrap, NULL, &comm);
	if (status == ORIEL_OK)
		status = oriel_window_create(comm, &attr, &window);
	if (status == ORIEL_OK)
		status = oriel_window_device(window, &device);
	if (status != ORIEL_OK)
		fprintf(stderr, "first_put: %s\n", oriel_last_error());
	else if ((status = greet(&device)) != ORIEL_OK)
		fprintf(stderr, "first_put: %s\n", oriel_status_text(status));

	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	oriel_bootstrap_close(&bootstrap);
	return status == ORIEL_OK ? 0 : 1;
}
