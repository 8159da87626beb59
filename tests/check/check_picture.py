#!/usr/bin/env python3
"""Compares docs/figures/layers.svg with the table of layers in check_layers.py, or draws it from there.

    check_picture.py [--draw] [ROOT]    exits with 1 if the picture is not current; --draw writes it

A box is a folder, with its line in docs/map.md. A folder stands one row above the highest folder that it
may use. There is no arrow to a folder that a longer path of arrows reaches.
"""

import os
import re
import sys
from xml.sax.saxutils import escape

from check_layers import LAYERS, PROGRAMS

PICTURE = "docs/figures/layers.svg"
WIDTH, MARGIN = 1080, 20
BOX_HEIGHT, ROW_HEIGHT, GAP = 46, 84, 16
LINE_CHARS = 27  # of the small text in a box, at most two lines of it
BOX_MAX = 180

STYLE = """
  text { font: 13px sans-serif; fill: #1c1e21 }
  .small { font-size: 10.5px; fill: #55595f }
  rect { fill: #f3f6fa; stroke: #7a8ba3 }
  .program rect { fill: #fbf6ea; stroke: #b39b62 }
  path { fill: none; stroke: #7a8ba3 }
"""


def described(root):
    """Returns the line of docs/map.md about each folder: {"src/pool": "allocation and free ..."}."""
    with open(os.path.join(root, "docs/map.md"), encoding="utf-8") as page:
        return dict(re.findall(r"^- \[([\w/]+)\]\([^)]*\): (.*)$", page.read(), re.M))


def level(folder):
    return 1 + max(map(level, LAYERS[folder]), default=-1)


def reach(folder):
    """Returns all folders that this one uses, directly or through others."""
    found = set()
    for below in LAYERS[folder]:
        found |= {below} | reach(below)
    return found


def direct(folder):
    """Returns the folders that this one uses and that no other folder it uses reaches."""
    below = LAYERS[folder]
    return sorted(b for b in below if not any(b in reach(other) for other in below))


def rows():
    """Returns the folders by row, the highest first. Folders that share neighbours are near each other."""
    top = max(map(level, LAYERS))
    placed = [sorted(f for f in LAYERS if level(f) == n) for n in range(top + 1)]
    for n in range(top - 1, -1, -1):
        above = placed[n + 1]
        users = lambda f: [above.index(u) for u in above if f in LAYERS[u]]
        # Folders that the row above does not use go to the right.
        placed[n].sort(key=lambda f: (not users(f), sum(users(f)) / max(1, len(users(f))), f))
    return placed[::-1]


def wrapped(text):
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= LINE_CHARS and lines[-1]:
            lines.append("")
        lines[-1] = (lines[-1] + " " + word).strip()
    return lines if len(lines) <= 2 else [lines[0], lines[1][: LINE_CHARS - 4].rstrip(" ,;") + " ..."]


def box(x, y, width, title, text, kind):
    middle = x + width / 2
    yield f'<g class="{kind}"><rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="5"/>'
    yield f'<text x="{middle:.0f}" y="{y + 16}" text-anchor="middle">{escape(title)}</text>'
    for n, line in enumerate(wrapped(text)):
        yield (
            f'<text class="small" x="{middle:.0f}" y="{y + 29 + 12 * n}" text-anchor="middle">'
            f"{escape(line)}</text>"
        )
    yield "</g>"


def arrow(start, end):
    """Draws an arrow from one box to another, each given as left, right and top."""
    (left, right, y1), (left2, right2, y2) = start, end
    x1, x2 = (left + right) / 2, (left2 + right2) / 2
    if y2 - y1 > ROW_HEIGHT:  # past a row: leave by the side, so that no box is in the way
        x1, y1 = (right if x2 > x1 else left), y1 + BOX_HEIGHT / 2
        first = (x2, y1)
    else:
        y1 += BOX_HEIGHT
        first = (x1, (y1 + y2) / 2)
    return (
        f'<path marker-end="url(#tip)" d="M{x1:.0f} {y1:.0f} C{first[0]:.0f} {first[1]:.0f} '
        f'{x2:.0f} {(y1 + y2) / 2:.0f} {x2:.0f} {y2 - 3:.0f}"/>'
    )


def draw(root):
    about = described(root)
    programs = [p for p in PROGRAMS if os.path.isdir(os.path.join(root, p))]
    every_row = [programs, ["include"]] + rows()
    height = 2 * MARGIN + ROW_HEIGHT * (len(every_row) - 1) + BOX_HEIGHT
    place, boxes = {}, []
    for n, row in enumerate(every_row):
        width = WIDTH - 2 * MARGIN if row == ["include"] else min(BOX_MAX, (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row))
        x = (WIDTH - len(row) * width - GAP * (len(row) - 1)) / 2
        y = MARGIN + n * ROW_HEIGHT
        for folder in row:
            title = "src/" + folder if folder in LAYERS else folder + "/"
            text = about.get(title.rstrip("/"), "")
            boxes += box(x, y, width, title, text, "layer" if folder in LAYERS else "program")
            place[folder] = (x, x + width, y)
            x += width + GAP
    arrows = []
    for folder in LAYERS:
        arrows += [arrow(place[folder], place[below]) for below in direct(folder)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<title>The layers of acre: a folder may use itself, include/ and what its arrows lead to</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" style="fill:#7a8ba3;stroke:none"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{height}" style="fill:#fff;stroke:none"/>',
            *arrows,
            *boxes,
            "</svg>",
            "",
        ]
    )


def main():
    words = [w for w in sys.argv[1:] if w != "--draw"]
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.abspath(words[0] if words else os.environ.get("ACRE_SOURCE", here + "/../.."))
    path = os.path.join(root, PICTURE)
    current = draw(root)
    if "--draw" in sys.argv[1:]:
        with open(path, "w", encoding="utf-8") as picture:
            picture.write(current)
        return 0
    with open(path, encoding="utf-8") as picture:
        if picture.read() == current:
            return 0
    print(f"{PICTURE}: not current; run tests/check/check_picture.py --draw")
    return 1


if __name__ == "__main__":
    sys.exit(main())
