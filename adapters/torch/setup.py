# SPDX-License-Identifier: Apache-2.0
"""The distribution oriel-torch, which adds oriel.torch to an installed oriel. It is built against
the torch of its environment: pip install --no-build-isolation ./adapters/torch"""
import glob
import os
import pathlib
import sys

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
os.chdir(HERE)
# The folder that is built beside the sources is no module of this program.
sys.path = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != HERE]

try:
    import oriel
    import torch
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ImportError as error:
    sys.exit(f"oriel.torch needs oriel and torch 2.11 in this environment ({error}): install them, and "
             "this by: pip install --no-build-isolation ./adapters/torch")

if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 11):
    sys.exit(f"oriel.torch needs torch 2.11 or later; this environment has {torch.__version__}")

package = pathlib.Path(oriel.__file__).parent
(library,) = (package / "lib").glob("liboriel.so.*")
pathlib.Path("oriel_torch/_built.py").write_text(
    f'"""Written by setup.py: what oriel.torch was built for."""\nTORCH = "{torch.__version__}"\n', "utf-8")

# One unit of all sources: the headers of torch take half a minute each time that they are read.
sources = sorted(name for name in glob.glob("oriel_torch/*.cpp") if not name.endswith("_unit.cpp"))
pathlib.Path("oriel_torch/_unit.cpp").write_text(
    "".join(f'#include "{pathlib.Path(name).name}"\n' for name in sources), "utf-8")

# Streams and exceptions cross between torch and the extension, which must have one libstdc++: some
# compilers link a second one statically by default.
standard = next(line.split()[-1] for line in open("/proc/self/maps", encoding="utf-8") if "libstdc++.so" in line)

setup(
    name="oriel-torch",
    version=oriel.__version__,
    description="Oriel as a backend of torch.distributed",
    license="Apache-2.0",
    python_requires=">=3.10",
    install_requires=[f"oriel=={oriel.__version__}", f"torch=={torch.__version__.split('+')[0]}"],
    packages=["oriel.torch"],
    package_dir={"oriel.torch": "oriel_torch"},
    entry_points={"torch.distributed.backends": ["oriel = oriel.torch:register"]},
    ext_modules=[CppExtension(
        "oriel.torch._backend", ["oriel_torch/_unit.cpp"],
        include_dirs=[oriel.include_folder()],
        extra_compile_args=["-O2", "-g0", "-std=c++20", "-fvisibility=hidden", "-Wall", "-Wno-unknown-pragmas"],
        # Both lie in the folder of the package oriel when it runs.
        extra_link_args=[standard, f"-L{library.parent}", f"-l:{library.name}", "-Wl,-rpath,$ORIGIN/../lib"])],
    cmdclass={"build_ext": BuildExtension},
    zip_safe=False,
)
