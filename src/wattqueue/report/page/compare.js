"use strict";
// Several runs in one figure: one colour and one dash pattern per group.
const DASH = ["solid", [7, 3], [2, 2], [8, 3, 2, 3]];
const groupColour = (k) => colours.users[(k % 7) + 1];
const groupDash = (k) => DASH[(k + Math.floor(k / 7)) % 4];

// The key as toggle buttons: each hides or shows one group.
function switches(figure, labels, more = "") {
  const box = figure.element.querySelector(".key"), out = (figure.out = figure.out || new Set());
  box.innerHTML = labels.map((label, k) => `<button type="button" aria-pressed="${!out.has(label)}" data-k="${k}">${dashMark(k)}${escaped(label)}</button>`).join("") + more;
  box.querySelectorAll("button").forEach((b) => b.addEventListener("click", () => {
    const label = labels[+b.dataset.k];
    if (out.has(label)) out.delete(label); else out.add(label);
    show(figure);
    figure.element.querySelector(`.key button[data-k="${b.dataset.k}"]`).focus();
  }));
}
function dashMark(k) {
  const dash = groupDash(k);
  return `<svg width="26" height="8" aria-hidden="true" style="margin-right:.4rem"><line x1="0" y1="4" x2="26" y2="4" stroke="${groupColour(k)}" stroke-width="2.5" stroke-dasharray="${dash === "solid" ? "" : dash.join(" ")}"/></svg>`;
}

// How values of an overlay are printed: by the unit of its vertical axis.
function overlayReader(figure) { return (v) => (figure.y.unit.endsWith("W") ? watts(v) : figure.y.unit === "%" ? `${figures(100 * v)} %` : figures(v)); }

kinds.overlay = (figure) => {
  const c = figure.columns, { groups } = figure.extra, sx = figure.x.scale, sy = figure.y.scale, option = base(), series = [], rules = {};
  for (const name of Object.keys(c)) if (name !== "time_s") rules[name] = name.startsWith("low") ? least : name.startsWith("high") ? greatest : name.startsWith("cap") ? least : mean;
  switches(figure, groups.map((g) => g.label), groups.some((g) => g.cap) ? `<span>${mark(colours.ink, "dash")}cap</span>` : "");
  const seen = groups.map((g, k) => [g, k]).filter(([g]) => !figure.out.has(g.label)), caps = new Set(seen.map(([g]) => g.cap).filter(Boolean));
  for (const [g, k] of seen) {
    series.push(unseen(figure, g.seeds > 1 ? `high_${k}` : `mean_${k}`, sy));
    if (g.seeds > 1) series.push(stepped(figure, g.label, fade(groupColour(k), .13), (m, i) => m[`low_${k}`][i] / sy, (m, i) => m[`high_${k}`][i] / sy, rules));
    const line = stepped(figure, g.label, groupColour(k), null, (m, i) => m[`mean_${k}`][i] / sy, rules, {}, 1.6);
    const draw = line.renderItem;
    line.renderItem = (params, api) => { const shape = draw(params, api); shape.style.lineDash = groupDash(k) === "solid" ? null : groupDash(k); return shape; };
    series.push(line);
  }
  for (const name of caps) series.push(capLine({ time_s: c.time_s, cap_w: c[name] }, figure.extra.end_s, sx, sy));
  const read = overlayReader(figure);
  option.tooltip.formatter = (hits) => { const i = rowAt(c.time_s, hits[0].axisValue * sx); return tip(moment(c.time_s[i], figure), seen.map(([g, k]) => [g.label, read(c[`mean_${k}`][i])])); };
  return { ...option, xAxis: timeAxis(figure), yAxis: vertical(figure.y, { min: 0, ...(figure.y.unit === "%" ? { max: 100 } : {}) }), dataZoom: zoomers(), series };
};

kinds.cdfs = (figure) => {
  const c = figure.columns, { labels, column } = figure.extra, time = column.endsWith("_s"), read = time ? span : (v) => figures(v), option = base();
  switches(figure, labels);
  const seen = labels.map((label, k) => [label, k]).filter(([label]) => !figure.out.has(label)), curves = labels.map((_, k) => Array.from(c[`${column}_${k}`], (v) => Math.max(Number.isFinite(v) ? v : 1, 1)));
  option.tooltip.formatter = (hits) => tip(`at most ${read(hits[0].axisValue)}`, seen.map(([label, k]) => [label, `${figures(100 * c.share[rowAt(curves[k], hits[0].axisValue * (1 + 1e-9))])} %`]));
  return {
    ...option, xAxis: logarithmic(figure, Math.max(...curves.map((v) => v[v.length - 1])), time), yAxis: vertical(figure.y, { min: 0, max: 100, interval: 25 }),
    series: seen.map(([label, k]) => ({ name: label, type: "line", data: curves[k].map((v, i) => [v, 100 * c.share[i]]), symbol: "none", lineStyle: { color: groupColour(k), width: 2, type: groupDash(k) }, emphasis: { disabled: true } })),
  };
};

