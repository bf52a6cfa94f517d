// Lists and filters all comparisons.
const list = byId("list"); // an empty store has none
if (list) {
  const { base, fields, signs } = list.dataset, signOf = JSON.parse(signs), names = fields.split(" ");
  const { pairs, rows } = JSON.parse(byId("data").textContent).comparisons;
  const items = rows.map(([pair, ...rest]) => {
    const item = Object.fromEntries([...pairs[pair], ...rest].map((value, i) => [names[i], value]));
    return { ...item, outcome: item.died ? "died" : item.verdict, pair: `${item.baseline} → ${item.candidate}` };
  });
  const PAGE = matchMedia("(max-width: 66rem)").matches ? 12 : 40; // a row of a phone is as high as four
  const heads = [...list.tHead.rows[0].cells], pattern = list.tBodies[0].rows[0].cloneNode(true);
  let shown = PAGE, order = "", sign = 0, want = {};

  const line = (item) => {
    const row = pattern.cloneNode(true), [, verdict, , , when, because] = row.cells;
    row.querySelector("a").href = [base, ...[item.comparison, item.case, item.id].map(encodeURIComponent), "index.html"].join("/");
    for (const [i, bdi] of all("bdi", row).entries()) bdi.textContent = [item.case, item.pair, item.target][i];
    const word = make("span", item.died ? "died" : `v v-${item.verdict}`), mark = make("span", "", signOf[item.outcome]);
    mark.setAttribute("aria-hidden", "true");
    word.append(mark, ` ${item.outcome}`);
    verdict.replaceChildren(word);
    when.textContent = item.created.slice(0, 16).replace("T", " ");
    because.textContent = item.headline;
    return row;
  };
  const fits = (item) =>
    (!want.verdict || item.outcome === want.verdict) && (!want.target || item.target === want.target) && item.created >= want.since &&
    holds(`${item.case} ${item.comparison} ${item.baseline} ${item.candidate} ${item.id} ${item.headline}`, want.find);
  const apply = () => {
    const found = items.filter(fits), known = new Set(found), total = items.length.toLocaleString("en");
    if (sign) found.sort((one, other) => sign * compare(one[order], other[order]));
    list.tBodies[0].replaceChildren(...found.slice(0, shown).map(line));
    byId("count").textContent = found.length < items.length ? `${found.length.toLocaleString("en")} of ${total} comparisons fit` : `the lists below show all ${total} comparisons of all nights`;
    byId("more").hidden = found.length <= shown;
    byId("nothing").hidden = found.length > 0;
    for (const night of all(".night")) night.hidden = (want.target && night.dataset.target !== want.target) || night.dataset.ended < want.since;
    for (const row of all("#nights tbody tr, .changes li")) row.hidden = !holds(row.textContent, `${want.find} ${want.verdict}`);
    for (const cell of all("[data-item]")) cell.classList.toggle("off", !known.has(items[cell.dataset.item]));
  };
  sortBy(heads, (column, up) => { [order, sign] = [heads[column].dataset.sort, up]; apply(); });
  filterBy((wanted) => { [want, shown] = [wanted, PAGE]; apply(); });
  byId("more").addEventListener("click", () => { shown += PAGE; apply(); });
  document.documentElement.dataset.ready = "yes";
}
