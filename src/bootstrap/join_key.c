/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job keys by munge: rank 0 has made the key, and hands it out as a credential that processes of
 * its user can open; a member asks for it before it joins. Neither trusts the way: the handshake of
 * TLS that follows proves at both ends that the key is the same. tcp.c and join.c call it.
 */
#include "bootstrap/join.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap/dial.h"
#include "sys/munge.h"

enum oriel_status ori_join_seal_key(const struct ori_key *key, struct ori_tls_context *tls)
{
	char credential[ORI_MUNGE_TEXT];
	enum oriel_status status = ori_munge_seal(key->bytes, key->length, credential);

	return status == ORIEL_OK ? ori_tls_context_seal(tls, credential) : status;
}

bool ori_join_wants_key(const struct ori_join *join)
{
	return join->job->own.is_munged && !join->key->length;
}

static_assert(ORI_MUNGE_TEXT <= ORI_DIAL_ANSWER, "a credential is an answer");

/* The other end may be any process, as the port is open to all. */
static enum oriel_status key_open(const char *where, const char *credential, struct ori_key *key)
{
	size_t length = sizeof(key->bytes);
	char text[ORI_MUNGE_TEXT];
	enum oriel_status status;
	uid_t owner;

	status = ori_munge_open(credential, key->bytes, &length, &owner);
	if (status != ORIEL_OK) {
		snprintf(text, sizeof(text), "%s", oriel_last_error());
		return ori_fail(status, "%s has a job key that munge does not open for user %u: %s",
				where, (unsigned)geteuid(), text);
	}
	if (owner != geteuid())
		return ori_fail(ORIEL_ERR_AUTH,
				"%s has a job key of user %u, but this process is of user %u",
				where, (unsigned)owner, (unsigned)geteuid());
	key->length = length;
	return ORIEL_OK;
}

enum oriel_status ori_join_ask_key(struct ori_join *join, const struct ori_address *root,
				   struct ori_net_conn *link)
{
	const struct ori_frame question = {.type = ORI_FRAME_SEALED_KEY};
	struct ori_dial_answer answer;
	char where[ORI_ENDPOINT_LENGTH];
	enum oriel_status status;

	ori_endpoint_text(root, where);
	status =
		ori_dial_ask(link, where, join->listener, &question, NULL, &answer, join->deadline);
	if (status != ORIEL_OK)
		return status;
	if (answer.frame.type != ORI_FRAME_SEALED_KEY)
		return ori_fail(ORIEL_ERR_PROTOCOL, "%s answers with frame %u, not with a key",
				where, answer.frame.type);
	status = key_open(where, (const char *)answer.body, join->key);
	if (status == ORIEL_OK)
		status = ori_key_adopt(join->key);
	if (status == ORIEL_OK)
		status = ori_tls_context_create(join->key, join->tls);
	join->listener->net.context = *join->tls;
	return status;
}
