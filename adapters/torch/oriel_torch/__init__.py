# SPDX-License-Identifier: Apache-2.0
"""oriel.torch: the backend "oriel" of torch.distributed.

>>> torch.distributed.init_process_group("oriel")

torch 2.15 finds it by its entry point; with torch 2.11 programs import oriel.torch. docs/pytorch.md has
what it can do.
"""
import atexit

import torch
import torch.distributed

from . import _built

if torch.__version__ != _built.TORCH:
    raise ImportError(
        f"oriel.torch was built for torch {_built.TORCH}, and this is torch {torch.__version__}: an "
        "extension in C++ serves one version. Build it again, from a clone of Oriel: "
        "pip install --force-reinstall --no-deps --no-build-isolation ./adapters/torch")

from oriel.progress import progress  # noqa: E402  # pylint: disable=wrong-import-position

from . import _backend  # noqa: E402  # pylint: disable=wrong-import-position


def _create(options, _):
    with progress(f"waiting for the other ranks of {options.group_size}"):
        return _backend.create(options.store, options.group_rank, options.group_size, options.timeout,
                               getattr(options, "enable_reconfigure", False))


def register() -> None:
    """Make "oriel" a backend of torch.distributed; torch calls it."""
    if "ORIEL" not in torch.distributed.Backend._plugins:
        torch.distributed.Backend.register_backend("oriel", _create, extended_api=True, devices=["cpu", "cuda"])


register()

# Groups that were shut down close their communicators in threads, which this process waits for.
atexit.register(_backend.join_closing)
atexit.register(_backend.close_symmetric_memory)

__all__ = ["register"]
