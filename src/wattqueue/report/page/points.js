"use strict";
// Layout of the names of points: each takes the first free place around its point, further out with a line to it, over
// no other name and no other point. `at` are the points in the units of the axes; a name without a free place is left to
// the tooltip. ECharts calls it for one name after another, in their order.
const STEPS = [0, 15, 30, 45, 60, 75, 90, 105, 120, 135];
function placeNames(figure, at) {
  let taken = [], last = Infinity;
  return ({ dataIndex: i, labelRect: { width, height } }) => {
    const { chart } = state.charts[figure.key], [right, bottom] = [chart.getWidth() - 2, chart.getHeight() - 40], pixels = at.map((each) => chart.convertToPixel({ gridIndex: 0 }, each)), [x, y] = pixels[i];
    if (i <= last) taken = pixels.map(([a, b]) => [a - 7, b - 7, a + 7, b + 7]);
    last = i;
    const free = ([a, b, c, d]) => a >= 2 && b >= 2 && c <= right && d <= bottom && !taken.some(([e, f, g, h]) => a < g && e < c && b < h && f < d);
    for (const step of STEPS) for (const up of [-1, 1]) for (const side of [1, -1]) {
      const left = side > 0 ? x + 8 : x - 8 - width, top = up < 0 ? y - height - 1 - step : y + 1 + step, box = [left, top, left + width, top + height];
      if (!free(box)) continue;
      taken.push(box);
      const end = [side > 0 ? left : left + width, top + height / 2];
      return { x: left, y: top, align: "left", verticalAlign: "top", labelLinePoints: step ? [[x, y], end, end] : [end, end, end] };
    }
    return { x: -9999, y: -9999 };
  };
}
// Named points, joined by a line within each family.
kinds.points = (figure) => {
  const c = figure.columns, { families } = figure.extra, sx = figure.x.scale, sy = figure.y.scale, option = base();
  switches(figure, families);
  option.tooltip = { ...option.tooltip, trigger: "item", formatter: (hit) => tip(c.name[hit.data.row], [[figure.x.name, `${figures(c.x[hit.data.row])} ${figure.x.unit}`], [figure.y.name, `${figures(c.y[hit.data.row])} ${figure.y.unit}`]]) };
  const rows = Array.from(c.name, (_, i) => i), symbols = ["circle", "rect", "triangle", "diamond"];
  const line = (name, k) => ({ name, type: "line", symbol: symbols[k % 4], symbolSize: 9, lineStyle: { color: groupColour(k), width: 1.6, type: groupDash(k) }, itemStyle: { color: groupColour(k), borderColor: colours.paper, borderWidth: 1 }, data: rows.filter((i) => c.family[i] === k).map((row) => ({ value: [c.x[row] / sx, c.y[row] / sy], row })) });
  return {
    ...option, xAxis: axis(figure.x, { min: 0, splitLine: { show: true, lineStyle: { color: colours.rule } } }), yAxis: vertical(figure.y, { min: 0 }),
    series: families.map(line).filter((_, k) => !figure.out.has(families[k])),
  };
};

// Means with their intervals as bands, one line a label, against a line at 0 that has a name.
kinds.gains = (figure) => {
  const c = figure.columns, { labels, zero } = figure.extra, sx = figure.x.scale, sy = figure.y.scale, option = base(), rows = [...c.rate.keys()];
  switches(figure, labels, `<span>${mark(colours.ink, "dash")}${escaped(zero)}</span>`);
  const seen = labels.map((label, k) => [label, k]).filter(([label]) => !figure.out.has(label)), read = (v) => `${figures(v / sy, 4)} ${figure.y.unit}`;
  const band = ([name, k]) => ({ name, type: "custom", silent: true, clip: true, z: 2, tooltip: { show: false }, data: [[c.rate[0] / sx, 0]], encode: { x: 0, y: 1 }, renderItem(params, api) {
    const at = (column) => (i) => api.coord([c.rate[i] / sx, c[column][i] / sy]);
    return { type: "polygon", shape: { points: [...rows.map(at(`high_${k}`)), ...rows.toReversed().map(at(`low_${k}`))] }, style: { fill: fade(groupColour(k), .16) } };
  } });
  const line = ([name, k]) => ({ name, type: "line", symbol: "circle", symbolSize: 8, z: 4, lineStyle: { color: groupColour(k), width: 2.2, type: groupDash(k) }, itemStyle: { color: groupColour(k) }, emphasis: { disabled: true }, data: rows.map((i) => [c.rate[i] / sx, c[`value_${k}`][i] / sy]) });
  const shown = seen.flatMap(([, k]) => [...c[`low_${k}`], ...c[`high_${k}`]]).concat(0), room = (Math.max(...shown) - Math.min(...shown)) * .08 || sy;
  const level = { name: zero, type: "line", silent: true, symbol: "none", z: 1, tooltip: { show: false }, lineStyle: { color: colours.ink, width: 1.2, type: [5, 4] }, data: [[c.rate[0] / sx, 0], [c.rate[rows.length - 1] / sx, 0]] };
  option.tooltip.formatter = (hits) => {
    const i = rowAt(Array.from(c.rate, (v) => v / sx - 1e-9), hits[0].axisValue);
    return tip(`${figures(c.rate[i])} ${figure.x.label}`, seen.map(([name, k]) => [name, `${read(c[`value_${k}`][i])} (${read(c[`low_${k}`][i])} to ${read(c[`high_${k}`][i])})`]));
  };
  return {
    ...option, xAxis: axis(figure.x, { axisLabel: plainEnds({ showMaxLabel: true }) }), yAxis: vertical(figure.y, { min: (Math.min(...shown) - room) / sy, max: (Math.max(...shown) + room) / sy, splitLine: openTop(), axisLabel: plainEnds({ showMinLabel: false }) }),
    series: [level, ...seen.map(band), ...seen.map(line)],
  };
};
