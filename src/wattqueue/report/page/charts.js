"use strict";
// One function a kind of picture: figure in, ECharts option out.
const SMALL = () => window.innerWidth < 640;
const LEFT = () => (SMALL() ? 46 : 58);

function base() {
  return {
    animation: false, backgroundColor: "transparent",
    textStyle: { fontFamily: colours.sans, color: colours.soft, fontSize: 12 },
    grid: { left: LEFT(), right: 16, top: 30, bottom: 44, outerBoundsMode: "none" },
    tooltip: {
      trigger: "axis", confine: true, backgroundColor: colours.paper, borderColor: colours.line, borderWidth: 1, padding: [8, 12],
      textStyle: { color: colours.ink, fontFamily: colours.sans, fontSize: 13 }, extraCssText: "border-radius:8px;box-shadow:0 6px 24px rgba(0,0,0,.16)",
      axisPointer: { type: "line", snap: false, lineStyle: { color: colours.faint, width: 1, type: "solid" } },
    },
  };
}
function axis(about, more = {}) {
  return {
    type: "value", name: about.label, nameLocation: "middle", nameGap: 26, nameTextStyle: { color: colours.soft, fontSize: 12.5 },
    axisLine: { show: true, onZero: false, lineStyle: { color: colours.line } }, axisTick: { show: true, lineStyle: { color: colours.line } },
    axisLabel: { color: colours.soft, hideOverlap: true, formatter: (v) => figures(v, 4) }, splitLine: { show: false }, splitNumber: SMALL() ? 4 : 8, ...more,
  };
}
// The name of a vertical axis is printed above it, horizontally.
function vertical(about, more = {}) {
  return axis(about, {
    nameLocation: "end", nameGap: 12, nameTextStyle: { color: colours.soft, fontSize: 12.5, align: "left", padding: [0, 0, 0, -LEFT()] },
    axisLine: { show: false }, axisTick: { show: false }, splitLine: { show: true, lineStyle: { color: colours.rule } }, splitNumber: 5, ...more,
  });
}
// Where an axis of energy, cost or emission begins: at 0, unless all values lie within the top quarter and differ by at
// least 0.2 %; then below the smallest one, and the label says so. One rule for all such axes of points and lines; bars always begin at 0.
function amountFoot(values, about) {
  const low = Math.min(...values), high = Math.max(...values);
  if (low < 0) return { min: undefined };
  if (low < .75 * high || high - low < .002 * high || high === 0) return { min: 0 };
  const gap = Math.max((high - low) * .35, high * .01), step = 10 ** Math.floor(Math.log10((high - low + 2 * gap) / about.scale)) / 2, min = Math.floor((low - gap) / about.scale / step) * step;
  return { min, max: Math.ceil((high + gap) / about.scale / step) * step, name: `${about.label}, axis begins at ${figures(min, 4)}` };
}
// The power of ten at or below a value, where a logarithmic axis begins.
function logFloor(value) { return value > 0 ? 10 ** Math.floor(Math.log10(value)) : .01; }
// No grid line at the end of an axis that is not a round value.
function openTop() { return { show: true, showMaxLine: false, lineStyle: { color: colours.rule } }; }
function plainEnds(more = {}) { return { color: colours.soft, hideOverlap: true, showMaxLabel: false, formatter: (v) => figures(v, 4), ...more }; }
function timeAxis(figure, more = {}) { return axis(figure.x, { min: 0, max: figure.extra.end_s / figure.x.scale, axisLabel: plainEnds(), ...dateLabels(figure), ...more }); }
// Ticks at round dates for the part of the time axis in view; nothing for a trace without dates.
function dateLabels(figure, [from, to] = zoomed) {
  const { epoch_s: epoch, end_s: end } = figure.extra, s = figure.x.scale;
  if (epoch == null) return {};
  const width = state.charts[figure.key].chart.getWidth() - LEFT() - 16, at = (percent) => epoch + (end * percent) / 100;
  const ticks = dateTicks(at(from), at(to), Math.max(2, width / 76)), values = ticks.map(([t]) => (t - epoch) / s), text = new Map(ticks.map(([t, name], i) => [values[i].toPrecision(10), name]));
  return { axisTick: { show: true, customValues: values, lineStyle: { color: colours.line } }, axisLabel: { color: colours.soft, hideOverlap: true, customValues: values, formatter: (v) => text.get(v.toPrecision(10)) || "" } };
}
function zoomers(index = [0]) {
  const coarse = matchMedia("(pointer: coarse)").matches; // a finger on the chart scrolls the page
  return [{ type: "inside", xAxisIndex: index, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: !coarse, minSpan: 0.05 }];
}

