// Who holds memory: a table by tag, stack, pool, stream or size, and a flame graph by tag and stack.
import { formatBytes, formatCount, formatShare, shortFrame } from "./text.js";
import { KEY_TITLES } from "./model.js";
import { MEASURES, buildTree, layoutTree } from "./tree.js";
import { el, choice, section, nameNode, showTip, hideTip, table } from "./dom.js";

const ROW_HEIGHT = 22;

// What a table sorts by, for each measure.
const FIELDS = { peak: "at_peak_bytes", end: "live_bytes", churn: "allocated_bytes" };

export class Holders {
    constructor(model) {
        this.model = model;
        this.measure = "peak";
        this.keys = ["tag", "stack", "pool", "stream", "size"].filter(
            (key) => model.report[`${key}_count`] > 1 || key === "size",
        );
        this.key = model.report.tag_count > 1 ? "tag" : model.report.stack_count > 1 ? "stack" : "size";
        this.order = "tag";
        this.tables = el("div");
        this.graph = el("div.icicle", {
            role: "tree",
            "aria-label": "Flame graph: arrow keys move, Enter zooms, Escape goes up",
        });
        this.path = el("p.readout", { "aria-live": "polite" });
        const hasTree = model.report.tag_count > 1 || model.report.stack_count > 1;
        section(
            "holders",
            "Who holds it",
            el(
                "div.controls",
                {},
                choice(
                    "What",
                    Object.entries(MEASURES).map(([value, { title }]) => [value, title]),
                    this.measure,
                    (value) => {
                        this.measure = value;
                        this.fill();
                    },
                ),
                choice(
                    "By",
                    this.keys.map((key) => [key, KEY_TITLES[key]]),
                    this.key,
                    (value) => {
                        this.key = value;
                        this.fillTable();
                    },
                ),
            ),
            el(
                "p.hint",
                {},
                "At the end: what is still live when the trace ends, which is a leak if the program ended there. Allocated in all: the sum of all allocations, including what was freed later.",
            ),
            this.tables,
            hasTree ? el("h3", {}, "Flame graph") : null,
            hasTree && model.report.tag_count > 1 && model.report.stack_count > 1
                ? choice(
                      "Order",
                      [
                          ["tag", "Tag, then call stack"],
                          ["stack", "Call stack"],
                      ],
                      this.order,
                      (value) => {
                          this.order = value;
                          this.fillGraph();
                      },
                  )
                : null,
            hasTree
                ? this.graph
                : el(
                      "p.hint",
                      {},
                      "This trace has neither tags nor call stacks. Run the program with ACRE_STACKS=8, or set tags with acre_tag_push, to see who allocates.",
                  ),
            hasTree ? this.path : null,
        );
        this.graph.addEventListener("keydown", (event) => this.walk(event));
        this.fill();
        new ResizeObserver(() => this.drawGraph()).observe(this.graph);
    }

    fill() {
        this.fillTable();
        this.fillGraph();
    }

    fillTable() {
        const { model, key, measure } = this;
        const field = FIELDS[measure];
        const rows = model.report[`by_${key}`];
        const whole =
            { peak: model.report.peak_bytes, end: model.report.live_bytes }[measure] ??
            rows.reduce((sum, row) => sum + row.allocated_bytes, 0);
        const bytes = (title, name) => ({ title, value: (row) => row[name], show: (row) => formatBytes(row[name]) });
        const count = (title, name) => ({ title, value: (row) => row[name], show: (row) => formatCount(row[name]) });
        const columns = [
            {
                title: KEY_TITLES[key],
                isText: true,
                value: (row) => (key === "size" ? String(row.id).padStart(3, "0") : model.name(key, row.id)),
                show: (row) => [
                    el("span.swatch", { style: `background:${model.colour(key, row.id)}` }),
                    this.rowName(row.id),
                ],
            },
            { ...bytes(MEASURES[measure].title, field), bar: (row) => row[field] / whole },
            { title: "Share", value: (row) => row[field], show: (row) => formatShare(row[field], whole) },
            measure === "churn"
                ? count("Allocations", "allocations")
                : count("Blocks", measure === "peak" ? "at_peak_blocks" : "live_blocks"),
            bytes("Own peak", "peak_bytes"),
            ...(measure === "churn" ? [bytes("At the end", "live_bytes")] : [count("Allocations", "allocations")]),
        ];
        const all = model.report[`${key}_count`];
        const note = all > rows.length ? ` (the ${rows.length} with the largest peaks, of ${formatCount(all)})` : "";
        this.tables.replaceChildren(
            table(`${MEASURES[measure].title}, by ${KEY_TITLES[key].toLowerCase()}${note}`, columns, rows, {
                sortBy: 1,
                most: 12,
            }),
        );
    }

