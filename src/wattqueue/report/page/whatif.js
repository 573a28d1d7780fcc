"use strict";
// Figures of whatif: values against the cap, additional waiting by hour, additional waiting by user.
const CAP_READERS = {
  span, number: (v) => figures(v), percent: (v) => `${figures(100 * v, 2)} %`, energy: (v) => si(v / 3600, "Wh"),
};
// How values of a figure against the cap are printed; amounts (money, emission) in their own unit.
function capReader(figure) {
  const { reads, unit, divide } = figure.extra;
  return CAP_READERS[reads] || ((v) => `${figures(v / (divide || 1), 4)} ${unit}`);
}
kinds.capcurve = (figure) => {
  const c = figure.columns, { labels, texts, plain, recorded, never_ran: neverRan, marks, limit, limit_name: limitName, amount, log, reads } = figure.extra, option = base(), sx = figure.x.scale, sy = figure.y.scale, n = c.cap_w.length;
  const read = capReader(figure), drawn = (v) => (v == null ? null : (log ? Math.max(v, 1) : v) / sy); // logarithmic axes begin at 1 or above
  const marked = (word, shape, colour) => (marks.some(([, , name]) => name === word) ? `<span>${mark(colour, shape)}${word}</span>` : "");
  const extraKey = marked("knee", "diamond", colours.orange) + marked("lowest safe", "pin", colours.green) + (recorded == null ? "" : `<span>${mark(colours.purple, "dash")}recorded in the trace</span>`) + (plain ? `<span>${mark(colours.faint, "dash")}without a cap</span>` : "") + (c.upper_0 ? `<span>${mark(fade(groupColour(0), .18), "box")}to the upper bound (95 %)</span>` : "") + (limit == null ? "" : `<span>${mark(colours.red, "dash")}${escaped(limitName)}</span>`);
  switches(figure, labels, extraKey);
  const seen = labels.map((label, k) => [label, k]).filter(([label]) => !figure.out.has(label)), series = [];
  const line = (y, colour, name) => ({ name, type: "line", silent: true, symbol: "none", tooltip: { show: false }, lineStyle: { color: colour, width: 1.2, type: [5, 4] }, data: [[c.cap_w[0] / sx, drawn(y)], [c.cap_w[n - 1] / sx, drawn(y)]], z: 1 });
  for (const [label, k] of seen) {
    const values = c[`value_${k}`], colour = groupColour(k), upper = c[`upper_${k}`];
    if (upper) series.push({ name: label, type: "custom", silent: true, clip: true, tooltip: { show: false }, data: [[c.cap_w[0] / sx, 0]], encode: { x: 0, y: 1 }, renderItem(params, api) {
      const at = (i, v) => api.coord([c.cap_w[i] / sx, v / sy]), rows = [...Array(n).keys()];
      return { type: "polygon", shape: { points: [...rows.map((i) => at(i, upper[i])), ...rows.reverse().map((i) => at(i, values[i]))] }, style: { fill: fade(colour, .16) } };
    } });
    if (plain && plain[k] != null && Number.isFinite(plain[k])) series.push(line(plain[k], seen.length > 1 ? colour : colours.faint, `${label} without a cap`));
    series.push({
      name: label, type: "line", symbol: "circle", symbolSize: 8, z: 4, lineStyle: { color: colour, width: 2.2, type: groupDash(k) }, emphasis: { disabled: true },
      data: Array.from(values, (v, i) => ({ value: [c.cap_w[i] / sx, drawn(v)], itemStyle: { color: neverRan[k][i] ? colours.paper : colour, borderColor: colour, borderWidth: 2 } })),
    });
  }
  for (const what of ["knee", "lowest safe"]) {
    const points = marks.filter(([k, , word]) => word === what && seen.some(([, s]) => s === k));
    if (points.length) series.push({
      name: what, type: "scatter", silent: true, z: 6, symbol: what === "knee" ? "diamond" : "pin", symbolSize: what === "knee" ? 17 : 26, symbolOffset: what === "knee" ? 0 : [0, "-20%"], tooltip: { show: false },
      data: points.map(([k, i]) => ({ value: [c.cap_w[i] / sx, drawn(c[`value_${k}`][i])], itemStyle: { color: what === "knee" ? colours.orange : colours.green, borderColor: colours.paper, borderWidth: 1.5 } })),
    });
  }
  if (limit != null) series.push(line(limit, colours.red, limitName));
  if (recorded != null) series.push(line(recorded, colours.purple, "recorded in the trace"));
  option.tooltip.formatter = (hits) => {
    let i = 0;
    for (let j = 1; j < n; j++) if (Math.abs(c.cap_w[j] / sx - hits[0].axisValue) < Math.abs(c.cap_w[i] / sx - hits[0].axisValue)) i = j;
    const rows = [];
    for (const [label, k] of seen) {
      rows.push([label, read(c[`value_${k}`][i])]);
      if (c[`upper_${k}`]) rows.push(["upper bound", read(c[`upper_${k}`][i])]);
      if (neverRan[k][i]) rows.push(["jobs that never ran", neverRan[k][i].toLocaleString("en")]);
      if (plain && seen.length === 1) rows.push(["without a cap", read(plain[k])]);
    }
    if (recorded != null) rows.push(["recorded in the trace", read(recorded)]);
    return tip(texts[i].endsWith("W") ? texts[i] : `${texts[i]} · ${watts(c.cap_w[i])}`, rows);
  };
  option.grid.top = 42;
  const span_ = c.cap_w[n - 1] - c.cap_w[0] || c.cap_w[0] * .1, room = span_ * .05, uppers = seen.flatMap(([, k]) => Array.from(c[`upper_${k}`] || [])), top = uppers.length ? Math.min(Math.max(...uppers, limit || 0) * 1.16 / sy, 100) : undefined;
  const shown = [...seen.flatMap(([, k]) => [...c[`value_${k}`], plain ? plain[k] : null]), recorded].filter(Number.isFinite), foot = log ? logFoot(shown, sy, reads === "span") : amount ? amountFoot(shown, figure.y) : { min: uppers.length ? 0 : undefined };
  const label = foot.name ? { label: foot.name } : figure.y;
  for (const tick of foot.ticks || []) series.unshift({ type: "line", silent: true, symbol: "none", tooltip: { show: false }, lineStyle: { color: colours.rule, width: 1 }, z: 0, data: [[(c.cap_w[0] - room) / sx, tick], [(c.cap_w[n - 1] + room) / sx, tick]] });
  return {
    ...option, series, xAxis: axis(figure.x, { min: (c.cap_w[0] - room) / sx, max: (c.cap_w[n - 1] + room) / sx, axisLabel: plainEnds({ showMinLabel: false }) }),
    yAxis: vertical(label, { max: top, nameGap: 22, axisLabel: plainEnds({ showMaxLabel: !uppers.length }), ...foot, name: log && reads === "span" ? label.label.replace(/ \(\w+\)$/, "") : label.label }),
  };
};
// A logarithmic axis from below the smallest to above the largest value; durations have ticks at 1 s, 10 s, 1 min, ...
function logFoot(values, scale, time) {
  const low = Math.max(Math.min(...values), 1), high = Math.max(...values, 1);
  if (!time) return { type: "log", min: logFloor(low / scale), minorTick: { show: false }, axisLabel: { color: colours.soft, formatter: (v) => (v >= 1e4 ? `${figures(v / 1e3)}k` : figures(v)) } };
  const below = SPANS.filter(([s]) => s <= low), from = below.length ? below[below.length - 1][0] : 1, ticks = SPANS.filter(([s]) => s >= from && s <= high * 1.3), names = new Map(ticks.map(([s, name]) => [(s / scale).toPrecision(8), name])), values_ = ticks.map(([s]) => s / scale);
  return { ticks: values_, type: "log", min: from / scale, max: (high * 1.6) / scale, axisTick: { show: false, customValues: values_ }, axisLabel: { color: colours.soft, customValues: values_, formatter: (v) => names.get(v.toPrecision(8)) || "" }, splitLine: { show: false } };
}
kinds["capcurve-small"] = kinds.capcurve;

