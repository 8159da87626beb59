// Puts the page together.
import { Model } from "./model.js";
import { Timeline } from "./timeline.js";
import { Holders } from "./holders.js";
import { Addresses } from "./addresses.js";
import { showComparison, showHead, showPlan, showSizes, showStreams } from "./sections.js";

// Canvases have colours of their own, which change with the theme and for print.
function watchTheme(redraw) {
    const root = document.documentElement;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    let before;
    dark.addEventListener("change", redraw);
    document.getElementById("theme").addEventListener("click", () => {
        const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
        root.dataset.theme = isDark ? "light" : "dark";
        redraw();
    });
    addEventListener("beforeprint", () => {
        before = root.dataset.theme;
        root.dataset.theme = "light";
        redraw();
    });
    addEventListener("afterprint", () => {
        if (before) {
            root.dataset.theme = before;
        } else {
            delete root.dataset.theme;
        }
        redraw();
    });
}

function start() {
    const data = JSON.parse(document.getElementById("data").textContent);
    const model = new Model(data.report);
    showHead(model);
    const views = {};
    const state = {
        axis: model.report.duration_ns > 0 ? "time" : "event",
        key: model.firstKey(),
        event: model.report.peak_event,
        onEvent(event) {
            state.event = Math.max(0, Math.min(model.report.steps - 1, event));
            views.addresses?.show();
            views.timeline?.plot.redraw(false);
            views.timeline?.tell();
        },
        onKey(key) {
            state.key = key;
            views.timeline.make();
            views.addresses?.draw();
            prefetch();
        },
    };
    // A zoom needs finer samples than those on the screen: unpack them while nothing else happens.
    const later = window.requestIdleCallback || ((call) => setTimeout(call, 100));
    const prefetch = (level = model.report.levels.length - 1) => {
        if (level >= 0) {
            later(() => {
                model.samples(state.axis, state.key, { level, begin: 0, end: 0 });
                prefetch(level - 1);
            });
        }
    };
    let compare = null;
    views.timeline = new Timeline(model, state);
    if (data.against) {
        compare = showComparison(model, new Model(data.against));
    }
    views.holders = new Holders(model);
    if (model.report.blocks.count) {
        views.addresses = new Addresses(model, state);
    }
    showSizes(model);
    showStreams(model);
    showPlan(model);

    watchTheme(() => {
        views.timeline.make();
        views.addresses?.draw();
        compare?.();
    });
    prefetch();
    window.acreReport = { model, views, state }; // for tests, and for the curious in the console
    document.documentElement.dataset.ready = "true";
}

start();