// The bins in view of a chart over time, merged until each is about a pixel wide: means weighted by length,
// minima and maxima exact. Cached until the view changes.
function merged(figure, from, to, pixels, rules) {
  const mark = `${from} ${to} ${pixels}`;
  if (figure.merged && figure.mergedMark === mark) return figure.merged;
  const times = figure.columns.time_s, end = figure.extra.end_s, fine = ((to - from) / pixels) * 1.5, names = Object.keys(rules), out = { edge: [] };
  for (const name of names) out[name] = [];
  let i = rowAt(times, from);
  while (i < times.length && times[i] < to) {
    let j = i + 1;
    const edge = (k) => (k < times.length ? times[k] : end);
    while (j < times.length && edge(j) - times[i] < fine) j++;
    out.edge.push(times[i]);
    for (const name of names) out[name].push(rules[name](figure.columns[name], i, j, edge));
    i = j;
  }
  out.edge.push(i < times.length ? times[i] : end);
  figure.merged = out; figure.mergedMark = mark;
  return out;
}
const least = (c, i, j) => { let v = Infinity; for (let k = i; k < j; k++) if (c[k] < v) v = c[k]; return v; };
const greatest = (c, i, j) => { let v = -Infinity; for (let k = i; k < j; k++) if (c[k] > v) v = c[k]; return v; };
const mean = (c, i, j, edge) => { if (j === i + 1) return c[i]; let sum = 0; for (let k = i; k < j; k++) sum += c[k] * (edge(k + 1) - edge(k)); return sum / (edge(j) - edge(i)); };

// A step series in view as a shape: an area between two of its columns, or a line along one.
function stepped(figure, name, colour, low, high, rules, more = {}, line = 0) {
  return {
    name, type: "custom", clip: true, silent: true, data: [[0, 0]], encode: { x: -1, y: -1 }, itemStyle: { color: colour }, tooltip: { show: false },
    renderItem(params, api) {
      const box = params.coordSys, s = figure.x.scale, [from, to] = view(api, box), m = merged(figure, from * s, to * s, box.width, rules);
      const x = m.edge.map((t) => api.coord([t / s, 0])[0]), y = (v) => api.coord([0, v])[1], up = [], down = [];
      for (let i = 0; i + 1 < x.length; i++) {
        const top = high(m, i);
        if (!Number.isFinite(top)) continue;
        up.push([x[i], y(top)], [x[i + 1], y(top)]);
        if (!line) { const foot = y(low(m, i)); down.push([x[i], foot], [x[i + 1], foot]); }
      }
      if (line) return { type: "polyline", shape: { points: up }, style: { stroke: colour, lineWidth: line, fill: null, lineJoin: "round" } };
      return { type: "polygon", shape: { points: up.concat(down.reverse()) }, style: { fill: colour } };
    }, ...more,
  };
}
// An invisible line with the maxima: it sets the range of the axis and triggers tooltips; the visible shapes are drawn by stepped().
function unseen(figure, column, by, more = {}) {
  const s = figure.x.scale, t = figure.columns.time_s, v = figure.columns[column];
  return { name: column, type: "line", data: Array.from(t, (x, i) => [x / s, Number.isFinite(v[i]) ? v[i] / by : null]), symbol: "none", lineStyle: { opacity: 0 }, itemStyle: { opacity: 0 }, emphasis: { disabled: true }, silent: true, ...more };
}
function view(api, box) {
  // Two points determine the linear map from data to pixels; its inverse at the borders is the range in view.
  const a = api.coord([0, 0])[0], b = api.coord([1, 0])[0];
  return [(box.x - a) / (b - a), (box.x + box.width - a) / (b - a)];
}
// The key of a figure: [name, colour, form] per item, the form being box, line, dash, diamond or triangle.
function key(figure, items, extra = "") {
  figure.element.querySelector(".key").innerHTML = items.map(([name, colour, form]) => `<span>${mark(colour, form)}${escaped(name)}</span>`).join("") + extra;
}
function mark(colour, form) { return form === "box" ? `<i style="background:${colour}"></i>` : form === "diamond" || form === "triangle" || form === "pin" ? `<i class="${form}" style="background:${colour}"></i>` : `<i class="${form}" style="border-color:${colour}"></i>`; }

