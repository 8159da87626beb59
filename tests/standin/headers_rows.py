#!/usr/bin/env python3
"""Generates code from the headers of include/soft that compares them with NVIDIA's.

    headers_rows.py rows FOLDER          a program, C and C++, that prints every size, offset, value
                                         and linker symbol that the headers define, one per line
    headers_rows.py again FOLDER [-D..]  their functions and plain typedefs, to be declared again
                                         after NVIDIA's headers: a compiler rejects differences
    headers_rows.py calls FOLDER         the names of their functions, one per line

FOLDER has cuda.h, cuda_runtime_api.h, cuda_runtime.h and the headers that these include. The script reads everything
from the headers, so additions to them are compared without a change here. The compiler is $CC, or cc.
"""

import os
import re
import subprocess
import sys

HEADERS = (
    "cuda.h",
    "cuda_runtime_api.h",
    "cuda_runtime.h",
    "cuda_results.h",
    "vector_types.h",
    "vector_functions.h",
)
# The headers are those of CUDA 13.0. Later toolkits of CUDA 13 differ only in these constants.
MINOR = ("CUDA_VERSION", "CUDART_VERSION")


def own_text(folder, flags):
    """Returns the preprocessed text of the headers themselves, without the headers that they include."""
    source = "".join(f'#include "{name}"\n' for name in HEADERS[:2])
    command = [os.environ.get("CC", "cc"), "-E", "-x", "c", "-I", folder, *flags, "-"]
    answer = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    lines, ours = [], False
    for line in answer.stdout.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = os.path.basename(marker.group(1)) in HEADERS
        elif ours:
            lines.append(line)
    return re.sub(r"\s+", " ", " ".join(lines))


def statements(text):
    """Splits the text at semicolons, and after bodies, outside of all braces."""
    depth, begin, found = 0, 0, []
    for at, char in enumerate(text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if depth == 0 and char == ";":
            found.append(text[begin : at + 1].strip())
            begin = at + 1
        if depth == 0 and char == "}" and text[begin:].strip().startswith("static inline"):
            begin = at + 1
    return found


def members(body):
    """Returns (name, designator) of each member, including those of nested structs."""
    found = []
    for part in statements(body):
        nested = re.match(r"(?:struct|union) ?\{(.*)\} ?(\w+) ?;$", part)
        if nested:
            name = nested.group(2)
            found.append(name)
            found += [f"{name}.{inner}" for inner in members(nested.group(1))]
        else:
            found.append(re.search(r"(\w+) ?(?:\[[^;]*\])? ?;$", part).group(1))
    return found


def constants(folder):
    """Returns the names of macros that are numbers."""
    found = []
    for header in HEADERS:
        with open(os.path.join(folder, header), encoding="utf-8") as file:
            text = file.read()
        for name, value in re.findall(r"^#define (\w+) (.+)$", text, re.M):
            if re.fullmatch(r"-?\w+|\(\(\w+\)-?\w+\)", value) and re.search(r"\d", value):
                if not re.match(r"cu[A-Z]|cuda[A-Z]\w+_pt[ds][sz]", value):
                    found.append(name)
    return [name for name in found if name not in calls(folder)]


def calls(folder):
    """Returns the names of functions as programs write them."""
    found = []
    for header in HEADERS[:2]:
        with open(os.path.join(folder, header), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
        text = re.sub(r"^#.*$", "", text, flags=re.M)
        text = re.sub(r"static inline.*?^\}", "", text, flags=re.S | re.M)
        found += re.findall(r"\b(cu(?:da)?[A-Z]\w+)\(", text)
    return found


def rows(folder):
    out = [
        "#include <stddef.h>",
        "#include <stdio.h>",
        "#include <cuda.h>",
        "#include <cuda_runtime.h>",
        "#define NUMBER(what, value) printf(what \" %lld\\n\", (long long)(value))",
        "#define TEXT(name) #name",
        "#define NAME(what, name) printf(what \" %s\\n\", TEXT(name))",
        "int main(void) {",
    ]

    def number(what, value):
        out.append(f'    NUMBER("{what}", {value});')

    for text in statements(own_text(folder, [])):
        text = re.sub(r" ?__attribute__\(\(aligned\(\d+\)\)\)", "", text)
        kind = re.match(r"(typedef )?(enum|struct) (\w+) ?\{(.*)\} ?(\w*) ?;$", text)
        if not kind:
            continue
        is_typedef, sort, tag, body, name = kind.groups()
        name = name if is_typedef else f"{sort} {tag}"
        number(f"sizeof {name}", f"sizeof({name})")
        number(f"alignof {name}", f"__alignof__({name})")
        if sort == "enum":
            number(f"signed {name}", f"({name})-1 < ({name})1")
            for value in re.findall(r"(\w+) ?(?:=[^,]*)?(?:,|$)", body):
                number(value, value)
            continue
        for member in members(body):
            # Later versions use reserved space for new members.
            if name == "struct cudaDeviceProp" and member == "reserved":
                continue
            number(f"offset {name}.{member}", f"offsetof({name}, {member})")
            number(f"size {name}.{member}", f"sizeof((({name} *)0)->{member})")
    for name in constants(folder):
        number(name, f"{name} / 1000" if name in MINOR else name)
    for name in calls(folder):
        out.append(f'    NAME("name {name}", {name});')
    # In C++ some calls are overloaded and have no single address.
    out.append("#ifndef __cplusplus")
    for name in calls(folder):
        out.append(f"    (void)sizeof(&{name});")
    out.append("#endif")
    return out + ["    return 0;", "}"]


def again(folder, flags):
    out = ["#include <cuda.h>", "#include <cuda_runtime.h>"]
    out += ["#ifdef __cplusplus", 'extern "C" {', "#endif"]
    for text in statements(own_text(folder, flags)):
        if "{" not in text and re.search(r"\w", text):
            out.append(text)
    return out + ["#ifdef __cplusplus", "}", "#endif"]


def main():
    what, folder = sys.argv[1], sys.argv[2]
    made = {
        "rows": lambda: rows(folder),
        "again": lambda: again(folder, sys.argv[3:]),
        "calls": lambda: calls(folder),
    }[what]()
    print("\n".join(made))


if __name__ == "__main__":
    main()
