// Numbers and names as text. The formats are those of the tool (cli/output.c), so that the page and
// `acre trace` say the same.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function formatBytes(bytes) {
    let value = Math.abs(bytes);
    let power = 0;
    while (value >= 1024 && power + 1 < UNITS.length) {
        value /= 1024;
        power++;
    }
    const sign = bytes < 0 ? "-" : "";
    return `${sign}${value.toFixed(Number.isInteger(value) ? 0 : 1)} ${UNITS[power]}`;
}

export function formatDuration(ns) {
    if (ns < 1000) {
        return `${Math.round(ns)} ns`;
    }
    if (ns < 1e6) {
        return `${(ns / 1e3).toFixed(1)} us`;
    }
    return ns < 1e9 ? `${(ns / 1e6).toFixed(1)} ms` : `${(ns / 1e9).toFixed(2)} s`;
}

// A time on an axis whose ticks are `step` apart: as many digits as tell two ticks apart.
export function formatTick(ns, step, most) {
    const [size, unit] = most < 1e3 ? [1, "ns"] : most < 1e6 ? [1e3, "us"] : most < 1e9 ? [1e6, "ms"] : [1e9, "s"];
    let digits = 0;
    for (let rest = step / size; digits < 9 && Math.abs(rest - Math.round(rest)) > 1e-6 * rest; rest *= 10) {
        digits++;
    }
    return `${(ns / size).toFixed(digits)} ${unit}`;
}

export function formatCount(count) {
    return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",");
}

// "1 block", "2 blocks"
export function countOf(count, word) {
    return `${formatCount(count)} ${word}${count === 1 ? "" : "s"}`;
}

export function formatShare(part, whole) {
    if (!whole) {
        return "0 %";
    }
    const percent = (100 * part) / whole;
    return percent > 0 && percent < 1 ? "< 1 %" : `${Math.round(percent)} %`;
}

export function formatAddress(address) {
    return `0x${address.toString(16)}`;
}

// Characters that are invisible or change the direction of the text around them: control characters,
// marks of direction, line separators.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

// A name from a trace, without characters that could mislead, and not longer than a reader needs.
export function cleanText(text, most = 240) {
    const clean = String(text).replace(HIDDEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
    if (clean.length <= most) {
        return clean;
    }
    const end = /[\ud800-\udbff]$/.test(clean.slice(0, most)) ? most - 1 : most;
    return `${clean.slice(0, end)}…`;
}

// "main at /long/path/main.c:14" without folders, and without the parameters of a C++ function.
export function shortFrame(frame) {
    const match = /^(.*?) (at|in) (.*)$/.exec(frame);
    if (!match) {
        return frame.replace(/^.*[/\\]/, "");
    }
    const name = match[1].replace(/\(.*\)( const)?$/, "");
    return `${name || match[1]} ${match[2]} ${match[3].replace(/^.*[/\\]/, "")}`;
}
