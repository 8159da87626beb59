// The modules of the page without a browser: numbers, names, columns, levels of detail, the tree of
// the flame graph, addresses, and the comparison.
import assert from "node:assert/strict";
import test from "node:test";

import {
    cleanText,
    countOf,
    formatBytes,
    formatCount,
    formatDuration,
    formatShare,
    formatTick,
    shortFrame,
} from "../../cli/page/text.js";
import { packColumn, unpackColumn } from "../../cli/page/codec.js";
import { Model, lastUpTo, lowerBound, sharedFrames, stackUp } from "../../cli/page/model.js";
import { buildTree, layoutTree } from "../../cli/page/tree.js";
import { aliveAt, gapsBetween, mapAt, mergeRanges, rowBytes } from "../../cli/page/spaces.js";
import { compareFigures, compareRows } from "../../cli/page/compare.js";

const MIB = 2 ** 20;

function level(events, columns, keys = {}) {
    const packed = { events, count: columns.time.length, tag: [], stack: [], pool: [], stream: [], size: [] };
    for (const [name, values] of Object.entries({
        waits: columns.time.map(() => 0),
        reserved: columns.time.map(() => 0),
        real: columns.requested,
        ...columns,
    })) {
        packed[name] = packColumn(values);
    }
    for (const [key, groups] of Object.entries(keys)) {
        packed[key] = groups.map(packColumn);
    }
    return packed;
}

function spans(list) {
    const packed = { count: list.length, all: list.length };
    for (const name of [
        "begin",
        "end",
        "begin_ns",
        "end_ns",
        "address",
        "bytes",
        "real",
        "id",
        "stream",
        "tag",
        "stack",
        "pool",
    ]) {
        packed[name] = packColumn(list.map((span) => span[name] ?? (name === "real" ? span.bytes : 0)));
    }
    return packed;
}

function row(id, name, bytes, rest = {}) {
    return {
        id,
        name,
        peak_bytes: bytes,
        at_peak_bytes: bytes,
        at_peak_blocks: 1,
        live_bytes: 0,
        live_blocks: 0,
        allocations: 1,
        allocated_bytes: bytes,
        ...rest,
    };
}

function report(more = {}) {
    return {
        format: "acre",
        steps: 4,
        duration_ns: 3000,
        peak_bytes: 3 * MIB,
        peak_event: 2,
        levels: [],
        groups: { tag: [1, 2], stack: [], pool: [], stream: [], size: [] },
        by_tag: [row(1, "forward/attention", 2 * MIB), row(2, "input", MIB)],
        by_stack: [],
        by_pool: [],
        by_stream: [],
        by_size: [],
        tag_count: 2,
        stack_count: 1,
        pool_count: 1,
        stream_count: 1,
        size_count: 1,
        holders: [],
        frames: [],
        stacks: {},
        blocks: { count: 0, all: 0 },
        mappings: { count: 0, all: 0 },
        ...more,
    };
}

test("text_numbers_are_those_of_the_tool", () => {
    assert.equal(formatBytes(0), "0 B");
    assert.equal(formatBytes(1023), "1023 B");
    assert.equal(formatBytes(1024), "1 KiB");
    assert.equal(formatBytes(9491080192), "8.8 GiB");
    assert.equal(formatBytes(68157440), "65 MiB");
    assert.equal(formatBytes(-1536), "-1.5 KiB");
    assert.equal(formatDuration(999), "999 ns");
    assert.equal(formatDuration(1500), "1.5 us");
    assert.equal(formatDuration(4865452127), "4.87 s");
    assert.equal(formatCount(1234567), "1,234,567");
    assert.equal(formatShare(1, 1000), "< 1 %");
    assert.equal(formatShare(0, 0), "0 %");
    assert.equal(countOf(1, "block"), "1 block");
    assert.equal(countOf(0, "block"), "0 blocks");
});

test("text_ticks_close_together_differ", () => {
    assert.equal(formatTick(2.5e6, 2.5e6, 2e7), "2.5 ms");
    assert.equal(formatTick(5e9, 1e9, 9e9), "5 s");
    assert.notEqual(formatTick(5.000001e9, 1e3, 9e9), formatTick(5.000002e9, 1e3, 9e9));
});