kinds.hours = (figure) => {
  const c = figure.columns, { worst } = figure.extra, sx = figure.x.scale, sy = figure.y.scale, option = base(), n = c.time_s.length;
  key(figure, [["jobs submitted in this hour", colours.blue, "box"], ["worst hours", colours.red, "box"]]);
  const bad = new Map(worst.map((t, i) => [t, i]));
  option.tooltip.formatter = (hits) => {
    const i = rowAt(c.time_s, hits[0].axisValue * sx), rank = bad.get(c.time_s[i]);
    return tip(`${moment(c.time_s[i], figure)}${rank === undefined ? "" : ` (worst hour ${rank + 1})`}`, [["additional waiting", `${figures(c.wait_node_h[i], 4)} node-hours`]]);
  };
  const bars = (name, rows, colour, least, z) => ({
    name, type: "custom", clip: true, silent: true, z, tooltip: { show: false }, encode: { x: -1, y: -1 }, data: rows.map((i) => [i]),
    renderItem(params, api) {
      const i = api.value(0), a = api.coord([c.time_s[i] / sx, Math.max(c.wait_node_h[i], 0) / sy]), b = api.coord([(c.time_s[i] + 3600) / sx, Math.min(c.wait_node_h[i], 0) / sy]);
      return { type: "rect", shape: { x: a[0], y: a[1], width: Math.max(b[0] - a[0], least), height: Math.max(b[1] - a[1], .5) }, style: { fill: colour } };
    },
  });
  const rows = [...Array(n).keys()], series = [
    unseen(figure, "wait_node_h", sy), bars("hours", rows.filter((i) => !bad.has(c.time_s[i])), fade(colours.blue, .75), .7, 2),
    bars("worst", rows.filter((i) => bad.has(c.time_s[i])), colours.red, 3, 4),
    { name: "ranks", type: "scatter", silent: true, symbolSize: 1, z: 6, tooltip: { show: false }, itemStyle: { color: "transparent" }, label: { show: true, position: "top", color: colours.ink, fontSize: 12, formatter: (p) => String(p.data.rank), textBorderColor: colours.paper, textBorderWidth: 3 }, labelLayout: { moveOverlap: "shiftX" },
      data: rows.filter((i) => bad.has(c.time_s[i])).map((i) => ({ value: [(c.time_s[i] + 1800) / sx, c.wait_node_h[i] / sy], rank: bad.get(c.time_s[i]) + 1 })) },
  ];
  option.grid.top = 38;
  return { ...option, series, xAxis: timeAxis(figure), yAxis: vertical(figure.y, { nameGap: 18 }), dataZoom: zoomers() };
};

