"use strict";
// Shows the cases, pairs and the metric that the reader asks for; what was asked stands in the address.
(() => {
  const form = document.getElementById("filters"), names = ["find", "pair", "metric"];
  const params = new URLSearchParams(location.search);
  for (const name of names) if (params.get(name)) form.elements[name].value = params.get(name);
  const apply = () => {
    const words = form.elements.find.value.trim().toLowerCase().split(/\s+/), pair = form.elements.pair.value, metric = form.elements.metric.value;
    for (const cell of document.querySelectorAll("[data-metric]")) cell.hidden = metric !== "" && cell.dataset.metric !== metric;
    for (const section of document.querySelectorAll("[data-pair]")) {
      for (const row of section.querySelectorAll("tbody tr")) {
        row.hidden = !words.every((word) => `${row.dataset.case} ${section.dataset.pair}`.toLowerCase().includes(word)) || !row.querySelector(".series:not([hidden])");
      }
      for (const table of section.querySelectorAll("table")) {
        const shown = table.querySelector("tbody tr:not([hidden])") !== null, more = table.closest("details");
        (more || table).hidden = !shown;
        if (more && metric) more.open = true; // it is what was asked for
      }
      section.hidden = (pair !== "" && pair !== section.dataset.pair) || !section.querySelector("tbody tr:not([hidden])");
    }
    document.getElementById("count").textContent = document.querySelector("[data-pair]:not([hidden])") ? "" : "nothing of what you ask for";
    const next = new URLSearchParams(names.map((name) => [name, form.elements[name].value.trim()]).filter(([, value]) => value)).toString();
    try { history.replaceState(null, "", (next ? "?" + next : location.pathname) + location.hash); } catch { /* a file that may not */ }
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) { event.preventDefault(); form.elements.find.focus(); }
  });
  form.hidden = false;
  apply();
})();
