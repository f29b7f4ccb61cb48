(() => {
  const FAINT = {{ faint }};
  const COLORS = { for: "220,38,38", against: "37,99,235" };

  function paint(element, strength) {
    const kind = Math.abs(strength) < FAINT ? "" : strength > 0 ? "for" : "against";
    element.classList.remove("nxl-for", "nxl-against");
    if (kind) element.classList.add("nxl-" + kind);
    element.style.setProperty("--s", Math.abs(strength).toFixed(3));
    element.style.backgroundColor = kind ? "rgba(" + COLORS[kind] + "," + (0.55 * Math.abs(strength)).toFixed(3) + ")" : "";
  }

  // Three digits of the largest score, as in the tables.
  function digits(score, scale, signed) {
    let text;
    if (scale && (scale < 1e-4 || scale >= 1e5)) {
      text = score.toExponential(2).replace(/e([+-])(\d)$/, (_, sign, digit) => "e" + sign + "0" + digit);
    } else {
      const places = scale ? Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(scale)))) : 2;
      text = score.toFixed(places);
    }
    if (Number(text) === 0) return text.replace("-", "");
    return (signed && score > 0 ? "+" : "") + text;
  }

  function slider(card) {
    const box = card.querySelector(".nxl-slider");
    const range = box.querySelector("input");
    const count = Number(range.max) + 1;
    const sentences = [...card.querySelectorAll(".nxl-sentence[data-step]")];
    const maps = [...card.querySelectorAll(".nxl-map[data-steps]")].map((map) => [...map.tBodies[0].rows]);

    function show(step) {
      sentences.forEach((sentence, i) => (sentence.hidden = i % count !== step));
      const shown = sentences.filter((sentence) => !sentence.hidden);
      const caption = (sentence) => sentence.querySelector(".nxl-caption").textContent;
      range.setAttribute("aria-valuetext", shown[0].dataset.step);
      box.querySelector("[role=status]").textContent = shown.map((row) => caption(row) + ": " + row.dataset.summary).join("; ");
      maps.forEach((rows) => rows.forEach((row, i) => row.classList.toggle("nxl-shown", i % count === step)));
    }

    range.addEventListener("input", () => show(Number(range.value)));
    box.hidden = false;
    show(Number(range.value));
  }

  // Pointing at a part of an answer colours the sources it rests on; at a source, the parts that rest on it.
  function links(card, status) {
    const data = JSON.parse(card.querySelector("script.nxl-data").textContent);
    const hint = card.querySelector(".nxl-hint[data-negative]");
    const rows = data.scores || data.shares;
    const parts = [...card.querySelectorAll("[data-part]")];
    const sources = [...card.querySelectorAll("[data-source]")];
    const special = (e) => e.classList.contains("nxl-special");
    const patch = (e) => e.classList.contains("nxl-patch");
    const name = (e) => e.dataset.name;
    const written = (value, scale) => (data.shares ? Math.round(100 * value) + "%" : digits(value, scale, data.signed));
    const key = (e) => e.dataset.part + "/" + e.dataset.source;
    const elements = [...new Set([...parts, ...sources])];
    const titles = new Map(elements.map((e) => [e, e.title]));
    const turns = [...card.querySelectorAll(".nxl-turn")].filter((turn) => turn.querySelector(".nxl-share")).map((turn) => ({
      turn,
      said: turn.querySelector(".nxl-share"),
      whole: [turn.style.getPropertyValue("--s"), turn.querySelector(".nxl-share").textContent],
      sources: [...turn.querySelectorAll("[data-source]")],
    }));
    let held = null;

    // The messages of a conversation have the share of what they say in a sentence of the answer, or in all of it.
    function weigh(part) {
      for (const { turn, said, whole, sources } of turns) {
        const sum = sources.reduce((total, e) => total + (rows[part]?.[e.dataset.source] ?? 0), 0);
        const share = Math.max(0, Math.min(1, sum));
        turn.style.setProperty("--s", part === undefined ? whole[0] : share.toFixed(3));
        said.textContent = part === undefined ? whole[1] : Math.round(100 * share) + "%";
      }
    }

    function strongest(found, scale, sign) {
      const kept = found.filter(([e, value]) => !special(e) && value * sign > (data.shares ? 0.03 : 0));
      kept.sort((a, b) => sign * (b[1] - a[1]));
      const once = kept.filter(([e], i) => kept.findIndex(([other]) => key(other) === key(e)) === i); // a box and its text
      return once.slice(0, 5).map(([e, value]) => name(e) + " " + written(value, scale)).join(", ");
    }

    function show(element) {
      const part = element.dataset.part;
      const found = part !== undefined
        ? sources.map((e) => [e, rows[part][e.dataset.source] ?? undefined])
        : parts.map((e) => [e, rows[e.dataset.part][element.dataset.source] ?? undefined]);
      const known = found.filter(([, value]) => value !== undefined);
      const largest = (pairs) => Math.max(0, ...pairs.map(([, value]) => Math.abs(value)));
      const words = known.filter(([e]) => !patch(e));
      const scale = largest(words.filter(([e]) => !special(e))) || largest(words) || 1;
      const brightest = largest(known.filter(([e]) => patch(e))) || 1; // each patch is a small part of a picture
      elements.forEach((e) => {
        e.classList.remove("nxl-now", "nxl-later");
        paint(e, 0);
        e.title = titles.get(e);
      });
      element.classList.add("nxl-now");
      weigh(part);
      for (const [e, value] of found) {
        if (value === undefined) e.classList.toggle("nxl-later", e !== element);
        else {
          if (!special(e)) paint(e, Math.max(-1, Math.min(1, value / (patch(e) ? brightest : scale))));
          e.title = name(e) + "  " + written(value, scale);
        }
      }
      const strong = document.createElement("strong");
      strong.textContent = name(element);
      const against = strongest(known, scale, -1);
      const said = strongest(known, scale, 1) || "nothing";
      status.textContent = "";
      const verb = data.verdicts ? " " + data.verdicts[part] + "; the largest shares: " : " rests on: ";
      status.append(strong, part !== undefined ? verb + said : " is what these rest on: " + said);
      if (against) status.append("; " + hint.dataset.negative + ": " + against);
    }

    function hold(element) {
      if (held) held.setAttribute("aria-pressed", "false");
      held = held === element ? null : element;
      if (held) held.setAttribute("aria-pressed", "true");
      show(element);
      try {
        history.replaceState(null, "", "#" + (held ? held.id : "")); // what is held can be sent to others
      } catch {} // a frame without an address of its own
    }

    // The part that has the most of a single source of the prompt says most about the prompt.
    function most(part) {
      const given = sources.filter((e) => !parts.includes(e) && !special(e));
      return Math.max(0, ...given.map((e) => Math.abs(rows[part.dataset.part][e.dataset.source] ?? 0)));
    }

    // One stop of the tab key for the answer and one for the prompt; arrows move inside.
    for (const group of [parts, sources.filter((e) => !parts.includes(e))]) {
      group.forEach((e, i) => {
        e.tabIndex = i ? -1 : 0;
        e.setAttribute("role", "button");
        e.setAttribute("aria-pressed", "false");
        e.addEventListener("mouseenter", () => held === null && show(e));
        e.addEventListener("focus", () => held === null && show(e));
        e.addEventListener("click", () => hold(e));
        e.addEventListener("keydown", (event) => {
          const last = group.length - 1;
          const next = { ArrowRight: i + 1, ArrowDown: i + 1, ArrowLeft: i - 1, ArrowUp: i - 1, Home: 0, End: last }[event.key];
          if (next !== undefined) {
            event.preventDefault();
            if (held !== null) hold(held);
            e.tabIndex = -1;
            group[Math.max(0, Math.min(last, next))].tabIndex = 0;
            group[Math.max(0, Math.min(last, next))].focus();
          } else if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            hold(e);
          } else if (event.key === "Escape" && held !== null) hold(held);
        });
      });
    }
    hint.hidden = false;
    parts.forEach((e) => (e.id = card.id + "-" + e.dataset.part));
    const named = parts.find((e) => "#" + e.id === location.hash);
    if (named) hold(named);
    else if (parts.length) {
      const ordinary = parts.filter((e) => !special(e) && data.verdicts?.[e.dataset.part] !== "reasoning");
      show((ordinary.length ? ordinary : parts).reduce((best, e) => (most(e) > most(best) ? e : best)));
    }
  }

  // Lines from each part of an answer to what it rests on; those that begin elsewhere are faint while one is pointed at.
  function ways(grid) {
    grid.insertAdjacentHTML("beforeend", '<svg aria-hidden="true"></svg>');
    const svg = grid.lastElementChild;
    const boxes = new Map([...grid.querySelectorAll(".nxl-box")].map((box) => [box.dataset.box, box]));
    const targets = (box) => {
      const words = box.dataset.ways.trim().split(" ");
      return words.map((word, i) => [boxes.get(word), Number(words[i + 1])]).filter(([to, share], i) => i % 2 === 0 && to);
    };
    const reached = (box, seen = new Set()) => {
      if (!seen.has(box)) { seen.add(box); targets(box).forEach(([to]) => reached(to, seen)); }
      return seen;
    };
    function draw(from) {
      const kept = from && reached(from);
      const whole = grid.getBoundingClientRect();
      svg.replaceChildren();
      for (const box of boxes.values()) for (const [to, share] of targets(box)) {
        const a = box.getBoundingClientRect(), b = to.getBoundingClientRect();
        const same = Math.abs(a.left - b.left) < 1; // in one column the line goes around its right side
        const x = a.right - whole.left, y = a.top + a.height / 2 - whole.top;
        const x2 = (same ? b.right : b.left) - whole.left, y2 = b.top + b.height / 2 - whole.top;
        const bend = same ? 30 : (x2 - x) / 2;
        svg.insertAdjacentHTML("beforeend", "<path></path>");
        const path = svg.lastElementChild;
        path.setAttribute("d", `M${x} ${y} C${x + bend} ${y} ${same ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`);
        path.setAttribute("stroke-width", String(1 + 6 * share));
        path.classList.toggle("nxl-off", Boolean(kept) && !kept.has(box));
      }
    }
    for (const box of boxes.values()) {
      box.addEventListener("mouseenter", () => draw(box));
      box.addEventListener("mouseleave", () => draw());
    }
    addEventListener("resize", () => draw());
    draw();
  }

  function value(cell) {
    const text = cell.dataset.value ?? cell.textContent.trim();
    // 1,234, 56.7%, 12 (40%), 0.6 ± 0.1 and 3 of 4 are numbers too
    const digits = text.match(/^([^\s%]+)%?($| [(±]| of \d)/);
    const number = digits ? Number(digits[1].replace(/,/g, "")) : NaN;
    return Number.isNaN(number) ? text.toLocaleLowerCase() : number;
  }

  function compare(a, b) {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
    return typeof a === "number" ? -1 : 1;
  }

  function order(a, b, down) { // what is missing comes last
    if (a === "" || b === "") return (a === "") - (b === "");
    return down ? compare(b, a) : compare(a, b);
  }

  function sort(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (head.tagName !== "TH" || !table.tBodies[0].rows.length) return;
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
        rows.sort((a, b) => order(a[0], b[0], down));
        table.tBodies[0].append(...rows.map((pair) => pair[1]));
      });
    });
  }

  function filter(form) {
    const table = form.nextElementSibling.querySelector("table");
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
    const column = heads.indexOf(form.dataset.column);
    const rows = [...table.tBodies[0].rows];
    const [words, choice] = [form.querySelector("input"), form.querySelector("select")];
    const card = (row) => document.getElementById(decodeURIComponent((row.querySelector("a")?.hash || "").slice(1)));
    function apply() {
      const text = words.value.trim().toLocaleLowerCase();
      let shown = 0;
      for (const row of rows) {
        const chosen = !choice || !choice.value || row.cells[column].textContent === choice.value;
        row.hidden = !(chosen && row.textContent.toLocaleLowerCase().includes(text));
        if (card(row)) card(row).hidden = row.hidden;
        shown += !row.hidden;
      }
      form.querySelector("[role=status]").textContent = shown + " of " + rows.length;
    }
    form.addEventListener("input", apply);
    form.hidden = false;
    apply();
  }

  function open() {
    const target = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    const details = target && target.closest("article")?.querySelector("details.nxl-card");
    if (details) details.open = true;
    for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target?.scrollIntoView();
  }

  document.querySelectorAll("table.nxl-sort").forEach(sort);
  document.querySelectorAll(".nxl-filter").forEach(filter);
  document.querySelectorAll("article").forEach((card) => {
    const status = card.querySelector(".nxl-status");
    if (card.querySelector(".nxl-slider")) slider(card);
    if (card.querySelector("script.nxl-data")) links(card, status);
    else if (status) {
      card.addEventListener("click", (event) => { // a finger cannot hover
        const mark = event.target.closest(".nxl-text [title], .nxl-map [title], .nxl-picture [title]");
        if (mark) status.textContent = mark.title;
      });
    }
    card.querySelectorAll(".nxl-ways").forEach(ways);
    if (status) status.hidden = false;
  });
  addEventListener("hashchange", open);
  open();
  addEventListener("beforeprint", () => document.querySelectorAll("details.nxl-card").forEach((d) => (d.open = true)));
})();
