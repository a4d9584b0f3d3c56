# SPDX-License-Identifier: Apache-2.0
"""What python/declare.py made of the headers is what compilers make of them."""
import ctypes
import pathlib
import re
import subprocess
import sys

import oriel
import pytest
from oriel import _declarations as declared
from oriel import _library

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The code inside of device headers calls these; they are declared there.
OF_DEVICE_HEADERS = re.compile(r"oriel_cpu_\w+")


def measured():
    """Name of each struct of tests/abi.txt: its size, and offset and size of its fields."""
    structs, current = {}, None
    for line in (ROOT / "tests/abi.txt").read_text("utf-8").splitlines():
        words = line.split()
        if words[0] in ("enum", "define"):
            break
        if line[0] != " ":
            current = structs[words[0]] = (int(words[1]), {})
        else:
            current[1][words[0]] = (int(words[1]), int(words[2]))
    return structs


def test_structs_have_the_layout_that_a_compiler_measured():
    table = measured()
    assert len(declared.STRUCTS) > 20
    for struct in declared.STRUCTS:
        fields = {name: (getattr(struct, name).offset, getattr(struct, name).size)
                  for name, _ in struct._fields_}
        assert (ctypes.sizeof(struct), fields) == table[struct.__name__], struct.__name__


def test_every_struct_of_host_headers_is_declared():
    hosts = {name for path in (ROOT / "include/oriel").glob("*.h")
             if path.name not in ("p2p_mock.h", "p2p_calls.h", "dev.h")
             for name in re.findall(r"^struct (oriel_\w+) \{", path.read_text("utf-8"), re.MULTILINE)}
    assert hosts <= {struct.__name__ for struct in declared.STRUCTS}


def test_every_function_of_the_library_is_declared():
    exported = set(re.findall(r"^\t(oriel_\w+);", (ROOT / "src/oriel.map").read_text("utf-8"), re.M))
    missing = {name for name in exported - set(declared.FUNCTIONS) if not OF_DEVICE_HEADERS.fullmatch(name)}
    assert not missing
    assert set(declared.FUNCTIONS) <= exported


def test_the_library_is_loaded_by_its_soname():
    said = subprocess.run(["readelf", "-d", _library.PATH], capture_output=True, text=True, check=True).stdout
    assert re.search(r"\(SONAME\).*\[(.*)\]", said)[1] == declared.SONAME == _library.PATH.name


def test_types_of_parameters():
    assert declared.FUNCTIONS["oriel_window_put"] == (
        "status", [ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t])
    assert declared.FUNCTIONS["oriel_comm_split"][1][2] is ctypes.c_int
    assert declared.FUNCTIONS["oriel_last_error"] == (ctypes.c_char_p, [])


def test_constants_have_the_values_of_the_compiler(tmp_path):
    names = [n for n in vars(declared) if n.startswith("ORIEL_")]
    assert len(names) > 100
    prints = "".join(f'printf("{n} %lld\\n", (long long)({n}));' for n in names)
    source = tmp_path / "constants.c"
    source.write_text("#include <stdio.h>\n#include <oriel/oriel.h>\n#include <oriel/dev/types.h>\n"
                      f"int main(void) {{ {prints} return 0; }}\n", "utf-8")
    subprocess.run(["cc", "-O1", "-w", "-I", ROOT / "include", source, "-o", tmp_path / "constants"], check=True)
    said = subprocess.run([tmp_path / "constants"], capture_output=True, text=True, check=True).stdout
    values = dict(line.split() for line in said.splitlines())
    for name in names:
        assert int(values[name]) & (2**64 - 1) == getattr(declared, name) & (2**64 - 1), name


# These are refused, or for C alone.
NOT_IN_PYTHON = {"ORIEL_TYPE_NONE", "ORIEL_OP_NONE", "ORIEL_OP_USER"}


@pytest.mark.parametrize("python, c, prefix", [
    (oriel.Status, "oriel_status", "ORIEL_ERR_|ORIEL_"), (oriel.Path, "oriel_path", "ORIEL_PATH_"),
    (oriel.Compare, "oriel_compare", "ORIEL_"), (oriel.SignalOp, "oriel_signal_op", "ORIEL_SIGNAL_"),
    (oriel.Connect, "oriel_connect", "ORIEL_CONNECT_"), (oriel.Mode, "oriel_p2p_mode", "ORIEL_P2P_"),
    (oriel.Atomics, "oriel_atomics", "ORIEL_ATOMICS_"),
    (oriel.Algorithm, "oriel_algorithm", "ORIEL_ALGORITHM_"),
    (oriel.Type, "oriel_type", "ORIEL_TYPE_"), (oriel.Op, "oriel_op", "ORIEL_OP_"),
])
def test_enums_are_complete(python, c, prefix):
    theirs = {re.sub(f"^({prefix})", "", name): getattr(declared, name)
              for name in declared.ENUMS[c] if name not in NOT_IN_PYTHON}
    assert {entry.name: entry.value for entry in python} == theirs


@pytest.mark.parametrize("c, name", [
    ("oriel_algorithm", "oriel_algorithm_name"), ("oriel_type", "oriel_type_name"), ("oriel_op", "oriel_op_name"),
])
def test_the_library_has_a_name_for_each_and_no_more(c, name):
    values = sorted(getattr(declared, each) for each in declared.ENUMS[c])
    assert all(getattr(_library.lib, name)(value) not in (None, b"unknown") for value in values)
    assert getattr(_library.lib, name)(values[-1] + 1) == b"unknown"


def test_every_failure_has_an_exception():
    for status in oriel.Status:
        if status < 0:
            error = _library.failure(status)
            assert type(error) is not oriel.Error and error.status == status and str(error)


def test_declare_refuses_what_it_does_not_know(tmp_path):
    (tmp_path / "oriel/dev").mkdir(parents=True)
    (tmp_path / "oriel/dev/types.h").write_text("", "utf-8")
    (tmp_path / "oriel/odd.h").write_text("struct oriel_odd {\n\tlong double field;\n};\n", "utf-8")
    done = subprocess.run([sys.executable, ROOT / "python/declare.py", tmp_path, "liboriel.so.0",
                           tmp_path / "out.py"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "long double" in done.stderr
