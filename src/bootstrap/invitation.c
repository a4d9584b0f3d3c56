/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes and the text of invitations. Public functions of oriel/comm.h. */
#include "bootstrap/invitation.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

/* Offsets in the bytes; all others are zero. */
#define INVITATION_AT_COUNT 4
#define INVITATION_AT_EPOCH 8
#define INVITATION_AT_TOKEN 16
#define INVITATION_AT_KEY (INVITATION_AT_TOKEN + ORI_INVITATION_TOKEN)
#define INVITATION_AT_ADDRESSES (INVITATION_AT_KEY + ORI_INVITATION_KEY)
#define INVITATION_END (INVITATION_AT_ADDRESSES + ORI_JOB_ID_ADDRESSES * ORI_ADDRESS_LENGTH)

static_assert(INVITATION_END == ORIEL_INVITATION_LENGTH, "the bytes fit");
static_assert(ORIEL_INVITATION_LENGTH == 144, "base/config_table.c checks the text");

static const unsigned char invitation_magic[4] = {'O', 'I', 'N', 1}; /* 1 is the version */
static const char invitation_digits[] = "0123456789abcdef";

void ori_invitation_encode(const struct ori_invitation *in, struct oriel_invitation *invitation)
{
	unsigned char *bytes;
	unsigned i;

	memset(invitation, 0, sizeof(*invitation));
	bytes = invitation->bytes;
	memcpy(bytes, invitation_magic, sizeof(invitation_magic));
	bytes[INVITATION_AT_COUNT] = (unsigned char)in->count;
	ori_store64(bytes + INVITATION_AT_EPOCH, in->epoch);
	memcpy(bytes + INVITATION_AT_TOKEN, in->token, sizeof(in->token));
	memcpy(bytes + INVITATION_AT_KEY, in->key, sizeof(in->key));
	for (i = 0; i < in->count; i++)
		ori_address_encode(&in->addresses[i],
				   bytes + INVITATION_AT_ADDRESSES + i * ORI_ADDRESS_LENGTH);
}

bool ori_invitation_parse(const struct oriel_invitation *invitation, struct ori_invitation *out)
{
	const unsigned char *bytes = invitation->bytes;
	struct ori_invitation found = {.count = bytes[INVITATION_AT_COUNT],
				       .epoch = ori_load64(bytes + INVITATION_AT_EPOCH)};
	struct oriel_invitation again;
	bool is_whole;

	if (memcmp(bytes, invitation_magic, sizeof(invitation_magic)) != 0 ||
	    !ori_job_id_parse_addresses(bytes + INVITATION_AT_ADDRESSES, found.count,
					found.addresses))
		return false;
	memcpy(found.token, bytes + INVITATION_AT_TOKEN, sizeof(found.token));
	memcpy(found.key, bytes + INVITATION_AT_KEY, sizeof(found.key));
	/* Bytes without a meaning are zero, so that a later version may give them one. */
	ori_invitation_encode(&found, &again);
	is_whole = memcmp(&again, invitation, sizeof(again)) == 0;
	if (is_whole)
		*out = found;
	explicit_bzero(&found, sizeof(found));
	explicit_bzero(&again, sizeof(again));
	return is_whole;
}

enum oriel_status oriel_invitation_text(const struct oriel_invitation *invitation,
					char text[ORIEL_INVITATION_TEXT])
{
	unsigned i;

	if (!invitation || !text)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_invitation_text: %s is NULL",
				invitation ? "text" : "invitation");
	for (i = 0; i < ORIEL_INVITATION_LENGTH; i++) {
		text[2 * i] = invitation_digits[invitation->bytes[i] >> 4];
		text[2 * i + 1] = invitation_digits[invitation->bytes[i] & 15];
	}
	text[2 * i] = '\0';
	return ORIEL_OK;
}

/* -1: it is no digit. */
static int invitation_digit(char c)
{
	const char *at = c ? strchr(invitation_digits, c) : NULL;

	return at ? (int)(at - invitation_digits) : -1;
}

enum oriel_status oriel_invitation_read(const char *text, struct oriel_invitation *invitation)
{
	struct oriel_invitation found;
	struct ori_invitation in;
	int high = 0, low = 0;
	unsigned i;

	if (!text || !invitation)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_invitation_read: %s is NULL",
				text ? "invitation" : "text");
	for (i = 0; i < ORIEL_INVITATION_LENGTH && high >= 0 && low >= 0; i++) {
		high = invitation_digit(text[2 * i]);
		low = high < 0 ? -1 : invitation_digit(text[2 * i + 1]);
		found.bytes[i] = (unsigned char)((unsigned)high << 4 | ((unsigned)low & 15));
	}
	/* The text is a secret: it is no part of the error. */
	if (high < 0 || low < 0 || text[2 * i] || !ori_invitation_parse(&found, &in))
		return ori_fail(ORIEL_ERR_INVALID, "oriel_invitation_read: the text is not one of "
						   "oriel_invitation_text()");
	*invitation = found;
	explicit_bzero(&in, sizeof(in));
	explicit_bzero(&found, sizeof(found));
	return ORIEL_OK;
}
