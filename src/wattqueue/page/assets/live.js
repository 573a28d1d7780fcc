"use strict";
// The operator page: events of the server become text and one chart. Text is set as text, never as HTML.
const byId = (id) => document.getElementById(id), DAY = 86400;
const live = (state.live = { rows: [], now: {}, run: null, ahead: { limits: [], jobs: [] }, heard: 0, serverTime: 0, lost: 0, events: 0 });

function make(tag, about = {}, ...children) {
  const element = Object.assign(document.createElement(tag), about);
  element.append(...children.filter((child) => child != null));
  return element;
}
function fill(id, children) { byId(id).replaceChildren(...children); }
// Times are those of the cluster: functions of core.js take them as if they were UTC.
const local = (t) => t + (live.now.zone_s || 0);
const at = (t) => clock(Math.floor(((local(t) % DAY) + DAY) % DAY));
function dated(t) {
  const d = new Date(1000 * local(t)), today = Math.floor(local(t) / DAY) === Math.floor(local(live.serverTime) / DAY);
  return today ? at(t) : `${d.getUTCDate()} ${MONTH_NAMES[d.getUTCMonth()]}, ${at(t)}`;
}
const count = (n) => (n == null ? "–" : n.toLocaleString("en"));
const plural = (n, one) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;

// -- now ----------------------------------------------------------------------------------------
function tile(name, value, small, { of = "", bad = false } = {}) {
  const dd = make("dd", {}, value, of && make("span", { className: "of", textContent: ` ${of}` }), make("small", { textContent: small }));
  return make("div", { className: bad ? "tile bad" : "tile" }, make("dt", { textContent: name }), dd);
}
function showNow(now) {
  live.now = now;
  const jobs = now.jobs || {}, limit = now.limit_w, used = limit ? `${figures((100 * now.counted_w) / limit)} % of the limit` : "no limit in force", pool = now.pool_w;
  byId("summary").textContent = now.summary;
  document.title = `${now.summary} · WattQueue`;
  byId("where").textContent = [now.machine, now.mode && `${now.mode} mode`, now.policy && `policy ${now.policy}`].filter(Boolean).join(" · ") || "Operator page";
  byId("lede").textContent = now.time_s ? lede(now) : "";
  byId("signin").hidden = now.names || Boolean(live.run); // a simulation has no token: --names shows them
  document.body.dataset.names = now.names ? "yes" : "no";
  const over = limit != null && now.counted_w > limit + 1, measuredOver = now.cap_w != null && now.measured_w > now.cap_w + 1;
  const { measured = 0, stale = 0, missing = 0 } = now.telemetry || {}, run = live.run;
  byId("health").querySelector("h2").textContent = run ? "About this run" : "Health of every source";
  fill("tiles", !now.time_s ? [] : [
    tile("Counted power", watts(now.counted_w), used, { bad: over }),
    tile("Measured power", now.measured_w == null ? "–" : watts(now.measured_w), run ? "true watts of the simulation" : measured ? `${count(measured)} of ${plural(measured + stale + missing, "node")} measured` : "no node is measured", { bad: measuredOver }),
    run ? null : tile("Licences in use", pool ? `${count(pool.used)} W` : "–", pool ? `of ${count(pool.open)} W open to jobs` : "there is no pool"),
    tile("Wait for watts", count(now.for_watts), `of ${plural(jobs.waiting ?? 0, "waiting job")}; ${count(jobs.running ?? 0)} running`),
    tile("Held by the cap now", plural(now.held, "job"), now.kept_nodes ? `${plural(now.kept_nodes, "node")} idle for want of watts` : "no node idles for want of watts"),
    now.kept_hours == null ? null : tile("What that cost", `${count(now.kept_hours)} node-h`, "in the last 24 h: nodes that watts kept idle"),
  ].filter(Boolean));
  const hidden = now.problem_count && !now.names ? [make("li", { textContent: `${plural(now.problem_count, "problem")}: “Show names” or wattqueue live status has the text` })] : [];
  fill("problems", [...now.problems.map((text) => make("li", { textContent: text })), ...hidden]);
  byId("problems").hidden = !now.problem_count;
  showState();
  draw();
}
function lede(now) {
  const parts = [now.cap_w == null ? "No cap is in force" : `The cap is ${watts(now.cap_w)}`];
  if (now.limit_w != null && now.limit_w !== now.cap_w) parts.push(`a load target limits to ${watts(now.limit_w)}`);
  const next = live.ahead.limits.find(([t, , w]) => t > live.serverTime && w !== now.limit_w);
  if (next) parts.push(`from ${dated(Math.round(next[0] / 60) * 60)} on it is ${next[2] == null ? "lifted" : watts(next[2])}`);
  return `${parts.join("; ")}.`;
}
// Whether what is shown is of now: the controller's state, and the connection to the page's server.
function showState() {
  const box = byId("state"), lostFor = live.lost ? (performance.now() - live.lost) / 1000 : 0, works = live.now.state === "works";
  const text = lostFor > 4 ? `The server of this page does not answer since ${span(Math.round(lostFor))}: what is shown is old.` : works ? "" : live.now.text || "";
  if (box.textContent !== text) box.textContent = text;
  box.hidden = !text;
  box.classList.toggle("wait", live.now.state === "starting" && lostFor <= 4);
  box.dataset.state = lostFor > 4 ? "lost" : live.now.state || "";
  document.body.classList.toggle("stale", Boolean(text) && live.now.state !== undefined);
  const age = live.now.time_s ? Math.max(0, Math.round(live.serverTime + (performance.now() - live.heard) / 1000 - live.now.time_s)) : null;
  byId("age").textContent = live.run ? "simulated" : age == null ? "" : `as of ${at(Math.floor(live.now.time_s))}, ${span(age)} ago`;
  byId("age").classList.toggle("old", Boolean(text));
}
setInterval(showState, 1000);

