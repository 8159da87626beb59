// The smaller parts of the page: figures, sizes, streams, the plan, and the comparison.
import { cleanText, countOf, formatBytes, formatCount, formatDuration, formatShare, formatTick } from "./text.js";
import { KEY_TITLES } from "./model.js";
import { compareFigures, compareRows } from "./compare.js";
import { el, choice, section, nameNode, table, themeColours } from "./dom.js";

export function showHead(model) {
    const { report } = model;
    const lead = cleanText(report.lead, 600).replace(/(\d) (?=[KMGTPE]iB|B\b|[mun]?s\b|%)/g, "$1\u00a0");
    document.getElementById("lead").replaceChildren(el("bdi", {}, lead));
    const begun = report.begun_ns ? new Date(report.begun_ns / 1e6).toISOString().replace("T", " ").slice(0, 19) : "";
    const facts = [
        report.pid ? `process ${report.pid}` : "",
        begun ? `${begun} UTC` : "",
        countOf(report.events, "event"),
        report.is_written ? "still being written" : "",
        report.is_ring ? "the oldest events may be missing" : "",
    ];
    document
        .getElementById("source")
        .replaceChildren(nameNode(cleanText(report.file)), ` ${facts.filter(Boolean).join(" · ")}`);
    document
        .getElementById("damage")
        .replaceChildren(
            ...report.damage.map((damage) =>
                el(
                    "p.damage",
                    {},
                    `The trace is damaged${damage.byte ? ` at byte ${formatCount(damage.byte)}` : ""}: `,
                    nameNode(cleanText(damage.what)),
                    ". This page shows the events before it.",
                ),
            ),
        );
    const card = (id, title, value, detail) =>
        el(
            "div.card",
            { id: `card-${id}` },
            el("span.title", {}, title),
            el("span.figure", {}, value),
            el("span.detail", {}, detail),
        );
    const live = report.live_blocks;
    const cards = [
        card(
            "peak",
            "Peak",
            formatBytes(report.peak_bytes),
            `at ${model.formatX("time", report.peak_ns)}, ${countOf(report.peak_blocks, "block")}`,
        ),
        report.reserved_peak_bytes
            ? card(
                  "reserved",
                  "Reserved",
                  formatBytes(report.reserved_peak_bytes),
                  `${(report.reserved_peak_bytes / Math.max(1, report.peak_bytes)).toFixed(2)} times the peak`,
              )
            : null,
        report.card_bytes
            ? card(
                  "card",
                  "The card",
                  formatBytes(report.card_bytes),
                  `${formatShare(report.reserved_peak_bytes || report.peak_bytes, report.card_bytes)} used at most`,
              )
            : null,
        card("end", "At the end", formatBytes(report.live_bytes), countOf(live, "block")),
        card(
            "allocations",
            "Allocations",
            formatCount(report.kinds.alloc || 0),
            countOf(report.kinds.free || 0, "free"),
        ),
        card(
            "failures",
            "Failures",
            formatCount(report.failures),
            report.failures ? cleanText(report.failed[0].text) : "nothing failed",
        ),
        card(
            "duration",
            "Recorded",
            model.hasClock ? formatDuration(report.duration_ns) : `${formatCount(report.duration_ns)} steps`,
            `${countOf(report.threads, "thread")}, ${countOf(report.stream_count, "stream")}`,
        ),
    ];
    document.getElementById("cards").replaceChildren(...cards.filter(Boolean));
}

export function showSizes(model) {
    const rows = [...model.report.by_size].sort((a, b) => a.id - b.id);
    const most = (field) => rows.reduce((max, row) => Math.max(max, row[field]), 1);
    const counts = most("allocations");
    const bytes = most("allocated_bytes");
    const peak = most("at_peak_bytes");
    section(
        "sizes",
        "Sizes",
        table(
            "Allocations by size",
            [
                {
                    title: "Size",
                    isText: true,
                    value: (row) => String(row.id).padStart(3, "0"),
                    show: (row) => model.name("size", row.id),
                },
                {
                    title: "Allocations",
                    value: (row) => row.allocations,
                    show: (row) => formatCount(row.allocations),
                    bar: (row) => row.allocations / counts,
                },
                {
                    title: "Bytes allocated",
                    value: (row) => row.allocated_bytes,
                    show: (row) => formatBytes(row.allocated_bytes),
                    bar: (row) => row.allocated_bytes / bytes,
                },
                {
                    title: "Live at the peak",
                    value: (row) => row.at_peak_bytes,
                    show: (row) => formatBytes(row.at_peak_bytes),
                    bar: (row) => row.at_peak_bytes / peak,
                },
            ],
            rows,
            { sortBy: 0, most: 64 },
        ),
    );
}

