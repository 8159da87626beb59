// The address map at a chosen instant: every mapped byte in rows from left to right, blocks in the
// colours of the timeline, holes hatched.
import { countOf, formatAddress, formatBytes, formatCount, formatShare } from "./text.js";
import { mapAt, rowBytes } from "./spaces.js";
import { el, section, nameNode, showTip, hideTip, themeColours } from "./dom.js";

const ROWS = 32;

export class Addresses {
    constructor(model, state) {
        this.model = model;
        this.state = state;
        this.canvas = el("canvas", {
            tabindex: 0,
            role: "application",
            "aria-label": "Address map. Left and right arrow keys go from block to block.",
            onmousemove: (event) => this.hover(event),
            onmouseleave: () => {
                this.chosen = null;
                hideTip();
                this.draw();
            },
            onkeydown: (event) => this.key(event),
            onblur: () => hideTip(),
        });
        this.summary = el("p.readout", { "aria-live": "polite" });
        this.slider = el("input", {
            type: "range",
            min: 0,
            max: Math.max(0, model.report.steps - 1),
            step: 1,
            "aria-label": "Instant, as the number of an event",
            oninput: () => state.onEvent(Number(this.slider.value)),
        });
        this.when = el("span.when");
        const go = (text, event) => el("button", { type: "button", onclick: () => state.onEvent(event) }, text);
        section(
            "addresses",
            "Address map",
            el(
                "div.controls",
                {},
                el("div.choice", {}, go("Peak", model.report.peak_event), go("End", model.report.steps - 1)),
                this.slider,
                this.when,
            ),
            this.summary,
            el("div.map", {}, this.canvas),
            el(
                "p.hint",
                {},
                model.report.mappings.all
                    ? "Each row continues the one above. Addresses that are not mapped are left out; a gap separates ranges that are not adjacent. Pale parts are holes: reserved memory without a block."
                    : "The trace does not say which addresses are mapped, so the map shows the range of the blocks; pale parts have no block.",
            ),
        );
        new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
        this.show();
    }

    show() {
        const { model, state } = this;
        this.slider.value = state.event;
        this.when.textContent = `${model.formatX("time", model.timeAt(state.event))}, event ${formatCount(state.event)}`;
        this.map = mapAt(model, state.event);
        this.pieces = this.map.regions.flatMap((region) => region.pieces.map((piece) => ({ ...piece, region })));
        this.chosen = null;
        const { map } = this;
        const left = model.report.blocks.all - model.report.blocks.count;
        const parts = [
            `${countOf(map.blocks, "block")} of ${formatBytes(map.live)}`,
            map.known
                ? `${countOf(map.chunks, "chunk")} in ${countOf(map.regions.length, "range")} of ${formatBytes(map.bytes)}`
                : countOf(map.regions.length, "range"),
            `${countOf(map.holeCount, "hole")} of ${formatBytes(map.holes)} (${formatShare(map.holes, map.bytes)}), the largest ${formatBytes(map.largestHole)}`,
        ];
        this.summary.textContent = `${parts.join("; ")}.${left > 0 ? ` Small and short-lived blocks are left out: the page has ${formatCount(model.report.blocks.count)} of ${formatCount(model.report.blocks.all)}, and all that are live at the peak or the end, up to that number.` : ""}`;
        this.draw();
    }

    // ---- drawing ----

    // Calls `paint(x, y, width)` for each row that a range of offsets touches.
    rows(from, to, paint) {
        const { perRow, width, rowHeight } = this.shape;
        for (let row = Math.floor(from / perRow); row * perRow < to; row++) {
            const a = Math.max(from, row * perRow) - row * perRow;
            const b = Math.min(to, (row + 1) * perRow) - row * perRow;
            paint((a / perRow) * width, row * rowHeight, ((b - a) / perRow) * width);
        }
    }

    offset(region, address) {
        return region.offset + (address - region.from);
    }

