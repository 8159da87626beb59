// The flame graph: bytes by tag and call stack as a tree. A tag with slashes is a path, and the
// frames of a call stack follow, the outermost first.

// What a row of report.holders has: tag, stack, then bytes and blocks of each measure.
export const MEASURES = {
    peak: { bytes: 2, blocks: 3, title: "At the peak" },
    end: { bytes: 4, blocks: 5, title: "At the end" },
    churn: { bytes: 6, blocks: 7, title: "Allocated in all" },
};

function child(node, name, kind) {
    let next = node.children.get(name);
    if (!next) {
        next = { name, kind, bytes: 0, blocks: 0, children: new Map(), parent: node };
        node.children.set(name, next);
    }
    return next;
}

// `order`: "tag" for tags above stacks, "stack" for stacks alone.
export function buildTree(model, measure, order) {
    const { bytes, blocks } = MEASURES[measure];
    const root = { name: "all", kind: "root", bytes: 0, blocks: 0, children: new Map(), parent: null };
    for (const row of model.report.holders || []) {
        if (!row[bytes]) {
            continue;
        }
        const path = [];
        if (row[0] < 0) {
            path.push(["(other holders)", "tag"]);
        } else {
            if (order === "tag" && (row[0] || model.report.tag_count > 1)) {
                path.push(
                    ...model
                        .name("tag", row[0])
                        .split("/")
                        .filter(Boolean)
                        .map((name) => [name, "tag"]),
                );
            }
            const frames = model.tellingFrames(row[1]).reverse();
            path.push(...frames.map((frame) => [frame, "frame"]));
            if (!frames.length && row[1]) {
                path.push([model.stackName(row[1]), "frame"]);
            }
        }
        let node = root;
        node.bytes += row[bytes];
        node.blocks += row[blocks];
        for (const [name, kind] of path) {
            node = child(node, name, kind);
            node.bytes += row[bytes];
            node.blocks += row[blocks];
        }
    }
    return root;
}

// The boxes of a tree: x and width as parts of 1, the depth from 0. Boxes narrower than `least` are
// left out, with what they contain. The largest child comes first.
export function layoutTree(root, least, deepest = 60) {
    const boxes = [];
    const place = (node, x, depth) => {
        const width = node.bytes / root.bytes;
        boxes.push({ node, x, width, depth });
        if (depth >= deepest) {
            return;
        }
        let at = x;
        for (const next of [...node.children.values()].sort((a, b) => b.bytes - a.bytes)) {
            if (next.bytes / root.bytes < least) {
                break;
            }
            place(next, at, depth + 1);
            at += next.bytes / root.bytes;
        }
    };
    if (root.bytes > 0) {
        place(root, 0, 0);
    }
    return boxes;
}
