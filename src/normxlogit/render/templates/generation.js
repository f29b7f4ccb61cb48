document.querySelectorAll(".nxl-of-generation").forEach((card) => {
  const data = JSON.parse(card.querySelector(".nxl-data").textContent);
  const stream = card.querySelector(".nxl-stream");
  const status = card.querySelector(".nxl-status");
  const hint = card.querySelector(".nxl-hint");
  const tokens = [...stream.querySelectorAll(".nxl-token")];
  const written = tokens.slice(data.prompt);
  const special = tokens.map((t) => t.classList.contains("nxl-special"));
  const names = tokens.map((t) => t.dataset.name);
  const titles = tokens.map((t) => t.title);
  let shown = -1;
  let held = null;

{% include "digits.js" %}

  function show(g) {
    if (g === shown) return;
    shown = g;
    const row = data.scores[g];
    const own = data.prompt + g;
    const plain = row.map((s, i) => (special[i] ? 0 : Math.abs(s)));
    const scale = Math.max(...plain) || Math.max(...row.map(Math.abs)) || 1;
    tokens.forEach((token, i) => {
      token.classList.remove("nxl-for", "nxl-against", "nxl-now", "nxl-later");
      token.style.removeProperty("--s");
      token.title = titles[i];
      if (i === own) token.classList.add("nxl-now");
      else if (i > own) token.classList.add("nxl-later");
      else {
        const strength = Math.min(1, Math.abs(row[i]) / scale);
        token.title = names[i] + "  " + digits(row[i], scale, data.signed);
        if (strength >= 0.03 && !special[i]) {
          token.classList.add(row[i] > 0 ? "nxl-for" : "nxl-against");
          token.style.setProperty("--s", strength.toFixed(3));
        }
      }
    });
    const order = row.map((_, i) => i).filter((i) => !special[i] && row[i] !== 0);
    order.sort((a, b) => Math.abs(row[b]) - Math.abs(row[a]));
    const told = (places) => places.map((i) => names[i] + " " + digits(row[i], scale, data.signed)).join(", ");
    const strongest = order.slice(0, 5);
    const against = strongest.filter((i) => row[i] < 0);
    const name = document.createElement("strong");
    name.textContent = titles[own];
    status.textContent = "";
    status.append(name, " rests on " + (told(strongest.filter((i) => row[i] > 0)) || "nothing"));
    if (against.length) status.append("; " + status.dataset.negative + ": " + told(against));
  }

  function focusable(g) {
    written.forEach((token, i) => (token.tabIndex = i === g ? 0 : -1));
  }

  function focus(g) {
    focusable(g);
    written[g].focus();
    show(g);
  }

  function hold(g) {
    if (held !== null) written[held].setAttribute("aria-pressed", "false");
    held = held === g ? null : g;
    if (held !== null) written[held].setAttribute("aria-pressed", "true");
    show(g);
  }

  written.forEach((token, g) => {
    token.setAttribute("role", "button");
    token.setAttribute("aria-pressed", "false");
    token.addEventListener("mouseenter", () => held === null && show(g));
    token.addEventListener("focus", () => held === null && show(g));
    token.addEventListener("click", () => hold(g));
    token.addEventListener("keydown", (event) => {
      const last = written.length - 1;
      const next = { ArrowRight: g + 1, ArrowDown: g + 1, ArrowLeft: g - 1, ArrowUp: g - 1, Home: 0, End: last }[event.key];
      if (next !== undefined) {
        event.preventDefault();
        if (held !== null) hold(held);
        focus(Math.max(0, Math.min(last, next)));
      } else if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        hold(g);
      } else if (event.key === "Escape" && held !== null) {
        hold(held);
      }
    });
  });

  stream.classList.add("nxl-live");
  stream.setAttribute("role", "group");
  stream.setAttribute("aria-describedby", hint.id);
  hint.hidden = status.hidden = false;
  card.querySelector(".nxl-open").open = false;
  const words = written.map((_, g) => g).filter((g) => !special[data.prompt + g]);
  const first = words.length ? words[words.length - 1] : written.length - 1;
  focusable(first);
  show(first);
});