kinds.delayed_users = (figure) => {
  const c = figure.columns, option = base(), s = figure.x.scale, n = c.name.length, at = (i) => n - 1 - i, short = (t) => (t.length > 14 ? t.slice(0, 13) + "…" : t), row = (f) => Array.from({ length: n }, (_, k) => f(at(k)));
  key(figure, [["share of the additional waiting", colours.blue, "box"], ["share of the work", colours.grey, "box"]]);
  option.grid.left = SMALL() ? 84 : 112;
  option.tooltip = { ...option.tooltip, axisPointer: { type: "shadow", shadowStyle: { color: fade(colours.blue, .08) } }, formatter: (hits) => {
    const i = at(hits[0].dataIndex), w = c.extra_wait_s[i];
    return tip(c.name[i], [["share of the additional waiting", `${figures(100 * c.share[i])} %`], ["share of the work", `${figures(100 * c.work_share[i])} %`], ["mean additional wait of a job", (w < 0 ? "−" : "") + span(Math.abs(w))], ["additional node-hours of wait", figures(c.wait_node_h[i], 4)], ["jobs", c.jobs[i].toLocaleString("en")]]);
  } };
  const bar = (column, colour, width) => ({ type: "bar", data: row((i) => c[column][i] / s), barMaxWidth: width, barGap: "12%", itemStyle: { color: colour, borderRadius: [0, 3, 3, 0] }, emphasis: { disabled: true } });
  return {
    ...option, xAxis: axis(figure.x, { splitNumber: 5, splitLine: { show: true, lineStyle: { color: colours.rule } }, axisLine: { show: false }, axisTick: { show: false } }),
    yAxis: { ...vertical(figure.y), type: "category", data: row((i) => c.name[i]), nameTextStyle: { color: colours.soft, fontSize: 12.5, align: "right", padding: [0, 8, 0, 0] }, splitLine: { show: false }, axisLabel: { color: colours.soft, formatter: short, interval: 0 } },
    series: [bar("work_share", colours.grey, 7), bar("share", colours.blue, 11)],
  };
};
