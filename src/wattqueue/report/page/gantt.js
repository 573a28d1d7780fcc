"use strict";
// Units over time, painted on a separate canvas and shown as one image inside the axes of ECharts: the cost of a
// redraw depends on pixels, not on the number of jobs.
const SINGLE_JOBS = 6000; // with at most so many rectangles in view a grid gives way to single jobs
kinds.gantt = (figure) => {
  const e = figure.extra, s = figure.x.scale, option = base(figure);
  const inverse = true; // unit 0 at the top, as in a listing
  option.grid.top = 28;
  option.tooltip = { ...option.tooltip, trigger: "item", formatter: () => ganttTip(figure) };
  return {
    ...option, dataZoom: zoomers(), xAxis: timeAxis(figure),
    yAxis: vertical(figure.y, { min: 0, max: e.units, inverse, nameLocation: "start", splitLine: { show: false }, axisLine: { show: true, lineStyle: { color: colours.line } }, minInterval: 1 }),
    series: [{
      type: "custom", clip: true, data: [[0, 0]], encode: { x: -1, y: -1 }, silent: false,
      renderItem(params, api) {
        const box = params.coordSys, [from, to] = figure.view = view(api, box);
        figure.box = box;
        figure.single = !e.grid || inView(figure, from * s, to * s) <= SINGLE_JOBS;
        const paint = figure.single ? painter.jobs : painter.grid;
        const ratio = Math.max(window.devicePixelRatio || 1, state.printing ? 3 : 1);
        const image = paint(figure, from * s, to * s, Math.round(box.width * ratio), Math.round(box.height * ratio));
        return { type: "group", children: [
          { type: "image", style: { image, x: box.x, y: box.y, width: box.width, height: box.height } },
          ...boundaries(figure, api, box),
        ] };
      },
    }],
  };
};
// Number of rectangles of single jobs in a span of time; more than any limit where the page does not hold them.
function inView(figure, from, to) {
  const c = figure.packed;
  if (!c || to - from > .6 * figure.extra.end_s) return Infinity; // the whole run is always shown as the grid
  let count = 0;
  for (let k = 0; k < c.start_s.length; k++) if (c.end_s[k] > from && c.start_s[k] < to) count++;
  return count;
}
// Lines between partitions, and their names.
function boundaries(figure, api, box) {
  const parts = figure.extra.partitions, out = [];
  let first = 0;
  for (const [name, units] of parts.length > 1 ? parts : []) {
    const y = api.coord([0, first])[1];
    if (first) out.push({ type: "line", shape: { x1: box.x, x2: box.x + box.width, y1: y, y2: y }, style: { stroke: colours.ink, lineWidth: 1 } });
    out.push({ type: "text", style: { text: name, x: box.x + 6, y: y + 5, fill: colours.ink, stroke: colours.paper, lineWidth: 3, font: `600 12px ${colours.sans}` } });
    first += units;
  }
  return out;
}

const painter = {};
function blank(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(width, 1); canvas.height = Math.max(height, 1);
  return canvas;
}
function position(value, range) { return range[1] > range[0] ? Math.min(Math.max((value - range[0]) / (range[1] - range[0]), 0), 1) : .6; }
function shade(figure, watts, hertz, user) {
  const by = figure.colour;
  if (by === "user") return rgb(colours.users[user]);
  const [value, range, scale] = by === "frequency" ? [hertz, figure.extra.frequency, colours.cool] : [watts, figure.extra.power, colours.heat];
  return range && Number.isFinite(value) ? scale[Math.round(position(value, range) * 63)] : rgb(colours.grey);
}
painter.jobs = (figure, from, to, width, height) => {
  const canvas = blank(width, height), pen = canvas.getContext("2d"), c = figure.packed, per = width / (to - from), high = height / figure.extra.units;
  const gap = high > 4 ? Math.min(high * .12, 2) : 0, edge = high > 5;
  for (let k = 0; k < c.start_s.length; k++) {
    if (c.end_s[k] < from || c.start_s[k] > to) continue;
    const x = (c.start_s[k] - from) * per, w = Math.max((c.end_s[k] - c.start_s[k]) * per, .6), y = c.unit_first[k] * high, h = (c.unit_last[k] - c.unit_first[k] + 1) * high;
    pen.fillStyle = `rgb(${shade(figure, c.unit_w[k], c.frequency_hz[k], c.user[k]).join(",")})`;
    pen.fillRect(x, y, edge && w > 4 ? w - 1 : w, h - gap);
  }
  return canvas;
};
painter.grid = (figure, from, to, width, height) => {
  const { columns, column_s } = figure.extra.grid, canvas = blank(width, height), pen = canvas.getContext("2d"), source = gridImage(figure);
  pen.imageSmoothingEnabled = columns * column_s > (to - from) * 1.0001 ? false : true;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(source, from / column_s, 0, (to - from) / column_s, figure.extra.grid.rows * figure.extra.units / (figure.extra.grid.rows * figure.extra.grid.row_units), 0, 0, width, height);
  return canvas;
};
// The grid as an image of one pixel per cell, cached until theme or colouring changes.
function gridImage(figure) {
  const mark = figure.colour + colours.paper;
  if (figure.image && figure.mark === mark) return figure.image;
  const g = figure.extra.grid, canvas = blank(g.columns, g.rows), pen = canvas.getContext("2d"), out = pen.createImageData(g.columns, g.rows), p = figure.planes;
  for (let i = 0; i < g.columns * g.rows; i++) {
    const busy = p.busy[i] / g.levels;
    if (!busy) continue;
    const c = shade(figure, level(p.unit_w, i, figure.extra.power, g), level(p.frequency_hz, i, figure.extra.frequency, g), p.user ? p.user[i] : 0);
    out.data.set([c[0], c[1], c[2], Math.round(255 * (.15 + .85 * busy))], 4 * i);
  }
  pen.putImageData(out, 0, 0);
  figure.image = canvas; figure.mark = mark;
  return canvas;
}
// Value of a cell: level 0 is unknown, 1..levels span the colour scale.
function level(plane, i, range, g) { return plane && plane[i] && range ? range[0] + ((plane[i] - 1) / (g.levels - 1)) * (range[1] - range[0]) : NaN; }

