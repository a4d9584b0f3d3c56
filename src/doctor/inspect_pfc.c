/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priority flow control, which makes Ethernet lossless, queried through the kernel's DCB netlink.
 * inspect_nic.c calls it.
 */
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "doctor/inspect.h"

#define PFC_NAME 16
#define PFC_REPLY 4096
#define PFC_WAIT_S 2

/* Find the attribute @kind in @at[length]; returns its payload, or NULL. */
static const unsigned char *attribute_find(const unsigned char *at, size_t length, unsigned kind,
					   size_t *found)
{
	struct nlattr head;
	size_t whole;

	while (length >= sizeof(head)) {
		memcpy(&head, at, sizeof(head));
		if (head.nla_len < sizeof(head) || head.nla_len > length)
			return NULL;
		if ((head.nla_type & NLA_TYPE_MASK) == kind) {
			*found = head.nla_len - sizeof(head);
			return at + sizeof(head);
		}
		whole = NLA_ALIGN(head.nla_len);
		if (whole > length)
			return NULL;
		at += whole;
		length -= whole;
	}
	return NULL;
}

int64_t ori_inspect_pfc_reply(const void *bytes, size_t length)
{
	const size_t heads = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct dcbmsg));
	const unsigned char *at = bytes;
	struct nlmsghdr head;
	struct ieee_pfc pfc;

	if (length < heads)
		return ORI_FACT_UNKNOWN;
	memcpy(&head, at, sizeof(head));
	if (head.nlmsg_type != RTM_GETDCB || head.nlmsg_len < heads || head.nlmsg_len > length)
		return ORI_FACT_UNKNOWN;
	at = attribute_find(at + heads, head.nlmsg_len - heads, DCB_ATTR_IEEE, &length);
	if (at)
		at = attribute_find(at, length, DCB_ATTR_IEEE_PFC, &length);
	if (!at || length < sizeof(pfc))
		return ORI_FACT_UNKNOWN;
	memcpy(&pfc, at, sizeof(pfc));
	return pfc.pfc_en;
}

struct pfc_request {
	struct nlmsghdr head;
	struct dcbmsg what;
	struct nlattr attribute;
	char name[PFC_NAME];
};

int64_t ori_inspect_pfc(const char *net)
{
	const struct timeval patience = {.tv_sec = PFC_WAIT_S};
	unsigned char answer[PFC_REPLY];
	struct pfc_request request;
	ssize_t length = -1;
	int fd;

	if (!*net || strlen(net) >= sizeof(request.name))
		return ORI_FACT_UNKNOWN;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return ORI_FACT_UNKNOWN;
	memset(&request, 0, sizeof(request));
	request.head.nlmsg_len = sizeof(request);
	request.head.nlmsg_type = RTM_GETDCB;
	request.head.nlmsg_flags = NLM_F_REQUEST;
	request.what.cmd = DCB_CMD_IEEE_GET;
	request.attribute.nla_type = DCB_ATTR_IFNAME;
	request.attribute.nla_len = sizeof(request.attribute) + sizeof(request.name);
	memcpy(request.name, net, strlen(net));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
	    send(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request))
		length = recv(fd, answer, sizeof(answer), 0);
	close(fd);
	return length > 0 ? ori_inspect_pfc_reply(answer, (size_t)length) : ORI_FACT_UNKNOWN;
}