const kinds = {};
kinds.power = (figure) => {
  const c = figure.columns, { end_s: end, exact, stacked } = figure.extra, sx = figure.x.scale, sy = figure.y.scale, option = base();
  const rules = { power_mean_w: mean, power_min_w: least, power_max_w: greatest, other_mean_w: mean }, other = (m, i) => (stacked ? m.other_mean_w[i] / sy : 0);
  const grey = fade(colours.grey, .5), blue = fade(colours.blue, .58), pale = fade(colours.blue, .22), items = [], series = [unseen(figure, "power_max_w", sy)];
  if (stacked) { series.push(stepped(figure, "other", grey, () => 0, other, rules)); items.push(["idle nodes", grey, "box"]); }
  series.push(stepped(figure, "jobs", blue, other, (m, i) => m.power_mean_w[i] / sy, rules), stepped(figure, "range", pale, (m, i) => m.power_min_w[i] / sy, (m, i) => m.power_max_w[i] / sy, rules));
  series.push(stepped(figure, "mean", colours.blue, null, (m, i) => m.power_mean_w[i] / sy, rules, {}, 1.1));
  items.push([exact ? "running jobs" : "running jobs (mean)", blue, "box"]);
  items.push(["min to max", pale, "box"]);
  if (c.cap_w) {
    series.push(excess(c, end, sx, sy), capLine(c, end, sx, sy));
    if (greatest(c.excess_w, 0, c.excess_w.length) > 0) items.push([`above the ${figure.extra.limit}`, colours.red, "box"]);
    items.push([figure.extra.limit, colours.ink, "dash"]);
  }
  key(figure, items);
  option.tooltip.formatter = (hits) => {
    const i = rowAt(c.time_s, hits[0].axisValue * sx), to = i + 1 < c.time_s.length ? c.time_s[i + 1] : end;
    const rows = exact ? [["power", watts(c.power_mean_w[i])]] : [["mean", watts(c.power_mean_w[i])], ["min", watts(c.power_min_w[i])], ["max", watts(c.power_max_w[i])]];
    if (stacked) rows.push(["idle nodes", watts(c.other_mean_w[i])]);
    if (c.cap_w) rows.push([figure.extra.limit, Number.isFinite(c.cap_w[i]) ? watts(c.cap_w[i]) : "none"]);
    if (c.cap_w && c.excess_w[i] > 0) rows.push(["max excess", watts(c.excess_w[i])]);
    return tip(`${moment(c.time_s[i], figure)}, for ${span(to - c.time_s[i])}`, rows);
  };
  return { ...option, xAxis: timeAxis(figure), yAxis: vertical(figure.y, { min: 0 }), dataZoom: zoomers(), series };
};
// The cap without merging, since it changes rarely; a gap where none is in force.
function capLine(c, end, sx, sy) {
  const data = [];
  for (let i = 0; i < c.time_s.length; i++) if (!i || c.cap_w[i] !== c.cap_w[i - 1]) data.push([c.time_s[i] / sx, Number.isFinite(c.cap_w[i]) ? c.cap_w[i] / sy : null]);
  data.push([end / sx, data[data.length - 1][1]]);
  return { name: "cap", type: "line", step: "end", data, symbol: "none", z: 5, silent: true, lineStyle: { color: colours.ink, width: 1.6, type: [6, 4] }, emphasis: { disabled: true } };
}
// Power above the limit, at least a pixel and a half wide, so that a short excess in a long run is visible.
function excess(c, end, sx, sy) {
  const data = [];
  c.excess_w.forEach((w, i) => { if (w > 0) data.push([c.time_s[i] / sx, c.cap_w[i] / sy, (i + 1 < c.time_s.length ? c.time_s[i + 1] : end) / sx, (c.cap_w[i] + w) / sy]); });
  return {
    name: "above the limit", type: "custom", clip: true, silent: true, z: 4, itemStyle: { color: colours.red }, tooltip: { show: false }, data,
    renderItem(params, api) {
      const a = api.coord([api.value(0), api.value(1)]), b = api.coord([api.value(2), api.value(3)]);
      return { type: "rect", shape: { x: a[0], y: b[1], width: Math.max(b[0] - a[0], 1.5), height: Math.max(a[1] - b[1], 1.5) }, style: { fill: colours.red } };
    },
  };
}

