# SPDX-License-Identifier: Apache-2.0
"""How tests of this folder start programs: in this environment, without what users of Oriel have
set in it, and launchers of the job that this test may be a part of."""

import os
import re
import subprocess

FOREIGN = re.compile("ORIEL_|TORCHELASTIC_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_|SLURM|PMI|OMPI_|"
                     "JOB_COMPLETION_INDEX|XDG_CACHE")


def environment(**more):
    return {name: value for name, value in os.environ.items() if not FOREIGN.match(name)} | more


def run(command, deadline, **env):
    """The exit code, the output and the error output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=deadline,
                          stdin=subprocess.DEVNULL, env=environment(**env))
    return done.returncode, done.stdout, done.stderr
