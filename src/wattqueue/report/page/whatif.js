"use strict";
// What a cap does: a figure against the cap, extra waiting by hour, who pays.
const CAP_READERS = {
  span, number: (v) => figures(v), percent: (v) => `${figures(100 * v, 2)} %`, energy: (v) => si(v / 3600, "Wh"),
};
kinds.capcurve = (figure) => {
  const c = figure.columns, { labels, texts, plain, lost, marks, limit, limit_name: limitName, reads, unit, divide, zero } = figure.extra, option = base(), sx = figure.x.scale, sy = figure.y.scale, n = c.cap_w.length;
  const read = CAP_READERS[reads] || ((v) => `${figures(v / (divide || 1), 4)} ${unit}`);
  const extraKey = (plain ? `<span>${mark(colours.faint, "dash")}without a cap</span>` : "") + (c.upper_0 ? `<span>${mark(fade(groupColour(0), .18), "box")}to the upper bound (95 %)</span>` : "") + (limit == null ? "" : `<span>${mark(colours.red, "dash")}${escaped(limitName)}</span>`);
  switches(figure, labels, extraKey);
  const seen = labels.map((label, k) => [label, k]).filter(([label]) => !figure.out.has(label)), series = [];
  const line = (y, colour, name) => ({ name, type: "line", silent: true, symbol: "none", tooltip: { show: false }, lineStyle: { color: colour, width: 1.2, type: [5, 4] }, data: [[c.cap_w[0] / sx, y / sy], [c.cap_w[n - 1] / sx, y / sy]], z: 1 });
  for (const [label, k] of seen) {
    const values = c[`value_${k}`], colour = groupColour(k), upper = c[`upper_${k}`];
    if (upper) series.push({ name: label, type: "custom", silent: true, clip: true, tooltip: { show: false }, data: [[c.cap_w[0] / sx, 0]], encode: { x: 0, y: 1 }, renderItem(params, api) {
      const at = (i, v) => api.coord([c.cap_w[i] / sx, v / sy]), rows = [...Array(n).keys()];
      return { type: "polygon", shape: { points: [...rows.map((i) => at(i, upper[i])), ...rows.reverse().map((i) => at(i, values[i]))] }, style: { fill: fade(colour, .16) } };
    } });
    if (plain && plain[k] != null && Number.isFinite(plain[k])) series.push(line(plain[k], seen.length > 1 ? colour : colours.faint, `${label} without a cap`));
    series.push({
      name: label, type: "line", symbol: "circle", symbolSize: 8, z: 4, lineStyle: { color: colour, width: 2.2, type: groupDash(k) }, emphasis: { disabled: true },
      data: Array.from(values, (v, i) => ({ value: [c.cap_w[i] / sx, v == null ? null : v / sy], itemStyle: { color: lost[k][i] ? colours.paper : colour, borderColor: colour, borderWidth: 2 } })),
    });
  }
  for (const what of ["knee", "lowest safe"]) {
    const points = marks.filter(([k, , word]) => word === what && seen.some(([, s]) => s === k));
    if (points.length) series.push({
      name: what, type: "scatter", silent: true, z: 6, symbol: what === "knee" ? "diamond" : "pin", symbolSize: what === "knee" ? 17 : 26, symbolOffset: what === "knee" ? 0 : [0, "-20%"], tooltip: { show: false },
      data: points.map(([k, i]) => ({ value: [c.cap_w[i] / sx, c[`value_${k}`][i] / sy], itemStyle: { color: what === "knee" ? colours.orange : colours.green, borderColor: colours.paper, borderWidth: 1.5 }, label: i ? {} : { position: "right" } })),
      label: { show: true, position: "top", distance: what === "knee" ? 6 : 14, formatter: what, color: colours.ink, fontSize: 12, textBorderColor: colours.paper, textBorderWidth: 3 }, labelLayout: { moveOverlap: "shiftY" },
    });
  }
  if (limit != null) series.push(line(limit, colours.red, limitName));
  option.tooltip.formatter = (hits) => {
    let i = 0;
    for (let j = 1; j < n; j++) if (Math.abs(c.cap_w[j] / sx - hits[0].axisValue) < Math.abs(c.cap_w[i] / sx - hits[0].axisValue)) i = j;
    const rows = [];
    for (const [label, k] of seen) {
      rows.push([label, read(c[`value_${k}`][i])]);
      if (c[`upper_${k}`]) rows.push(["upper bound", read(c[`upper_${k}`][i])]);
      if (lost[k][i]) rows.push(["jobs that never start", lost[k][i].toLocaleString("en")]);
      if (plain && seen.length === 1) rows.push(["without a cap", read(plain[k])]);
    }
    return tip(texts[i].endsWith("W") ? texts[i] : `${texts[i]} · ${watts(c.cap_w[i])}`, rows);
  };
  option.grid.top = 42;
  const span_ = c.cap_w[n - 1] - c.cap_w[0] || c.cap_w[0] * .1, room = span_ * .05, uppers = seen.flatMap(([, k]) => Array.from(c[`upper_${k}`] || [])), top = uppers.length ? Math.min(Math.max(...uppers, limit || 0) * 1.08 / sy, 100) : undefined;
  return {
    ...option, series, xAxis: axis(figure.x, { min: (c.cap_w[0] - room) / sx, max: (c.cap_w[n - 1] + room) / sx, axisLabel: plainEnds({ showMinLabel: false }) }),
    yAxis: vertical(figure.y, { min: zero || uppers.length ? 0 : undefined, max: top, scale: reads === "amount", nameGap: 22, axisLabel: plainEnds({ showMaxLabel: !uppers.length }) }),
  };
};
kinds["capcurve-small"] = kinds.capcurve;

