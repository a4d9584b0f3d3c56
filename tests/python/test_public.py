# SPDX-License-Identifier: Apache-2.0
"""What the package offers is described: help(), and types for checkers and editors (py.typed)."""
import inspect

import oriel
import pytest


def functions():
    """Name, and the object with the docstring, of each public function, method and property."""
    for name in oriel.__all__:
        found = getattr(oriel, name)
        if not inspect.isclass(found):
            if callable(found):
                yield name, found, found
            continue
        for member in dir(found):
            if member.startswith("_") and member not in ("__init__", "__enter__"):
                continue
            value = inspect.getattr_static(found, member)
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if inspect.isfunction(function) and function.__module__.startswith("oriel"):
                yield f"{name}.{member}", value, function


EVERY = list(functions())


@pytest.mark.parametrize("name", [name for name in oriel.__all__ if inspect.isclass(getattr(oriel, name))])
def test_every_class_has_a_docstring(name):
    assert vars(getattr(oriel, name)).get("__doc__")


@pytest.mark.parametrize("name, described, _", EVERY, ids=[name for name, *_ in EVERY])
def test_every_function_has_a_docstring(name, described, _):
    # The class says what its special methods do.
    assert described.__doc__ or ".__" in name


@pytest.mark.parametrize("name, _, function", EVERY, ids=[name for name, *_ in EVERY])
def test_every_function_has_types(name, _, function):
    signature = inspect.signature(function)
    for parameter in list(signature.parameters.values())["." in name:]:
        assert parameter.annotation is not parameter.empty, parameter
    assert name.endswith(".__init__") or signature.return_annotation is not signature.empty


def test_a_context_manager_is_of_its_class():
    assert oriel.Window.__enter__.__annotations__ == {"self": "_Self", "return": "_Self"}
