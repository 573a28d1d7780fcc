"use strict";
// Box plots, one row per name: box from first to third quartile, whiskers as given by the columns.
kinds.boxes = (figure) => {
  const c = figure.columns, option = base(), n = c.name.length, unit = figure.x.unit, s = figure.x.scale, most = SMALL() ? 16 : 30, short = (t) => (t.length > most ? t.slice(0, most / 2 - 1) + "…" + t.slice(-most / 2) : t);  // names differ at their ends
  const read = (v) => `${figures(v / s)} ${unit}`, at = (i) => n - 1 - i, whiskers = figure.extra.whiskers, mark = figure.heads.published;
  const items = [["median", colours.blue, "line"], ["mean", colours.ink, "diamond"]];
  if (c.published) items.push([mark, colours.red, "triangle"]);
  key(figure, items, `<span>${escaped(whiskers)}</span>`);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  option.grid.left = Math.max(SMALL() ? 64 : 150, 14 + Math.max(...c.name.map((t) => pen.measureText(short(t)).width)));
  option.tooltip = { ...option.tooltip, axisPointer: { type: "shadow", shadowStyle: { color: fade(colours.blue, .08) } }, formatter: (hits) => {
    const i = at(hits[0].dataIndex), rows = [["median", read(c.median[i])], ["mean", read(c.mean[i])], ["quartiles", `${figures(c.q1[i] / s)} to ${read(c.q3[i])}`], ["whiskers", `${figures(c.low[i] / s)} to ${read(c.high[i])}`]];
    if (c.published && c.published[i] != null) rows.push([mark, read(c.published[i])]);
    return tip(c.name[i], rows);
  } };
  const row = (f) => Array.from({ length: n }, (_, k) => f(at(k))), dot = (name, column, colour, symbol) => ({ name, type: "scatter", data: row((i) => [column[i] == null ? null : column[i] / s, at(i)]), symbol, symbolSize: 9, z: 6, itemStyle: { color: colour, borderColor: colours.paper, borderWidth: 1 }, emphasis: { disabled: true } });
  const series = [{ name: "users", type: "boxplot", layout: "vertical", boxWidth: [8, 26], data: row((i) => [c.low[i], c.q1[i], c.median[i], c.q3[i], c.high[i]].map((v) => v / s)), itemStyle: { color: fade(colours.blue, .16), borderColor: colours.blue, borderWidth: 1.6 }, emphasis: { disabled: true } }];
  series.push(dot("mean", c.mean, colours.ink, "diamond"));
  if (c.published) series.push(dot(mark, c.published, colours.red, "triangle"));
  return {
    ...option, series, xAxis: axis(figure.x, { splitNumber: SMALL() ? 3 : 6, nameTextStyle: { color: colours.soft, fontSize: 12.5, padding: [0, SMALL() ? option.grid.left : 0, 0, 0] }, min: figure.extra.from_zero ? 0 : undefined, splitLine: { show: true, lineStyle: { color: colours.rule } }, axisLine: { show: false }, axisTick: { show: false } }),
    yAxis: { ...vertical(figure.y), type: "category", data: row((i) => c.name[i]), nameTextStyle: { color: colours.soft, fontSize: 12.5, align: "right", padding: [0, 8, 0, 0] }, splitLine: { show: false }, axisLabel: { color: colours.soft, formatter: short, interval: 0 } },
  };
};