function ganttTip(figure) {
  const at = figure.mouse, box = figure.box, e = figure.extra, s = figure.x.scale;
  if (!at || !box) return "";
  const t = (figure.view[0] + ((at[0] - box.x) / box.width) * (figure.view[1] - figure.view[0])) * s, unit = Math.floor(((at[1] - box.y) / box.height) * e.units);
  if (unit < 0 || unit >= e.units) return "";
  return figure.single ? jobTip(figure, t, unit) : cellTip(figure, t, unit);
}
function hertz(value) { return `${figures(value / 1e9)} GHz`; }
function jobTip(figure, t, unit) {
  const c = figure.packed;
  for (let k = c.start_s.length - 1; k >= 0; k--) {
    if (t < c.start_s[k] || t >= c.end_s[k] || unit < c.unit_first[k] || unit > c.unit_last[k]) continue;
    const rows = [["start", moment(c.start_s[k], figure)], ["ran", span(c.end_s[k] - c.start_s[k])], [`${figure.extra.unit}s`, `${c.unit_first[k]}–${c.unit_last[k]}`]];
    if (Number.isFinite(c.unit_w[k])) rows.push([`power of one ${figure.extra.unit}`, watts(c.unit_w[k])]);
    if (Number.isFinite(c.frequency_hz[k])) rows.push(["frequency", hertz(c.frequency_hz[k])]);
    if (figure.extra.has_users) rows.push(["user", c.user[k] ? figure.extra.users[c.user[k] - 1] : "another user"]);
    return tip(`Job ${c.job_id[k]}`, rows);
  }
  return tip(`${figure.extra.unit} ${unit}, idle`, [["at", moment(t, figure)]]);
}
function cellTip(figure, t, unit) {
  const g = figure.extra.grid, p = figure.planes, row = Math.floor(unit / g.row_units), col = Math.min(Math.floor(t / g.column_s), g.columns - 1), i = row * g.columns + col;
  const last = Math.min((row + 1) * g.row_units, figure.extra.units) - 1, rows = [["from", moment(col * g.column_s, figure)], ["for", span(g.column_s)], ["busy", `${figures((100 * p.busy[i]) / g.levels, 2)} %`]];
  const w = level(p.unit_w, i, figure.extra.power, g), f = level(p.frequency_hz, i, figure.extra.frequency, g);
  if (Number.isFinite(w)) rows.push([`power of one ${figure.extra.unit}`, `about ${watts(w)}`]);
  if (Number.isFinite(f)) rows.push(["frequency", `about ${hertz(f)}`]);
  if (p.user && p.busy[i]) rows.push(["main user", p.user[i] ? figure.extra.users[p.user[i] - 1] : "another user"]);
  return tip(`${figure.extra.unit} ${row * g.row_units}${last > row * g.row_units ? `–${last}` : ""}`, rows);
}

// The key: what the colours mean.
function ganttKey(figure) {
  const e = figure.extra, scaled = (scale, range, read) => rampBar(scale, read(range[0]), read(range[1]));
  if (figure.colour === "user") key(figure, [...e.users.map((name, i) => [/^\d+$/.test(name) ? `user ${name}` : name, colours.users[i + 1], "box"]), ["others", colours.users[0], "box"]]);
  else if (figure.colour === "frequency") key(figure, [], scaled(colours.cool, e.frequency, hertz));
  else key(figure, [], e.power ? scaled(colours.heat, e.power, watts) + `<span>mean power of one busy ${escaped(e.unit)}</span>` : "no power is known");
}
async function ganttData(figure) {
  const e = figure.extra;
  figure.colour = e.power ? "power" : e.has_users ? "user" : "frequency";
  if (!e.grid) {
    figure.packed = figure.columns; // columns of single jobs, unpacked by decode()
    return;
  }
  const all = await inflate(e.grid.planes_deflated), size = e.grid.rows * e.grid.columns;
  figure.planes = Object.fromEntries(e.grid.planes.map((name, i) => [name, all.subarray(i * size, (i + 1) * size)]));
  if (e.jobs) figure.packed = singleJobs(await inflate(e.jobs.deflated), e.jobs.rows);
}
// Columns of single jobs, as report/payload.py packs them: four of int32, two of float32, one of bytes, ids as text.
function singleJobs(raw, n) {
  const column = (Type, at) => new Type(raw.buffer.slice(raw.byteOffset + at, raw.byteOffset + at + n * Type.BYTES_PER_ELEMENT));
  const [step, run, first, last] = [0, 1, 2, 3].map((i) => column(Int32Array, 4 * n * i)), start = new Float64Array(n), end = new Float64Array(n);
  for (let k = 0, t = 0; k < n; k++) { t += step[k]; start[k] = t; end[k] = t + run[k]; }
  return { start_s: start, end_s: end, unit_first: first, unit_last: last, unit_w: column(Float32Array, 16 * n), frequency_hz: column(Float32Array, 20 * n), user: raw.subarray(24 * n, 25 * n), job_id: new TextDecoder().decode(raw.subarray(25 * n)).split("\n") };
}