// -- queue, running jobs, nodes, health, events ---------------------------------------------------
function cell(value, { kind = "", label = "" } = {}) {
  const td = make("td", { className: kind }, value ?? "");
  if (label && value) td.dataset.label = label;
  return td;
}
function table(id, heads, rows, none, note) {
  const top = make("thead", {}, make("tr", {}, ...heads.map(([name, kind]) => make("th", { scope: "col", className: kind || "", textContent: name }))));
  const body = make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells)));
  const all = make("button", { type: "button", className: "all", textContent: `Show all ${count(rows.length)}`, onclick: () => byId(id).classList.add("open") }); // on a telephone
  fill(id, rows.length ? [make("table", {}, top, body), all, ...(note ? [make("p", { className: "note", textContent: note })] : [])] : [make("p", { className: "none", textContent: none })]);
}
const whoHeads = (names) => (names ? [["User"], ["Name"]] : []);
const who = (names, user, app) => (names ? [cell(user, { kind: "user", label: "by" }), cell(app, { kind: "app" })] : []);
const REASONS = { watts: "watts", nodes: "nodes", "jobs before it": "turn" };
function showQueue({ rows, total, kinds }) {
  fill("kinds", kinds.map(([kind, n]) => make("li", {}, make("b", { textContent: count(n) }), ` ${kind}`)));
  const names = rows.some((row) => row.length > 8);
  const heads = [["Job"], ...whoHeads(names), ["Nodes", "n"], ["Needs", "n"], ["Waits for"], [live.run ? "Started" : "Starts at the earliest", "n"], ["Waits since", "n"]];
  table("queue-list", heads, rows.map(([job, nodes, partition, since, needs, start, kind, text, user, app]) => [
    cell(job), ...who(names, user, app), cell(nodes == null ? "" : count(nodes), { kind: "n", label: "nodes" }), cell(needs == null ? "" : watts(needs), { kind: "n", label: "needs" }),
    cell(make("span", { className: `for ${REASONS[kind] || "other"}` }, make("span", {}, kind, text && text !== kind ? make("small", { textContent: text }) : null)), { kind: "why" }),
    cell(start == null ? "" : start <= live.serverTime + 60 ? "now" : dated(start), { kind: "n when", label: "from" }), cell(since == null ? "" : dated(since), { kind: "n", label: "since" }),
  ]), "No job waits.", `${/observe|advise/.test(live.now.mode) ? `In ${live.now.mode} mode Slurm alone starts jobs: the order and the reasons are what the policy would do. ` : ""}` + (total > rows.length ? `The first ${count(rows.length)} of ${plural(total, "waiting job")}${live.run ? "." : "; wattqueue live why JOB answers for each."}` : ""));
  byId("queue-list").dataset.total = total;
}
function showRunning(rows) {
  const names = rows.some((row) => row.length > 6), all = (live.now.jobs || {}).running ?? rows.length;
  const heads = [["Job"], ...whoHeads(names), ["Nodes", "n"], ["Counts", "n"], ["Partition"], ["Since", "n"], [live.run ? "Ended" : "Ends at the latest", "n"]];
  table("running-list", heads, rows.map(([job, nodes, partition, licence, start, end, user, app]) => [
    cell(job), ...who(names, user, app), cell(count(nodes), { kind: "n", label: "nodes" }), cell(licence < 0 ? "no watts" : watts(licence), { kind: "n", label: "counts" }),
    cell(partition, { kind: "part-of", label: "in" }), cell(start == null ? "" : dated(start), { kind: "n", label: "since" }), cell(end == null ? "no limit" : dated(end), { kind: "n when", label: "to" }),
  ]), "No job runs.", all > rows.length ? `The first ${count(rows.length)} of ${plural(all, "running job")}.` : "");
}
function nodeKind(name) {
  if (/, (off|booting|stopping)|powered|powering/.test(name)) return "off";
  if (/^(drain|maint|reserved|planned)/.test(name)) return "drain";
  if (/^(alloc|mix|comp)/.test(name)) return "busy";
  return /^idle/.test(name) ? "idle" : "down";
}
function showNodes(partitions) {
  fill("node-bars", Object.entries(partitions).map(([name, states]) => {
    const pairs = Object.entries(states).sort((a, b) => b[1] - a[1]), total = pairs.reduce((sum, [, n]) => sum + n, 0);
    const bar = make("div", { className: "bar" }, ...pairs.map(([word, n]) => { const part = make("i", { className: nodeKind(word) }); part.style.flexGrow = n; return part; }));
    const list = make("ul", { className: "states" }, ...pairs.map(([word, n]) => { const item = make("li", { className: nodeKind(word), textContent: `${count(n)} ${word}` }); item.dataset.state = word; item.dataset.count = n; return item; }));
    return make("div", { className: "part" }, make("h3", {}, name || "no partition", make("span", { textContent: plural(total, "node") })), bar, list);
  }));
}
// A cell for each power domain: how full it is, and what of.
function showDomains(rows) {
  byId("domains").hidden = !rows.length;
  fill("domain-map", rows.map(([name, parent, counted, limit]) => {
    const share = limit > 0 ? counted / limit : counted > 0 ? 2 : 0, part = make("i", { className: "busy" }), rest = make("i", { className: "rest" });
    part.style.flexGrow = Math.min(share, 1);
    rest.style.flexGrow = Math.max(0, 1 - share);
    const item = make("li", { className: share > 1 ? "over" : share > 0.9 ? "full" : "" }, make("b", { textContent: name }), make("div", { className: "bar" }, part, rest), make("span", { textContent: `${watts(counted)} of ${watts(limit)}${share > 1 ? ", above it" : ""}` }), parent && make("small", { textContent: ` fed by ${parent}` }));
    Object.assign(item.dataset, { name, counted, limit });
    return item;
  }));
  byId("domain-rest").textContent = rows.length < 200 ? "" : "The 200 fullest domains.";
}
function showHealth(rows) { fill("health-list", rows.map(([name, how, text]) => make("li", { className: how }, make("b", { textContent: name }), make("span", { textContent: text })))); }
const WORDS = { start: "controller", cap: "cap", target: "load target", failure: "failure", refusal: "refusal" };
function showEvents(rows) {
  fill("event-list", rows.length ? rows.map(([t, kind, text]) => make("li", { className: kind }, make("time", { textContent: dated(t), dateTime: new Date(1000 * t).toISOString() }), make("em", { textContent: WORDS[kind] || kind }), make("span", { textContent: text }))) : [make("li", { className: "none", textContent: "Nothing has happened yet." })]);
}

