"use strict";
// Behaviour of the page: start the charts, keep their zoom in step, theme, keyboard, tables, print.
const TIMED = new Set(["power", "gantt", "queue", "overlay", "hours"]);
const MOST_ROWS = 250;

function show(figure) {
  const chart = state.charts[figure.key].chart;
  chart.setOption(kinds[figure.kind](figure), { notMerge: true });
  if (figure.kind === "gantt") ganttKey(figure);
  if (TIMED.has(figure.kind)) zoomTo(...zoomed, figure);
}
let zoomed = [0, 100];
function zoomTo(start, end, only) {
  zoomed = [Math.max(0, start), Math.min(100, end)];
  for (const { figure, chart } of Object.values(state.charts)) {
    if (!TIMED.has(figure.kind) || (only && only !== figure)) continue;
    figure.following = true;
    if (figure.extra.epoch_s != null) chart.setOption({ xAxis: chart.getOption().xAxis.map((each) => (each.axisLabel.show === false ? {} : dateLabels(figure))) });
    chart.dispatchAction({ type: "dataZoom", start: zoomed[0], end: zoomed[1] });
    figure.following = false;
  }
}
function zoomBy(factor, shift = 0) {
  const [a, b] = zoomed, size = Math.min(Math.max((b - a) * factor, .05), 100);
  let from = (a + b) / 2 - size / 2 + shift * (b - a);
  from = Math.min(Math.max(from, 0), 100 - size);
  zoomTo(from, from + size);
}
const KEYS = { ArrowLeft: () => zoomBy(1, -.2), ArrowRight: () => zoomBy(1, .2), "+": () => zoomBy(.5), "=": () => zoomBy(.5), "-": () => zoomBy(2), "0": () => zoomTo(0, 100), Home: () => zoomTo(0, 100) };

// Height in pixels that a chart needs at least: each row of boxes has room for its name.
const leastHeight = (figure) => (figure.kind === "boxes" ? 90 + 18 * figure.columns.name.length : 0);

async function start(figure) {
  const element = (figure.element = document.getElementById("fig-" + figure.key)), box = element.querySelector(".chart");
  decode(figure.columns);
  box.style.minHeight = `${leastHeight(figure)}px`;
  if (figure.kind === "gantt") await ganttData(figure);
  const chart = echarts.init(box, null, { renderer: "canvas", devicePixelRatio: Math.max(window.devicePixelRatio || 1, 2) });
  state.charts[figure.key] = { figure, chart };
  chart.on("finished", () => { box.dataset.ready = "yes"; });
  if (TIMED.has(figure.kind)) {
    chart.on("datazoom", () => {
      if (figure.following) return;
      const z = chart.getOption().dataZoom[0];
      zoomTo(z.start, z.end);
    });
    box.addEventListener("keydown", (e) => { if (KEYS[e.key] && !e.ctrlKey && !e.metaKey) { e.preventDefault(); KEYS[e.key](); } });
    element.querySelectorAll(".zoom button").forEach((b) => b.addEventListener("click", () => KEYS[b.dataset.key]()));
  }
  box.addEventListener("mousemove", (e) => { const r = box.getBoundingClientRect(); figure.mouse = [e.clientX - r.left, e.clientY - r.top]; }, true);
  element.querySelectorAll("fieldset input").forEach((input) => input.addEventListener("change", () => { figure.colour = input.value; show(figure); }));
  const details = element.querySelector("details"), select = element.querySelector(".choose select");
  if (details) details.addEventListener("toggle", () => { if (details.open && !details.querySelector("table")) table(figure, details); });
  if (select) {
    figure.versions = [figure, ...figure.others].map(version);
    figure.versions.slice(1).forEach((v) => decode(v.columns));
    select.value = figure.called;  // a browser restores another choice when it returns to a page
    select.addEventListener("change", () => choose(select.value));
  }
  show(figure);
}

// A figure of several configurations shows one at a time; a choice applies to all such figures.
function version({ called, title, says, x, y, heads, columns, extra }) { return { called, title, says, x, y, heads, columns, extra }; }
function choose(called) {
  for (const { figure } of Object.values(state.charts)) {
    const next = (figure.versions || []).find((v) => v.called === called);
    if (!next) continue;
    const { element } = figure, box = element.querySelector(".chart"), details = element.querySelector("details");
    const label = [["title"], ["x", "label"], ["y", "label"]].reduce((text, path) => text.replace(...[figure, next].map((v) => path.reduce((o, k) => o[k], v))), box.getAttribute("aria-label"));
    Object.assign(figure, next);
    box.setAttribute("aria-label", label);
    element.querySelector("h2").firstChild.textContent = figure.title;
    element.querySelector(".chosen").textContent = element.querySelector(".choose select").value = called;
    element.querySelector(".says").textContent = figure.says.replace(/(\d) (?=[A-Za-z%])/g, "$1\u00a0");
    details.querySelector("div")?.remove();
    if (details.open) table(figure, details);
    show(figure);
  }
}