kinds.queue = (figure) => {
  const c = figure.columns, { exact } = figure.extra, sx = figure.x.scale, option = base(), at = { xAxisIndex: 1, yAxisIndex: 1 };
  const rules = { waiting_mean: mean, waiting_min: least, waiting_max: greatest, utilization: mean }, pale = fade(colours.purple, .28), green = fade(colours.green, .5);
  option.tooltip.formatter = (hits) => {
    const i = rowAt(c.time_s, hits[0].axisValue * sx), rows = exact ? [["jobs waiting", figures(c.waiting_mean[i])]] : [["jobs waiting, mean", figures(c.waiting_mean[i])], ["max", figures(c.waiting_max[i])]];
    return tip(moment(c.time_s[i], figure), [...rows, ["busy units", `${figures(100 * c.utilization[i])} %`]]);
  };
  key(figure, [[exact ? "jobs waiting" : "jobs waiting (mean)", colours.purple, "line"], ["min to max", pale, "box"], ["busy units", green, "box"]]);
  const series = [
    unseen(figure, "waiting_max", 1), unseen(figure, "utilization", .01, at),
    stepped(figure, "range", pale, (m, i) => m.waiting_min[i], (m, i) => m.waiting_max[i], rules),
    stepped(figure, "waiting", colours.purple, null, (m, i) => m.waiting_mean[i], rules, {}, 1.4),
    stepped(figure, "busy", green, () => 0, (m, i) => 100 * m.utilization[i], rules, at),
    stepped(figure, "busy line", colours.green, null, (m, i) => 100 * m.utilization[i], rules, at, .8),
  ];
  return {
    ...option, series, dataZoom: zoomers([0, 1]), axisPointer: { link: [{ xAxisIndex: "all" }] },
    grid: [{ ...option.grid, bottom: "46%" }, { ...option.grid, top: "65%" }],
    xAxis: [timeAxis(figure, { name: "", axisLabel: { show: false }, axisTick: { show: false } }), timeAxis(figure, { gridIndex: 1 })],
    yAxis: [vertical(figure.y, { min: 0, minInterval: 1 }), vertical({ label: "busy units (%)" }, { gridIndex: 1, min: 0, max: 100, interval: 50 })],
  };
};

