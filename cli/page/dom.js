// Small helpers for the page's elements. Names from a trace reach the page only as text nodes.

// el("button.tab", {type: "button", onclick}, "text", child, ...)
export function el(what, attributes = {}, ...children) {
    const [tag, ...classes] = what.split(".");
    const node = document.createElement(tag || "div");
    node.classList.add(...classes);
    for (const [name, value] of Object.entries(attributes)) {
        if (name.startsWith("on")) {
            node.addEventListener(name.slice(2), value);
        } else if (name === "style") {
            node.style.cssText = value;
        } else if (value !== undefined && value !== false) {
            node.setAttribute(name, value === true ? "" : value);
        }
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
}

// A name from a trace: isolated, so that its direction cannot reorder what stands beside it.
export function nameNode(text) {
    return el("bdi.name", { title: text }, text);
}

export function section(id, title, ...children) {
    const node = el(
        "section",
        { id, "aria-labelledby": `${id}-title` },
        el("h2", { id: `${id}-title` }, title),
        ...children,
    );
    document.getElementById("main").append(node);
    document.getElementById("contents").append(el("a", { href: `#${id}` }, title));
    return node;
}

// A row of buttons of which one is chosen. `items` are [value, label].
export function choice(label, items, chosen, onchange) {
    const buttons = items.map(([value, text]) =>
        el(
            "button",
            {
                type: "button",
                role: "radio",
                "aria-checked": String(value === chosen),
                tabindex: value === chosen ? 0 : -1,
                "data-value": value,
                onclick: () => pick(value),
            },
            text,
        ),
    );
    const pick = (value) => {
        for (const button of buttons) {
            const is = button.dataset.value === value;
            button.setAttribute("aria-checked", String(is));
            button.tabIndex = is ? 0 : -1;
        }
        onchange(value);
    };
    const group = el(
        "div.choice",
        { role: "radiogroup", "aria-label": label },
        el("span.label", { "aria-hidden": "true" }, label),
        ...buttons,
    );
    group.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        const at = buttons.indexOf(document.activeElement);
        if (step && at >= 0) {
            event.preventDefault();
            const next = buttons[(at + step + buttons.length) % buttons.length];
            next.focus();
            next.click();
        }
    });
    group.pick = pick;
    return group;
}

// A table that its headings sort. Columns: {title, value(row), show(row), isText, bar(row)}; `bar` is
// a part of 1.
export function table(caption, columns, rows, { sortBy = 0, most = 20 } = {}) {
    let sort = sortBy;
    let isUp = Boolean(columns[sortBy].isText);
    let limit = most;
    const body = el("tbody");
    const more = el("button.more", {
        type: "button",
        onclick: () => {
            limit = Infinity;
            fill();
        },
    });
    const heads = columns.map((column, i) =>
        el(
            column.isText ? "th" : "th.number",
            { scope: "col" },
            el(
                "button",
                {
                    type: "button",
                    onclick: () => {
                        isUp = sort === i ? !isUp : Boolean(column.isText);
                        sort = i;
                        fill();
                    },
                },
                column.title,
            ),
        ),
    );
    const fill = () => {
        const sign = isUp ? 1 : -1;
        const value = columns[sort].value;
        const sorted = [...rows].sort((a, b) => {
            const x = value(a);
            const y = value(b);
            return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
        });
        heads.forEach((head, i) =>
            head.setAttribute("aria-sort", i === sort ? (isUp ? "ascending" : "descending") : "none"),
        );
        body.replaceChildren(
            ...sorted.slice(0, limit).map((row) => el("tr", {}, ...columns.map((column) => cell(column, row)))),
        );
        more.hidden = sorted.length <= limit;
        more.textContent = `Show all ${sorted.length}`;
    };
    const cell = (column, row) => {
        const node = el(column.isText ? "td" : "td.number", {});
        const shown = column.show ? column.show(row) : column.value(row);
        node.append(...(Array.isArray(shown) ? shown : [shown]));
        if (column.bar) {
            node.classList.add("barred");
            node.style.setProperty("--part", `${Math.max(0, Math.min(1, column.bar(row))) * 100}%`);
        }
        return node;
    };
    fill();
    return el(
        "div.table",
        {},
        el(
            "div.scroll",
            { tabindex: 0, role: "region", "aria-label": caption },
            el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...heads)), body),
        ),
        more,
    );
}

// ---- the tooltip ----

export function showTip(x, y, lines) {
    const tip = document.getElementById("tip");
    tip.replaceChildren(...lines.map((line) => (typeof line === "string" ? el("div", {}, line) : line)));
    tip.hidden = false;
    const width = tip.offsetWidth;
    const height = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 12) : y + 18}px`;
}

export function hideTip() {
    document.getElementById("tip").hidden = true;
}

// The colours of the page's style, for canvases.
export function themeColours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    return {
        ink: get("--ink"),
        dim: get("--dim"),
        line: get("--line"),
        back: get("--back"),
        card: get("--card"),
        accent: get("--accent"),
        bad: get("--bad"),
        hole: get("--hole"),
        mark: get("--mark"),
    };
}