export function showStreams(model) {
    const { report } = model;
    const waits = new Map(report.by_wait.map((row) => [row.stream, row.waits]));
    const rows = report.by_stream.map((row) => ({ ...row, waits: waits.get(row.id) || 0 }));
    for (const { stream, waits: count } of report.by_wait) {
        if (!rows.some((row) => row.id === stream)) {
            rows.push({ id: stream, allocations: 0, allocated_bytes: 0, peak_bytes: 0, live_bytes: 0, waits: count });
        }
    }
    const text = report.waits
        ? `The pool inserted ${countOf(report.waits, "wait")}: a stream waited for memory that another stream had freed. Memory that each stream reuses itself needs none.`
        : "The pool inserted no waits: no stream had to wait for memory of another one.";
    section(
        "streams",
        "Streams and waits",
        el("p", {}, text),
        table(
            "Streams",
            [
                {
                    title: "Stream",
                    isText: true,
                    value: (row) => model.name("stream", row.id),
                    show: (row) => model.name("stream", row.id),
                },
                { title: "Allocations", value: (row) => row.allocations, show: (row) => formatCount(row.allocations) },
                {
                    title: "Bytes allocated",
                    value: (row) => row.allocated_bytes,
                    show: (row) => formatBytes(row.allocated_bytes),
                },
                {
                    title: "Peak",
                    value: (row) => row.peak_bytes,
                    show: (row) => formatBytes(row.peak_bytes),
                    bar: (row) => row.peak_bytes / Math.max(1, report.peak_bytes),
                },
                {
                    title: "Waits",
                    value: (row) => row.waits,
                    show: (row) => formatCount(row.waits),
                    bar: (row) => row.waits / Math.max(1, report.waits),
                },
            ],
            rows,
            { sortBy: 2 },
        ),
    );
}

export function showPlan(model) {
    const { report } = model;
    const { plan } = report;
    if (plan.skipped) {
        section(
            "plan",
            "What a plan would have needed",
            el("p", {}, "No plan was computed: ", nameNode(cleanText(plan.skipped)), "."),
        );
        return;
    }
    const bars = [
        ["Live at the peak, as requested", report.peak_bytes],
        ["A plan", plan.bytes],
        ["Reserved by the program", report.reserved_peak_bytes],
    ].filter(([, bytes]) => bytes);
    const most = Math.max(...bars.map(([, bytes]) => bytes));
    const proof = plan.is_optimal
        ? "No plan can be smaller."
        : `No plan can be smaller than ${formatBytes(plan.lower_bound_bytes)}; the search stopped at its limit.`;
    section(
        "plan",
        "What a plan would have needed",
        el(
            "p",
            {},
            `Placed in advance, the ${countOf(plan.buffers, "allocation")} fit into ${formatBytes(plan.bytes)}${report.reserved_peak_bytes ? `, ${formatShare(plan.bytes, report.reserved_peak_bytes)} of what was reserved` : ""}. ${proof}`,
        ),
        el(
            "div.bars",
            {},
            ...bars.map(([title, bytes]) =>
                el(
                    "div.bar-row",
                    {},
                    el("span", {}, title),
                    el("span.track", {}, el("span.fill", { style: `width:${(bytes / most) * 100}%` })),
                    el("span.value", {}, formatBytes(bytes)),
                ),
            ),
        ),
        el(
            "p.hint",
            {},
            "A plan suits programs that allocate the same in every iteration (acre_plan). It reuses memory by the order of the calls in this trace, and aligns blocks to 256 bytes.",
        ),
    );
}

// ---- comparison ----

const SHOW = { bytes: formatBytes, count: formatCount, duration: formatDuration };

function signed(show, change) {
    return change > 0 ? `+${show(change)}` : change < 0 ? `−${show(-change)}` : "0";
}