    draw() {
        const width = this.canvas.parentElement.clientWidth;
        if (!width) {
            return;
        }
        const { map } = this;
        const scale = devicePixelRatio || 1;
        const perRow = rowBytes(map.bytes, ROWS);
        const count = Math.max(1, Math.ceil(map.bytes / perRow));
        const rowHeight = Math.max(9, Math.min(18, Math.floor(420 / count)));
        this.shape = { perRow, width, rowHeight };
        this.canvas.style.height = `${count * rowHeight}px`;
        this.canvas.width = Math.round(width * scale);
        this.canvas.height = Math.round(count * rowHeight * scale);
        const ctx = this.canvas.getContext("2d");
        const theme = themeColours();
        ctx.scale(scale, scale);
        ctx.clearRect(0, 0, width, count * rowHeight);
        const key = this.state.key || "size";
        const ids = this.model.column("blocks", key === "size" ? "bytes" : key);
        for (const piece of this.pieces) {
            const isBlock = piece.block >= 0;
            const id = isBlock
                ? key === "size"
                    ? Math.floor(Math.log2(Math.max(1, ids[piece.block])))
                    : ids[piece.block]
                : 0;
            ctx.fillStyle = isBlock ? this.model.colour(key, id) : theme.hole;
            this.rows(this.offset(piece.region, piece.from), this.offset(piece.region, piece.to), (x, y, w) =>
                ctx.fillRect(x, y + 1, Math.max(isBlock ? 0.7 : 0, w - (isBlock && w > 3 ? 1 : 0)), rowHeight - 2),
            );
        }
        ctx.fillStyle = theme.back;
        for (const region of map.regions) {
            this.rows(region.offset, region.offset + 1, (x, y) => ctx.fillRect(x - 2, y, 3, rowHeight));
        }
        this.outline(ctx, theme);
    }

    outline(ctx, theme) {
        if (!this.chosen) {
            return;
        }
        ctx.strokeStyle = theme.ink;
        ctx.lineWidth = 2;
        const { region, from, to } = this.chosen;
        this.rows(this.offset(region, from), this.offset(region, to), (x, y, w) =>
            ctx.strokeRect(x, y + 1, Math.max(2, w), this.shape.rowHeight - 2),
        );
    }

    // ---- what a block is ----

    describe(piece) {
        const { model } = this;
        const get = (name) => model.column("blocks", name)[piece.block];
        const range = `${formatAddress(piece.from)} to ${formatAddress(piece.to)}`;
        if (piece.block < 0) {
            return [el("b", {}, `Hole of ${formatBytes(piece.to - piece.from)}`), range];
        }
        const end = get("end");
        const lines = [
            el("b", {}, `Block ${formatCount(get("id"))}: ${formatBytes(get("bytes"))}`),
            range,
            `allocated at ${model.formatX("time", get("begin_ns"))}, ${end >= model.report.steps ? "never freed" : `freed at ${model.formatX("time", get("end_ns"))}`}`,
            `${model.name("stream", get("stream"))}; ${formatBytes(get("real"))} after rounding`,
        ];
        for (const key of ["tag", "pool"]) {
            if (get(key)) {
                lines.push(el("div", {}, `${key} `, nameNode(model.name(key, get(key)))));
            }
        }
        const frames = model.tellingFrames(get("stack")).slice(0, 4);
        lines.push(...frames.map((frame) => el("div.frame", {}, nameNode(frame))));
        return lines;
    }

    at(x, y) {
        const { perRow, width, rowHeight } = this.shape;
        const offset = Math.floor(y / rowHeight) * perRow + (x / width) * perRow;
        let low = 0;
        let high = this.pieces.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            const piece = this.pieces[middle];
            if (this.offset(piece.region, piece.to) <= offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return offset < this.map.bytes ? low : -1;
    }

    hover(event) {
        const i = this.at(event.offsetX, event.offsetY);
        const piece = this.pieces[i];
        if (piece) {
            showTip(event.clientX, event.clientY, this.describe(piece));
        } else {
            hideTip();
        }
        if (piece !== this.chosen) {
            this.chosen = piece || null;
            this.draw();
        }
    }

    key(event) {
        const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
        if (!step || !this.pieces.length) {
            return;
        }
        event.preventDefault();
        const at = this.pieces.indexOf(this.chosen);
        const next = Math.max(0, Math.min(this.pieces.length - 1, at + step));
        this.chosen = this.pieces[next];
        this.draw();
        const box = this.canvas.getBoundingClientRect();
        this.rows(
            this.offset(this.chosen.region, this.chosen.from),
            this.offset(this.chosen.region, this.chosen.from) + 1,
            (x, y) => showTip(box.left + x, box.top + y, this.describe(this.chosen)),
        );
    }
}
