// Memory over time: stacked areas by tag, stack, pool, stream or size, reserved memory as a line, and
// markers of the peak, failures, marks and the chosen instant.
import { formatBytes, formatCount, formatShare, formatTick, cleanText } from "./text.js";
import { KEY_TITLES, stackUp, lastUpTo } from "./model.js";
import { el, choice, section, nameNode, themeColours } from "./dom.js";

// Live memory takes at least this part of the height. A pool may reserve many times as much for a
// moment; its line then leaves the chart at the top, and the chart says so.
const LIVE_PART = 1 / 3;

const BYTE_STEPS = Array.from({ length: 62 }, (_, i) => 2 ** i);

export class Timeline {
    // `state` is shared by the views: {axis, key, event, onEvent(event), onKey(key)}.
    constructor(model, state) {
        this.model = model;
        this.state = state;
        this.lines = new Set(model.report.reserved_peak_bytes ? ["reserved"] : []);
        this.range = model.xRange(state.axis);
        this.readout = el("p.readout", { "aria-live": "polite" });
        this.legend = el("ul.legend");
        this.toggles = el("div.toggles");
        this.frame = el("div.chart", {
            tabindex: 0,
            role: "application",
            "aria-label":
                "Chart of live memory over time. Arrow keys move, plus and minus zoom, 0 shows all, P goes to the peak, comma and period step through the samples.",
            onkeydown: (event) => this.key(event),
        });
        const dividing = model.dividing();
        const keys = [...dividing.map((key) => [key, KEY_TITLES[key]]), ["", "Total"]];
        section(
            "timeline",
            "Memory over time",
            el(
                "div.controls",
                {},
                choice("By", keys, state.key, (key) => state.onKey(key)),
                choice(
                    "Axis",
                    [
                        ["time", "Time"],
                        ["event", "Events"],
                    ],
                    state.axis,
                    (axis) => this.setAxis(axis),
                ),
                el(
                    "div.choice",
                    {},
                    ...[
                        ["−", "Zoom out", () => this.zoom(2)],
                        ["+", "Zoom in", () => this.zoom(0.5)],
                        ["Peak", "Zoom to the peak", () => this.goToPeak()],
                        ["All", "Show everything", () => this.reset()],
                    ].map(([text, title, onclick]) =>
                        el("button", { type: "button", title, "aria-label": title, onclick }, text),
                    ),
                ),
            ),
            this.frame,
            this.readout,
            this.legend,
            this.toggles,
            el(
                "p.hint",
                {},
                "Drag to zoom; Shift and drag, or the arrow keys, to move; Ctrl and the wheel to zoom. A click chooses the instant of the address map.",
            ),
            this.marksList(),
        );
        this.make();
        new ResizeObserver(() => this.resize()).observe(this.frame);
    }

    marksList() {
        const { marks, failed, failures } = this.model.report;
        const item = (what, entry, text) =>
            el(
                "li",
                {},
                el(
                    "button.link",
                    { type: "button", onclick: () => this.goTo(entry.event) },
                    this.model.formatX("time", entry.time_ns),
                ),
                ` ${what}`,
                text ? nameNode(cleanText(text)) : "",
            );
        const lists = [];
        if (failed.length) {
            lists.push(
                el(
                    "details",
                    { open: failed.length <= 10 },
                    el("summary", {}, `${formatCount(failures)} failed ${failures === 1 ? "call" : "calls"}`),
                    el(
                        "ul.marks",
                        {},
                        ...failed
                            .slice(0, 200)
                            .map((f) =>
                                item(
                                    `${f.call} of ${formatBytes(f.bytes)}${f.tag_name ? " for " : ""}`,
                                    f,
                                    f.tag_name || "",
                                ),
                            )
                            .map((li, i) => {
                                li.append(`: ${failed[i].status}, ${failed[i].text}`);
                                return li;
                            }),
                    ),
                ),
            );
        }
        if (marks.length) {
            lists.push(
                el(
                    "details",
                    { open: marks.length <= 12 },
                    el("summary", {}, `${marks.length} ${marks.length === 1 ? "mark" : "marks"} of the program`),
                    el("ul.marks", {}, ...marks.slice(0, 200).map((mark) => item("", mark, mark.text))),
                ),
            );
        }
        return el("div", {}, ...lists);
    }

    // ---- data ----

    data() {
        const { model, state } = this;
        this.win = model.window(state.axis, this.range[0], this.range[1]);
        this.samples = model.samples(state.axis, state.key, this.win);
        this.tops = state.key ? stackUp(this.samples.groups) : [this.samples.requested];
        this.groups = state.key
            ? model.groups(state.key)
            : [{ id: null, name: "Live memory, as requested", colour: "#4269d0" }];
        const card = () => new Float64Array(this.samples.x.length).fill(model.report.card_bytes);
        const lines = this.lineNames().map((name) => (name === "card" ? card() : this.samples[name]));
        // uPlot draws later series above earlier ones: the highest area comes first.
        return [this.samples.x, ...this.tops.slice().reverse(), ...lines];
    }

