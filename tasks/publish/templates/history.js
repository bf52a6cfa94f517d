"use strict";
// Shows the cases and pairs that the reader asks for; what was asked stands in the address.
(() => {
  const form = document.getElementById("filters"), names = ["find", "pair"];
  const params = new URLSearchParams(location.search);
  for (const name of names) if (params.get(name)) form.elements[name].value = params.get(name);
  const apply = () => {
    const words = form.elements.find.value.trim().toLowerCase().split(/\s+/), pair = form.elements.pair.value;
    for (const section of document.querySelectorAll("[data-pair]")) {
      for (const row of section.querySelectorAll("tbody tr")) {
        row.hidden = !words.every((word) => `${row.dataset.case} ${section.dataset.pair}`.toLowerCase().includes(word));
      }
      section.hidden = (pair !== "" && pair !== section.dataset.pair) || !section.querySelector("tbody tr:not([hidden])");
    }
    document.getElementById("count").textContent = document.querySelector("[data-pair]:not([hidden])") ? "" : "no case has these words";
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
