"use strict";
// draws the chart of every series that comes into view
const style = getComputedStyle(document.documentElement);
const colour = (name) => style.getPropertyValue("--" + name).trim();

function draw(section) {
  const data = JSON.parse(section.querySelector("script[type='application/json']").textContent);
  const place = section.querySelector(".chart");
  const colours = { baseline: colour("baseline"), candidate: colour("candidate"), ratio: colour("dim") };
  const traces = data.lines.filter((line) => line.y.length).map((line) => ({
    x: line.x, y: line.y, name: line.name, text: line.text, customdata: line.page,
    yaxis: line.side === "ratio" ? "y2" : "y", mode: "lines+markers",
    line: { color: colours[line.side], width: line.side === "ratio" ? 1 : 2, dash: line.side === "ratio" ? "dot" : "solid" },
    marker: { size: 5, symbol: line.alone.map((alone) => (alone ? "x" : "circle")) },
    hovertemplate: "%{x|%Y-%m-%d %H:%M}<br>%{y:.5g}<br>%{text}<extra>" + line.name + "</extra>",
  }));
  const shapes = data.lines.flatMap((line) => line.changes.map((change) => ({
    type: "line", xref: "x", yref: "paper", x0: change.x, x1: change.x, y0: 0, y1: 1,
    line: { color: colour(change.word), width: 1.5, dash: line.side === "ratio" ? "dot" : "solid" },
  })));
  const grid = colour("line");
  Plotly.newPlot(place, traces, {
    margin: { l: 60, r: 60, t: 8, b: 36 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("ink"), size: 12 }, shapes, legend: { orientation: "h", y: 1.15 },
    xaxis: { gridcolor: grid, type: "date" }, yaxis: { gridcolor: grid, title: { text: data.unit } },
    yaxis2: { overlaying: "y", side: "right", showgrid: false, title: { text: "ratio" } },
  }, { displayModeBar: false, responsive: true });
  place.on("plotly_click", (event) => {
    const page = event.points[0].customdata;
    if (page) location.href = page;
  });
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
}, { rootMargin: "300px" });
for (const section of document.querySelectorAll(".series")) seen.observe(section);
