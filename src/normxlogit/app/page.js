// What the app's page runs: frames grow with what is in them, results come into view, and buttons save them. Nothing
// is written on the server.
addEventListener("message", (event) => {
  const height = Number(event.data && event.data.nxlHeight);
  const frame = [...document.querySelectorAll("iframe.nxl-page")].find((f) => f.contentWindow === event.source);
  if (frame && height > 0) frame.style.height = Math.min(Math.ceil(height), 6000) + "px";
});
// A click on a word of an explanation strikes it out of the text, and the model answers again.
const earlier = [];
function explainAgain(text) {
  const area = document.querySelector("#text textarea");
  area.value = text;
  area.dispatchEvent(new Event("input", {bubbles: true}));
  document.body.classList.toggle("nxl-struck", earlier.length > 0);
  setTimeout(() => document.getElementById("explain").click(), 50);
}
addEventListener("message", (event) => {
  const {nxlWord: word, nxlStart: start} = event.data || {};
  const frame = document.querySelector("#explained iframe.nxl-page");
  if (!word || !frame || frame.contentWindow !== event.source) return;
  const text = document.querySelector("#text textarea").value;
  if (text.slice(start, start + word.length) !== word) return;
  const before = text.slice(0, start), after = text.slice(start + word.length);
  const spare = /\s$/.test(before) && (!after || /^[\s.,;:!?)]/.test(after));  // a space that is left over
  const joined = (spare ? before.slice(0, -1) : before) + after;
  const left = before ? joined : after.trimStart();
  if (!left.trim()) return;
  earlier.push(text);
  explainAgain(left);
});
document.addEventListener("click", (event) => {
  const back = event.target.closest && event.target.closest("button[data-nxl-back]");
  if (back && earlier.length) explainAgain(earlier.pop());
});
document.addEventListener("input", (event) => {
  if (!event.isTrusted || !event.target.closest || !event.target.closest("#text")) return;
  earlier.length = 0;  // another text is typed
  document.body.classList.remove("nxl-struck");
});
// Chosen text files take the place of the documents.
document.addEventListener("change", async (event) => {
  if (event.target.id !== "documents-file" || !event.target.files.length) return;
  const texts = await Promise.all([...event.target.files].map((file) => file.text()));
  const area = document.querySelector("#documents textarea");
  area.value = texts.map((text) => text.trim()).filter(Boolean).join("\n---\n");
  area.dispatchEvent(new Event("input", {bubbles: true}));
});
// Where the window is narrow, a result is below its button. It is scrolled to at once: frames out of sight do not grow.
document.addEventListener("click", (event) => {
  const places = {explain: "explained", generate: "generated", cite: "cited"};
  const example = event.target.closest && event.target.closest(".nxl-tab:has(#explained) .gallery-item");
  if (example) {  // which is explained at once, and takes the place of a text with words struck out
    earlier.length = 0;
    document.body.classList.remove("nxl-struck");
  }
  const place = document.getElementById(example ? "explained" : places[event.target.id]);
  if (place && place.getBoundingClientRect().top > innerHeight / 2) place.scrollIntoView();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest && event.target.closest("button[data-nxl-save]");
  if (!button) return;
  const frame = button.closest(".nxl-result").querySelector("iframe");
  const json = button.dataset.nxlSave === "json";
  const kind = json ? "application/json" : "text/html;charset=utf-8";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([json ? frame.dataset.json : frame.dataset.page], {type: kind}));
  link.download = json ? "normxlogit.json" : "normxlogit.html";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
});
