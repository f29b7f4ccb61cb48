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