    lineNames() {
        return ["reserved", "real", "card"].filter((name) => this.lines.has(name));
    }

    series() {
        const theme = themeColours();
        const stepped = uPlot.paths.stepped({ align: 1 });
        const areas = this.groups
            .slice()
            .reverse()
            .map((group) => ({
                label: group.name,
                stroke: group.colour,
                fill: `${group.colour}${this.state.key ? "cc" : "88"}`,
                width: 1,
                paths: stepped,
                points: { show: false },
            }));
        const looks = { reserved: { stroke: theme.ink, dash: [6, 4] }, real: { stroke: theme.dim, dash: [2, 3] }, card: { stroke: theme.ink } };
        const lines = this.lineNames().map((name) => ({
            label: name,
            width: 1.5,
            paths: stepped,
            points: { show: false },
            ...looks[name],
        }));
        return [{}, ...areas, ...lines];
    }

    make() {
        const data = this.data();
        const theme = themeColours();
        const axis = {
            stroke: theme.dim,
            grid: { stroke: theme.line, width: 1 },
            ticks: { stroke: theme.line, width: 1 },
            font: "12px system-ui, sans-serif",
        };
        const count = this.groups.length;
        const bands = Array.from({ length: count - 1 }, (_, i) => ({ series: [i + 1, i + 2] }));
        this.plot?.destroy();
        this.frame.replaceChildren();
        this.plot = new uPlot(
            {
                width: Math.max(240, this.frame.clientWidth),
                height: this.height(),
                legend: { show: false },
                bands,
                series: this.series(),
                scales: {
                    x: { time: false, range: () => this.range },
                    y: { range: (_, least, most) => this.heightRange(most) },
                },
                axes: [
                    { ...axis, space: 90, values: (u, ticks, _a, _s, step) => ticks.map((x) => this.tick(x, step)) },
                    { ...axis, size: 74, incrs: BYTE_STEPS, values: (u, ticks) => ticks.map(formatBytes) },
                ],
                cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
                hooks: {
                    setCursor: [() => this.tell()],
                    setSelect: [(u) => this.select(u)],
                    draw: [(u) => this.drawMarkers(u)],
                },
            },
            data,
            this.frame,
        );
        this.listen(this.plot.over);
        this.fillLegend();
        this.tell();
    }

    heightRange(most) {
        const live = this.samples.real.reduce((a, b) => Math.max(a, b), 1);
        this.isCut = !this.lines.has("all") && !this.lines.has("card") && most > live / LIVE_PART;
        return [0, Math.max(1, this.isCut ? live / LIVE_PART : most || 0) * 1.06];
    }

    tick(x, step) {
        if (this.state.axis === "event" || !this.model.hasClock) {
            return formatCount(x);
        }
        return formatTick(x, step, this.range[1]);
    }

    height() {
        return innerWidth < 600 ? 260 : 360;
    }

    resize() {
        const width = Math.max(240, this.frame.clientWidth);
        if (Math.abs(width - this.plot.width) > 1) {
            this.plot.setSize({ width, height: this.height() });
        }
    }

    refresh() {
        const before = this.win;
        const next = this.model.window(this.state.axis, this.range[0], this.range[1]);
        if (before && next.level === before.level && next.begin === before.begin && next.end === before.end) {
            this.plot.setScale("x", { min: this.range[0], max: this.range[1] });
        } else {
            this.plot.setData(this.data(), true);
        }
        this.tell();
    }

    // ---- the part that is shown ----

    setRange(from, to) {
        const [least, most] = this.model.xRange(this.state.axis);
        const width = Math.min(
            Math.max(to - from, this.state.axis === "event" ? 8 : (most - least) * 1e-9),
            most - least,
        );
        const begin = Math.max(least, Math.min(from, most - width));
        this.range = [begin, begin + width];
        this.refresh();
    }

    zoom(factor, at = 0.5) {
        const [from, to] = this.range;
        const middle = from + (to - from) * at;
        this.setRange(middle - (middle - from) * factor, middle + (to - middle) * factor);
    }

    pan(part) {
        const [from, to] = this.range;
        this.setRange(from + (to - from) * part, to + (to - from) * part);
    }

    reset() {
        this.setRange(...this.model.xRange(this.state.axis));
    }

    goTo(event) {
        const x = this.state.axis === "event" ? event : this.model.timeAt(event);
        const [least, most] = this.model.xRange(this.state.axis);
        const width = Math.min(this.range[1] - this.range[0], (most - least) / 20);
        this.setRange(x - width / 2, x + width / 2);
        this.state.onEvent(event);
    }

