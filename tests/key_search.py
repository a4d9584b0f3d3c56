# SPDX-License-Identifier: Apache-2.0
"""Searches the memory of a process for the job key. job_test.py and grow_test.py import it."""

import hmac
import re
import unittest


def secrets_of(text):
    """Parts of what a process makes of the job key @text, of which no part may stay: the text, the
    key, and that of TLS, which is one block of HKDF-SHA-256 (RFC 5869)."""
    key = bytes.fromhex(text)
    psk = hmac.digest(hmac.digest(bytes(32), key, "sha256"), b"oriel tls psk\1", "sha256")
    return text[16:32].encode(), key[8:16], psk[8:16]


def places_of(pid, needle):
    """Where process @pid has @needle: how often in memory that core dumps leave out, whose VmFlags
    have dd (proc_pid_smaps(5)), and the names of the mappings that have it elsewhere."""
    left_out, elsewhere = 0, []
    with open(f"/proc/{pid}/smaps") as file, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in file:
            words = line.split()
            if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
                start, end = (int(word, 16) for word in words[0].split("-"))
                name = words[5] if len(words) > 5 else "anonymous"
            elif words[0] == "Rss:":
                # The memory of sanitizers is larger than any that may have a key.
                is_searched = words[1] != "0" and end - start < 1 << 30
            elif words[0] == "VmFlags:" and is_searched:
                try:
                    memory.seek(start)
                    count = memory.read(end - start).count(needle)
                except (OSError, OverflowError):
                    continue  # pages of the kernel, or of a device
                if "dd" in words:
                    left_out += count
                elif count:
                    elsewhere.append(name)
    return left_out, elsewhere


def skip_with_address_sanitizer(program):
    """AddressSanitizer keeps memory that was freed, and frames whose functions have returned."""
    with open(program, "rb") as file:
        if b"__asan_init" in file.read():
            raise unittest.SkipTest("AddressSanitizer keeps memory that was freed")
