#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Communicators that take new ranks in: grow_test.py GROWER [CLASS...]"""

import itertools
import os
import re
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import at_once
import key_search

GROWER = None
FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_")
LONG = "60"  # ORIEL_TIMEOUT of tests in which nothing waits for it
SHORT = "6"  # ... of tests that wait for half of it
UNCACHED = "glibc.malloc.tcache_count=0"  # so that memory that was freed does not count as used
LEAK = 300  # bytes by which the heap may differ from one round to the next


class Rank:
    """A process that obeys. @name is its name in what all ranks play."""

    def __init__(self, test, name, env, *last_words):
        ours = {key: value for key, value in os.environ.items() if not FOREIGN.match(key)}
        self.name = name
        self.process = subprocess.Popen([GROWER, str(name), *last_words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env=ours | {"ORIEL_HCA": "soft", "ORIEL_LOG": "debug", "GLIBC_TUNABLES": UNCACHED} | env)
        test.addCleanup(self.forget)

    def forget(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, line):
        self.say(line)
        return self.line()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Grow:
    """Mixed into one class for each path. Ranks of a job are named 0, 1 ...; new ranks 100 ..."""
    nodes = False
    env = {}
    size = 3

    def environment(self, name, **more):
        env = self.env | {"ORIEL_TIMEOUT": LONG} | more
        return env | {"ORIEL_NODE": f"node{name}"} if self.nodes else env

    def job(self, size=None, first=0, doomed=None, text=(), **env):
        size = size or self.size
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        self.addCleanup(holder.close)
        port = str(holder.getsockname()[1])
        ranks = [Rank(self, first + rank,
                      self.environment(first + rank, **env) |
                      {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": port}, *(text if rank == doomed else ()))
                 for rank in range(size)]
        for rank in ranks:
            self.assertEqual(rank.line(), "ORIEL_OK ")
        return ranks

    def newcomer(self, name, invitation, *last_words, **env):
        return Rank(self, name, self.environment(name, ORIEL_INVITATION=invitation, **env),
                    *last_words)

    def invite(self, rank):
        answer = rank.ask("invite")
        self.assertRegex(answer, "^ORIEL_OK 4f494e01[0-9a-f]{280}$")
        return answer.split()[1]

    def all_say(self, ranks, line):
        for rank in ranks:
            rank.say(line)

    def all_answer(self, ranks, pattern):
        for rank in ranks:
            self.assertRegex(rank.line(), pattern, f"rank named {rank.name}")

    def plays(self, ranks, epoch):
        """All of @ranks are the communicator, in this order."""
        self.all_say(ranks, "play")
        names = " ".join(str(rank.name) for rank in ranks)
        self.all_answer(ranks, f"^ORIEL_OK {epoch}: {names}$")

    def grow(self, members, names, epoch):
        """New ranks come one by one, so that their order is known."""
        invitation = self.invite(members[0])
        self.all_say(members, f"grow {len(names)}")
        new = []
        for name in names:
            new.append(self.newcomer(name, invitation))
            time.sleep(0.1 if len(names) > 1 else 0)
        self.all_answer(members + new, "^ORIEL_OK ")
        self.plays(members + new, epoch)
        return members + new

    def leave(self, ranks):
        """Ranks destroy their communicator; none reports a failure."""
        for rank in ranks:
            rank.process.stdin.close()
        for rank in ranks:
            self.assertEqual(rank.process.wait(), 0, rank.process.stdout.read())

    def test_new_ranks_come_behind_the_old_ones(self):
        ranks = self.grow(self.job(), [100, 101], 1)
        self.all_say(ranks, "origins")
        self.all_answer(ranks[:self.size], f"^ORIEL_OK {'.*'.join(map(str, range(self.size)))} -1 -1 $")
        self.all_answer(ranks[self.size:], "^ORIEL_OK (-1 )+$")
        self.leave(ranks)

    def test_a_job_of_one_rank_grows(self):
        self.leave(self.grow(self.job(1), [100], 1))

    def test_a_new_rank_that_never_comes_leaves_all_as_it_was(self):
        members = self.job(ORIEL_TIMEOUT=SHORT)
        invitation = self.invite(members[0])
        self.all_say(members, "grow 2")
        came = self.newcomer(100, invitation, ORIEL_TIMEOUT=SHORT)
        missing = (f"^ORIEL_ERR_TIMEOUT .*1 of 2 new ranks came within 3 s, half of the timeout "
                   rf"\(ORIEL_TIMEOUT\): process {came.process.pid} on ")
        self.all_answer(members + [came], missing)
        self.plays(members, 0)
        self.all_say(members, "grow 2")
        came.say("again")
        late = self.newcomer(101, invitation)
        self.all_answer(members + [came, late], "^ORIEL_OK ")
        self.all_say(members + [came, late], "play")
        self.all_answer(members + [came, late], "^ORIEL_OK 1: ")
        self.leave(members + [came, late])

    def test_a_member_that_dies_meanwhile_is_named_and_replaced(self):
        members = self.job()
        invitation = self.invite(members[0])
        self.all_say(members, "grow 1")
        time.sleep(0.2)
        members[1].kill()
        left = [members[0], *members[2:]]
        self.all_answer(left, "^ORIEL_ERR_PEER .*rank 1")
        self.all_say(left, "shrink")
        self.all_answer(left, "^ORIEL_OK ")
        # The invitation was of the communicator before.
        self.assertRegex(self.newcomer(99, invitation).line(), "^ORIEL_ERR_PEER no process listens")
        self.leave(self.grow(left, [100], 2))

    def test_rank_0_may_be_lost(self):
        members = self.job()
        members[0].kill()
        self.all_say(members[1:], "shrink")
        self.all_answer(members[1:], "^ORIEL_OK ")
        self.leave(self.grow(members[1:], [100], 2))

    def test_ranks_are_lost_where_they_meet(self):
        """A member, or a new rank, that dies when it connects, is named; the others go on."""
        for who in ("member", "new"):
            with self.subTest(who):
                members = self.job(doomed=1 if who == "member" else None, text=["has met those of a grow"])
                invitation = self.invite(members[0])
                self.all_say(members, "grow 1")
                new = self.newcomer(100, invitation, *(["has met those of a grow"] if who == "new" else []))
                if who == "member":
                    left = [members[0], *members[2:]]
                    self.all_answer(left, "^ORIEL_ERR_PEER .*rank 1")
                    self.assertRegex(new.line(), "^ORIEL_ERR_PEER .*rank 1")
                    continue
                self.all_answer(members, f"^ORIEL_ERR_PEER .*new rank {self.size} .process {new.process.pid} on ")
                self.plays(members, 0)
                self.leave(members)

    def test_rank_0_is_lost_where_they_meet(self):
        members = self.job(doomed=0, text=[f"rank {self.size} at "])
        invitation = self.invite(members[0])
        self.all_say(members, "grow 1")
        new = self.newcomer(100, invitation)
        self.all_answer(members[1:], "^ORIEL_ERR_PEER .*rank 0 exited")
        self.assertRegex(new.line(), "^ORIEL_ERR_PEER rank 0 of the communicator exited")

    def test_a_rank_that_stops_is_noticed_without_a_limit(self):
        """Rank 0, or a new rank; the others have no limit but ORIEL_HEARTBEAT."""
        endless = {"ORIEL_TIMEOUT": "infinite", "ORIEL_HEARTBEAT": "3"}

        def check(who, text, members_see, new_sees):
            members = self.job(2, doomed=0 if who == "rank 0" else None, text=[text, "stop"], **endless)
            invitation = self.invite(members[0])
            self.all_say(members, "grow 2")
            new = self.newcomer(100, invitation, *([text, "stop"] if who == "new" else []), **endless)
            if text == "comes to join":
                time.sleep(0.5)
            others = [self.newcomer(101, invitation, **endless)] if text != "comes to join" else []
            stopped = members[0] if who == "rank 0" else new
            for rank in members:
                if rank is not stopped:
                    self.assertRegex(rank.line(), members_see)
            for rank in [new, *others]:
                if rank is not stopped:
                    self.assertRegex(rank.line(), new_sees)

        still = r"^ORIEL_ERR_TIMEOUT .*rank [023]( of 4)? has not run for 3"
        silent = "^ORIEL_ERR_TIMEOUT rank 0 of .* has said nothing for 20 s"
        at_once.each_case(self, check, (
            ("rank 0", "comes to join", still, silent),
            ("rank 0", "has met those of a grow", still, still),
            ("rank 0", "job of 4 ranks", still, silent),
            ("new", "has met those of a grow", still, still),
            ("new", "reports to rank 0", "^ORIEL_ERR_TIMEOUT .*new rank [23] .* has met the others, and does not say",
             "^ORIEL_ERR_TIMEOUT .*new rank [23] .* has met the others, and does not say")), 5)

    def test_two_groups_merge(self):
        a, b = self.job(2), self.job(3, first=50)
        invitation = self.invite(a[0])
        self.all_say(a, "grow 4")
        self.all_say(b, f"merge {invitation}")
        alone = self.newcomer(100, invitation)
        self.all_answer(a + b + [alone], "^ORIEL_OK ")
        self.all_say(a + b + [alone], "play")
        self.all_answer(a + b + [alone], "^ORIEL_OK 1: 0 1 (50 51 52 100|100 50 51 52)$")
        self.all_say(b, "origins")
        self.all_answer(b, "^ORIEL_OK .*0 1 2 (-1 )?$")
        self.leave(a + b + [alone])

    def test_it_shrinks_and_grows_repeatedly_without_a_leak(self):
        members, counts = self.job(), []
        for round_ in range(8):
            members = self.grow(members, [100 + round_], 2 * round_ + 1)
            members[-2].kill()
            del members[-2]
            self.all_say(members, "shrink")
            self.all_answer(members, "^ORIEL_OK ")
            self.plays(members, 2 * round_ + 2)
            counts.append([member.ask("count").split(";") for member in members[:2]])
        self.assertRegex(counts[0][0][0], "^ORIEL_OK [0-9]+ descriptors")
        for rank in range(2):
            self.assertEqual(counts[1][rank][0], counts[-1][rank][0])
            # A table may double at some time, and links have 8 KiB more or less; a leak grows in each
            # round, and stays.
            heap = [int(count[rank][1].split()[0]) for count in counts]
            half = len(heap) // 2
            growths = sum(after - before > LEAK for before, after in zip(heap, heap[1:]))
            stays = min(heap[half:]) - max(heap[:half]) > LEAK
            self.assertFalse(stays and growths >= half, heap)
        self.leave(members)


class Mapped(Grow, unittest.TestCase):
    pass


class Nodes(Grow, unittest.TestCase):
    """Each rank on a node of its own."""
    nodes = True


class Proxied(Grow, unittest.TestCase):
    nodes = True
    env = {"ORIEL_POST": "proxy"}


class Meet(Grow, unittest.TestCase):
    """How they meet, whatever the path."""
    size = 2

    def test_a_process_without_the_key_is_refused(self):
        members = self.job()
        invitation = self.invite(members[0])
        self.all_say(members, "grow 1")
        # The key begins at byte 32, the addresses at byte 64.
        other = invitation[:64] + ("0" if invitation[64] != "0" else "1") + invitation[65:]
        self.assertRegex(self.newcomer(90, other).line(), "^ORIEL_ERR_AUTH .*the key differs")
        port = int(invitation[2 * 66 + 2:2 * 66 + 4] + invitation[2 * 66:2 * 66 + 2], 16)
        with socket.create_connection(("127.0.0.1", port)) as silent, \
                socket.create_connection(("127.0.0.1", port)) as loud:
            loud.sendall(b"GET / HTTP/1.1\r\n\r\n" * 20)
            new = self.newcomer(100, invitation)
            self.all_answer(members + [new], "^ORIEL_OK ")
            silent.close()
        self.plays(members + [new], 1)
        self.leave(members + [new])

    def test_a_process_of_the_user_without_the_token_is_refused(self):
        """By unix sockets, where there is no TLS."""
        members = self.job(ORIEL_MEET="unix")
        invitation = self.invite(members[0])
        self.all_say(members, "grow 1")
        other = invitation[:32] + ("0" if invitation[32] != "0" else "1") + invitation[33:]
        self.assertRegex(self.newcomer(90, other).line(), "^ORIEL_ERR_AUTH .*another invitation")
        new = self.newcomer(100, invitation)
        self.all_answer(members + [new], "^ORIEL_OK ")
        self.leave(members + [new])

    def test_more_ranks_than_are_awaited_are_refused(self):
        a, b = self.job(), self.job(first=50)
        invitation = self.invite(a[0])
        self.all_say(a, "grow 1")
        self.all_say(b, f"merge {invitation}")
        self.all_answer(b, "^ORIEL_ERR_STATE .*it comes with 2 ranks, and 1 are still awaited")
        self.plays(b, 0)
        new = self.newcomer(100, invitation)
        self.all_answer(a + [new], "^ORIEL_OK ")
        self.leave(a + [new])
        self.leave(b)

    def test_a_new_rank_that_leaves_again_does_not_count(self):
        members = self.job()
        invitation = self.invite(members[0])
        self.all_say(members, "grow 2")
        lost = self.newcomer(90, invitation)
        time.sleep(0.3)
        lost.kill()
        new = [self.newcomer(name, invitation) for name in (100, 101)]
        self.all_answer(members + new, "^ORIEL_OK ")
        self.leave(members + new)

    def test_a_rank_0_that_stops_is_named_at_the_limit(self):
        members = self.job(doomed=0, text=["comes to join", "stop"], ORIEL_TIMEOUT=SHORT)
        invitation = self.invite(members[0])
        self.all_say(members, "grow 2")
        new = self.newcomer(100, invitation, ORIEL_TIMEOUT=SHORT)
        self.assertRegex(new.line(), "^ORIEL_ERR_TIMEOUT rank 0 of .* has said nothing for")

    def test_a_used_invitation_is_of_no_use(self):
        members = self.job()
        first = self.invite(members[0])
        second = self.invite(members[0])
        self.assertRegex(self.newcomer(90, first).line(), "^ORIEL_ERR_PEER no process listens at ")
        self.all_say(members, "grow 1")
        new = self.newcomer(100, second)
        self.all_answer(members + [new], "^ORIEL_OK ")
        self.assertRegex(self.newcomer(91, second).line(), "^ORIEL_ERR_PEER no process listens at ")
        self.leave(members + [new])

    def test_a_new_rank_waits_no_longer_than_its_limit(self):
        members = self.job()
        new = self.newcomer(100, self.invite(members[0]), ORIEL_TIMEOUT="2")
        self.assertRegex(new.line(), r"^ORIEL_ERR_TIMEOUT .*did not call oriel_comm_grow\(\) within 2 s")
        self.leave(members)

    def test_a_new_rank_has_the_limit_of_the_others(self):
        members = self.job()
        invitation = self.invite(members[0])
        self.all_say(members, "grow 1")
        members.append(self.newcomer(100, invitation, ORIEL_TIMEOUT="30"))
        self.all_answer(members, "^ORIEL_OK ")
        self.all_say(members, "limit")
        self.all_answer(members, f"^ORIEL_OK {LONG}$")
        self.leave(members)

    def test_misuse_has_a_text_and_changes_nothing(self):
        members = self.job()
        self.assertRegex(members[1].ask("invite"), "^ORIEL_ERR_STATE .*rank 0 invites, and this is rank 1")
        self.all_say(members, "grow 1")
        self.all_answer(members, "^ORIEL_ERR_STATE .*no invitation")
        invitation = self.invite(members[0])
        members[0].say("grow 1")
        members[1].say("grow 2")
        self.all_answer(members, "^ORIEL_ERR_MISMATCH .*rank 0 awaits 1 new ranks, and rank 1 2")
        self.all_say(members, "grow 0")
        self.all_answer(members, "^ORIEL_ERR_RANGE ")
        members[0].say("grow 1")
        members[1].say("play")
        self.all_answer(members, "^ORIEL_ERR_MISMATCH ")
        self.assertRegex(members[0].ask("merge " + "0" * len(invitation)), "^ORIEL_ERR_INVALID ")
        self.plays(members, 0)
        self.assertRegex(self.newcomer(90, invitation[:-1]).line(),
                         "^ORIEL_ERR_CONFIG ORIEL_INVITATION may be the text of an invitation")
        self.leave(members)

    def check_memory(self, rank, key, invitation=""):
        """A rank that was new has its key where core dumps do not look, and nothing of the invitation."""
        copies, elsewhere = key_search.places_of(rank.process.pid, key_search.secrets_of(key)[1])
        self.assertEqual((copies > 0, elsewhere), (True, []), rank.name)
        if invitation:
            text = invitation[2 * 32:][:64]
            for needle in (text[16:32].encode(), bytes.fromhex(text)[8:16]):
                self.assertEqual(key_search.places_of(rank.process.pid, needle), (0, []), rank.name)

    def test_the_secrets_of_new_ranks_stay_where_core_dumps_do_not_look(self):
        key_search.skip_with_address_sanitizer(GROWER)
        # Without LD_BIND_NOW the first call of a function by libcrypto leaves registers on the stack.
        for env, self.nodes in itertools.product(({"ORIEL_MEET": "unix"}, {"ORIEL_MEET": "tcp"}), (False, True)):
            with self.subTest(**env, nodes=self.nodes):
                key = os.urandom(24).hex()
                env = env | {"LD_BIND_NOW": "1"}
                members, group = self.job(ORIEL_JOB_KEY=key, **env), self.job(first=50, **env)
                for rank in group:
                    self.assertEqual(rank.ask("hold"), "ORIEL_OK ")
                invitation = self.invite(members[0])
                self.all_say(members, "grow 3")
                self.all_say(group, f"merge {invitation}")
                alone = self.newcomer(100, invitation, **env)
                self.all_answer(members + group + [alone], "^ORIEL_OK ")
                self.check_memory(alone, key, invitation)
                for rank in group:
                    self.check_memory(rank, key)
                self.leave(members + group + [alone])

    def test_the_job_key_goes_to_new_ranks(self):
        """Ranks with a key take one in that has none, and one that has another."""
        members = self.job(ORIEL_JOB_KEY="0123456789abcdef" * 2)
        invitation = self.invite(members[0])
        self.all_say(members, "grow 2")
        new = [self.newcomer(100, invitation), self.newcomer(101, invitation, ORIEL_JOB_KEY="76543210fedcba98" * 2)]
        self.all_answer(members + new, "^ORIEL_OK ")
        self.all_say(members + new, "play")
        self.all_answer(members + new, "^ORIEL_OK 1: 0 1 1")
        self.leave(members + new)


# Cases of the path are those of the classes above.
for name in [name for name in dir(Grow) if name.startswith("test_")]:
    setattr(Meet, name, None)


if __name__ == "__main__":
    GROWER = os.path.abspath(sys.argv.pop(1))
    unittest.main(testRunner=at_once.Runner(4))
