#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Listens at addresses that a rank has closed: squatter.py WAY USER ADDRESS..., for shrink_test.py.

WAY is closing, for each connection that it accepts, or silent; it becomes USER. ADDRESS is unix:NAME, of an abstract socket, or a port
of TCP. It prints "ready", and ends with its standard input.
"""

import os
import socket
import sys
import threading

HELD = []  # connections


def listen(address):
    if not address.startswith("unix:"):
        try:
            return socket.create_server(("", int(address)), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError:  # without IPv6
            return socket.create_server(("", int(address)))
    squat = socket.socket(socket.AF_UNIX)
    squat.bind("\0" + address[5:])
    squat.listen(64)
    return squat


def serve(squat, way):
    while True:
        connection, _ = squat.accept()
        if way == "silent":
            HELD.append(connection)
        else:
            connection.close()


def main():
    os.setuid(int(sys.argv[2]))
    for squat in [listen(address) for address in sys.argv[3:]]:
        threading.Thread(target=serve, args=(squat, sys.argv[1]), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
