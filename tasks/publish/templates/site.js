"use strict";
// All pages share this: elements, the address, tables that sort by every column, filters, and a key for the search.
const byId = (id) => document.getElementById(id);
const all = (selector, place = document) => [...place.querySelectorAll(selector)];
const make = (tag, name, text = "") => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.textContent = text;
  return made;
};
// results: rows without field names, and their pairs, as tasks/publish/site/index.py packs them; the pair's fields are first
const unpack = ({ pairs, rows }, fields) => rows.map(([pair, ...rest]) => {
  const item = Object.fromEntries([...pairs[pair], ...rest].map((value, i) => [fields[i], value]));
  return { ...item, outcome: item.died ? "died" : item.verdict, pair: `${item.baseline} → ${item.candidate}` };
});
const holds = (text, words) => words.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));
const params = new URLSearchParams(location.search);
const remember = (name, value) => {
  if ((params.get(name) ?? "") === value) return;
  if (value) params.set(name, value); else params.delete(name);
  const query = params.toString();
  try { history.replaceState(null, "", (query ? "?" + query : location.pathname) + location.hash); } catch { /* some browsers forbid it for files */ }
};

// A control with a name takes its value from the address and keeps it there.
const valueOf = (control) => control.type === "checkbox" ? (control.checked ? "1" : "") : control.value.trim();
const keep = (control) => {
  const option = control.querySelector("[selected]") ?? control.options?.[0];
  remember(control.name, valueOf(control) === option?.value ? "" : valueOf(control));
};
for (const control of all("input[name], select[name]")) {
  const known = params.get(control.name), before = control.value;
  if (known && control.type === "checkbox") control.checked = true;
  else if (known) control.value = known;
  if (control.selectedIndex === -1) control.value = before;
  control.addEventListener("input", () => keep(control));
}
const onKeys = (keys) => addEventListener("keydown", (event) => {
  if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  event.preventDefault();
  keys[event.key]();
});
onKeys({ "/": () => document.querySelector("[name=find]")?.focus() });

// apply: gets the values of the filters by name, now and when they change.
const filterBy = (apply) => {
  const form = byId("filters"), show = () => apply(Object.fromEntries(new FormData(form)));
  let timer = 0;
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(show, 80); });
  form.addEventListener("reset", () => setTimeout(() => { all("[name]", form).forEach(keep); show(); }));
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
};

// A head's button sorts upward, then downward, then as the page was made. sort: gets 1, -1 or 0.
const sortBy = (heads, sort) => {
  const states = { ascending: ["descending", -1], descending: ["", 0], "": ["ascending", 1] };
  for (const [column, head] of heads.entries()) {
    const button = make("button", "sort");
    button.type = "button";
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
// Numbers before texts, and missing values last.
const compare = (one, other) => {
  const [left, right] = [one, other].map((text) => /^[-+]?\d[\d,.]*(e[-+]?\d+)?(?![\d_-]|:\S)/.test(text) ? parseFloat(text.replaceAll(",", "")) : null);
  if (left !== null && right !== null) return left - right;
  if (left !== null || right !== null) return left === null ? 1 : -1;
  const [gone, missing] = [one, other].map((text) => /^[–—]?$/.test(text));
  return gone - missing || one.localeCompare(other, "en", { numeric: true });
};
for (const table of all("table:has(thead):not(#list)")) { // the front sorts its list as data
  const bodies = [...table.tBodies].map((body) => [body, all(":scope > tr:not(.group)", body)]);
  const text = (row, column) => row.cells[column]?.innerText.trim() ?? "";
  sortBy([...table.tHead.rows[0].cells], (column, sign) => {
    for (const [body, rows] of bodies) body.append(...(sign ? rows.toSorted((one, other) => sign * compare(text(one, column), text(other, column))) : rows));
  });
}
