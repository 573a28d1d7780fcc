"use strict";
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
