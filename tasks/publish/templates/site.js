"use strict";
// What all pages share: tables that sort by every column, and filters that stand in the address.

// A head's button sorts upward, then downward, then as the page was made. sort: given 1, -1 or 0.
const sortBy = (heads, sort) => {
  const states = { ascending: ["descending", -1], descending: ["", 0], "": ["ascending", 1] };
  for (const [column, head] of heads.entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const [state, sign] = states[head.getAttribute("aria-sort") ?? ""];
      for (const other of heads) other.removeAttribute("aria-sort");
      if (state) head.setAttribute("aria-sort", state);
      sort(column, sign);
    });
  }
};
// Numbers before texts, and what is not there last.
const compare = (one, other) => {
  const [left, right] = [one, other].map((text) => /^[-+]?\d[\d,.]*(e[-+]?\d+)?(?![\d_-]|:\S)/.test(text) ? parseFloat(text.replaceAll(",", "")) : null);
  if (left !== null && right !== null) return left - right;
  if (left !== null || right !== null) return left === null ? 1 : -1;
  const [gone, missing] = [one, other].map((text) => /^[–—]?$/.test(text));
  return gone - missing || one.localeCompare(other, "en", { numeric: true });
};
const sortTable = (table) => {
  const bodies = [...table.tBodies].map((body) => [body, [...body.rows].filter((row) => !row.matches(".group"))]);
  const text = (row, column) => row.cells[column]?.innerText.trim() ?? "";
  sortBy([...table.tHead.rows[0].cells], (column, sign) => {
    for (const [body, rows] of bodies) body.append(...(sign ? [...rows].sort((one, other) => sign * compare(text(one, column), text(other, column))) : rows));
  });
};
for (const table of document.querySelectorAll("table:has(thead):not(#list)")) sortTable(table); // the front lists its own out of data

// The filters of these names: apply is given what they hold, at first what the address holds.
const filterBy = (names, apply) => {
  const form = document.getElementById("filters"), params = new URLSearchParams(location.search);
  for (const name of names) if (params.get(name)) form.elements[name].value = params.get(name);
  const show = () => {
    const wanted = names.map((name) => [name, form.elements[name].value.trim()]);
    apply(Object.fromEntries(wanted));
    const next = new URLSearchParams(wanted.filter(([, value]) => value)).toString();
    try { history.replaceState(null, "", (next ? "?" + next : location.pathname) + location.hash); } catch { /* a file that may not */ }
  };
  let timer = 0;
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(show, 80); });
  form.addEventListener("reset", () => setTimeout(show));
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) { event.preventDefault(); form.elements.find.focus(); }
  });
  form.hidden = false;
  show();
};
