// The data of a report, as the views of the page ask for it: columns are unpacked when they are
// needed, and kept.
import { cleanText, formatBytes, formatCount, formatDuration, shortFrame } from "./text.js";
import { unpackColumn } from "./codec.js";

export const KEYS = ["tag", "stack", "pool", "stream", "size"];
export const KEY_TITLES = { tag: "Tag", stack: "Call stack", pool: "Pool", stream: "Stream", size: "Size" };

const PALETTE = [
    "#4269d0",
    "#efb118",
    "#ff725c",
    "#6cc5b0",
    "#3ca951",
    "#ff8ab7",
    "#a463f2",
    "#97bbf5",
    "#9c6b4e",
    "#c2a83e",
];
const REST_COLOUR = "#9498a0";

// Samples that a chart draws at once. More make no difference on a screen.
const SAMPLES_MOST = 3000;

// The index of the first value that is not below `value`.
export function lowerBound(values, value) {
    let low = 0;
    let high = values.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (values[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The index of the last value that is not above `value`; 0 if there is none.
export function lastUpTo(values, value) {
    let low = 0;
    let high = values.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (values[middle] <= value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return Math.max(0, low - 1);
}

// The number of frames with which all call stacks begin: those of the function that every allocation
// goes through, or, from the other side, those that start a program. They say nothing, so names and
// the flame graph leave them out. At least one frame of each stack stays.
export function sharedFrames(stacks) {
    if (stacks.length < 2) {
        return 0;
    }
    let shared = Infinity;
    for (const stack of stacks) {
        let same = 0;
        while (same < stack.length && same < stacks[0].length && stack[same] === stacks[0][same]) {
            same++;
        }
        shared = Math.min(shared, same, stack.length - 1);
    }
    return shared;
}

export class Model {
    constructor(report) {
        this.report = report;
        this.hasClock = report.format !== "lifetimes";
        this.columns = new Map();
        this.rows = {};
        for (const key of KEYS) {
            this.rows[key] = new Map((report[`by_${key}`] || []).map((row) => [row.id, row]));
        }
        this.colours = {};
        // Calls on one line have stacks that read the same: they must not count as different ones.
        const texts = new Map();
        for (const stack of Object.values(report.stacks || {})) {
            if (stack.length) {
                texts.set(stack.map((i) => report.frames[i]).join("\n"), stack);
            }
        }
        const stacks = texts.size > 1 ? [...texts.values()] : [];
        this.first = sharedFrames(stacks);
        this.last = sharedFrames(stacks.map((stack) => stack.slice(this.first).reverse()));
    }

    column(part, name, index) {
        const key = `${part}/${name}/${index ?? ""}`;
        if (!this.columns.has(key)) {
            const owner = typeof part === "number" ? this.report.levels[part] : this.report[part];
            const text = index === undefined ? owner[name] : owner[name]?.[index];
            this.columns.set(key, text === undefined ? new Float64Array(owner.count) : unpackColumn(text, owner.count));
        }
        return this.columns.get(key);
    }

    // ---- names ----

    frames(stack) {
        return (this.report.stacks?.[stack] || []).map((i) => cleanText(this.report.frames[i]));
    }

    // The frames that tell call stacks apart, innermost first.
    tellingFrames(stack) {
        const frames = this.frames(stack);
        return frames.slice(this.first, frames.length - this.last);
    }

    stackName(stack) {
        const frames = this.frames(stack);
        if (!frames.length) {
            return stack ? `stack ${stack}` : "(no call stack)";
        }
        const telling = this.tellingFrames(stack);
        const from = telling[1] ? ` ← ${shortFrame(telling[1])}` : "";
        return shortFrame(telling[0]) + from;
    }

    name(key, id) {
        switch (key) {
            case "tag":
            case "pool": {
                const name = this.rows[key].get(id)?.name;
                return name ? cleanText(name) : id ? `${key} ${id}` : `(no ${key})`;
            }
            case "stack":
                return this.stackName(id);
            case "stream":
                return id === 0
                    ? "default stream"
                    : id === 1
                      ? "legacy default stream"
                      : id === 2
                        ? "per-thread default streams"
                        : `stream 0x${id.toString(16)}`;
            default:
                return `${formatBytes(2 ** id)} to ${formatBytes(2 ** (id + 1))}`;
        }
    }

    // The keys that divide the memory of this trace: those with more than one value.
    dividing() {
        return KEYS.filter((key) => this.report[`${key}_count`] > 1);
    }

    // The key that the page divides memory by at first: one whose groups hold at least half of the
    // peak, so that the rest does not hide them.
    firstKey() {
        const dividing = this.dividing();
        const held = (key) => {
            const ids = new Set(this.report.groups[key]);
            return this.report[`by_${key}`].reduce((sum, row) => sum + (ids.has(row.id) ? row.at_peak_bytes : 0), 0);
        };
        const good = ["tag", "stack"].find((key) => dividing.includes(key) && 2 * held(key) >= this.report.peak_bytes);
        return good || (dividing.includes("size") ? "size" : dividing[0]) || "";
    }

    // ---- colours ----

    // The groups of a key, each with name and colour; the last one is the rest, if there is any.
    groups(key) {
        const ids = [...(this.report.groups?.[key] || [])];
        const groups = ids.map((id, i) => ({
            id,
            column: i,
            name: this.name(key, id),
            colour: PALETTE[i % PALETTE.length],
        }));
        if (key === "size") {
            groups.sort((a, b) => a.id - b.id);
        }
        if (this.report[`${key}_count`] > ids.length) {
            groups.push({
                id: null,
                name: `${formatCount(this.report[`${key}_count`] - ids.length)} others`,
                colour: REST_COLOUR,
            });
        }
        return groups;
    }

    colour(key, id) {
        this.colours[key] ??= new Map(this.groups(key).map((group) => [group.id, group.colour]));
        return this.colours[key].get(id) || REST_COLOUR;
    }

    // ---- samples ----

    xName(axis) {
        return axis === "event" ? "event" : "time";
    }

    xRange(axis) {
        const least = axis === "event" ? this.report.steps - 1 : this.report.duration_ns;
        return [0, Math.max(least, 1)];
    }

    formatX(axis, x) {
        if (axis === "event") {
            return `event ${formatCount(x)}`;
        }
        return this.hasClock ? formatDuration(x) : `step ${formatCount(x)}`;
    }

    // The finest level whose samples between two points can be drawn, and the indices of these
    // samples, with one more at each side.
    window(axis, from, to) {
        const levels = this.report.levels;
        for (let level = 0; ; level++) {
            const x = this.column(level, this.xName(axis));
            const begin = Math.max(0, lowerBound(x, from) - 1);
            const end = Math.min(x.length, lowerBound(x, to) + 2);
            if (end - begin <= SAMPLES_MOST || level + 1 === levels.length) {
                return { level, begin, end };
            }
        }
    }

    // The samples of a window: x, requested, real and reserved bytes, and the bytes of each group of
    // a key ("" for none).
    samples(axis, key, { level, begin, end }) {
        const part = (name, index) => this.column(level, name, index).subarray(begin, end);
        const requested = part("requested");
        const groups = [];
        if (key) {
            const rest = Float64Array.from(requested);
            for (const group of this.groups(key)) {
                if (group.id === null) {
                    groups.push(rest);
                    continue;
                }
                const bytes = part(key, group.column);
                for (let i = 0; i < bytes.length; i++) {
                    rest[i] -= bytes[i];
                }
                groups.push(bytes);
            }
        }
        return {
            x: part(this.xName(axis)),
            event: part("event"),
            requested,
            real: part("real"),
            reserved: part("reserved"),
            waits: part("waits"),
            groups,
        };
    }

    // The event that a point of the axis belongs to, as far as the samples tell.
    eventAt(axis, x) {
        return axis === "event" ? Math.round(x) : (this.column(0, "event")[lastUpTo(this.column(0, "time"), x)] ?? 0);
    }

    timeAt(event) {
        return this.column(0, "time")[lastUpTo(this.column(0, "event"), event)] ?? 0;
    }
}

// The areas of a stacked chart: each begins where the one below ends. The first group is at the
// bottom.
export function stackUp(groups) {
    const tops = [];
    let below = null;
    for (const bytes of groups) {
        const top = new Float64Array(bytes.length);
        for (let i = 0; i < bytes.length; i++) {
            top[i] = bytes[i] + (below ? below[i] : 0);
        }
        tops.push(top);
        below = top;
    }
    return tops;
}
