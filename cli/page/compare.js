// The comparison of two reports: figures side by side, and rows of the same name joined.

export const FIGURES = [
    ["peak_bytes", "Peak of live memory", "bytes"],
    ["peak_real_bytes", "Peak after rounding", "bytes"],
    ["reserved_peak_bytes", "Peak of reserved memory", "bytes"],
    ["live_bytes", "Live at the end", "bytes"],
    ["live_blocks", "Blocks live at the end", "count"],
    ["duration_ns", "Duration", "duration"],
    ["events", "Events", "count"],
    ["created_bytes", "Physical memory created", "bytes"],
    ["waits", "Waits inserted", "count"],
    ["failures", "Failures", "count"],
];

export function compareFigures(now, before) {
    return FIGURES.map(([field, title, unit]) => ({
        field,
        title,
        unit,
        now: now[field] || 0,
        before: before[field] || 0,
        change: (now[field] || 0) - (before[field] || 0),
    }));
}

// Joins the rows of a key by name, the largest change first. Numbers of tags and stacks differ
// between programs; names do not.
export function compareRows(now, before, key, field) {
    const joined = new Map();
    for (const [side, model] of [
        ["now", now],
        ["before", before],
    ]) {
        for (const row of model.report[`by_${key}`] || []) {
            const name = model.name(key, row.id);
            const entry = joined.get(name) || { name, now: 0, before: 0 };
            entry[side] += row[field];
            joined.set(name, entry);
        }
    }
    const rows = [...joined.values()].map((row) => ({ ...row, change: row.now - row.before }));
    return rows.sort((a, b) => Math.abs(b.change) - Math.abs(a.change) || b.now - a.now);
}
