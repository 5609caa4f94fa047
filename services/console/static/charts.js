// Draws each chart of the page again with uPlot over the server's picture: the caption tells the figures where the
// pointer is, in all charts at once; dragging zooms, a double click goes back. The picture stays for who cannot see it.
"use strict";

const drawn = new Set();
const time = (seconds) => new Date(seconds * 1000).toISOString().slice(5, 16).replace("T", " ") + " UTC";

function draw(figure) {
  const told = JSON.parse(figure.dataset.chart), picture = figure.querySelector("svg");
  const colour = (name) => getComputedStyle(figure).getPropertyValue(name).trim();
  const weak = colour("--weak"), grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: weak, grid, ticks: { show: false }, font: "11px sans-serif" };
  const times = told.lines[0].values.map((_, step) => told.since + step * told.step);
  const size = () => ({ width: figure.clientWidth, height: 130 });
  const chart = new uPlot({
    ...size(),
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    legend: { show: false },
    cursor: { sync: { key: "charts" }, y: false, points: { size: 6 } },
    scales: { x: { time: true }, y: { range: [0, told.top] } },
    axes: [
      { ...axis, grid: { show: false }, size: 22, space: 90, values: (_, at) => at.map((each) => time(each).slice(6, 11)) },
      { ...axis, size: 52, splits: () => [0, told.top / 2, told.top], values: () => told.ticks },
    ],
    series: [{}, ...told.lines.map((line, number) => lineOf(line, colour(`--line-${number}`)))],
    hooks: { draw: [(plot) => drawMarks(plot, told, weak, colour("--bad"))], setCursor: [(plot) => read(plot, figure, told)],
      setScale: [(plot, key) => { if (key === "x") figure.classList.toggle("is-zoomed", plot.scales.x.min > times[0]
        || plot.scales.x.max < times[times.length - 1]); }] },
  }, [times, ...told.lines.map((line) => line.values)], figure);
  chart.root.setAttribute("aria-hidden", "true");
  picture.classList.add("unseen");
  const follows = new ResizeObserver(() => { if (figure.clientWidth) chart.setSize(size()); });
  follows.observe(figure);
  drawn.add({ figure, end: () => { follows.disconnect(); chart.destroy(); picture.classList.remove("unseen"); } });
}

// A line with few values would be hard to see without points.
function lineOf(line, stroke) {
  const known = line.values.filter((value) => value !== null).length;
  return { stroke, width: 2, points: { show: known < line.values.length / 6, size: 7, fill: stroke } };
}

function drawMarks(plot, told, weak, bad) {
  const { ctx, bbox } = plot, across = told.target === null ? [] : [plot.valToPos(told.target, "y", true)];
  ctx.save();
  ctx.beginPath(); ctx.strokeStyle = bad; ctx.setLineDash([6, 4]);
  for (const y of across) { ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); }
  ctx.stroke();
  ctx.beginPath(); ctx.strokeStyle = weak; ctx.setLineDash([2, 3]);
  for (const [at] of told.marks) {
    const x = plot.valToPos(Math.min(at, plot.data[0].at(-1)), "x", true);
    if (x >= bbox.left && x <= bbox.left + bbox.width) { ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); }
  }
  ctx.stroke();
  ctx.restore();
}

// What the caption says: at the pointer, or else the newest known figures.
function read(plot, figure, told) {
  const at = plot.cursor.idx, when = figure.querySelector(".when");
  const newest = (line) => line.values.findLastIndex((value) => value !== null);
  figure.querySelectorAll(".read").forEach((place, number) => {
    const line = told.lines[number], step = at == null ? newest(line) : at;
    place.textContent = step < 0 ? "–" : line.texts[step];
  });
  when.hidden = at == null;
  if (at == null) { when.textContent = ""; return; }
  const begins = told.since + at * told.step;
  const mark = told.marks.find(([moment]) => moment >= begins && moment < begins + told.step);
  when.textContent = time(begins) + (mark ? `: ${mark[1]}` : "");
}

function drawAll() {
  for (const each of drawn) if (!each.figure.isConnected) { each.end(); drawn.delete(each); }
  document.querySelectorAll("[data-chart]:not(:has(.uplot))").forEach(draw);
}

if (window.uPlot) {
  drawAll();
  addEventListener("htmx:oobAfterSwap", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const each of drawn) each.end();
    drawn.clear();
    drawAll();
  });
}
