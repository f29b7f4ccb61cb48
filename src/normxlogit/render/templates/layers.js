(() => {
{% include "digits.js" %}
  const FAINT = 0.03;
  const COLORS = { for: "220,38,38", against: "37,99,235" };

  function prepare(article) {
    const data = JSON.parse(article.querySelector("script.nxl-steps").textContent);
    const box = article.querySelector(".nxl-slider");
    const range = box.querySelector("input");
    const status = box.querySelector("[role=status]");
    const special = new Set(data.special);
    const sentences = [...article.querySelectorAll(".nxl-sentence")].map((sentence) => ({
      caption: sentence.querySelector(".nxl-caption"),
      marks: [...sentence.querySelectorAll("[data-i]")].map((e) => [e, Number(e.dataset.i)]),
    }));
    const maps = [...article.querySelectorAll(".nxl-map")].map((map) => [...map.tBodies[0].rows]);

    function colour(mark, i, row, where) {
      const strength = row.strengths[i];
      const kind = special.has(i) || Math.abs(strength) < FAINT ? "" : strength > 0 ? "for" : "against";
      mark.title = data.names[i] + "  " + digits(row.scores[i], row.scale, data.signed) + "  (" + where + ")";
      if (special.has(i)) return;
      mark.className = "nxl-mark" + (kind && " nxl-" + kind);
      mark.style.setProperty("--s", Math.abs(strength).toFixed(3));
      mark.style.backgroundColor = kind ? "rgba(" + COLORS[kind] + "," + (0.55 * Math.abs(strength)).toFixed(3) + ")" : "";
    }

    function show(k) {
      const layer = "layer " + data.layers[k];
      const told = [];
      sentences.forEach((sentence, label) => {
        const row = data.rows[label][k];
        const where = data.labels[label] ? data.labels[label] + ", " + layer : layer;
        sentence.caption.textContent = where;
        for (const [mark, i] of sentence.marks) colour(mark, i, row, where);
        const order = row.scores.map((_, i) => i).filter((i) => !special.has(i) && row.scores[i] !== 0);
        order.sort((a, b) => Math.abs(row.scores[b]) - Math.abs(row.scores[a]));
        const words = order.slice(0, 4).map((i) => data.names[i] + " " + digits(row.scores[i], row.scale, data.signed));
        told.push((data.labels[label] ? data.labels[label] + ": " : "") + (words.join(", ") || "no word has a score"));
      });
      range.setAttribute("aria-valuetext", layer);
      status.textContent = layer + ": " + told.join("; ");
      maps.forEach((rows) => rows.forEach((row, i) => row.classList.toggle("nxl-shown", i === k)));
    }

    range.addEventListener("input", () => show(Number(range.value)));
    box.hidden = false;
    show(Number(range.value));
  }

  document.querySelectorAll("article:has(script.nxl-steps)").forEach(prepare);
})();
