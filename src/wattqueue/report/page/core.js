"use strict";
// Shared by all charts: the decoded data, the colours of the theme, and numbers as text (as report/words.py).
const payload = JSON.parse(document.getElementById("data").textContent);
const state = (window.wattqueue = { errors: [], charts: {} });
window.addEventListener("error", (e) => state.errors.push(String(e.message)));
window.addEventListener("unhandledrejection", (e) => state.errors.push(String(e.reason)));

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }

let colours = {};
function readColours() {
  colours = { sans: css("sans"), heat: ramp(css("heat")), cool: ramp(css("cool")), users: [] };
  for (const name of ["paper", "ink", "soft", "faint", "line", "rule", "blue", "red", "grey", "green", "orange", "sky", "purple"]) colours[name] = css(name);
  for (let i = 0; i < 8; i++) colours.users.push(css("user" + i));
}

// 64 steps between the stops of a colour scale, as [r, g, b].
function ramp(stops) {
  const points = stops.split(",").map((hex) => rgb(hex.trim()));
  return Array.from({ length: 64 }, (_, i) => {
    const at = (i / 63) * (points.length - 1), k = Math.min(Math.floor(at), points.length - 2), f = at - k;
    return points[k].map((v, c) => Math.round(v + f * (points[k + 1][c] - v)));
  });
}
function rgb(hex) { return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)); }
function fade(hex, alpha) { return `rgba(${rgb(hex).join(",")},${alpha})`; }

// Decode base64 of little-endian numbers, as report/payload.py packs them.
const VIEWS = { f8: Float64Array, f4: Float32Array, i4: Int32Array, u2: Uint16Array, u1: Uint8Array };
function bytes(text) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}
function unpack(packed) { return new VIEWS[packed.type](bytes(packed.data).buffer); }
function decode(columns) {
  for (const [name, column] of Object.entries(columns)) if (column && column.data !== undefined && column.type) columns[name] = unpack(column);
}
async function inflate(text) {
  const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function figures(value, digits = 3) {
  if (value == null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const whole = Math.floor(Math.log10(Math.abs(value))) + 1;
  return value.toLocaleString("en", { maximumFractionDigits: Math.max(0, digits - whole) }).replace("-", "−");
}
function watts(value) { return si(value, "W"); }
function si(value, unit) {
  if (value == null || !Number.isFinite(value)) return "–";
  for (const [factor, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (Math.abs(value) >= factor) return `${figures(value / factor)} ${prefix}${unit}`;
  return `${figures(value)} ${unit}`;
}
function span(s) {
  if (s == null) return "–";
  if (s < 99.5) return `${figures(s)} s`;
  const pair = (large, small, names) => { const t = Math.round(s / small), per = large / small, rest = t % per; return `${Math.floor(t / per)} ${names[0]}${rest ? ` ${rest} ${names[1]}` : ""}`; };
  if (s < 3600) return pair(60, 1, ["min", "s"]);
  if (s < 172800) return pair(3600, 60, ["h", "min"]);
  return `${figures(s / 86400)} days`;
}
// A time of a figure as text: its date where the trace has dates, else the day since the first submission, from day 1.
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"], MONTH_NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (v) => String(v).padStart(2, "0");
function clock(t) { return `${two(Math.floor(t / 3600) % 24)}:${two(Math.floor(t / 60) % 60)}${t % 60 ? `:${two(t % 60)}` : ""}`; }
function moment(s, figure) {
  const epoch = figure.extra.epoch_s, t = Math.round(s + (epoch ?? 0));
  if (epoch == null) return `day ${Math.floor(t / 86400) + 1}, ${clock(t)}`;
  const d = new Date(1000 * t);
  return `${WEEKDAYS[d.getUTCDay()]} ${d.getUTCDate()} ${MONTH_NAMES[d.getUTCMonth()]} ${d.getUTCFullYear()}, ${clock(((t % 86400) + 86400) % 86400)} UTC`;
}
// Ticks of a span of Unix time, at most about `most`: [time, text], as report/plot/shared.py.
const TICK_STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600], MONDAY = 4 * 86400;
function dateTicks(begin, end, most) {
  const step = TICK_STEPS.find((s) => (end - begin) / s <= most), ticks = [];
  if (step === undefined) {
    const months = [1, 2, 3, 6, 12].find((n) => (end - begin) / (30.4 * 86400 * n) <= most) || 12, first = new Date(1000 * begin).getUTCFullYear() * 12, last = new Date(1000 * end).getUTCFullYear() * 12 + 12;
    for (let n = first; n < last; n += months) {
      const t = Date.UTC(Math.floor(n / 12), n % 12, 1) / 1000;
      if (t >= begin && t <= end) ticks.push([t, n % 12 ? MONTH_NAMES[n % 12] : `Jan ${Math.floor(n / 12)}`]);
    }
    return ticks;
  }
  const offset = step > 172800 ? MONDAY : 0;
  for (let k = Math.ceil((begin - offset) / step); offset + step * k <= end; k++) ticks.push(offset + step * k);
  const dated = ticks.some((t) => t % 86400 === 0);
  return ticks.map((t, k) => {
    const d = new Date(1000 * t), date = `${d.getUTCDate()} ${MONTH_NAMES[d.getUTCMonth()]}`;
    return [t, t % 86400 === 0 ? date : !dated && k === 0 ? `${date}, ${clock(t % 86400)}` : clock(t % 86400)];
  });
}
function escaped(text) { return String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`); }
function tip(head, rows) {
  return `<div class="tip"><b>${escaped(head)}</b><table>${rows.map(([k, v]) => `<tr><td>${escaped(k)}</td><td>${escaped(v)}</td></tr>`).join("")}</table></div>`;
}
// Index of the row in force at a time; times must be in rising order.
function rowAt(times, t) {
  let low = 0, high = times.length;
  while (low < high) { const mid = (low + high) >> 1; if (times[mid] <= t) low = mid + 1; else high = mid; }
  return Math.max(low - 1, 0);
}
