"use strict";
// Lists and filters everything that was compared; what the reader chose stands in the address.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const list = document.getElementById("list"), fields = list.dataset.fields.split(" ");
  const { pairs, rows } = data.comparisons;
  const items = rows.map(([pair, ...rest]) => [...pairs[pair], ...rest]).map((row) => Object.fromEntries(fields.map((field, i) => [field, row[i]])));
  const form = document.getElementById("filters"), more = document.getElementById("more");
  const signs = JSON.parse(list.dataset.signs), PAGE = matchMedia("(max-width: 66rem)").matches ? 12 : 40; // a row of a phone is as high as four
  let shown = PAGE, order = "", turned = false;

  const params = new URLSearchParams(location.search);
  for (const name of ["find", "verdict", "target", "since"]) {
    if (params.get(name) && form.elements[name]) form.elements[name].value = params.get(name);
  }
  const chosen = () => Object.fromEntries(["find", "verdict", "target", "since"].map((name) => [name, form.elements[name].value.trim()]));

  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const outcome = (item) => item.died ? "died" : item.verdict;
  const verdict = (item) => {
    const word = outcome(item), made = element("span", undefined, word === "died" ? "died" : "v v-" + word.split(" ")[0]);
    const sign = element("span", signs[word]);
    sign.setAttribute("aria-hidden", "true");
    made.append(sign, " " + word);
    return made;
  };
  const line = (item) => {
    const row = document.createElement("tr");
    const link = element("a");
    link.append(element("bdi", item.case));
    link.href = [list.dataset.base, ...[item.comparison, item.case, item.id].map(encodeURIComponent), "index.html"].join("/");
    const head = element("th");
    head.scope = "row";
    head.append(link);
    const cell = (label, ...inside) => {
      const made = element("td");
      made.dataset.label = label;
      made.className = { compared: "when", because: "because" }[label] || "";
      made.append(...inside);
      return made;
    };
    row.append(
      head, cell("verdict", verdict(item)), cell("pair", element("bdi", `${item.baseline} → ${item.candidate}`)),
      cell("target", element("bdi", item.target)), cell("compared", item.created.slice(0, 16).replace("T", " ")),
      cell("because", item.headline),
    );
    return row;
  };

  const matches = (item, want) =>
    (!want.verdict || outcome(item) === want.verdict) && (!want.target || item.target === want.target) &&
    (!want.since || item.created >= want.since) &&
    want.find.toLowerCase().split(/\s+/).every((word) =>
      `${item.case} ${item.comparison} ${item.baseline} ${item.candidate} ${item.id} ${item.headline}`.toLowerCase().includes(word));

  const apply = () => {
    const want = chosen();
    const found = items.filter((item) => matches(item, want));
    if (order) found.sort((one, other) => (turned ? -1 : 1) * key(one).localeCompare(key(other), "en", { numeric: true }));
    list.tBodies[0].replaceChildren(...found.slice(0, shown).map(line));
    document.getElementById("count").textContent = `${found.length.toLocaleString("en")} of ${items.length.toLocaleString("en")}`;
    more.hidden = found.length <= shown;
    document.getElementById("nothing").hidden = found.length > 0;
    const words = want.find.toLowerCase().split(/\s+/);
    for (const night of document.querySelectorAll(".night")) night.hidden = (want.target !== "" && night.dataset.target !== want.target) || night.dataset.ended < want.since;
    for (const row of document.querySelectorAll("#nights tbody tr, .changes li")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (want.verdict !== "" && !text.includes(want.verdict));
    }
    const known = new Set(found.map((item) => [item.comparison, item.baseline, item.candidate, item.target, item.case, item.id].join("\0")));
    for (const row of document.querySelectorAll("#matrix tbody tr")) {
      const cells = [...row.querySelectorAll("[data-item]")];
      for (const cell of cells) cell.classList.toggle("off", !known.has(JSON.parse(cell.dataset.item).join("\0")));
      row.hidden = cells.length > 0 && cells.every((cell) => cell.classList.contains("off"));
    }
    const next = new URLSearchParams(Object.entries(want).filter(([, value]) => value)).toString();
    try { history.replaceState(null, "", (next ? "?" + next : location.pathname) + location.hash); } catch { /* a file that may not */ }
  };

  const key = (item) => order === "outcome" ? outcome(item) : order === "pair" ? `${item.baseline} ${item.candidate}` : item[order];
  for (const head of list.querySelectorAll("[data-sort]")) {
    const button = element("button", head.textContent, "sort");
    button.type = "button";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      [turned, order] = [order === head.dataset.sort && !turned, head.dataset.sort];
      for (const other of list.querySelectorAll("[data-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", turned ? "descending" : "ascending");
      apply();
    });
  }
  let timer = 0;
  form.addEventListener("reset", () => { shown = PAGE; setTimeout(apply); });
  form.addEventListener("input", () => { shown = PAGE; clearTimeout(timer); timer = setTimeout(apply, 80); });
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => { shown += PAGE; apply(); });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) { event.preventDefault(); form.elements.find.focus(); }
  });
  form.hidden = false;
  apply();
  document.documentElement.dataset.ready = "yes";
})();