const SPANS = [[1, "1 s"], [10, "10 s"], [60, "1 min"], [600, "10 min"], [3600, "1 h"], [36000, "10 h"], [86400, "1 d"], [864000, "10 d"], [8640000, "100 d"]];
function logarithmic(figure, highest, time) {
  const top = Math.max(highest * 1.15, 10), marks = time ? SPANS.map((s) => s[0]).filter((v) => v <= top) : Array.from({ length: 9 }, (_, i) => 10 ** i).filter((v) => v <= top);
  const name = Object.fromEntries(SPANS);
  return axis(figure.x, { type: "log", min: 1, max: top, axisTick: { show: true, customValues: marks, lineStyle: { color: colours.line } }, axisLabel: { color: colours.soft, hideOverlap: true, customValues: marks, formatter: (v) => (time ? name[Math.round(v)] || "" : figures(v)) } });
}
const MARKS = { median: [50, "right", [5, 9]], p95: [95, "right", [5, 10]], p99: [99, "top", [0, 0]] };
kinds.cdf = (figure) => {
  const c = figure.columns, column = Object.keys(c)[1], time = column.endsWith("_s"), read = time ? span : (v) => figures(v), option = base(), { marks } = figure.extra;
  const values = Array.from(c[column], (v) => Math.max(Number.isFinite(v) ? v : 1, 1)), known = Object.entries(marks).filter(([, v]) => v != null);
  const highest = values[values.length - 1], label = (name, v) => {
    const [, position, offset] = MARKS[name], right = Math.log(Math.max(v, 1)) / Math.log(Math.max(highest, 10)) > .8;
    if (v <= 1) return { position: "right", offset: name === "p99" ? [5, -3] : offset }; // at the left edge, clear of the name of the axis
    return position === "right" && right ? { position: "left", offset: [-2, -2] } : { position, offset };
  };
  const points = known.map(([name, v]) => ({ value: [Math.max(v, 1), MARKS[name][0]], name, label: label(name, v) }));
  key(figure, [], known.map(([name, v]) => `<span>${name} <b>${read(v)}</b></span>`).join(""));
  option.tooltip.formatter = (hits) => tip(`at most ${read(hits[0].axisValue)}`, [["share of jobs", `${figures(100 * c.share[rowAt(values, hits[0].axisValue * (1 + 1e-9))])} %`]]);
  option.grid.top = 42;
  return {
    ...option, xAxis: logarithmic(figure, highest, time), yAxis: vertical(figure.y, { min: 0, max: 100, interval: 25, nameGap: 20 }),
    series: [
      { type: "line", data: values.map((v, i) => [v, 100 * c.share[i]]), symbol: "none", lineStyle: { color: colours.blue, width: 2.2 }, areaStyle: { color: fade(colours.blue, .1) }, emphasis: { disabled: true } },
      { type: "scatter", data: points, symbolSize: 8, silent: true, z: 6, itemStyle: { color: colours.paper, borderColor: colours.blue, borderWidth: 2 }, label: { show: true, formatter: "{b}", color: colours.ink, fontSize: 12, distance: 5 }, tooltip: { show: false } },
    ],
  };
};

