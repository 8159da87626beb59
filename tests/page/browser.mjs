// Opens pages of `acre report` in Chromium, as a user would: no error, no request, the figures of
// `acre trace --json`, and what keyboard and pointer do.
//
//     browser.mjs PLAYWRIGHT CHROMIUM FOLDER
//
// FOLDER has pages NAME.html and, for those with a trace of acre, NAME.json from `acre trace --json`.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { formatBytes, formatCount } from "../../cli/page/text.js";

const [, , playwright, executablePath, folder] = process.argv;
const { chromium } = createRequire(`${playwright}/package.json`)("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let checks = 0;

// Opens a page; everything that it must not do is in `faults`.
async function open(name, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    const page = await context.newPage();
    const faults = [];
    const file = path.join(folder, `${name}.html`);
    page.on("console", (message) => faults.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => faults.push(`error: ${error.stack}`));
    page.on("dialog", (dialog) => {
        faults.push("dialog");
        dialog.dismiss();
    });
    page.on("request", (request) => {
        if (request.url() !== `file://${file}` && !request.url().startsWith("data:")) {
            faults.push(`request: ${request.url()}`);
        }
    });
    await page.goto(`file://${file}`);
    await page.waitForSelector("html[data-ready=true]", { timeout: 60000 });
    return {
        page,
        faults,
        close: async () => {
            assert.deepEqual(faults, [], `${name}: ${JSON.stringify(options)}`);
            checks++;
            await context.close();
        },
    };
}

// Colours of a canvas: a chart that is not drawn has one.
const coloursOf = (page, selector) =>
    page.evaluate((css) => {
        const canvas = document.querySelector(css);
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const seen = new Set();
        for (let i = 0; i < data.length; i += 4) {
            seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
        }
        return seen.size;
    }, selector);

const textOf = (page, selector) => page.locator(selector).first().innerText();

// The figures of the page are those of `acre trace --json`.
async function checkFigures(name) {
    const trace = JSON.parse(fs.readFileSync(path.join(folder, `${name}.json`), "utf8"));
    const { page, close } = await open(name);
    const report = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).report);
    for (const field of [
        "peak_bytes",
        "peak_real_bytes",
        "peak_ns",
        "live_bytes",
        "live_blocks",
        "events",
        "duration_ns",
        "created_bytes",
        "released_bytes",
        "threads",
    ]) {
        assert.equal(report[field], trace[field], `${name}: ${field}`);
    }
    for (const key of ["by_tag", "by_pool", "by_stack"]) {
        for (const row of trace[key]) {
            const own = report[key].find((other) => other.id === row.id);
            for (const field of [
                "peak_bytes",
                "at_peak_bytes",
                "at_peak_blocks",
                "live_bytes",
                "live_blocks",
                "allocations",
            ]) {
                assert.equal(own[field], row[field], `${name}: ${key} ${row.id} ${field}`);
            }
        }
    }
    assert.equal(await textOf(page, "#card-peak .figure"), formatBytes(trace.peak_bytes));
    assert.equal(await textOf(page, "#card-end .figure"), formatBytes(trace.live_bytes));
    assert.equal(await textOf(page, "#card-allocations .figure"), formatCount(trace.kinds.alloc));
    assert.ok(
        (await textOf(page, "#lead")).replaceAll("\u00a0", " ").startsWith(`Peak ${formatBytes(trace.peak_bytes)} at `),
    );
    // Live memory of the chart at the peak is the peak.
    const most = await page.evaluate(() => {
        const { model } = window.acreReport;
        return model.report.levels.map((_, level) => Math.max(...model.column(level, "requested")));
    });
    assert.ok(
        most.every((bytes) => bytes === trace.peak_bytes),
        `${name}: every level has the peak`,
    );
    // The blocks of the address map at the peak are all that are live then.
    const live = await page.evaluate(() => window.acreReport.views.addresses.map.live);
    assert.equal(live, trace.peak_bytes, `${name}: the address map at the peak`);
    assert.ok((await coloursOf(page, "#timeline canvas")) > 3);
    assert.ok((await coloursOf(page, "#addresses canvas")) > 1);
    await close();
}

async function checkUse(name) {
    const { page, close } = await open(name);
    const range = () => page.evaluate(() => [...window.acreReport.views.timeline.range]);
    const all = await range();
    const chart = page.locator("#timeline .chart");
    await chart.scrollIntoViewIfNeeded();
    const box = await page.locator("#timeline .u-over").boundingBox();
    await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
    await page.mouse.up();
    const dragged = await range();
    assert.ok(dragged[1] - dragged[0] < 0.3 * (all[1] - all[0]), `${name}: dragging zooms`);
    await chart.focus();
    await page.keyboard.press("ArrowRight");
    assert.ok((await range())[0] > dragged[0], "the arrow key moves");
    await page.keyboard.press("-");
    assert.ok((await range())[1] - (await range())[0] > dragged[1] - dragged[0], "minus zooms out");
    await page.keyboard.press("0");
    assert.deepEqual(await range(), all, "0 shows everything");
    const before = await page.locator("#addresses .when").innerText();
    await page.keyboard.press("p");
    await page.mouse.click(box.x + box.width * 0.1, box.y + 50);
    assert.notEqual(await page.locator("#addresses .when").innerText(), before, "a click chooses the instant");
    for (const button of await page.locator("#timeline [role=radio], #holders [role=radio]").all()) {
        await button.click(); // every choice of both views
    }
    await page.locator("#addresses .choice button").first().click();
    await page.locator("#addresses canvas").focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await textOf(page, "#tip"), /Block|Hole/, "the arrow key names a block");
    await page.locator("#theme").click();
    await page.emulateMedia({ media: "print" });
    await page.evaluate(() => {
        dispatchEvent(new Event("beforeprint"));
        dispatchEvent(new Event("afterprint"));
    });
    await close();
}

async function checkSmall(name) {
    for (const colorScheme of ["light", "dark"]) {
        const { page, close } = await open(name, { viewport: { width: 400, height: 800 }, colorScheme });
        const over = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.ok(over <= 0, `${name}: ${over} pixels too wide in ${colorScheme}`);
        await close();
    }
}

async function checkHostile() {
    const { page, close } = await open("hostile");
    assert.equal(await page.evaluate(() => window.broken), undefined, "no name is run as a program");
    assert.equal(
        await page.locator("main img, main i, main b b, main script").count(),
        0,
        "no name becomes an element",
    );
    const text = await page.locator("body").innerText();
    assert.ok(text.includes("</script><script>window.broken=1</script>"), "a name is shown as it is");
    assert.ok(!/[\u0000-\u0008\u001b\u200f\u202a-\u202e\u2066-\u2069]/.test(text), "no hidden characters");
    assert.ok(!text.includes("x".repeat(400)), "a long name is cut");
    assert.match(await textOf(page, "#timeline details summary"), /1 failed call/);
    await close();
}

async function checkOthers() {
    const cut = await open("cut");
    assert.match(await textOf(cut.page, "#damage"), /damaged at byte [\d,]+: /);
    await cut.close();
    const rmm = await open("rmm");
    assert.match(await textOf(rmm.page, "#lead"), /^Peak /);
    await rmm.close();
    const pair = await open("pair");
    assert.equal(await pair.page.locator("#comparison table").count(), 2);
    assert.ok((await coloursOf(pair.page, "#comparison canvas")) > 3);
    await pair.close();
}

for (const name of ["program", "hostile"]) {
    await checkFigures(name);
    await checkUse(name);
    await checkSmall(name);
}
await checkFigures("many");
await checkHostile();
await checkOthers();
await browser.close();
console.log(`${checks} pages`);