    rowName(id) {
        const name = nameNode(this.model.name(this.key, id));
        const frames = this.key === "stack" ? this.model.frames(id) : [];
        if (frames.length < 2) {
            return name;
        }
        return el(
            "details.stack",
            {},
            el("summary", {}, name),
            el("ol", {}, ...frames.map((frame) => el("li", {}, nameNode(frame)))),
        );
    }

    // ---- the flame graph ----

    fillGraph() {
        this.root = buildTree(this.model, this.measure, this.order);
        this.top = this.root;
        this.drawGraph();
    }

    drawGraph() {
        const width = this.graph.clientWidth;
        if (!width || !this.root) {
            return;
        }
        const boxes = layoutTree(this.top, 3 / width);
        const depth = boxes.reduce((most, box) => Math.max(most, box.depth), 0);
        this.graph.style.height = `${(depth + 1) * ROW_HEIGHT}px`;
        this.boxes = new Map();
        const nodes = boxes.map((box) => {
            const label =
                box.node.kind === "root"
                    ? `all: ${formatBytes(box.node.bytes)}`
                    : box.node.kind === "frame"
                      ? shortFrame(box.node.name)
                      : box.node.name;
            const cell = el(
                `button.cell.${box.node.kind}`,
                {
                    type: "button",
                    role: "treeitem",
                    tabindex: box.node === this.top ? 0 : -1,
                    "aria-label": `${box.node.name}: ${formatBytes(box.node.bytes)}`,
                    style: `left:${box.x * 100}%;width:${box.width * 100}%;top:${box.depth * ROW_HEIGHT}px;--hue:${hueOf(box.node)}`,
                    onclick: () => this.zoomTo(box.node),
                    onfocus: () => this.tell(box.node),
                    onmousemove: (event) => showTip(event.clientX, event.clientY, this.describe(box.node)),
                    onmouseleave: hideTip,
                },
                box.width * width > 28 ? el("bdi", {}, label) : "",
            );
            this.boxes.set(box.node, cell);
            return cell;
        });
        this.graph.replaceChildren(...nodes);
        if (!boxes.length) {
            this.graph.style.height = "";
            this.graph.replaceChildren(el("p.hint", {}, "Nothing to show: no memory is live then."));
        }
        this.tell(this.top);
    }

    describe(node) {
        return [
            nameNode(node.name),
            `${formatBytes(node.bytes)} in ${formatCount(node.blocks)} ${this.measure === "churn" ? "allocations" : "blocks"}`,
            `${formatShare(node.bytes, this.root.bytes)} of all${this.top !== this.root ? `, ${formatShare(node.bytes, this.top.bytes)} of what is shown` : ""}`,
        ];
    }

    tell(node) {
        const names = [];
        for (let at = node; at && at.parent; at = at.parent) {
            names.unshift(at.kind === "frame" ? shortFrame(at.name) : at.name);
        }
        this.path.replaceChildren(
            el("bdi", {}, names.join(" › ") || "All"),
            `: ${formatBytes(node.bytes)} in ${formatCount(node.blocks)} ${this.measure === "churn" ? "allocations" : "blocks"}.`,
        );
    }

    zoomTo(node) {
        this.top = node === this.top && node.parent ? node.parent : node;
        hideTip();
        this.drawGraph();
        this.boxes.get(this.top)?.focus();
    }

    walk(event) {
        const at = [...this.boxes].find(([, cell]) => cell === document.activeElement)?.[0];
        if (!at) {
            return;
        }
        const shown = (nodes) => [...nodes].filter((node) => this.boxes.has(node)).sort((a, b) => b.bytes - a.bytes);
        const siblings = at.parent && at !== this.top ? shown(at.parent.children.values()) : [at];
        const i = siblings.indexOf(at);
        const next = {
            ArrowUp: at === this.top ? null : at.parent,
            ArrowDown: shown(at.children.values())[0],
            ArrowRight: siblings[i + 1],
            ArrowLeft: siblings[i - 1],
        }[event.key];
        if (event.key === "Escape" && this.top.parent) {
            this.zoomTo(this.top.parent);
        } else if (next) {
            event.preventDefault();
            this.boxes.get(next).focus();
        }
    }
}

// A colour by name, so that a function keeps its colour wherever it is.
export function hueOf(node) {
    let hash = 7;
    for (let i = 0; i < node.name.length; i++) {
        hash = (hash * 31 + node.name.charCodeAt(i)) % 9973;
    }
    return node.kind === "tag" ? 200 + (hash % 90) : 12 + (hash % 48);
}