test("text_names_lose_what_misleads", () => {
    assert.equal(cleanText("a\u202eb\u0007"), "a\\u202eb\\u0007");
    assert.equal(cleanText("</script>"), "</script>"); // reaches the page as a text node
    assert.equal(cleanText("x".repeat(10000)).length, 241);
    assert.ok(!/[\ud800-\udbff]…$/.test(cleanText(`${"x".repeat(239)}😀😀`)));
    assert.equal(shortFrame("f(int) const at /long/path/file.c:14"), "f at file.c:14");
    assert.equal(shortFrame("/lib/libc.so+0x27"), "libc.so+0x27");
    assert.equal(shortFrame("f at D:\\Dev\\model.py:386"), "f at model.py:386");
});

test("codec_column_comes_back", () => {
    const values = [0, 5, 3, 2 ** 52, 0, 1, 2 ** 40 + 1, 2 ** 52 - 1];
    assert.deepEqual([...unpackColumn(packColumn(values), values.length)], values);
    assert.deepEqual([...unpackColumn("", 0)], []);
    assert.equal(unpackColumn(packColumn([1, 2]), 5).length, 2); // damaged: fewer numbers
});

test("model_search_finds_the_place", () => {
    assert.equal(lowerBound([1, 3, 3, 7], 3), 1);
    assert.equal(lowerBound([1, 3], 9), 2);
    assert.equal(lastUpTo([1, 3, 3, 7], 3), 2);
    assert.equal(lastUpTo([1, 3], 0), 0);
});

test("model_window_takes_the_finest_level_that_can_be_drawn", () => {
    const count = 20000;
    const fine = Array.from({ length: count }, (_, i) => i);
    const coarse = fine.filter((i) => i % 8 === 0);
    const model = new Model(
        report({
            steps: count,
            duration_ns: count,
            levels: [
                level(1, { time: fine, event: fine, requested: fine }),
                level(8, { time: coarse, event: coarse, requested: coarse }),
            ],
        }),
    );
    assert.equal(model.window("time", 0, count).level, 1);
    const close = model.window("time", 1000, 2000);
    assert.equal(close.level, 0);
    const samples = model.samples("time", "", close);
    assert.ok(samples.x[0] <= 1000 && samples.x[samples.x.length - 1] >= 2000);
});

test("model_groups_and_rest_sum_up", () => {
    const model = new Model(
        report({
            tag_count: 3,
            levels: [
                level(
                    1,
                    { time: [0, 1, 2], event: [0, 1, 2], requested: [10, 30, 20] },
                    {
                        tag: [
                            [5, 10, 0],
                            [5, 15, 20],
                        ],
                    },
                ),
            ],
        }),
    );
    const samples = model.samples("time", "tag", { level: 0, begin: 0, end: 3 });
    assert.equal(samples.groups.length, 3);
    assert.deepEqual([...samples.groups[2]], [0, 5, 0]);
    const tops = stackUp(samples.groups);
    assert.deepEqual([...tops[tops.length - 1]], [10, 30, 20]);
    assert.equal(model.name("tag", 1), "forward/attention");
    assert.equal(model.name("tag", 0), "(no tag)");
});

test("model_first_division_leaves_little_in_the_rest", () => {
    const rows = Array.from({ length: 100 }, (_, i) => row(i + 1, null, MIB));
    const groups = { tag: [], stack: rows.slice(0, 10).map((r) => r.id), pool: [], stream: [], size: [20] };
    const many = { tag_count: 1, stack_count: 100, size_count: 2, by_stack: rows, groups, peak_bytes: 100 * MIB };
    assert.equal(new Model(report(many)).firstKey(), "size");
    assert.equal(new Model(report({ ...many, peak_bytes: 15 * MIB })).firstKey(), "stack");
    assert.equal(new Model(report()).firstKey(), "tag");
    assert.equal(new Model(report({ tag_count: 1 })).firstKey(), "");
});

test("model_frames_that_all_stacks_have_are_left_out", () => {
    assert.equal(
        sharedFrames([
            [0, 1, 2],
            [0, 3, 2],
        ]),
        1,
    );
    assert.equal(sharedFrames([[0, 1]]), 0);
    assert.equal(sharedFrames([[0], [0]]), 0); // one frame stays
    const model = new Model(
        report({
            frames: ["get at a.c:1", "f at a.c:2", "g at a.c:3", "_start"],
            stacks: { 1: [0, 1, 3], 2: [0, 2, 3] },
        }),
    );
    assert.equal(model.stackName(1), "f at a.c:2");
    assert.equal(model.stackName(2), "g at a.c:3");
    assert.equal(model.stackName(9), "stack 9");
});