function drawComparison(frame, now, before, axis) {
    const theme = themeColours();
    const points = (model) => {
        const level = model.report.levels.length - 1;
        const x = model.column(level, axis === "share" ? "event" : "time");
        const whole = axis === "share" ? Math.max(1, model.report.steps - 1) / 100 : 1;
        const unique = new Map();
        const bytes = model.column(level, "requested");
        for (let i = 0; i < x.length; i++) {
            unique.set(x[i] / whole, Math.max(bytes[i], unique.get(x[i] / whole) ?? 0));
        }
        return [[...unique.keys()], [...unique.values()]];
    };
    const axisLook = {
        stroke: theme.dim,
        grid: { stroke: theme.line, width: 1 },
        ticks: { stroke: theme.line, width: 1 },
        font: "12px system-ui, sans-serif",
    };
    const stepped = uPlot.paths.stepped({ align: 1 });
    frame.replaceChildren();
    return new uPlot(
        {
            width: Math.max(240, frame.clientWidth),
            height: 260,
            legend: { show: false },
            scales: { x: { time: false }, y: { range: (_, least, most) => [0, Math.max(1, most || 0) * 1.06] } },
            series: [
                {},
                {
                    stroke: "#4269d0",
                    fill: "#4269d033",
                    width: 1.5,
                    paths: stepped,
                    points: { show: false },
                    spanGaps: true,
                },
                { stroke: "#ff725c", width: 1.5, paths: stepped, points: { show: false }, spanGaps: true },
            ],
            axes: [
                {
                    ...axisLook,
                    space: 80,
                    values: (u, ticks, _a, _s, step) =>
                        ticks.map((x) =>
                            axis === "share"
                                ? `${x} %`
                                : now.hasClock
                                  ? formatTick(x, step, u.scales.x.max)
                                  : formatCount(x),
                        ),
                },
                {
                    ...axisLook,
                    size: 74,
                    incrs: Array.from({ length: 62 }, (_, i) => 2 ** i),
                    values: (u, ticks) => ticks.map(formatBytes),
                },
            ],
            cursor: { y: false, points: { show: false } },
        },
        uPlot.join([points(now), points(before)]),
        frame,
    );
}

// Returns a function that draws the chart again.
export function showComparison(now, before) {
    const frame = el("div.chart");
    const tables = el("div");
    let axis = "time";
    const draw = () => drawComparison(frame, now, before, axis);
    const keys = ["tag", "stack", "pool", "stream", "size"].filter(
        (key) => now.report[`${key}_count`] > 1 || before.report[`${key}_count`] > 1,
    );
    const fill = (key) =>
        tables.replaceChildren(
            table(
                `Live at the peak, by ${KEY_TITLES[key].toLowerCase()}, the largest change first`,
                [
                    {
                        title: KEY_TITLES[key],
                        isText: true,
                        value: (row) => row.name,
                        show: (row) => nameNode(row.name),
                    },
                    { title: "Now", value: (row) => row.now, show: (row) => formatBytes(row.now) },
                    { title: "Before", value: (row) => row.before, show: (row) => formatBytes(row.before) },
                    {
                        title: "Change",
                        value: (row) => Math.abs(row.change),
                        show: (row) => signed(formatBytes, row.change),
                    },
                ],
                compareRows(now, before, key, "at_peak_bytes"),
                { sortBy: 3, most: 12 },
            ),
        );
    const figures = compareFigures(now.report, before.report);
    section(
        "comparison",
        "Comparison",
        el(
            "p",
            {},
            "Now: ",
            nameNode(cleanText(now.report.file)),
            ". Before: ",
            nameNode(cleanText(before.report.file)),
            ". The earlier trace: ",
            el("bdi", {}, cleanText(before.report.lead, 600)),
        ),
        table(
            "Figures of both traces",
            [
                {
                    title: "Figure",
                    isText: true,
                    value: (row) => String(figures.indexOf(row)).padStart(2, "0"),
                    show: (row) => row.title,
                },
                { title: "Now", value: (row) => row.now, show: (row) => SHOW[row.unit](row.now) },
                { title: "Before", value: (row) => row.before, show: (row) => SHOW[row.unit](row.before) },
                {
                    title: "Change",
                    value: (row) => row.change / Math.max(1, row.before),
                    show: (row) =>
                        signed(SHOW[row.unit], row.change) +
                        (row.before && row.change
                            ? ` (${row.change < 0 ? "−" : "+"}${formatShare(Math.abs(row.change), row.before)})`
                            : ""),
                },
            ],
            figures,
            { sortBy: 0, most: 20 },
        ),
        el(
            "div.controls",
            {},
            choice(
                "Axis",
                [
                    ["time", "Time"],
                    ["share", "Share of events"],
                ],
                axis,
                (value) => {
                    axis = value;
                    draw();
                },
            ),
            el(
                "span.legend-inline",
                {},
                el("span.swatch", { style: "background:#4269d0" }),
                "now ",
                el("span.swatch", { style: "background:#ff725c" }),
                "before",
            ),
        ),
        frame,
        keys.length
            ? el(
                  "div.controls",
                  {},
                  choice(
                      "By",
                      keys.map((key) => [key, KEY_TITLES[key]]),
                      keys[0],
                      fill,
                  ),
              )
            : null,
        tables,
    );
    if (keys.length) {
        fill(keys[0]);
    }
    draw();
    return draw;
}
