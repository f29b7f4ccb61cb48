// Tells the app how high the page in the frame is, so that it needs no second scroll bar, and which word was clicked.
new ResizeObserver(() => parent.postMessage({nxlHeight: document.documentElement.getBoundingClientRect().height}, "*"))
  .observe(document.documentElement);
document.addEventListener("click", (event) => {
  const word = event.target.closest && event.target.closest(".nxl-text .nxl-mark");
  if (!word) return;
  const before = document.createRange();
  before.setStart(word.closest(".nxl-text"), 0);
  before.setEndBefore(word);
  parent.postMessage({nxlWord: word.textContent, nxlStart: before.toString().length}, "*");
});
// Puts what can be done below the coloured text, and what the numbers are above those of the words.
{
  const hints = document.querySelector("template").content;
  const text = document.querySelector(".nxl-text"), words = document.querySelector("table.nxl-all");
  const strike = hints.querySelector("#nxl-strike"), unit = hints.querySelector("#nxl-unit");
  if (text && strike.textContent) text.after(strike);
  if (words && unit.textContent) words.closest(".nxl-scroll").before(unit);
}
