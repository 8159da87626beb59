// Reads columns of numbers that cli/report_pack.c wrote.

// Returns the numbers of a column as a Float64Array. A damaged column gives fewer numbers.
export function unpackColumn(text, count) {
    const bytes = atob(text);
    const values = new Float64Array(count);
    let at = 0;
    let value = 0;
    let filled = 0;
    while (filled < count && at < bytes.length) {
        let folded = 0;
        let scale = 1;
        let byte;
        do {
            byte = bytes.charCodeAt(at++);
            folded += (byte & 127) * scale;
            scale *= 128;
        } while (byte > 127);
        value += folded % 2 ? -(folded + 1) / 2 : folded / 2;
        values[filled++] = value;
    }
    return filled === count ? values : values.slice(0, filled);
}

// Packs numbers in the same way, for tests.
export function packColumn(values) {
    let bytes = "";
    let before = 0;
    for (const value of values) {
        let folded = value >= before ? 2 * (value - before) : 2 * (before - value) - 1;
        while (folded > 127) {
            bytes += String.fromCharCode((folded % 128) + 128);
            folded = Math.floor(folded / 128);
        }
        bytes += String.fromCharCode(folded);
        before = value;
    }
    return btoa(bytes);
}
