"""The declarations of libacre_torch.so in acre/torch/_plug.py are those of its header."""

import ctypes
import pathlib
import re

from acre.torch import _plug, _throw

NATIVE = pathlib.Path(__file__).resolve().parents[1] / "native"
SOURCE = pathlib.Path(__file__).resolve().parents[1] / "acre" / "torch" / "torch_throw.cpp"

KINDS = {"size_t": ctypes.c_size_t, "int": ctypes.c_int, "uint64_t": ctypes.c_uint64, "double": ctypes.c_double,
         "uint32_t": ctypes.c_uint32, "char *": ctypes.c_char_p, "acre_status": ctypes.c_int, "void": None}


def _header():
    text = re.sub(r"/\*.*?\*/", "", (NATIVE / "torch_plug.h").read_text(), flags=re.S)
    text = text.replace("void (*drop)(void *user)", "void *drop")
    return dict(re.findall(r"ACRE_TORCH_API\s+[^;(]*?\b(acre_torch_\w+)\(([^)]*)\);", text)), text


def _kind(parameter):
    parameter = re.sub(r"\b(const|struct) ", "", parameter.strip())
    name = parameter if parameter in KINDS else re.sub(r"\w+$", "", parameter).strip()
    return KINDS.get(name, ctypes.c_void_p)


def test_every_function_of_the_header_is_declared():
    functions, _ = _header()
    assert set(functions) == set(_plug.FUNCTIONS)


def test_parameters_are_those_of_the_header():
    functions, _ = _header()
    for name, text in functions.items():
        expected = [] if text == "void" else [_kind(p) for p in text.split(",")]
        declared = [ctypes.c_void_p if hasattr(k, "contents") else k for k in _plug.FUNCTIONS[name][1]]
        assert declared == expected, name


def test_constants_and_structs_are_those_of_the_header():
    _, text = _header()
    assert f"ACRE_TORCH_REGIONS = {_plug.REGIONS} " in text
    assert f"ACRE_TORCH_OWN_POOL {_plug.OWN_POOL}u" in text
    body = re.search(r"struct acre_torch_stats {(.*?)}", text, re.S)[1]
    names = [n.strip() for line in re.findall(r"(?:uint64_t|struct acre_torch_counter) ([^;]+);", body)
             for n in line.split(",")]
    assert [name for name, _ in _plug.Stats._fields_] == names
    assert ctypes.sizeof(_plug.Stats) == 8 * (4 * 4 + 4)


def test_table_of_the_helper_has_the_same_order():
    body = re.search(r"struct acre_torch_table {(.*?)\n};", SOURCE.read_text(), re.S)[1]
    names = re.findall(r"^    \w+[ *]+\(\*(\w+)\)\(|^    \w+ \*\(\*(\w+)\)\(", body, re.M)
    assert tuple(f"acre_torch_{a or b}" for a, b in names) == _throw.TABLE
