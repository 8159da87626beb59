// The address map at one instant: which ranges of addresses are mapped, which blocks are in them, and
// which parts are free.
import { lowerBound } from "./model.js";

// Addresses further apart belong to different regions, where the trace does not say what is mapped.
const FAR_APART = 64 * 2 ** 20;

// The indices of the blocks or mappings (`part`) that exist after an event, sorted by address.
export function aliveAt(model, part, event) {
    const begin = model.column(part, "begin");
    const end = model.column(part, "end");
    const address = model.column(part, "address");
    const alive = [];
    const last = lowerBound(begin, event + 1); // sorted by begin
    for (let i = 0; i < last; i++) {
        if (end[i] > event) {
            alive.push(i);
        }
    }
    return alive.sort((a, b) => address[a] - address[b]);
}

// Ranges that touch, merged. `ranges` are [from, to), sorted by from.
export function mergeRanges(ranges, gap = 0) {
    const merged = [];
    for (const [from, to] of ranges) {
        const last = merged[merged.length - 1];
        if (last && from <= last[1] + gap) {
            last[1] = Math.max(last[1], to);
        } else {
            merged.push([from, to]);
        }
    }
    return merged;
}

// The parts of [from, to) that none of the sorted ranges covers.
export function gapsBetween(ranges, from, to) {
    const gaps = [];
    let at = from;
    for (const [a, b] of ranges) {
        if (a > at) {
            gaps.push([at, Math.min(a, to)]);
        }
        at = Math.max(at, b);
    }
    if (at < to) {
        gaps.push([at, to]);
    }
    return gaps;
}

// The map after an event. Each region is a range of addresses without gaps, or, in a trace without
// mappings, one without large gaps. Pieces are in the order of addresses.
export function mapAt(model, event) {
    const size = (part, name, i) => model.column(part, name)[i];
    const range = (part, i) => {
        const from = size(part, "address", i);
        const bytes = part === "blocks" ? size(part, "real", i) || size(part, "bytes", i) : size(part, "bytes", i);
        return [from, from + Math.max(bytes, 1)];
    };
    const blocks = aliveAt(model, "blocks", event);
    const chunks = aliveAt(model, "mappings", event);
    const known = model.report.mappings?.all > 0;
    const all = [...blocks.map((i) => range("blocks", i)), ...chunks.map((i) => range("mappings", i))].sort(
        (a, b) => a[0] - b[0],
    );
    const regions = mergeRanges(all, known ? 0 : FAR_APART).map(([from, to]) => ({ from, to, pieces: [], chunks: [] }));
    let at = 0;
    for (const i of blocks) {
        const [from, to] = range("blocks", i);
        while (regions[at].to <= from) {
            at++;
        }
        regions[at].pieces.push({ from, to, block: i });
    }
    at = 0;
    for (const i of chunks) {
        const [from, to] = range("mappings", i);
        while (regions[at].to <= from) {
            at++;
        }
        regions[at].chunks.push([from, to]);
    }
    let offset = 0;
    const result = {
        regions,
        bytes: 0,
        live: 0,
        holes: 0,
        largestHole: 0,
        holeCount: 0,
        blocks: blocks.length,
        chunks: chunks.length,
        known,
    };
    for (const region of regions) {
        const holes = gapsBetween(
            region.pieces.map((p) => [p.from, p.to]),
            region.from,
            region.to,
        );
        region.pieces.push(...holes.map(([from, to]) => ({ from, to, block: -1 })));
        region.pieces.sort((a, b) => a.from - b.from);
        region.offset = offset;
        offset += region.to - region.from;
        for (const [from, to] of holes) {
            result.holes += to - from;
            result.holeCount++;
            result.largestHole = Math.max(result.largestHole, to - from);
        }
    }
    for (const i of blocks) {
        result.live += size("blocks", "bytes", i);
    }
    result.bytes = offset;
    return result;
}

// How many bytes a row of the picture has, so that all bytes fill at most `rows` rows.
export function rowBytes(bytes, rows) {
    return 2 ** Math.ceil(Math.log2(Math.max(bytes, 1) / rows));
}