// -- the chart ------------------------------------------------------------------------------------
let chart;
// A time without a controller is a gap, not a line.
const GAP_S = 300;
function past(column) { return live.rows.flatMap((row, k) => [...(k && row[0] - live.rows[k - 1][0] > GAP_S ? [[local(live.rows[k - 1][0]) + 60, null]] : []), [local(row[0]), kilo(row[column])]]); }
const kilo = (w) => (w == null ? null : w / 1000);
function limits(column) {
  const known = past(column), ahead = live.ahead.limits.map((row) => [local(row[0]), kilo(row[column])]);
  const all = [...known, ...ahead], last = all[all.length - 1];
  return last ? [...all, [local(live.serverTime) + DAY, last[1]]] : [];
}
function draw() {
  if (!window.echarts || !live.serverTime) return;
  chart = chart || echarts.init(byId("power-chart"), null, { renderer: "canvas", devicePixelRatio: Math.max(window.devicePixelRatio || 1, 2) });
  const now = live.now, t = local(live.serverTime), option = base(), from = t - DAY, to = t + DAY, width = chart.getWidth() - LEFT() - 16;
  const ticks = dateTicks(from, to, Math.max(2, width / 84)), text = new Map(ticks), here = [t, kilo(now.counted_w)];
  const last = live.rows[live.rows.length - 1], gap = last && live.serverTime - last[0] > GAP_S ? [[local(last[0]) + 60, null]] : [];
  const counted = [...past(3), ...gap, here], measured = [...past(4), ...gap, [t, kilo(now.measured_w)]];
  const planned = now.counted_w == null ? [] : [here, ...live.ahead.jobs.map(([s, w]) => [local(s), kilo(w)])];
  if (planned.length) planned.push([to, planned[planned.length - 1][1]]);
  const caps = limits(1), targets = limits(2).map(([s, w], i) => [s, w !== (caps[i] || [])[1] ? w : null]);
  const line = (name, data, colour, more = {}) => ({ name, type: "line", step: "end", data, symbol: "none", silent: true, connectNulls: false, lineStyle: { color: colour, width: 1.8 }, itemStyle: { color: colour }, emphasis: { disabled: true }, ...more });
  const top = Math.max(...[...counted, ...measured, ...caps, ...targets].map(([, w]) => w || 0), 0.001);
  option.grid.bottom = 30;
  option.tooltip = {
    ...option.tooltip, renderMode: "richText", extraCssText: undefined, // no style of its own in the page
    textStyle: { ...option.tooltip.textStyle, rich: { h: { fontWeight: 600, fontSize: 13, lineHeight: 22, color: colours.ink }, k: { color: colours.soft, fontSize: 12.5, lineHeight: 19, width: 96 }, v: { color: colours.ink, fontSize: 12.5, lineHeight: 19, align: "right", width: 70 } } },
    formatter: (hits) => {
      const s = hits[0].axisValue, before = s <= t, value = (series) => { const k = series.length && series[0][0] <= s ? rowAt(series.map(([x]) => x), s) : -1; return k < 0 ? null : series[k][1]; };
      const rows = [["cap", value(caps)], ["load target", value(targets)], ...(before ? [["counted", value(counted)], ["measured", value(measured)]] : [["running jobs", value(planned)]])];
      return [`{h|${dated(Math.round((s - local(0)) / 60) * 60)}}`, ...rows.filter(([, w]) => w != null).map(([k, w]) => `{k|${k}}{v|${watts(1000 * w)}}`)].join("\n");
    },
  };
  chart.setOption({
    ...option,
    xAxis: axis({ label: "" }, { min: from, max: to, axisTick: { show: true, customValues: ticks.map(([s]) => s), lineStyle: { color: colours.line } }, axisLabel: { color: colours.soft, hideOverlap: true, customValues: ticks.map(([s]) => s), formatter: (s) => text.get(s) || "" } }),
    yAxis: vertical({ label: "power in kW" }, { min: 0, max: roundTop(top), splitNumber: 5 }),
    series: [
      line("counted", counted, colours.blue, { areaStyle: { color: fade(colours.blue, .16) }, markLine: { silent: true, symbol: "none", animation: false, lineStyle: { color: colours.faint, type: "solid", width: 1 }, label: { formatter: "now", color: colours.soft, fontSize: 12, position: "end", distance: 4 }, data: [{ xAxis: t }] } }),
      line("running jobs", planned, colours.blue, { lineStyle: { color: colours.blue, width: 1.4, type: [2, 3] }, areaStyle: { color: fade(colours.blue, .07) } }),
      line("measured", measured, colours.green, { lineStyle: { color: colours.green, width: 1.6 } }),
      line("load target", targets, colours.purple, { lineStyle: { color: colours.purple, width: 2 } }),
      line("cap", caps, colours.red, { lineStyle: { color: colours.red, width: 2, type: [6, 3] }, z: 4 }),
    ],
  }, { notMerge: true });
  const has = (series) => series.some(([, w]) => w != null), mark = (colour, kind) => { const i = make("i", { className: kind }); i.style.borderColor = colour; return i; };
  const square = make("i"); square.style.background = fade(colours.blue, .35);
  fill("power-key", [has(caps) && make("span", {}, mark(colours.red, "dash"), "cap"), has(targets) && make("span", {}, mark(colours.purple, "line"), "load target"), make("span", {}, square, "counted"), has(measured) && make("span", {}, mark(colours.green, "line"), "measured"), planned.length > 2 && make("span", {}, mark(colours.blue, "dash"), "jobs that run now, to their ends")].filter(Boolean));
  byId("power-says").textContent = `Left of “now” the last 24 hours, the greatest power of each minute; right of it the next 24 hours: the cap as it is announced, and what running jobs count until they end${has(measured) ? "" : ". No node is measured"}.${live.run ? " Measured are the true watts of the simulation." : ""}`;
  byId("power-chart").dataset.ready = "yes";
}
function roundTop(w) { const step = 10 ** Math.floor(Math.log10(w)) / 2; return Math.ceil((w * 1.06) / step) * step; }

