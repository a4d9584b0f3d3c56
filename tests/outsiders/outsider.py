#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""outsider.py FOLDER COUNT PHASE...: connects to listeners of a job, without its key.

For each phase it waits for the file PHASE.targets, a line each, and connects COUNT times or more,
until there is PHASE.stop: silent, with garbage, or as slowly as one byte a round. PHASE.half
appears after half of the connections, and PHASE.count has their number at the end.
"""
import collections
import os
import random
import socket
import sys
import time

HELD = 400  # connections at once
SLOW = bytes.fromhex("16030100f8010000f40303") + bytes(200)  # as TLS begins


class Outsider:
    def __init__(self, targets):
        self.targets, self.held, self.count = targets, collections.deque(), 0
        self.slow = collections.deque(maxlen=HELD // 4)

    def connect(self, target):
        family = socket.AF_UNIX if isinstance(target, str) else \
            socket.AF_INET6 if ":" in target[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(target)
        except OSError:
            pass  # under way, refused, or the backlog is full
        return sock

    def turn(self):
        target = self.targets[self.count % len(self.targets)]
        sock = self.connect(target)
        kind = self.count // len(self.targets) % 3
        self.count += 1
        self.held.append(sock)
        if kind == 1:
            self.send(sock, random.randbytes(random.choice((1, 7, 300, 2000))))
        elif kind == 2:
            self.slow.append([sock, 0])
        if self.count % 16 == 0:
            for entry in self.slow:
                self.send(entry[0], SLOW[entry[1] % len(SLOW):entry[1] % len(SLOW) + 1])
                entry[1] += 1
        while len(self.held) > HELD:
            self.held.popleft().close()

    @staticmethod
    def send(sock, data):
        try:
            sock.send(data)
        except OSError:
            pass  # not connected yet, or closed by either side

    def close(self):
        for sock in self.held:
            sock.close()


def read_targets(path):
    with open(path) as file:
        lines = file.read().splitlines()
    return ["\0" + words[1:] if words.startswith("@") else (words.rsplit(" ", 1)[0],
                                                           int(words.rsplit(" ", 1)[1]))
            for words in lines]


def write(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def main():
    folder, most = sys.argv[1], int(sys.argv[2])
    for phase in sys.argv[3:]:
        path = os.path.join(folder, phase)
        while not os.path.exists(path + ".targets"):
            time.sleep(0.01)
        outsider = Outsider(read_targets(path + ".targets"))
        while outsider.count < most or not os.path.exists(path + ".stop"):
            outsider.turn()
            if outsider.count == most // 2:
                write(path + ".half", "")
            if outsider.count > most // 2:
                time.sleep(0.0005)  # two cores have to run the job as well
        write(path + ".count", str(outsider.count))
        outsider.close()


if __name__ == "__main__":
    main()