kinds.hours = (figure) => {
  const c = figure.columns, { worst, dates } = figure.extra, sx = figure.x.scale, sy = figure.y.scale, option = base(), n = c.time_s.length;
  key(figure, [["submitted in this hour", colours.blue, "box"], ["the worst hours", colours.red, "box"]]);
  const bad = new Map(worst.map((t, i) => [t, i]));
  option.tooltip.formatter = (hits) => {
    const i = rowAt(c.time_s, hits[0].axisValue * sx), rank = bad.get(c.time_s[i]);
    return tip(rank === undefined ? moment(c.time_s[i]) : `${dates[rank]} (worst ${rank + 1})`, [["extra waiting", `${figures(c.wait_node_h[i], 4)} node-hours`]]);
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

kinds.payers = (figure) => {
  const c = figure.columns, option = base(), s = figure.x.scale, n = c.name.length, at = (i) => n - 1 - i, short = (t) => (t.length > 14 ? t.slice(0, 13) + "…" : t), row = (f) => Array.from({ length: n }, (_, k) => f(at(k)));
  key(figure, [["share of the extra waiting", colours.blue, "box"], ["share of the work", colours.grey, "box"]]);
  option.grid.left = SMALL() ? 84 : 112;
  option.tooltip = { ...option.tooltip, axisPointer: { type: "shadow", shadowStyle: { color: fade(colours.blue, .08) } }, formatter: (hits) => {
    const i = at(hits[0].dataIndex), w = c.extra_wait_s[i];
    return tip(c.name[i], [["share of the extra waiting", `${figures(100 * c.share[i])} %`], ["share of the work", `${figures(100 * c.work_share[i])} %`], ["mean extra wait of a job", (w < 0 ? "−" : "") + span(Math.abs(w))], ["extra node-hours of wait", figures(c.wait_node_h[i], 4)], ["jobs", c.jobs[i].toLocaleString("en")]]);
  } };
  const bar = (column, colour, width) => ({ type: "bar", data: row((i) => c[column][i] / s), barMaxWidth: width, barGap: "12%", itemStyle: { color: colour, borderRadius: [0, 3, 3, 0] }, emphasis: { disabled: true } });
  return {
    ...option, xAxis: axis(figure.x, { splitNumber: 5, splitLine: { show: true, lineStyle: { color: colours.rule } }, axisLine: { show: false }, axisTick: { show: false } }),
    yAxis: { ...vertical(figure.y), type: "category", data: row((i) => c.name[i]), nameTextStyle: { color: colours.soft, fontSize: 12.5, align: "right", padding: [0, 8, 0, 0] }, splitLine: { show: false }, axisLabel: { color: colours.soft, formatter: short, interval: 0 } },
    series: [bar("work_share", colours.grey, 7), bar("share", colours.blue, 11)],
  };
};