// -- events of the server -------------------------------------------------------------------------
const SHOW = {
  run: showRun,
  time: (t) => { live.serverTime = t; live.heard = performance.now(); live.lost = 0; showState(); },
  now: showNow, queue: showQueue, nodes: showNodes, domains: showDomains, running: showRunning, health: showHealth, events: showEvents,
  ahead: (ahead) => { live.ahead = ahead; if (live.now.time_s) byId("lede").textContent = lede(live.now); draw(); },
  rows: (rows) => { const known = live.rows.length ? live.rows[live.rows.length - 1][0] : 0; live.rows = [...live.rows, ...rows.filter(([t]) => t > known)].filter(([t]) => t > live.serverTime - DAY); draw(); },
};
readColours();
let source;
function listen(asked) {
  if (source) source.close();
  live.rows = [];
  const one = (source = new EventSource(asked == null ? "events" : `events?at=${asked}`));
  for (const [name, show] of Object.entries(SHOW)) one.addEventListener(name, (e) => { live.events++; show(JSON.parse(e.data)); state.ready = Boolean(live.now.state); });
  one.addEventListener("error", () => { live.lost = live.lost || performance.now(); if (one === source && one.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 10000); });
  one.addEventListener("open", () => { live.lost = 0; });
}
// -- a finished run: an instant of it, chosen with the slider; the address of the page names it -----------------------
const slider = byId("instant"), PAUSE_MS = 120;
let waits, wanted;
function showInstant(t) {
  const d = new Date(1000 * t), text = `${d.getUTCDate()} ${MONTH_NAMES[d.getUTCMonth()]}, ${clock(((t % DAY) + DAY) % DAY)}`;
  wanted = t;
  slider.value = t;
  byId("instant-text").textContent = text;
  slider.setAttribute("aria-valuetext", text);
}
function go(t) {
  clearTimeout(waits);
  showInstant(Math.min(Math.max(t, live.run.begin_s), live.run.end_s));
  waits = setTimeout(() => { history.replaceState(null, "", `#at=${wanted}`); listen(wanted); }, PAUSE_MS);
}
function showRun(run) {
  live.run = run;
  live.serverTime = run.at_s;
  byId("slider").hidden = false;
  byId("files").textContent = "Figures are those of the run's files; times are those of the trace.";
  const step = run.end_s - run.begin_s > 7200 ? 60 : 1;
  Object.assign(slider, { step, min: Math.floor(run.begin_s / step) * step, max: run.end_s });
  showInstant(run.at_s);
}
slider.addEventListener("input", () => go(Number(slider.value)));
for (const button of document.querySelectorAll("#slider button")) button.addEventListener("click", () => go(wanted + Number(button.dataset.step)));
const asked = () => (/^#at=(-?\d+)$/.exec(location.hash) || [])[1];
addEventListener("hashchange", () => { if (live.run && asked() != null && Number(asked()) !== wanted) go(Number(asked())); });
listen(asked());
function recolour() { readColours(); draw(); }
byId("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("wattqueue-theme", root.dataset.theme); } catch { /* storage may be forbidden */ }
  recolour();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
new ResizeObserver(() => { if (chart) { chart.resize(); draw(); } }).observe(byId("power-chart"));
