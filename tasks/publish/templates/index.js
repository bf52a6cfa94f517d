// Lists and filters everything that was compared; what the reader chose stands in the address.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const list = document.getElementById("list"), fields = list.dataset.fields.split(" ");
  const { pairs, rows } = data.comparisons;
  const items = rows.map(([pair, ...rest]) => [...pairs[pair], ...rest]).map((row) => Object.fromEntries(fields.map((field, i) => [field, row[i]])));
  const more = document.getElementById("more");
  const signs = JSON.parse(list.dataset.signs), PAGE = matchMedia("(max-width: 66rem)").matches ? 12 : 40; // a row of a phone is as high as four
  const orders = [...list.tHead.rows[0].cells].map((head) => head.dataset.sort);
  let shown = PAGE, order = "", sign = 0, want = {};

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

  const matches = (item) =>
    (!want.verdict || outcome(item) === want.verdict) && (!want.target || item.target === want.target) &&
    (!want.since || item.created >= want.since) &&
    want.find.toLowerCase().split(/\s+/).every((word) =>
      `${item.case} ${item.comparison} ${item.baseline} ${item.candidate} ${item.id} ${item.headline}`.toLowerCase().includes(word));

  const apply = () => {
    const found = items.filter(matches);
    if (sign) found.sort((one, other) => sign * compare(key(one), key(other)));
    list.tBodies[0].replaceChildren(...found.slice(0, shown).map(line));
    document.getElementById("count").textContent = found.length < items.length ? `${found.length.toLocaleString("en")} of ${items.length.toLocaleString("en")} comparisons fit` : `all ${items.length.toLocaleString("en")} comparisons of all nights are shown`;
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
  };

  const key = (item) => order === "outcome" ? outcome(item) : order === "pair" ? `${item.baseline} ${item.candidate}` : item[order];
  sortBy([...list.tHead.rows[0].cells], (column, up) => { [order, sign] = [orders[column], up]; apply(); });
  filterBy(["find", "verdict", "target", "since"], (wanted) => { [want, shown] = [wanted, PAGE]; apply(); });
  more.addEventListener("click", () => { shown += PAGE; apply(); });
  document.documentElement.dataset.ready = "yes";
})();
