// Shows the cases, pairs and the metric that the reader asks for, which stand in the address; a point of a chart leads to
// its comparison.
(() => {
  filterBy(["find", "pair", "metric"], ({ find, pair, metric }) => {
    const words = find.toLowerCase().split(/\s+/);
    for (const cell of document.querySelectorAll("[data-metric]")) cell.hidden = metric !== "" && cell.dataset.metric !== metric;
    for (const section of document.querySelectorAll("[data-pair]")) {
      for (const row of section.querySelectorAll("tbody tr")) {
        row.hidden = !words.every((word) => `${row.dataset.case} ${section.dataset.pair}`.toLowerCase().includes(word)) || !row.querySelector(".series:not([hidden])");
      }
      for (const table of section.querySelectorAll("table")) {
        const shown = table.querySelector("tbody tr:not([hidden])") !== null, more = table.closest(".more");
        (more || table.parentElement).hidden = !shown;
        if (more && metric) more.open = true; // it is what was asked for
      }
      if (pair || metric || words[0]) section.querySelector(".pair").open = true;
      section.hidden = (pair !== "" && pair !== section.dataset.pair) || !section.querySelector("tbody tr:not([hidden])");
    }
    document.getElementById("count").textContent = document.querySelector("[data-pair]:not([hidden])") ? "" : "nothing fits these filters";
  });

  const { rows, charts } = JSON.parse(document.getElementById("data").textContent);
  const told = document.createElement("a"), cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  told.className = "told-night";
  cursor.setAttribute("class", "cursor");
  for (const chart of document.querySelectorAll("[data-chart]")) {
    const [row, ...values] = charts[chart.dataset.chart], nights = rows[row];
    const known = nights.map((_, at) => at).filter((at) => values.some((line) => line[at] !== null));
    let place = known.length - 1;
    const put = (next) => {
      place = Math.max(0, Math.min(known.length - 1, next));
      const [, day, verdict] = nights[known[place]];
      const words = ["baseline", "candidate"].map((side, line) => `${side} ${values[line][known[place]] ?? "–"}`);
      chart.setAttribute("aria-valuenow", place);
      chart.setAttribute("aria-valuetext", [day, ...words, verdict].filter(Boolean).join(", "));
    };
    const tell = (next) => {
      put(next);
      const at = known[place], [page, , , x] = nights[at];
      told.textContent = chart.getAttribute("aria-valuetext");
      if (page) told.href = page; else told.removeAttribute("href");
      for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 0, y2: 40 })) cursor.setAttribute(name, value);
      chart.append(cursor);
      chart.after(told);
    };
    const near = (event) => {
      const box = chart.getBoundingClientRect(), wanted = (event.clientX - box.left) / box.width * 100, off = (at) => Math.abs(nights[at][3] - wanted);
      return known.reduce((best, at, i) => off(at) < off(known[best]) ? i : best, 0);
    };
    const keys = { ArrowLeft: () => tell(place - 1), ArrowRight: () => tell(place + 1), Home: () => tell(0), End: () => tell(known.length), Enter: () => told.click() };
    for (const [name, value] of Object.entries({ role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuemax": known.length - 1 })) chart.setAttribute(name, value);
    put(place);
    chart.addEventListener("focus", () => tell(place));
    chart.addEventListener("pointermove", (event) => tell(near(event)));
    chart.addEventListener("pointerup", (event) => {
      tell(near(event));
      if (event.pointerType !== "touch") told.click(); // a finger reads first, and follows what it read
    });
    chart.addEventListener("keydown", (event) => {
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
  }
})();
