document.querySelectorAll(".nxl-of-sources").forEach((card) => {
  const { shares } = JSON.parse(card.querySelector(".nxl-data").textContent);
  const status = card.querySelector(".nxl-status");
  const hint = card.querySelector(".nxl-hint");
  const parts = [...card.querySelectorAll("[data-part]")];
  const sources = [...card.querySelectorAll("[data-source]")];
  const titles = new Map(sources.map((s) => [s, s.title]));
  let held = null;

  const percent = (share) => Math.round(100 * share) + "%";

  function clear() {
    [...parts, ...sources].forEach((e) => {
      e.classList.remove("nxl-lit", "nxl-now");
      e.style.removeProperty("--s");
    });
    sources.forEach((s) => (s.title = titles.get(s)));
    status.textContent = "";
  }

  function light(elements, values) {
    const most = Math.max(...values) || 1;
    elements.forEach((e, i) => {
      if (values[i] < 0.03) return;
      e.classList.add("nxl-lit");
      e.style.setProperty("--s", (values[i] / most).toFixed(3));
    });
  }

  function show(element) {
    clear();
    element.classList.add("nxl-now");
    if (element.dataset.part !== undefined) {
      const row = shares[Number(element.dataset.part)];
      const values = sources.map((s) => row[Number(s.dataset.source)]);
      light(sources, values);
      sources.forEach((s, i) => (s.title = percent(values[i]) + " of this sentence"));
      const order = values.map((_, i) => i).filter((i) => values[i] >= 0.03).sort((a, b) => values[b] - values[a]);
      const said = order.slice(0, 3).map((i) => titles.get(sources[i]).split("  ")[0] + " " + percent(values[i]));
      status.textContent = said.length ? "This sentence rests on " + said.join(", ") : "No source speaks for this sentence";
    } else {
      const column = Number(element.dataset.source);
      const values = parts.map((p) => shares[Number(p.dataset.part)][column]);
      light(parts, values);
      status.textContent = "Share of this source in each sentence of the answer: " + values.map(percent).join(", ");
    }
  }

  function hold(element) {
    if (held) held.setAttribute("aria-pressed", "false");
    held = held === element ? null : element;
    if (held) held.setAttribute("aria-pressed", "true");
    if (held) show(held);
    else clear();
  }

  [...parts, ...sources].forEach((e) => {
    e.tabIndex = 0;
    e.setAttribute("role", "button");
    e.setAttribute("aria-pressed", "false");
    e.addEventListener("mouseenter", () => held === null && show(e));
    e.addEventListener("mouseleave", () => held === null && clear());
    e.addEventListener("focus", () => held === null && show(e));
    e.addEventListener("click", () => hold(e));
    e.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        hold(e);
      } else if (event.key === "Escape" && held !== null) hold(held);
    });
  });

  card.classList.add("nxl-live");
  hint.hidden = status.hidden = false;
});
