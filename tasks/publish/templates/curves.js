// ---- curves: both arms, their difference and the step time over one axis of steps
const plot = document.getElementById("plot");
if (plot) {
  const SVG = "http://www.w3.org/2000/svg", LEFT = 64, STRIP = 96, HEIGHTS = { value: 240, difference: 90, equal: 28, time: 120 };
  const pick = document.getElementById("curve"), smooth = document.getElementById("smooth");
  const logScale = document.getElementById("log-scale"), all = document.getElementById("all-steps"), told = document.getElementById("told");
  let RIGHT = 16, view = null, extent = [0, 1], current = null, cursor = null, drawing = 0, panels = [];

  const curve = async (number) => {
    if (!known.has(number)) await load(`curves/${number}.js`);
    return known.get(number);
  };
  const shape = (parent, name, attributes = {}, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };
  const show = (value) => value === null || value === undefined ? "–" : Number(value).toPrecision(6).replace(/\.?0+($|e)/, "$1");

  const smoothed = (values, weight) => {
    let last = null;
    return values.map((value) => value === null ? null : (last = last === null ? value : weight * last + (1 - weight) * value));
  };
  // Of the points on one pixel the lowest and the highest: a stall is one step in thousands.
  const thin = (steps, values, from, to, width) => {
    const kept = [];
    let low = null, high = null, column = null;
    const flush = () => { if (low !== null) kept.push(...(low < high ? [low, high] : low > high ? [high, low] : [low])); low = high = null; };
    for (let i = 0; i < steps.length; i += 1) {
      if (steps[i] < from || steps[i] > to) continue;
      if (values[i] === null) { flush(); kept.push(i); continue; }
      const here = Math.floor((steps[i] - from) / (to - from || 1) * width);
      if (here !== column) { flush(); column = here; }
      if (low === null || values[i] < values[low]) low = i;
      if (high === null || values[i] > values[high]) high = i;
    }
    flush();
    return kept;
  };
  const ticks = (low, high, count) => {
    const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((n) => n * power >= raw);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Math.abs(at) < step / 1e6 ? 0 : at);
    return found;
  };
  const decades = (low, high) => {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) found.push(10 ** power);
    return found;
  };

  const first = (traces, side) => traces.find((trace) => trace.side === side);
  const difference = (traces) => {
    const [left, right] = [first(traces, "baseline"), first(traces, "candidate")];
    if (!left || !right) return null;
    const at = new Map(left.steps.map((step, i) => [step, left.values[i]]));
    const steps = right.steps.filter((step) => at.has(step));
    const own = new Map(right.steps.map((step, i) => [step, right.values[i]]));
    const values = steps.map((step) => at.get(step) === null || own.get(step) === null ? null : own.get(step) - at.get(step));
    return { side: "candidate", log: "", run: "candidate − baseline", steps, values, lines: [] };
  };

  const x = (step) => LEFT + (step - view[0]) / (view[1] - view[0] || 1) * (plot.clientWidth - LEFT - RIGHT);
  const stepAt = (px) => view[0] + (px - LEFT) / (plot.clientWidth - LEFT - RIGHT) * (view[1] - view[0]);

  const panel = (svg, top, height, title, traces, options) => {
    const width = plot.clientWidth, inner = width - LEFT - RIGHT, group = shape(svg, "g");
    let low = Infinity, high = -Infinity;
    const stalled = options.steady ? new Set(DATA.marks.map((mark) => `${mark.side} ${mark.step}`)) : null;
    // beside the first step and the stalls all others would look equal: they end at the frame
    const beyond = (trace, i) => stalled !== null && (i === 0 || stalled.has(`${trace.side} ${trace.steps[i]}`));
    for (const trace of traces) trace.steps.forEach((step, i) => {
      const value = trace.values[i];
      if (value === null || beyond(trace, i) || step < view[0] || step > view[1] || (options.log && value <= 0)) return;
      if (value < low) low = value;
      if (value > high) high = value;
    });
    shape(group, "text", { class: "title", x: LEFT, y: top - 6 }, title);
    shape(group, "rect", { class: "frame", x: LEFT, y: top, width: inner, height });
    if (low > high) { shape(group, "text", { x: LEFT + 8, y: top + 20 }, "nothing at these steps"); return; }
    if (options.zero && low === 0 && high === 0) { shape(group, "text", { x: LEFT + 8, y: top + height / 2 + 4 }, "equal at every step shown"); return; }
    if (options.zero) { const reach = Math.max(Math.abs(low), Math.abs(high)) || 1; [low, high] = [-reach, reach]; }
    if (low === high) { const pad = Math.abs(low) * 0.05 || 1; [low, high] = options.log ? [low / 1.1, high * 1.1] : [low - pad, high + pad]; }
    const scale = options.log ? Math.log10 : (value) => value;
    const [bottom, ceiling] = [scale(low), scale(high)], pad = (ceiling - bottom) * 0.05;
    const y = (value) => Math.max(top, Math.min(top + height, top + height - (scale(value) - bottom + pad) / (ceiling - bottom + 2 * pad) * height));
    for (const tick of options.log && high / low > 5 ? decades(low, high) : ticks(low, high, Math.max(4, height / 50))) {
      const at = y(tick);
      if (at < top || at > top + height) continue;
      shape(group, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at });
      shape(group, "text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, show(tick));
    }
    for (const mark of options.marks || []) {
      if (mark.step < view[0] - 1 || mark.step > view[1] + 1) continue;
      const half = Math.max(1.5, (x(mark.step + 0.5) - x(mark.step - 0.5)) / 2), at = x(mark.step);
      const band = shape(group, "rect", {
        class: `band p p-${mark.cause.split(" ")[0].replace(/[^a-z]/g, "")}`, x: Math.max(LEFT, at - half), width: Math.min(width - RIGHT, at + half) - Math.max(LEFT, at - half),
        y: mark.side === "baseline" ? top : top + height / 2, height: height / 2,
      });
      shape(band, "title", {}, `${mark.side}, step ${mark.step}: ${mark.cause}`);
    }
    for (const trace of traces) {
      const weight = options.smooth ? Number(smooth.value) : 0;
      for (const [values, name] of weight ? [[trace.values, " raw"], [smoothed(trace.values, weight), ""]] : [[trace.values, ""]]) {
        const kept = thin(trace.steps, values, view[0], view[1], inner);
        let path = "", pen = false;
        for (const i of kept) {
          const value = values[i];
          if (value === null || beyond(trace, i) || (options.log && value <= 0)) { pen = false; continue; }
          path += `${pen ? "L" : "M"}${x(trace.steps[i]).toFixed(1)},${y(value).toFixed(1)}`;
          pen = true;
        }
        shape(group, "path", { class: `${trace.side}${name}`, d: path });
        if (!name && kept.length <= 60) for (const i of kept) {
          if (values[i] !== null && !(options.log && values[i] <= 0)) shape(group, "circle", { class: trace.side + (beyond(trace, i) ? " beyond" : ""), cx: x(trace.steps[i]).toFixed(1), cy: y(values[i]).toFixed(1), r: trace.side === "baseline" ? 4 : 2.5 });
        }
      }
    }
    if (stalled) ["baseline", "candidate"].forEach((side, column) => { // every step but the first and the stalls, beside the curve
      const left = width - STRIP + 16 + column * 36;
      let path = "";
      for (const trace of traces.filter((item) => item.side === side)) trace.values.forEach((value, i) => {
        if (value !== null && !beyond(trace, i)) path += `M${(left + i * 7 % 24).toFixed(0)},${y(value).toFixed(1)}h0`;
      });
      shape(group, "path", { class: `dots ${side}`, d: path });
      shape(group, "text", { x: left, y: top + height + 14 }, side === "baseline" ? "base" : "cand.");
    });
    panels.push({ top, height, traces, y });
    const split = DATA.divergence;
    if (options.first && split && split.step >= view[0] && split.step <= view[1]) {
      shape(group, "line", { class: "first", x1: x(split.step), x2: x(split.step), y1: top, y2: top + height });
      shape(group, "text", { class: "first-text", x: Math.min(x(split.step) + 4, width - 150), y: top + 12 }, `first difference: step ${split.step}`);
    }
  };

  const draw = async () => {
    const mine = drawing += 1, number = Number(pick.value), figure = DATA.figures[number];
    const timed = DATA.figures.findIndex((item) => item.id === "step_time_s");
    try {
      current = await curve(number);
      if (timed >= 0) await curve(timed);
    } catch {
      plot.replaceChildren(make("p", "note", "A file of the curves is not where this page looks for it: keep the page in its folder."));
      return;
    }
    if (mine !== drawing || plot.clientWidth < 2 * (LEFT + RIGHT)) return; // a browser that prints lays out narrow ones first
    const times = timed >= 0 && timed !== number ? known.get(timed) : [];
    RIGHT = timed >= 0 ? STRIP : 16;
    const steps = [...current, ...times].flatMap((trace) => trace.steps.length ? [trace.steps[0], trace.steps[trace.steps.length - 1]] : []);
    extent = [Math.min(...steps), Math.max(...steps)];
    if (extent[0] === extent[1]) extent[1] += 1;
    view = zoomOf(params.get("x")) || extent;
    cursor = null;
    const whole = view[0] === extent[0] && view[1] === extent[1];
    all.hidden = whole;
    const gap = difference(current), width = plot.clientWidth;
    const wanted = [["value", `${figure.title}${figure.unit ? ", " + figure.unit : ""}`, current, { log: logScale.checked, smooth: true, first: DATA.divergence?.metric === figure.id, steady: figure.id === "step_time_s" && !logScale.checked, marks: figure.id === "step_time_s" ? DATA.marks : [] }]];
    if (gap && gap.steps.length) wanted.push([gap.values.some((value) => value) ? "difference" : "equal", "difference, candidate − baseline", [gap], { zero: true }]);
    if (times.length) wanted.push(["time", `step time, s${logScale.checked ? ", log scale" : "; the first step and stalls end at the frame"}`, times, { log: logScale.checked, steady: !logScale.checked, marks: DATA.marks }]);
    const height = wanted.reduce((sum, [kind]) => sum + HEIGHTS[kind] + 32, 28);
    const svg = document.createElementNS(SVG, "svg");
    for (const [key, value] of Object.entries({ class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "slider", tabindex: 0, "aria-label": `${figure.title} of both arms, step by step`, "aria-valuemin": extent[0], "aria-valuemax": extent[1], "aria-valuenow": view[0], "aria-valuetext": `steps ${view[0]} to ${view[1]}; arrow keys tell the values` })) svg.setAttribute(key, value);
    let top = 24;
    panels = [];
    for (const [kind, title, traces, options] of wanted) { panel(svg, top, HEIGHTS[kind], title, traces, options); top += HEIGHTS[kind] + 32; }
    for (const tick of ticks(view[0], view[1], width / 90)) if (Number.isInteger(tick)) shape(svg, "text", { x: x(tick), y: top - 14, "text-anchor": "middle" }, tick.toLocaleString("en"));
    shape(svg, "text", { x: LEFT - 6, y: top - 14, "text-anchor": "end" }, "step");
    const focused = plot.contains(document.activeElement);
    plot.replaceChildren(svg);
    if (focused) svg.focus();
    listen(svg, height);
    remember("curve", pick.options[number].defaultSelected ? "" : figure.id);
    remember("smooth", smooth.value);
    remember("log", logScale.checked ? "1" : "");
    plot.dataset.drawn = figure.id;
  };

  const zoomOf = (text) => {
    const ends = (text || "").split("~").map(Number);
    return ends.length === 2 && ends.every(Number.isFinite) && ends[0] < ends[1] ? ends : null;
  };
  const zoom = (from, to) => {
    const ends = [Math.max(extent[0], Math.min(from, to)), Math.min(extent[1], Math.max(from, to))];
    if (ends[1] - ends[0] < 1) return;
    remember("x", ends[0] <= extent[0] && ends[1] >= extent[1] ? "" : `${Math.floor(ends[0])}~${Math.ceil(ends[1])}`);
    draw();
  };
  const at = (trace, step) => { // the nearest of its steps
    let low = 0, high = trace.steps.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (trace.steps[middle] < step) low = middle + 1; else high = middle; }
    return low > 0 && Math.abs(trace.steps[low - 1] - step) <= Math.abs(trace.steps[low] - step) ? low - 1 : low;
  };
  const tell = (svg, step, height) => {
    const lead = first(current, "candidate") || current[0];
    cursor = lead.steps[at(lead, step)];
    svg.querySelector(".cursor")?.remove();
    shape(svg, "line", { class: "cursor", x1: x(cursor), x2: x(cursor), y1: 24, y2: height - 28 });
    told.replaceChildren(`step ${cursor.toLocaleString("en")}: `);
    for (const trace of current) {
      const i = at(trace, cursor), line = lineOf(trace, cursor);
      const value = line ? make("a", "", show(trace.values[i])) : trace.steps[i] === cursor ? show(trace.values[i]) : "–";
      if (line) Object.assign(value, { href: `#${line}`, title: `to the step's line in the log of ${trace.run}` });
      told.append(trace === current[0] ? "" : ", ", `${trace.side} `, value, ` (${trace.run})`);
    }
    const causes = DATA.marks.filter((mark) => mark.step === cursor).map((mark) => `${mark.side}: ${mark.cause}`);
    if (causes.length) told.append(`; ${causes.join(", ")}`);
    svg.setAttribute("aria-valuenow", cursor);
    svg.setAttribute("aria-valuetext", told.textContent);
  };
  const lineOf = (trace, step) => { // where a log tells the step's value
    const i = at(trace, step);
    return trace.log && trace.steps[i] === step && trace.lines[i] ? `${trace.log}-L${trace.lines[i]}` : null;
  };
  // Of the points of the step the one that is nearest to a height in the chart; without one, the candidate's.
  const openLine = (height) => {
    const panel = panels.find(({ top, height: high, traces }) => top <= height && height <= top + high && traces.some((trace) => trace.log));
    const far = (trace) => { const value = trace.values[at(trace, cursor)]; return panel && value !== null ? Math.abs(panel.y(value) - height) : trace.side === "candidate" ? 0 : 1; };
    const told = (panel ? panel.traces : current).filter((trace) => lineOf(trace, cursor)).sort((one, other) => far(one) - far(other));
    if (told.length) goToLine(lineOf(told[0], cursor));
  };
  const listen = (svg, height) => {
    let from = null;
    const px = (event) => event.clientX - svg.getBoundingClientRect().left;
    svg.addEventListener("pointermove", (event) => {
      tell(svg, stepAt(px(event)), height);
      if (from === null) return;
      svg.querySelector(".drag")?.remove();
      shape(svg, "rect", { class: "drag", x: Math.min(from, px(event)), width: Math.abs(px(event) - from), y: 24, height: height - 52 });
    });
    svg.addEventListener("pointerdown", (event) => { from = px(event); });
    svg.addEventListener("pointerup", (event) => {
      const start = from;
      from = null;
      if (start !== null && Math.abs(px(event) - start) > 6) zoom(stepAt(start), stepAt(px(event)));
      else {
        tell(svg, stepAt(px(event)), height);
        // a finger has no other way to ask for the values; each of them is a link
        if (event.pointerType !== "touch") openLine(event.clientY - svg.getBoundingClientRect().top);
      }
    });
    svg.addEventListener("pointerleave", () => { from = null; svg.querySelector(".drag")?.remove(); });
    svg.addEventListener("dblclick", () => zoom(...extent));
    svg.addEventListener("keydown", (event) => {
      const span = view[1] - view[0], lead = first(current, "candidate") || current[0];
      const here = cursor === null ? view[0] : cursor, i = at(lead, here);
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") tell(svg, lead.steps[Math.max(0, Math.min(lead.steps.length - 1, i + (event.key === "ArrowRight" ? 1 : -1)))], height);
      else if (event.key === "+") zoom(here - span / 4, here + span / 4);
      else if (event.key === "-") zoom(view[0] - span / 2, view[1] + span / 2);
      else if (event.key === "0") zoom(...extent);
      else if (event.key === "Enter" && cursor !== null) openLine();
      else return;
      event.preventDefault();
    });
  };

  const wanted = DATA.figures.findIndex((figure) => figure.id === params.get("curve"));
  if (wanted >= 0) pick.value = String(wanted);
  if ([...smooth.options].some((option) => option.value === params.get("smooth"))) smooth.value = params.get("smooth");
  logScale.checked = params.get("log") === "1";
  for (const control of [pick, smooth, logScale]) control.addEventListener("change", draw);
  all.addEventListener("click", () => zoom(...extent));
  let width = 0;
  new ResizeObserver(() => { if (plot.dataset.drawn && plot.clientWidth !== width) { width = plot.clientWidth; draw(); } }).observe(plot);
  const seen = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) { seen.disconnect(); draw(); }
  }, { rootMargin: "200px" });
  seen.observe(plot);
}
document.documentElement.dataset.ready = "yes";
