// Filters the cases, pairs and metrics; a point of a chart leads to its comparison.
if (byId("filters")) { // an empty store has none
  filterBy(({ find, pair, metric }) => {
    for (const cell of all("[data-metric]")) cell.hidden = metric && cell.dataset.metric !== metric;
    for (const section of all("[data-pair]")) {
      const { pair: name } = section.dataset;
      for (const row of all("[data-case]", section)) row.hidden = (pair && pair !== name) || !holds(`${row.dataset.case} ${name}`, find) || !row.querySelector(".series:not([hidden])");
      if (pair || metric || find) section.querySelector(".pair").open = true;
      if (metric) for (const more of all(".more:has([data-case]:not([hidden]))", section)) more.open = true;
    }
    byId("count").textContent = document.querySelector("[data-case]:not([hidden])") ? "" : "nothing fits these filters";
  });

  const { rows, charts } = JSON.parse(byId("data").textContent);
  const told = make("a", "told-night"), cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const set = (element, values) => Object.entries(values).forEach(([name, value]) => element.setAttribute(name, value));
  set(cursor, { class: "cursor", y1: 0, y2: 40 });
  for (const chart of all("[data-chart]")) {
    const [row, ...values] = charts[chart.dataset.chart];
    const nights = rows[row].map(([page, day, x], at) => ({ page, day, x, values: values.map((line) => line[at]) })).filter((night) => night.values.some((value) => value !== null));
    let place = nights.length - 1;
    const put = (next) => {
      place = Math.max(0, Math.min(nights.length - 1, next));
      const { day, values: [baseline, candidate] } = nights[place];
      set(chart, { "aria-valuenow": place, "aria-valuetext": `${day}, baseline ${baseline ?? "–"}, candidate ${candidate ?? "–"}` });
    };
    const tell = (next) => {
      put(next);
      const { page, x } = nights[place];
      told.textContent = chart.getAttribute("aria-valuetext");
      if (page) told.href = page; else told.removeAttribute("href");
      set(cursor, { x1: x, x2: x });
      chart.append(cursor);
      chart.after(told);
    };
    const near = (event) => {
      const { left, width } = chart.getBoundingClientRect(), far = ({ x }) => Math.abs(x - (event.clientX - left) / width * 100);
      return nights.reduce((best, night, at) => far(night) < far(nights[best]) ? at : best, 0);
    };
    const keys = { ArrowLeft: () => tell(place - 1), ArrowRight: () => tell(place + 1), Home: () => tell(0), End: () => tell(nights.length), Enter: () => told.click() };
    set(chart, { role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuemax": nights.length - 1 });
    put(place);
    chart.addEventListener("focus", () => tell(place));
    chart.addEventListener("pointermove", (event) => tell(near(event)));
    chart.addEventListener("pointerup", (event) => {
      tell(near(event));
      if (event.pointerType !== "touch") told.click(); // a finger reads first, then follows the link
    });
    chart.addEventListener("keydown", (event) => {
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
  }
}