// The table below a figure, built when it is first opened.
function cells(figure) {
  const names = Object.keys(figure.heads).filter((n) => figure.columns[n]);
  return { names, length: names.length ? figure.columns[names[0]].length : 0 };
}
function shown(figure, name, value) {
  if (value == null) return "–";
  if (typeof value === "string") return value;
  if (/^(value|upper)_\d+$/.test(name)) return capReader(figure)(value);
  if (/^(mean|low|high|cap)_\d+$/.test(name)) return overlayReader(figure)(value);
  if (["time_s", "start_s", "end_s"].includes(name)) return moment(value, figure);
  if (/_s(_\d+)?$/.test(name)) return (value < 0 ? "−" : "") + span(Math.abs(value));
  if (name.endsWith("_w")) return watts(value);
  if (name.endsWith("_j")) return si(value / 3600, "Wh");
  if (name === "share" || name === "work_share" || name === "busy" || name === "utilization") return `${figures(100 * value, 4)} %`;
  return figures(value, 5);
}
function table(figure, details) {
  const { names, length } = cells(figure), every = Math.ceil(length / MOST_ROWS), body = [];
  for (let i = 0; i < length; i += every) body.push(`<tr>${names.map((n) => `<td class="n">${escaped(shown(figure, n, figure.columns[n][i]))}</td>`).join("")}</tr>`);
  const note = every > 1 ? `Every ${every}th of ${length.toLocaleString("en")} rows; the CSV has all of them.` : `${length.toLocaleString("en")} rows.`;
  const box = document.createElement("div");
  box.innerHTML = `<div class="scroll" tabindex="0" role="region" aria-label="Data of ${escaped(figure.title)}"><table><caption>${note}</caption><thead><tr>${names.map((n) => `<th scope="col" class="n">${escaped(figure.heads[n])}</th>`).join("")}</tr></thead><tbody>${body.join("")}</tbody></table></div><p class="note"><button type="button">Save as CSV</button></p>`;
  box.querySelector("button").addEventListener("click", () => save(figure));
  details.append(box);
}
function save(figure) {
  const names = Object.keys(figure.columns), length = figure.columns[names[0]].length, quoted = (v) => (v == null ? "" : /[",\n]/.test(v) ? `"${String(v).replaceAll('"', '""')}"` : v);
  const lines = [names.join(",")];
  for (let i = 0; i < length; i++) lines.push(names.map((n) => quoted(figure.columns[n][i])).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  link.download = [figure.key, ...(figure.called.match(/[\w.]+/g) || [])].join("-") + ".csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

function redraw() { readColours(); Object.values(state.charts).forEach(({ figure }) => show(figure)); }
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("wattqueue-theme", root.dataset.theme); } catch { /* storage may be forbidden */ }
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
// No cell of a table is cut: one that is too wide gets narrower cells, then a block for each row (report.css).
function fitTables() {
  for (const box of document.querySelectorAll(".wide")) {
    const shape = box.querySelector("table").classList;
    shape.remove("tight", "stack");
    for (const next of ["tight", "stack"]) {
      if (box.scrollWidth <= box.clientWidth) break;
      shape.remove("tight");
      shape.add(next);
    }
  }
}
// A button that shows what belongs to an element, or hides it again.
function disclosure(kind, label, changed) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: kind });
  button.setAttribute("aria-label", label);
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", (e) => { const open = button.getAttribute("aria-expanded") === "false"; button.setAttribute("aria-expanded", open); changed?.(open); e.stopPropagation(); });
  return button;
}
// Rows with an answer, and the sections below the first card of a page that folds (report.css says where).
document.querySelectorAll("tr:has(.answer)").forEach((row) => row.cells[0].append(disclosure("more", `All figures of ${row.cells[0].textContent}`)));
[...document.querySelectorAll("[data-fold] .figures > :is(.fig, .card)")].slice(1).forEach((section) => {
  const head = section.querySelector("h2"), button = disclosure("unfold", head.textContent, (open) => { section.classList.toggle("folded", !open); fitTables(); });
  section.classList.add("folded");
  head.append(button);
  head.addEventListener("click", () => button.click());
});
fitTables();
addEventListener("resize", () => { if (!state.printing) fitTables(); });
let narrow = SMALL();
new ResizeObserver(() => {
  if (state.printing) return;
  Object.values(state.charts).forEach(({ chart }) => chart.resize());
  if (SMALL() !== narrow) { narrow = SMALL(); redraw(); }
}).observe(document.getElementById("main"));

// Paper is light and as wide as a page.
let before;
addEventListener("beforeprint", () => {
  document.querySelectorAll(".wide table").forEach((each) => each.classList.remove("tight", "stack"));
  before = document.documentElement.dataset.theme;
  state.printing = true;
  document.documentElement.dataset.theme = "light";
  readColours();
  for (const { figure, chart } of Object.values(state.charts)) {
    const half = figure.element.classList.contains("half"), height = Math.max(leastHeight(figure), half ? 210 : { gantt: 290, queue: 270 }[figure.kind] || 225);
    chart.getDom().style.height = `${height}px`;
    chart.resize({ width: half ? 330 : 690, height });
    show(figure);
  }
});
addEventListener("afterprint", () => {
  state.printing = false;
  if (before) document.documentElement.dataset.theme = before; else delete document.documentElement.dataset.theme;
  for (const { chart } of Object.values(state.charts)) { chart.getDom().style.height = ""; chart.resize({ width: "auto", height: "auto" }); }
  fitTables();
  redraw();
});

readColours();
state.started = Promise.all(payload.figures.map(start)).then(() => { state.ready = true; });
