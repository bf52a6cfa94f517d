"use strict";
// Draws the curves, filters the logs, and keeps what the reader chose in the address, so that it can be passed on.
(() => {
  const params = new URLSearchParams(location.search);
  const remember = (name, value) => {
    if (value) params.set(name, value); else params.delete(name);
    const query = params.toString();
    try { history.replaceState(null, "", (query ? "?" + query : location.pathname) + location.hash); }
    catch (error) { console.info("the address cannot be changed here", error.name); }
  };

  // ---- a line of a log, wherever it was asked for
  const show = (id) => {
    const line = id && document.getElementById(id);
    if (!line) return;
    const log = line.closest("details.log");
    if (log) log.open = true;
    line.hidden = false;
    line.scrollIntoView({ block: log ? "center" : "start", behavior: "instant" });
  };
  const here = () => decodeURIComponent(location.hash.slice(1));
  addEventListener("hashchange", () => show(here()));
  const goTo = (anchor) => { if (here() === anchor) show(anchor); else location.hash = anchor; };

  // ---- logs
  for (const log of document.querySelectorAll("details.log")) {
    const find = log.querySelector("[data-find]"), only = log.querySelector("[data-only]");
    const count = log.querySelector("[data-count]"), name = find.dataset.find;
    const lines = [...log.querySelectorAll(".lines > li:not(.skipped)")];
    const skipped = [...log.querySelectorAll(".lines > .skipped")];
    let texts = null;
    const filter = () => {
      const wanted = find.value.trim().toLowerCase();
      const filtered = wanted !== "" || only.checked;
      if (filtered && !texts) texts = lines.map((line) => line.querySelector("code").textContent.toLowerCase());
      let left = 0;
      lines.forEach((line, i) => {
        line.hidden = filtered && ((only.checked && !line.classList.contains("ref")) || !texts[i].includes(wanted));
        left += line.hidden ? 0 : 1;
      });
      for (const item of skipped) item.hidden = filtered;
      count.textContent = filtered ? `${left} of ${lines.length} lines` : "";
      remember(`find.${name}`, find.value.trim());
      remember(`only.${name}`, only.checked ? "1" : "");
    };
    find.value = params.get(`find.${name}`) || "";
    only.checked = params.get(`only.${name}`) === "1";
    if (find.value || only.checked) { log.open = true; filter(); }
    let timer = 0;
    find.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(filter, 120); });
    only.addEventListener("change", filter);
  }

  // ---- curves
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const traces = (figure) => {
    const runs = {};
    const lines = figure.traces.map((trace) => {
      const again = runs[trace.side] = (runs[trace.side] || 0) + 1;
      const few = trace.x.length <= 60;
      return {
        type: "scatter", mode: few ? "lines+markers" : "lines", name: `${trace.side}: ${trace.name}`,
        legendgroup: trace.side, showlegend: again === 1, x: trace.x, y: trace.y, connectgaps: false,
        customdata: trace.text.map((text, i) => [trace.line[i], text]),
        line: { color: colour(trace.side), width: again === 1 ? 2 : 1.25, dash: trace.side === "candidate" ? "dash" : "solid" },
        marker: { size: 6, symbol: trace.side === "candidate" ? "square" : "circle" },
        cliponaxis: false,
        hovertemplate: `${[...new Set([trace.name, trace.run])].join("<br>")}<br>step %{x}: <b>%{customdata[1]}</b> ${figure.unit}<extra></extra>`,
      };
    });
    const causes = [...new Set(figure.marks.map((mark) => mark.cause))];
    const marks = causes.map((cause) => {
      const here = figure.marks.filter((mark) => mark.cause === cause);
      return {
        type: "scatter", mode: "markers", name: `stall: ${cause}`, x: here.map((mark) => mark.x), y: here.map((mark) => mark.y),
        customdata: here.map((mark) => [mark.line, ""]), hoverinfo: "skip", cliponaxis: false,
        marker: {
          size: 14, symbol: ["circle-open", "diamond-open", "square-open", "triangle-up-open"][causes.indexOf(cause) % 4],
          line: { width: 2 }, color: colour("unknown"),
        },
      };
    });
    return [...lines, ...marks];
  };

  const layout = (figure, scale) => {
    const axis = { gridcolor: colour("line"), linecolor: colour("dim"), zeroline: false, automargin: true, fixedrange: false };
    return {
      height: 330, margin: { l: 10, r: 10, t: 10, b: 40 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") },
      hoverlabel: { align: "left", bgcolor: colour("raised"), bordercolor: colour("line"), font: { color: colour("ink") } },
      hovermode: "closest", hoverdistance: 40,
      legend: { orientation: "h", x: 0, y: 1, xanchor: "left", yanchor: "bottom" },
      xaxis: { ...axis, title: { text: "step" }, rangemode: "tozero" },
      yaxis: { ...axis, type: scale, ...(scale === "log" ? { dtick: 1, exponentformat: "none" } : { nticks: 8 }) },
    };
  };

  const draw = (figure) => {
    const box = document.querySelector(`[data-figure="${figure.id}"]`);
    const plot = box.querySelector(".plot"), buttons = [...box.querySelectorAll("[data-scale]")];
    let scale = params.get(figure.id) || figure.scale;
    if (!figure.logarithmic || !["linear", "log"].includes(scale)) scale = figure.logarithmic ? figure.scale : "linear";
    const paint = () => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.scale === scale));
      return window.Plotly.react(plot, traces(figure), layout(figure, scale), {
        responsive: true, displaylogo: false, displayModeBar: false, showTips: false,
      });
    };
    plot.textContent = "";
    paint();
    plot.on("plotly_click", (event) => { const anchor = event.points[0].customdata[0]; if (anchor) goTo(anchor); });
    for (const button of buttons) {
      button.addEventListener("click", () => {
        scale = button.dataset.scale;
        remember(figure.id, scale === figure.scale ? "" : scale);
        paint();
      });
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
    addEventListener("beforeprint", paint);
    addEventListener("afterprint", paint);
  };

  if (window.Plotly) figures.forEach(draw);
  else if (figures.length) {
    document.getElementById("curves-help").textContent =
      "The file with the drawing program is not where this page looks for it: keep the page in its folder.";
  }
  show(here());
  document.documentElement.dataset.ready = "yes";
})();