test("tree_adds_up_by_path", () => {
    const model = new Model(
        report({
            holders: [
                [1, 0, 2 * MIB, 2, 0, 0, 5 * MIB, 9],
                [2, 0, MIB, 1, MIB, 1, MIB, 1],
                [-1, 0, 1024, 1, 0, 0, 0, 0],
            ],
        }),
    );
    const root = buildTree(model, "peak", "tag");
    assert.equal(root.bytes, 3 * MIB + 1024);
    const forward = root.children.get("forward");
    assert.equal(forward.bytes, 2 * MIB);
    assert.equal(forward.children.get("attention").blocks, 2);
    assert.equal(buildTree(model, "end", "tag").children.size, 1);
    const boxes = layoutTree(root, 0.01);
    assert.equal(boxes[0].width, 1);
    assert.ok(boxes.every((box) => box.x >= 0 && box.x + box.width <= 1 + 1e-9));
    assert.ok(!boxes.some((box) => box.node.name === "(other holders)")); // too narrow to see
    assert.deepEqual(layoutTree({ bytes: 0, children: new Map() }, 0.01), []);
});

test("spaces_ranges_merge_and_leave_gaps", () => {
    assert.deepEqual(
        mergeRanges([
            [0, 2],
            [2, 5],
            [7, 9],
        ]),
        [
            [0, 5],
            [7, 9],
        ],
    );
    assert.deepEqual(
        mergeRanges(
            [
                [0, 2],
                [4, 5],
            ],
            2,
        ),
        [[0, 5]],
    );
    assert.deepEqual(
        gapsBetween(
            [
                [2, 3],
                [5, 6],
            ],
            0,
            8,
        ),
        [
            [0, 2],
            [3, 5],
            [6, 8],
        ],
    );
    assert.equal(rowBytes(100 * MIB, 32), 4 * MIB);
});

test("spaces_map_shows_what_is_alive_at_an_event", () => {
    const model = new Model(
        report({
            blocks: spans([
                { begin: 0, end: 4, address: 0x100000, bytes: MIB, id: 1 },
                { begin: 1, end: 2, address: 0x300000, bytes: MIB, id: 2 },
            ]),
            mappings: spans([{ begin: 0, end: 4, address: 0x100000, bytes: 4 * MIB }]),
        }),
    );
    assert.deepEqual(aliveAt(model, "blocks", 1), [0, 1]);
    assert.deepEqual(aliveAt(model, "blocks", 2), [0]);
    const map = mapAt(model, 1);
    assert.equal(map.regions.length, 1);
    assert.equal(map.bytes, 4 * MIB);
    assert.equal(map.live, 2 * MIB);
    assert.equal(map.holes, 2 * MIB);
    assert.equal(map.holeCount, 2);
    assert.deepEqual(
        map.regions[0].pieces.map((piece) => piece.block),
        [0, -1, 1, -1],
    );
    assert.equal(mapAt(model, 3).largestHole, 3 * MIB);
});

test("spaces_blocks_outside_of_mappings_are_shown", () => {
    const model = new Model(
        report({
            blocks: spans([
                { begin: 0, end: 4, address: 0x1000, bytes: 256, id: 1 },
                { begin: 0, end: 4, address: 0x900000000, bytes: 256, id: 2 },
            ]),
        }),
    );
    const map = mapAt(model, 0);
    assert.equal(map.regions.length, 2);
    assert.equal(map.live, 512);
    assert.equal(map.known, false);
});

test("compare_joins_rows_by_name", () => {
    const now = new Model(report());
    const before = new Model(report({ peak_bytes: MIB, by_tag: [row(7, "input", 3 * MIB), row(8, "gone", MIB)] }));
    const rows = compareRows(now, before, "tag", "at_peak_bytes");
    assert.deepEqual(
        rows.map((r) => [r.name, r.change / MIB]),
        [
            ["forward/attention", 2],
            ["input", -2],
            ["gone", -1],
        ],
    );
    assert.equal(compareFigures(now.report, before.report)[0].change, 2 * MIB);
});