kinds.density = (figure) => {
  const c = figure.columns, { step_w: step, low_w: low, high_w: high } = figure.extra, s = figure.x.scale, option = base(), most = Math.log(greatest(c.jobs, 0, c.jobs.length) + 1);
  option.tooltip = { ...option.tooltip, trigger: "item", formatter: (hit) => { const i = hit.dataIndex; return tip(`${c.jobs[i].toLocaleString("en")} jobs`, [["predicted", watts(c.predicted_from_w[i] + step / 2)], ["true", watts(c.true_from_w[i] + step / 2)]]); } };
  const colour = (jobs) => `rgb(${colours.heat[Math.round((Math.log(jobs + 1) / most) * 63)].join(",")})`;
  key(figure, [["predicted = true", colours.ink, "dash"]], rampBar(colours.heat, "1", `${figures(Math.exp(most) - 1)} jobs`));
  const ends = { min: low / s, max: high / s, axisLabel: plainEnds({ showMinLabel: false }) };
  return {
    ...option, xAxis: axis(figure.x, { ...ends, splitNumber: 5 }), yAxis: vertical(figure.y, { ...ends, splitLine: openTop() }),
    series: [
      { type: "custom", clip: true, data: Array.from(c.jobs, (n, i) => [c.predicted_from_w[i] / s, c.true_from_w[i] / s, n]),
        renderItem(params, api) {
          const a = api.coord([api.value(0), api.value(1)]), b = api.coord([api.value(0) + step / s, api.value(1) + step / s]);
          return { type: "rect", shape: { x: a[0], y: b[1], width: b[0] - a[0] + .4, height: a[1] - b[1] + .4 }, style: { fill: colour(api.value(2)) } };
        } },
      { name: "predicted = true", type: "line", data: [[low / s, low / s], [high / s, high / s]], symbol: "none", silent: true, lineStyle: { color: colours.ink, width: 1.2, type: [5, 4] }, tooltip: { show: false } },
    ],
  };
};
// Power domains over time: the colour is the share of the limit, above it red.
kinds.domains = (figure) => {
  const c = figure.columns, { names, step_s: step } = figure.extra, s = figure.x.scale, option = base(), n = names.length, row = new Map(names.map((name, k) => [name, n - 1 - k]));
  option.grid.left = SMALL() ? 84 : 112;
  option.tooltip = { ...option.tooltip, trigger: "item", formatter: (hit) => { const i = hit.dataIndex; return tip(`${escaped(c.name[i])} · ${moment(c.time_s[i], figure)}`, [["greatest input", watts(c.input_w[i])], ["limit", watts(c.limit_w[i])], ["headroom", watts(c.limit_w[i] - c.input_w[i])]]); } };
  const colour = (share) => (share > 1 + 1e-9 ? colours.red : `rgb(${colours.cool[Math.min(Math.round(share * 63), 63)].join(",")})`), short = (t) => (t.length > 14 ? t.slice(0, 13) + "…" : t);
  key(figure, [["above the limit", colours.red, "box"]], rampBar(colours.cool, "0", "100 % of the limit"));
  return {
    ...option, xAxis: timeAxis(figure),
    yAxis: { ...vertical(figure.y), type: "category", data: [...names].reverse(), splitLine: { show: false }, axisLabel: { color: colours.soft, formatter: short } },
    series: [{ type: "custom", clip: true, data: Array.from(c.share, (share, i) => [c.time_s[i] / s, row.get(c.name[i]), share]),
      renderItem(params, api) {
        const a = api.coord([api.value(0), api.value(1)]), b = api.coord([api.value(0) + step / s, api.value(1)]), high = api.size([0, 1])[1] * .92;
        return { type: "rect", shape: { x: a[0], y: a[1] - high / 2, width: b[0] - a[0] + .4, height: high }, style: { fill: colour(api.value(2)) } };
      } }],
  };
};
// A colour scale between its ends, kept on one line.
function rampBar(scale, low, high) { return `<span class="scale"><span>${low}</span><span class="ramp" style="background:linear-gradient(90deg, ${[0, 12, 25, 38, 50, 63].map((i) => `rgb(${scale[i].join(",")})`).join(",")})"></span><span>${high}</span></span>`; }

kinds.bars = (figure) => {
  const c = figure.columns, option = base(), s = figure.x.scale, n = c.name.length, short = (t) => (t.length > 14 ? t.slice(0, 13) + "…" : t);
  option.grid.left = SMALL() ? 84 : 112;
  option.grid.right = 44; // room for the label of the longest bar
  option.tooltip = { ...option.tooltip, axisPointer: { type: "shadow", shadowStyle: { color: fade(colours.blue, .08) } }, formatter: (hits) => { const i = n - 1 - hits[0].dataIndex; return tip(c.name[i], [["energy", si(c.energy_j[i] / 3600, "Wh")], ["share", `${figures(100 * c.share[i])} %`], ["jobs", c.jobs[i].toLocaleString("en")], ["mean wait", span(c.wait_s[i])]]); } };
  key(figure, []);
  const values = Array.from(c.energy_j, (v) => v / s).reverse(), names = [...c.name].reverse();
  return {
    ...option, xAxis: axis(figure.x, { splitNumber: 4, min: 0, splitLine: { show: true, lineStyle: { color: colours.rule } }, axisLine: { show: false }, axisTick: { show: false } }),
    yAxis: { ...vertical(figure.y), type: "category", data: names, nameTextStyle: { color: colours.soft, fontSize: 12.5, align: "right", padding: [0, 8, 0, 0] }, splitLine: { show: false }, axisLabel: { color: colours.soft, formatter: short, interval: 0 } },
    series: [{ type: "bar", data: values.map((v, i) => ({ value: v, itemStyle: names[i] === "all others" ? { color: colours.grey } : undefined })), barMaxWidth: 16, itemStyle: { color: colours.blue, borderRadius: [0, 3, 3, 0] }, emphasis: { disabled: true },
      label: { show: true, position: "right", color: colours.soft, fontSize: 11.5, formatter: (p) => `${figures(100 * c.share[n - 1 - p.dataIndex], 2)} %` } }],
  };
};
