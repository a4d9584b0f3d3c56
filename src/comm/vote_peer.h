/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of an agreement as one of them sees them, and their messages: for the files of the
 * agreement, vote*.c; one thread.
 */
#ifndef ORI_COMM_VOTE_PEER_H
#define ORI_COMM_VOTE_PEER_H

#include "base/config.h"
#include "comm/vote.h"

enum vote_frame {
	VOTE_JOIN = 1, /* the first frame of a rank that follows, with a hello */
	VOTE_PROBE,    /* ... of a leader that looks for a rank, with a hello */
	VOTE_REMOVED,  /* the answer to a rank that was removed */
	VOTE_STATE,    /* of a rank that follows */
	VOTE_WAIT,     /* the rank that was dialled lives, and waits for others */
	VOTE_PROPOSE,  /* a value */
	VOTE_ACCEPT,   /* the number of an agreement */
	VOTE_DECIDED,  /* a value */
};

/* The next two go over the wire as they are. */
struct vote_hello {
	uint32_t version; /* ORI_COMM_WIRE */
	uint32_t from;
	uint32_t to;
	uint32_t reserved;
	uint8_t name[ORI_FDSOCK_NAME]; /* of the listener of @to: ranks of the job alone know it */
};

struct vote_state {
	uint32_t number;
	uint32_t has_accepted;
	int32_t status; /* that the rank brings */
	uint32_t reserved;
	char text[ORI_VERDICT_TEXT];
	struct ori_vote_value accepted; /* of the agreement @number, if it has */
	struct ori_vote_value last;     /* of the one before */
};

static_assert(sizeof(struct vote_hello) == 32, "struct vote_hello goes over the wire");
static_assert(sizeof(struct vote_state) == 2944, "struct vote_state goes over the wire");

enum vote_is {
	VOTE_HERE, /* alive, or not known to be lost */
	VOTE_SUSPECT,
	VOTE_DEAD,
};

struct vote_peer {
	enum vote_is is;
	struct ori_net_conn *in;  /* by which a higher rank has joined this one */
	struct ori_net_conn *out; /* to the leader, or to a rank that a leader looks for */
	struct vote_state *state; /* of a rank that has joined */
	uint32_t accepted;        /* number of the agreement whose value it has accepted */
	bool has_answered;
	bool was_silent;   /* when the communicator was shrunk; it may run again, and come */
	uint64_t heard_at; /* or since when this rank has waited */
	uint64_t beat, beat_at;
	uint64_t look_at;  /* for its process, not before */
	const char *doubt; /* the last one in the log, or NULL */
	/* These are about @out. */
	uint64_t dial_at;       /* not before */
	uint64_t patient_until; /* for one address */
	unsigned address;       /* the one that is tried, or the next */
	unsigned refused;       /* addresses of this round at which no process listens */
};

struct ori_vote {
	struct oriel_comm *comm;
	struct pollfd *fds;
	uint64_t silence_ns; /* ORIEL_HEARTBEAT; 0: none */
	uint64_t limit_ns;   /* for each step of a rank, or ORIEL_TIMEOUT_INFINITE */
	uint64_t opened_at;
	unsigned leader; /* by the last step */
	bool is_leading;
	uint64_t wait_at; /* the next sign of life of this rank */
	/* The agreement under way. */
	uint64_t begun;
	enum oriel_status status;
	char text[ORI_VERDICT_TEXT];
	ori_vote_choose *choose;
	void *context;
	bool is_announced; /* the leader has the state of this rank */
	bool has_accepted, has_proposed, is_decided;
	struct ori_vote_value accepted;
	bool is_removed;
	bool is_last; /* the agreement is for the sake of the one before */
	struct vote_peer peers[];
};

/* One step of this rank, which leads. It never blocks. */
enum oriel_status ori_vote_lead(struct ori_vote *vote);
/* At the leader: the first rank that it waits for; ORIEL_DEV_NO_RANK: none. */
unsigned ori_vote_awaited(const struct ori_vote *vote);
/* ... or which follows @leader. */
enum oriel_status ori_vote_follow(struct ori_vote *vote, unsigned leader);

/* The lowest rank that this one does not know to be lost. */
unsigned ori_vote_leader(const struct ori_vote *vote);
void ori_vote_lose(struct ori_vote *vote, unsigned peer, enum vote_is is);
/* Gives up on @peer if its process has ended, or its time is over. */
void ori_vote_judge(struct ori_vote *vote, unsigned peer);
/* A frame of the rank has come. */
void ori_vote_hear(struct vote_peer *peer);
/* @peer counts from now on: it has some time left, even if this rank has waited for long. */
void ori_vote_grant(struct ori_vote *vote, unsigned peer);
/* May a rank propose, or have decided, these bytes? */
bool ori_vote_is_value(const struct ori_vote *vote, const struct ori_vote_value *value);
/* The agreement is over for this rank. */
void ori_vote_decide(struct ori_vote *vote, const struct ori_vote_value *value);
/* Takes over a decision that this rank has missed, if @value is one. */
void ori_vote_learn(struct ori_vote *vote, const struct ori_vote_value *value);
/* False: the connection has ended, and is closed. */
bool ori_vote_send(struct ori_net_conn **conn, enum vote_frame type, const void *body,
		   size_t length);

/* Closes and frees *@conn, if there is one. */
void ori_vote_hang_up(struct ori_net_conn **conn);
/*
 * @status of a connection with @peer, which has ended: a line of the log if bytes were altered on
 * the way, are malformed, or the keys differ. The rank comes, or is dialled, again.
 */
void ori_vote_doubt(struct ori_vote *vote, unsigned peer, const struct ori_net_conn *conn,
		    enum oriel_status status);
/* Closes the connection to a rank, which is dialled again after a pause. */
void ori_vote_drop(struct vote_peer *peer);
/*
 * Continues to connect to @peer, and begins with a hello of type @hello. ORIEL_OK: connected;
 * ORIEL_AGAIN; ORIEL_ERR_PEER: no process listens at any of its addresses.
 */
enum oriel_status ori_vote_dial(struct ori_vote *vote, unsigned peer, enum vote_frame hello);
/* Takes the ranks that have connected to this one. */
void ori_vote_serve(struct ori_vote *vote);

#endif