kinds.pareto = (figure) => {
  const c = figure.columns, sx = figure.x.scale, sy = figure.y.scale, option = base(), n = c.group.length, rows = c.group.map((_, i) => i);
  key(figure, c.undominated.filter((on) => on).length > 1 ? [["front", colours.faint, "dash"]] : []);
  const far = (v, half) => [Math.min(...rows.map((i) => v[i] - half[i])), Math.max(...rows.map((i) => v[i] + half[i]))];
  const room = ([low, high]) => { const gap = Math.max((high - low) * .16, high * .01); return [Math.max(0, low - gap), high + gap]; };
  const [x0, x1] = room(far(c.turnaround_s, c.turnaround_half_s)), reach = far(c.machine_energy_j, c.machine_energy_half_j), foot = amountFoot(reach, figure.y), y0 = (foot.min ?? reach[0] / sy) * sy, y1 = (foot.max ?? roundUp(reach[1] * 1.04 / sy)) * sy;
  const front = rows.filter((i) => c.undominated[i]).sort((a, b) => c.turnaround_s[a] - c.turnaround_s[b]);
  option.tooltip = { ...option.tooltip, trigger: "item", formatter: (hit) => { const i = hit.dataIndex, pm = (half, read) => (half ? ` ± ${read(half)}` : ""); return tip(c.group[i], [["turnaround time, mean", span(c.turnaround_s[i]) + pm(c.turnaround_half_s[i], span)], ["energy", si(c.machine_energy_j[i] / 3600, "Wh") + pm(c.machine_energy_half_j[i], (v) => si(v / 3600, "Wh"))]]); } };
  return {
    ...option, xAxis: axis(figure.x, { min: x0 / sx, max: x1 / sx, axisLabel: plainEnds({ showMinLabel: false }), splitNumber: SMALL() ? 4 : 6 }), yAxis: vertical({ label: foot.name || figure.y.label }, { min: y0 / sy, max: y1 / sy, splitLine: openTop() }),
    series: [
      { name: "front", type: "line", data: front.map((i) => [c.turnaround_s[i] / sx, c.machine_energy_j[i] / sy]), symbol: "none", silent: true, lineStyle: { color: colours.faint, width: 1.2, type: [5, 4] }, tooltip: { show: false }, z: 1 },
      { name: "runs", type: "scatter", silent: true, symbolSize: 5, data: figure.extra.runs.map(([k, x, y]) => ({ value: [x / sx, y / sy], itemStyle: { color: groupColour(k), opacity: .35 } })), tooltip: { show: false } },
      { name: "intervals", type: "custom", silent: true, clip: true, data: rows.map((i) => [c.turnaround_s[i] / sx, c.machine_energy_j[i] / sy, c.turnaround_half_s[i] / sx, c.machine_energy_half_j[i] / sy]), renderItem: errorBars },
      { name: "groups", type: "scatter", symbolSize: 13, z: 5, labelLayout: placeNames(figure, rows.map((i) => [c.turnaround_s[i] / sx, c.machine_energy_j[i] / sy])), labelLine: { show: true, lineStyle: { color: colours.faint, width: 1 } },
        data: rows.map((i) => ({ value: [c.turnaround_s[i] / sx, c.machine_energy_j[i] / sy], name: c.group[i], itemStyle: { color: groupColour(i), borderColor: colours.paper, borderWidth: 1.5 }, symbol: ["circle", "rect", "triangle", "diamond"][i % 4] })),
        label: { show: true, formatter: "{b}", color: colours.ink, fontSize: 12, distance: 9, textBorderColor: colours.paper, textBorderWidth: 3, width: SMALL() ? 120 : 260, overflow: "truncate" } },
    ],
  };
};
// The end of an axis of amounts: a round value at or above all that is drawn, intervals included.
function roundUp(value) { const step = 10 ** Math.floor(Math.log10(value)) / 5; return Math.ceil(value / step) * step; }
function errorBars(params, api) {
  const [x, y, dx, dy] = [0, 1, 2, 3].map((k) => api.value(k)), style = { stroke: `rgb(${groupRgb(params.dataIndex)})`, lineWidth: 1.4 }, lines = [];
  const line = (a, b) => { const p = api.coord(a), q = api.coord(b); lines.push({ type: "line", shape: { x1: p[0], y1: p[1], x2: q[0], y2: q[1] }, style }); };
  if (dx) line([x - dx, y], [x + dx, y]);
  if (dy) line([x, y - dy], [x, y + dy]);
  return { type: "group", children: lines };
}
function groupRgb(k) { return rgb(groupColour(k)).join(","); }
