(() => {
  function value(cell) {
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = Number(text.replace(/,|%$/g, "")); // 1,234 and 56.7% are numbers too
    return text !== "" && !Number.isNaN(number) ? number : text.toLocaleLowerCase();
  }

  function compare(a, b) {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
    return typeof a === "number" ? -1 : 1;
  }

  document.querySelectorAll("table.nxl-sort").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (head.tagName !== "TH") return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const numbers = typeof value(table.tBodies[0].rows[0].cells[column]) === "number";
        const down = before ? before === "ascending" : numbers && column > 0; // the largest first, but the first text
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[column]), row]);
        rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
        table.tBodies[0].append(...rows.map((pair) => pair[1]));
      });
    });
  });

  const filter = document.querySelector(".nxl-filter");
  if (filter) {
    const rows = [...document.querySelector(".nxl-overview").tBodies[0].rows];
    const [words, label] = [filter.querySelector("input"), filter.querySelector("select")];
    const status = filter.querySelector("[role=status]");
    const cards = new Map(rows.map((row) => [row, document.getElementById(row.dataset.card)]));
    const apply = () => {
      const wanted = words.value.trim().toLocaleLowerCase();
      let shown = 0;
      for (const row of rows) {
        const fits = (!wanted || row.textContent.toLocaleLowerCase().includes(wanted)) && (!label.value || row.dataset.label === label.value);
        row.hidden = cards.get(row).hidden = !fits;
        shown += fits;
      }
      status.textContent = shown + " of " + rows.length;
    };
    words.addEventListener("input", apply);
    label.addEventListener("input", apply);
    filter.hidden = false;
    apply();
  }

  function open() {
    const card = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const details = card && card.querySelector("details.nxl-card");
    if (details) details.open = true;
  }
  addEventListener("hashchange", open);
  open();
  addEventListener("beforeprint", () => document.querySelectorAll("details.nxl-card").forEach((d) => (d.open = true)));
})();
