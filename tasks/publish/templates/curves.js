// ---- curves: both arms, their difference and the step time over one axis of steps
const plot = byId("plot");
if (plot) {
  const LEFT = 64, STRIP = 96, TOP = 24, GAP = 32, HEIGHTS = { value: 176, difference: 72, equal: 28, time: 90 };
  const [pick, smooth, logScale, allSteps, told] = ["curve", "smooth", "log-scale", "all-steps", "told"].map(byId);
  const timed = DATA.figures.findIndex((item) => item.id === "step_time_s");
  const right = timed >= 0 ? STRIP : 16; // the strip shows the steady steps beside their curve
  let view, extent, current, cursor, drawing = 0, panels = [], height;

  const shape = (parent, name, attributes = {}, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    parent.append(made);
    return made;
  };
  const show = (value) => value === null || value === undefined ? "–" : Number(value).toPrecision(6).replace(/\.?0+($|e)/, "$1");
  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
  const x = (step) => LEFT + (step - view[0]) / (view[1] - view[0]) * (plot.clientWidth - LEFT - right);
  const stepAt = (px) => view[0] + (px - LEFT) / (plot.clientWidth - LEFT - right) * (view[1] - view[0]);
  const isShown = (step) => step >= view[0] && step <= view[1];

  const smoothed = (values, weight) => {
    let last = null;
    return values.map((value) => value === null ? null : (last = last === null ? value : weight * last + (1 - weight) * value));
  };
  // The lowest and the highest value of each column of pixels, and a gap: a stall is one step in thousands.
  const thin = ({ steps }, values) => {
    const columns = Map.groupBy([...steps.keys()].filter((i) => isShown(steps[i])), (i) => Math.floor(x(steps[i])));
    return [...columns.values()].flatMap((column) => {
      const best = (isBetter) => column.reduce((one, i) => values[i] !== null && (values[one] === null || isBetter(values[i], values[one])) ? i : one);
      const kept = [column.find((i) => values[i] === null) ?? column[0], best((one, other) => one < other), best((one, other) => one > other)];
      return [...new Set(kept)].sort((one, other) => one - other);
    });
  };
  const ticks = (low, high, count) => {
    const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((n) => n * power >= raw), first = Math.ceil(low / step);
    return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-6) - first + 1) }, (_, i) => (first + i) * step);
  };
  const decades = (low, high) => ticks(Math.ceil(Math.log10(low)), Math.floor(Math.log10(high)), Infinity).map((power) => 10 ** power);

  const ofSide = (traces, side) => traces.find((trace) => trace.side === side);
  const difference = (traces) => {
    const [left, right] = [ofSide(traces, "baseline"), ofSide(traces, "candidate")];
    if (!left || !right) return null;
    const valueAt = new Map(left.steps.map((step, i) => [step, left.values[i]]));
    const pairs = right.steps.map((step, i) => [step, valueAt.get(step), right.values[i]]).filter(([, one]) => one !== undefined);
    const values = pairs.map(([, one, other]) => one === null || other === null ? null : other - one);
    return pairs.length ? { side: "candidate", log: "", run: "candidate − baseline", steps: pairs.map(([step]) => step), values, lines: [] } : null;
  };

  const panel = (svg, top, height, { title, traces, log, zero, steady, weight, marks = [], split }) => {
    const width = plot.clientWidth, edge = width - right, group = shape(svg, "g");
    const stalled = new Set(marks.map((mark) => `${mark.side} ${mark.step}`));
    // beside the first step and the stalls all others would look equal: these end at the frame
    const isBeyond = (trace, i) => steady && (i === 0 || stalled.has(`${trace.side} ${trace.steps[i]}`));
    const isDrawn = (value) => value !== null && !(log && value <= 0);
    const say = (y, text) => shape(group, "text", { x: LEFT + 8, y }, text);
    shape(group, "text", { class: "title", x: LEFT, y: top - 6 }, title);
    shape(group, "rect", { class: "frame", x: LEFT, y: top, width: edge - LEFT, height });
    const values = traces.flatMap((trace) => trace.values.filter((value, i) => isDrawn(value) && !isBeyond(trace, i) && isShown(trace.steps[i])));
    if (!values.length) return say(top + 20, "nothing at these steps");
    let [low, high] = [Math.min, Math.max].map((best) => values.reduce((one, other) => best(one, other)));
    if (zero && low === 0 && high === 0) return say(top + height / 2 + 4, "equal at every step shown");
    if (zero) { high = Math.max(-low, high); low = -high; }
    if (low === high) { const pad = Math.abs(low) * 0.05 || 1; [low, high] = log ? [low / 1.1, high * 1.1] : [low - pad, high + pad]; }
    const scale = log ? Math.log10 : (value) => value, [bottom, ceiling] = [scale(low), scale(high)];
    const y = (value) => clamp(top + height * (1 - ((scale(value) - bottom) / (ceiling - bottom) + 0.05) / 1.1), top, top + height);
    for (const tick of log && high / low >= 100 ? decades(low, high) : ticks(low, high, Math.max(4, height / 50))) {
      shape(group, "line", { class: "grid", x1: LEFT, x2: edge, y1: y(tick), y2: y(tick) });
      shape(group, "text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, show(tick));
    }
    for (const { side, step, cause } of marks.filter((mark) => mark.step >= view[0] - 1 && mark.step <= view[1] + 1)) {
      const half = Math.max(1.5, (x(1) - x(0)) / 2), [from, to] = [x(step) - half, x(step) + half].map((at) => clamp(at, LEFT, edge));
      const band = shape(group, "rect", {
        class: `band p p-${cause.split(" ")[0].replace(/[^a-z]/g, "")}`, x: from, width: to - from, y: side === "baseline" ? top : top + height / 2, height: height / 2,
      });
      shape(band, "title", {}, `${side}, step ${step}: ${cause}`);
    }
    for (const trace of traces) for (const raw of weight ? [true, false] : [false]) {
      const values = weight && !raw ? smoothed(trace.values, weight) : trace.values, kept = thin(trace, values);
      const place = (i) => isDrawn(values[i]) && [x(trace.steps[i]).toFixed(1), y(values[i]).toFixed(1)];
      let path = "", pen = "M";
      for (const i of kept) {
        const at = !isBeyond(trace, i) && place(i);
        if (at) path += pen + at;
        pen = at ? "L" : "M";
      }
      shape(group, "path", { class: trace.side + (raw ? " raw" : ""), d: path });
      if (!raw && kept.length <= 60) for (const i of kept.filter(place)) {
        const [cx, cy] = place(i);
        shape(group, "circle", { class: trace.side + (isBeyond(trace, i) ? " beyond" : ""), cx, cy, r: trace.side === "baseline" ? 4 : 2.5 });
      }
    }
    if (steady) for (const [side, word, left] of [["baseline", "base", edge + 16], ["candidate", "cand.", edge + 52]]) {
      const dots = traces.filter((trace) => trace.side === side).flatMap((trace) => trace.values.map((value, i) => value === null || isBeyond(trace, i) ? "" : `M${left + i * 7 % 24},${y(value).toFixed(1)}h0`));
      shape(group, "path", { class: `dots ${side}`, d: dots.join("") });
      shape(group, "text", { x: left, y: top + height + 14 }, word);
    }
    panels.push({ top, height, traces, y });
    if (split && isShown(split.step)) {
      shape(group, "line", { class: "first", x1: x(split.step), x2: x(split.step), y1: top, y2: top + height });
      shape(group, "text", { class: "first-text", x: Math.min(x(split.step) + 4, width - 150), y: top + 12 }, `first difference: step ${split.step}`);
    }
  };

  const draw = async () => {
    const mine = drawing += 1, number = pick.selectedIndex, figure = DATA.figures[number], log = logScale.checked;
    let times;
    try { [current, times] = await Promise.all([curve(number), timed >= 0 ? curve(timed) : []]); } catch (error) {
      plot.replaceChildren(make("p", "note", error.message));
      return;
    }
    if (mine !== drawing || plot.clientWidth < 2 * (LEFT + right)) return; // a browser that prints first lays out narrow pages
    const steps = [...current, ...times].flatMap((trace) => trace.steps.length ? [trace.steps[0], trace.steps.at(-1)] : []);
    extent = [Math.min(...steps), Math.max(...steps)];
    if (extent[0] === extent[1]) extent[1] += 1;
    const asked = (params.get("x") ?? "").split("~").map(Number);
    view = asked.length === 2 && asked[0] < asked[1] ? asked : extent;
    cursor = null;
    allSteps.hidden = view[0] === extent[0] && view[1] === extent[1];
    const gap = difference(current), time = { log, steady: !log, marks: DATA.marks };
    const wanted = [["value", { title: [figure.title, figure.unit].filter(Boolean).join(", "), traces: current, weight: Number(smooth.value), split: DATA.divergence?.metric === figure.id && DATA.divergence, ...(number === timed ? time : { log }) }]];
    if (gap) wanted.push([gap.values.some(Boolean) ? "difference" : "equal", { title: "difference, candidate − baseline", traces: [gap], zero: true }]);
    if (timed >= 0 && number !== timed) wanted.push(["time", { title: `step time, s${log ? ", log scale" : "; the first step and stalls end at the frame"}`, traces: times, ...time }]);
    const width = plot.clientWidth;
    height = wanted.reduce((sum, [kind]) => sum + HEIGHTS[kind] + GAP, TOP + 4);
    const svg = shape(document.createDocumentFragment(), "svg", {
      class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "slider", tabindex: 0, "aria-label": `${figure.title} of both arms, step by step`,
      "aria-valuemin": extent[0], "aria-valuemax": extent[1], "aria-valuenow": view[0], "aria-valuetext": `steps ${view[0]} to ${view[1]}; arrow keys tell the values`,
    });
    let top = TOP;
    panels = [];
    for (const [kind, options] of wanted) { panel(svg, top, HEIGHTS[kind], options); top += HEIGHTS[kind] + GAP; }
    for (const tick of ticks(...view, width / 90).filter(Number.isInteger)) shape(svg, "text", { x: x(tick), y: top - 14, "text-anchor": "middle" }, tick.toLocaleString("en"));
    shape(svg, "text", { x: LEFT - 6, y: top - 14, "text-anchor": "end" }, "step");
    const hadFocus = plot.contains(document.activeElement);
    plot.replaceChildren(svg);
    if (hadFocus) svg.focus();
    plot.dataset.drawn = figure.id;
  };

  const zoom = (from, to) => {
    const [low, high] = [Math.min(from, to), Math.max(from, to)].map((end) => clamp(end, ...extent));
    if (high - low < 1) return;
    remember("x", low === extent[0] && high === extent[1] ? "" : `${Math.floor(low)}~${Math.ceil(high)}`);
    draw();
  };
  const nearest = ({ steps }, step) => {
    const after = steps.findIndex((one) => one >= step);
    if (after < 0) return steps.length - 1;
    return after > 0 && step - steps[after - 1] <= steps[after] - step ? after - 1 : after;
  };
  const lineOf = (trace, step) => { // the line of a log that prints the step's value
    const i = nearest(trace, step);
    return trace.log && trace.steps[i] === step && trace.lines[i] ? `${trace.log}-L${trace.lines[i]}` : null;
  };
  const lead = () => ofSide(current, "candidate") ?? current[0];
  const tell = (step) => {
    const svg = plot.firstChild;
    cursor = lead().steps[nearest(lead(), step)];
    svg.querySelector(".cursor")?.remove();
    shape(svg, "line", { class: "cursor", x1: x(cursor), x2: x(cursor), y1: TOP, y2: height - 28 });
    told.replaceChildren(`step ${cursor.toLocaleString("en")}: `);
    for (const trace of current) {
      const i = nearest(trace, cursor), line = lineOf(trace, cursor), value = trace.steps[i] === cursor ? show(trace.values[i]) : "–";
      told.append(trace === current[0] ? "" : ", ", `${trace.side} `, line ? link(value, `#${line}`, "", { title: `to the step's line in the log of ${trace.run}` }) : value, ` (${trace.run})`);
    }
    const causes = DATA.marks.filter((mark) => mark.step === cursor).map((mark) => `${mark.side}: ${mark.cause}`);
    if (causes.length) told.append(`; ${causes.join(", ")}`);
    svg.setAttribute("aria-valuenow", cursor);
    svg.setAttribute("aria-valuetext", told.textContent);
  };
  // Opens the line of the step's point that is nearest to a height in the chart; without a height, of the candidate's.
  const openLine = (y) => {
    const panel = panels.find(({ top, height, traces }) => top <= y && y <= top + height && traces.some((trace) => trace.log));
    const far = (trace) => { const value = trace.values[nearest(trace, cursor)]; return panel && value !== null ? Math.abs(panel.y(value) - y) : trace.side === "candidate" ? 0 : 1; };
    const [best] = (panel?.traces ?? current).filter((trace) => lineOf(trace, cursor)).sort((one, other) => far(one) - far(other));
    if (best) goToLine(lineOf(best, cursor));
  };

  let from = null; // where a drag began
  const place = (event) => { const { left, top } = plot.getBoundingClientRect(); return [event.clientX - left, event.clientY - top]; };
  const listen = (kind, act) => plot.addEventListener(kind, (event) => { if (plot.querySelector(".chart")) act(event, ...place(event)); });
  const endDrag = () => { from = null; plot.querySelector(".drag")?.remove(); };
  listen("pointerdown", (_, px) => { from = px; });
  listen("pointermove", (_, px) => {
    tell(stepAt(px));
    plot.querySelector(".drag")?.remove();
    if (from !== null) shape(plot.firstChild, "rect", { class: "drag", x: Math.min(from, px), width: Math.abs(px - from), y: TOP, height: height - TOP - 28 });
  });
  listen("pointerup", (event, px, y) => {
    const start = from;
    endDrag();
    if (start !== null && Math.abs(px - start) > 6) return zoom(stepAt(start), stepAt(px));
    tell(stepAt(px));
    if (event.pointerType !== "touch") openLine(y); // a finger first reads the values; each is a link
  });
  listen("pointerleave", endDrag);
  listen("dblclick", () => zoom(...extent));
  listen("keydown", (event) => {
    const half = (view[1] - view[0]) / 2, here = cursor ?? view[0], { steps } = lead(), i = nearest(lead(), here);
    const keys = {
      ArrowLeft: () => tell(steps[Math.max(0, i - 1)]), ArrowRight: () => tell(steps[Math.min(steps.length - 1, i + 1)]), Enter: () => cursor !== null && openLine(),
      "+": () => zoom(here - half / 2, here + half / 2), "-": () => zoom(view[0] - half, view[1] + half), 0: () => zoom(...extent),
    };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  for (const control of [pick, smooth, logScale]) control.addEventListener("change", draw);
  allSteps.addEventListener("click", () => zoom(...extent));
  let width = 0;
  new ResizeObserver(() => { if (plot.dataset.drawn && plot.clientWidth !== width) { width = plot.clientWidth; draw(); } }).observe(plot);
  const seen = new IntersectionObserver(([entry]) => { if (entry.isIntersecting) { seen.disconnect(); draw(); } }, { rootMargin: "200px" });
  seen.observe(plot);
}
document.documentElement.dataset.ready = "yes";