    goToPeak() {
        this.goTo(this.model.report.peak_event);
    }

    setAxis(axis) {
        const events = this.range.map((x) => this.model.eventAt(this.state.axis, x));
        this.state.axis = axis;
        const [least, most] = this.model.xRange(axis);
        const isAll = events[0] <= 0 && events[1] >= this.model.report.steps - 2;
        this.range =
            isAll || events[1] <= events[0]
                ? [least, most]
                : events.map((event) => (axis === "event" ? event : this.model.timeAt(event)));
        if (this.range[1] <= this.range[0]) {
            this.range = [least, most];
        }
        this.make();
    }

    // ---- pointer and keyboard ----

    select(u) {
        const { left, width } = u.select;
        if (width > 3) {
            const [from, to] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
            u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            this.setRange(from, to);
        }
    }

    listen(over) {
        let from = null;
        over.addEventListener(
            "wheel",
            (event) => {
                if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) {
                    return; // the wheel scrolls the page
                }
                event.preventDefault();
                if (event.ctrlKey || event.metaKey) {
                    this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / over.clientWidth);
                } else {
                    this.pan(event.deltaX / over.clientWidth);
                }
            },
            { passive: false },
        );
        over.addEventListener(
            "mousedown",
            (event) => {
                if (event.shiftKey) {
                    event.stopImmediatePropagation();
                    from = { x: event.clientX, range: this.range };
                    event.preventDefault();
                }
            },
            true,
        );
        over.ownerDocument.addEventListener("mousemove", (event) => {
            if (from) {
                const by = ((from.x - event.clientX) / over.clientWidth) * (from.range[1] - from.range[0]);
                this.setRange(from.range[0] + by, from.range[1] + by);
            }
        });
        over.ownerDocument.addEventListener("mouseup", () => {
            from = null;
        });
        over.addEventListener("click", (event) => {
            if (!event.shiftKey) {
                this.state.onEvent(this.model.eventAt(this.state.axis, this.plot.posToVal(event.offsetX, "x")));
            }
        });
        this.touch(over);
    }

    // Two fingers zoom and move; one finger scrolls the page.
    touch(over) {
        let start = null;
        const span = (event) => {
            const box = over.getBoundingClientRect();
            const [a, b] = [event.touches[0].clientX - box.left, event.touches[1].clientX - box.left];
            return { middle: (a + b) / 2 / box.width, wide: Math.max(10, Math.abs(a - b)) };
        };
        over.addEventListener(
            "touchstart",
            (event) => {
                start = event.touches.length === 2 ? { ...span(event), range: this.range } : null;
            },
            { passive: true },
        );
        over.addEventListener(
            "touchmove",
            (event) => {
                if (!start || event.touches.length !== 2) {
                    return;
                }
                event.preventDefault();
                const now = span(event);
                const wide = (start.range[1] - start.range[0]) * (start.wide / now.wide);
                const fixed = start.range[0] + (start.range[1] - start.range[0]) * start.middle;
                this.setRange(fixed - wide * now.middle, fixed + wide * (1 - now.middle));
            },
            { passive: false },
        );
    }

    key(event) {
        if (event.ctrlKey || event.metaKey || event.altKey) {
            return;
        }
        const actions = {
            ArrowLeft: () => this.pan(-0.1),
            ArrowRight: () => this.pan(0.1),
            "+": () => this.zoom(0.5),
            "=": () => this.zoom(0.5),
            "-": () => this.zoom(2),
            0: () => this.reset(),
            Home: () => this.reset(),
            p: () => this.goToPeak(),
            ",": () => this.step(-1),
            ".": () => this.step(1),
        };
        const action = actions[event.key];
        if (action) {
            event.preventDefault();
            action();
        }
    }

    // Moves the chosen instant to the next sample.
    step(by) {
        const at = lastUpTo(this.samples.event, this.state.event) + by;
        const next = this.samples.event[Math.max(0, Math.min(this.samples.event.length - 1, at))];
        this.state.onEvent(next);
    }

    // ---- what is shown beside the chart ----

    index() {
        const { idx } = this.plot?.cursor ?? {};
        if (idx !== null && idx !== undefined && this.plot.cursor.left >= 0) {
            const x = this.plot.posToVal(this.plot.cursor.left, "x");
            return lastUpTo(this.samples.x, x);
        }
        return lastUpTo(this.samples.event, this.state.event);
    }

    tell() {
        if (!this.plot || !this.samples.x.length) {
            return;
        }
        const { samples, model } = this;
        const i = this.index();
        const level = model.report.levels[this.win.level];
        const parts = [
            `${model.formatX("time", model.column(this.win.level, "time")[this.win.begin + i])} (event ${formatCount(samples.event[i])})`,
            `${formatBytes(samples.requested[i])} requested`,
            `${formatBytes(samples.real[i])} after rounding`,
        ];
        if (model.report.reserved_peak_bytes) {
            parts.push(`${level.events > 1 ? "up to " : ""}${formatBytes(samples.reserved[i])} reserved`);
        }
        const detail =
            level.events > 1
                ? ` Each point stands for ${formatCount(level.events / 2)} events or fewer; zoom in for more.`
                : "";
        this.readout.textContent = `${parts.join("; ")}.${this.win.level > 0 ? detail : level.events > 1 ? ` Finest level: highest and lowest state of every ${formatCount(level.events)} events.` : ""}`;
        const values = this.legend.querySelectorAll(".value");
        this.groups.forEach((group, g) => {
            const bytes = this.state.key ? samples.groups[g][i] : samples.requested[i];
            if (values[g]) {
                values[g].textContent = `${formatBytes(bytes)}, ${formatShare(bytes, samples.requested[i])}`;
            }
        });
    }

    fillLegend() {
        const items = this.groups.map((group) =>
            el(
                "li",
                {},
                el("span.swatch", { style: `background:${group.colour}` }),
                nameNode(group.name),
                el("span.value"),
            ),
        );
        const { report } = this.model;
        const toggles = [
            [
                "reserved",
                `Reserved (physical memory), up to ${formatBytes(report.reserved_peak_bytes)}`,
                report.reserved_peak_bytes,
            ],
            [
                "all",
                "Scale to all of the reserved memory",
                this.lines.has("reserved") && report.reserved_peak_bytes * LIVE_PART > report.peak_real_bytes,
            ],
            ["real", "Allocated, after rounding", report.peak_real_bytes !== report.peak_bytes],
            ["card", `The card, ${formatBytes(report.card_bytes || 0)}`, report.card_bytes],
        ]
            .filter(([, , has]) => has)
            .map(([name, title]) =>
                el(
                    "label",
                    {},
                    el("input", {
                        type: "checkbox",
                        checked: this.lines.has(name),
                        onchange: (event) => {
                            this.lines[event.target.checked ? "add" : "delete"](name);
                            this.make();
                        },
                    }),
                    ` ${title}`,
                ),
            );
        this.legend.replaceChildren(...items);
        this.toggles.replaceChildren(...toggles);
    }

    drawMarkers(u) {
        const { report } = this.model;
        const theme = themeColours();
        const { ctx } = u;
        const { left, top, width, height } = u.bbox;
        const scale = devicePixelRatio || 1;
        const place = (entry) => (this.state.axis === "event" ? entry.event : entry.time_ns);
        const line = (x, colour, dash, label, above) => {
            const at = u.valToPos(x, "x", true);
            if (at < left - 1 || at > left + width + 1) {
                return;
            }
            ctx.strokeStyle = colour;
            ctx.fillStyle = colour;
            ctx.setLineDash(dash.map((d) => d * scale));
            ctx.beginPath();
            ctx.moveTo(at, top);
            ctx.lineTo(at, top + height);
            ctx.stroke();
            if (label) {
                const wide = ctx.measureText(label).width;
                const from = at + 4 * scale + wide > left + width ? at - 4 * scale - wide : at + 4 * scale;
                const base = top + (above + 1) * 15 * scale;
                ctx.fillStyle = theme.card;
                ctx.globalAlpha = 0.8;
                ctx.fillRect(from - 2 * scale, base - 11 * scale, wide + 4 * scale, 15 * scale);
                ctx.globalAlpha = 1;
                ctx.fillStyle = colour;
                ctx.fillText(label, from, base);
            }
        };
        ctx.save();
        ctx.lineWidth = scale;
        ctx.textAlign = "left";
        ctx.textBaseline = "alphabetic";
        ctx.font = `${11 * scale}px system-ui, sans-serif`;
        report.marks.forEach((mark, i) =>
            line(
                place(mark),
                theme.mark,
                [3, 3],
                report.marks.length <= 40 ? cleanText(mark.text, 24) : "",
                1 + (i % 3),
            ),
        );
        report.failed.forEach((failure) => line(place(failure), theme.bad, [], "", 0));
        if (report.failed.length) {
            line(place(report.failed[0]), theme.bad, [], "failed", 5);
        }
        if (report.peak_bytes) {
            line(
                this.state.axis === "event" ? report.peak_event : report.peak_ns,
                theme.accent,
                [6, 3],
                `peak ${formatBytes(report.peak_bytes)}`,
                0,
            );
        }
        if (this.state.event !== report.peak_event) {
            line(
                this.state.axis === "event" ? this.state.event : this.model.timeAt(this.state.event),
                theme.ink,
                [1, 2],
                "address map",
                4,
            );
        }
        ctx.restore();
    }
}
