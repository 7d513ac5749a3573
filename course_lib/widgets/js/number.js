// A number in the bits of a format: click bits, type a number, walk along the number line; all formats beside each other.

const shown = (x, digits = 8) => {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "not a number";
  const text = x !== 0 && (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e7)
    ? x.toExponential(Math.min(digits - 1, 5)).replace(/\.?0+e/, "e").replace("e+", "e") : String(Number(x.toPrecision(digits)));
  return text.replaceAll("-", "−");
};

// The exponent of the step of a format at x: formats.py is the model.
function stepPower(x, format) {
  let power = 1 - format.bias;
  if (x !== 0) {
    let e = Math.floor(Math.log2(Math.abs(x)));
    if (2 ** e > Math.abs(x)) e -= 1;
    if (2 ** (e + 1) <= Math.abs(x)) e += 1;
    power = Math.max(power, e);
  }
  return power - format.mantissa;
}
export function rounded(x, format) {
  if (!Number.isFinite(x)) return format.finite ? Math.sign(x) * format.largest : x;
  const power = stepPower(x, format);
  // 2 ** power may be below the smallest double for fp32 only in theory; scale in two steps to stay exact.
  const scaled = x / 2 ** power;
  let whole = Math.round(Math.abs(scaled));
  if (Math.abs(Math.abs(scaled) % 1 - 0.5) === 0 && whole % 2) whole -= 1; // ties to even
  const y = Math.sign(x) * whole * 2 ** power;
  if (Math.abs(y) <= format.largest) return y === 0 ? (Object.is(x, -0) || x < 0 ? -0 : 0) : y;
  return Math.sign(x) * (format.finite ? format.largest : Infinity);
}
export function bitsOf(x, format) {
  const sign = x < 0 || Object.is(x, -0) ? "1" : "0";
  if (!Number.isFinite(x)) return sign + "1".repeat(format.exponent) + "0".repeat(format.mantissa);
  const power = stepPower(x, format);
  const whole = Math.abs(x) / 2 ** power;
  const stored = whole >= 2 ** format.mantissa ? power + format.mantissa + format.bias : 0;
  const pad = (n, width) => n.toString(2).padStart(width, "0");
  return sign + pad(stored, format.exponent) + pad(whole % 2 ** format.mantissa, format.mantissa);
}
export function valueOf(bits, format) {
  const sign = bits[0] === "1" ? -1 : 1;
  const e = parseInt(bits.slice(1, 1 + format.exponent), 2), m = parseInt(bits.slice(1 + format.exponent), 2);
  const top = e === 2 ** format.exponent - 1;
  if (top && !format.finite) return m ? NaN : sign * Infinity;
  if (top && format.finite && m === 2 ** format.mantissa - 1) return NaN;
  const whole = e ? m + 2 ** format.mantissa : m;
  return sign * whole * 2 ** (Math.max(e, 1) - format.bias - format.mantissa);
}

function render({ model, el }) {
  const data = model.get("data");
  el.classList.add("course-clickable");
  el.dataset.lmSuppressShortcuts = "true"; // keys are the picture's, not those of JupyterLab or its slides
  const root = html("div", { class: "number", tabindex: 0, role: "application", "aria-label": data.alt }, el);
  const bar = html("div", { class: "course-bar" }, root);
  const field = html("input", { type: "text", value: String(data.start), "aria-label": "number", size: 16 }, html("label", {}, bar, "number "));
  const choose = html("select", { "aria-label": "format" }, html("label", {}, bar, "format "));
  for (const format of data.formats) html("option", { value: format.name }, choose, format.name);
  choose.value = data.format;
  const button = (words, label, act) => {
    const node = html("button", { type: "button", "aria-label": label, title: label }, bar, words);
    node.addEventListener("click", act);
  };
  button("◀", "the number before (left arrow)", () => walk(-1));
  button("▶", "the next number (right arrow)", () => walk(1));
  button("÷ 2", "÷ 2, half of it (down arrow)", () => set(value / 2));
  button("× 2", "× 2, twice as much (up arrow)", () => set(value * 2));
  const message = html("div", { class: "message", role: "alert" }, root);
  const boxes = html("div", { class: "bits" }, root);
  const formula = html("div", { class: "formula", role: "status", "aria-live": "polite" }, root);
  const line = wideSvg(860, { viewBox: "0 0 860 96", role: "img", "aria-label": "neighbouring numbers of the format" }, root);
  const table = html("table", { class: "counters" }, root);
  let wanted = data.start, value = 0, bits = "";
  const format = () => data.formats.find((f) => f.name === choose.value);

  function set(x, typed = false) {
    wanted = x;
    value = rounded(x, format());
    if (!typed) {
      value = Number.isFinite(value) ? value : Math.sign(value) * format().largest;
      wanted = value;
      field.value = String(value);
      message.textContent = "";
    }
    bits = bitsOf(value, format());
    draw();
  }
  const walk = (by) => set(next(value, by));
  // The number of the format next to x, one up or one down; towards zero from a power of two the step is half as long.
  function next(x, by) {
    const f = format(), power = stepPower(x, f), towardsZero = x !== 0 && Math.sign(by) !== Math.sign(x);
    const shorter = towardsZero && Math.abs(x) / 2 ** power === 2 ** f.mantissa && power > 1 - f.bias - f.mantissa;
    return rounded(x + by * 2 ** (shorter ? power - 1 : power), f);
  }
  function neighbours() {
    const step = 2 ** stepPower(value, format()), found = [value];
    for (const by of [-1, 1]) {
      for (let x = next(value, by); Number.isFinite(x) && Math.abs(x - value) <= 8 * step && x !== found.at(-1); x = next(x, by)) found.push(x);
    }
    return found;
  }

  function draw() {
    const f = format(), at = document.activeElement?.dataset?.bit;
    boxes.replaceChildren();
    [...bits].forEach((bit, i) => {
      const part = i === 0 ? "sign" : i <= f.exponent ? "exponent" : "mantissa";
      const box = html("button", { type: "button", class: `bit ${part}`, "data-bit": i, "aria-label": `${part} bit ${i}: ${bit}` }, boxes, bit);
      box.addEventListener("click", () => {
        const flipped = bits.slice(0, i) + (bit === "1" ? "0" : "1") + bits.slice(i + 1);
        const x = valueOf(flipped, f);
        message.textContent = Number.isFinite(x) ? "" : `these bits stand for ${Number.isNaN(x) ? "‘not a number’" : "infinity"}, not for a number`;
        if (!Number.isFinite(x)) return;
        bits = flipped;
        value = wanted = x;
        field.value = String(x);
        draw();
      });
      if (String(i) === at) box.focus();
    });
    const e = parseInt(bits.slice(1, 1 + f.exponent), 2), m = parseInt(bits.slice(1 + f.exponent), 2);
    formula.textContent = Number.isFinite(value)
      ? `${bits[0] === "1" ? "−" : ""}${e ? 1 : 0} ${m}/${2 ** f.mantissa} × 2^${shown(Math.max(e, 1) - f.bias)} = ${shown(value, 12)};  step to the next ${shown(2 ** stepPower(value, f))}`
      : `beyond the largest ${f.name} number, ${shown(f.largest)}: stored as ${shown(value)}`;
    drawLine(f);
    drawTable(f);
  }
  function drawLine(f) {
    line.replaceChildren();
    if (!Number.isFinite(value)) return;
    const around = neighbours(), step = 2 ** stepPower(value, f), x = (y) => 430 + ((y - value) / step) * 48;
    svg("line", { x1: 20, x2: 840, y1: 46, y2: 46, stroke: "var(--clickable-line)", "stroke-width": 2 }, line);
    for (const y of around) {
      if (Math.abs(x(y) - 430) > 400) continue;
      const here = y === value;
      const tick = svg("g", { class: "tick", "data-value": y, style: "cursor: pointer" }, line);
      svg("rect", { x: x(y) - 12, width: 24, y: 16, height: 52, fill: "transparent" }, tick);
      svg("line", { x1: x(y), x2: x(y), y1: here ? 20 : 30, y2: here ? 72 : 62, stroke: here ? "#d55e00" : "#0072b2", "stroke-width": here ? 5 : 3 }, tick);
      tick.addEventListener("click", () => set(y));
    }
    for (const i of [-8, -4, 0, 4, 8]) {
      const y = value + i * step;
      if (rounded(y, f) === y) svg("text", { x: x(y), y: 90, "text-anchor": "middle" }, line, shown(y, 10));
    }
    if (Number.isFinite(wanted) && wanted !== value && Math.abs(x(wanted) - 430) < 420) {
      svg("path", { d: `M ${x(wanted)} 44 l -6 -14 h 12 z`, fill: "#e69f00" }, line);
      svg("text", { x: x(wanted), y: 14, "text-anchor": "middle" }, line, "what you typed");
    }
    line.parentNode.scrollLeft = (line.parentNode.scrollWidth - line.parentNode.clientWidth) / 2; // where the line scrolls, the number is in view
  }
  function drawTable(f) {
    table.replaceChildren();
    const head = html("tr", {}, html("thead", {}, table));
    for (const words of ["format", "bits", "it keeps", "relative error", "largest", "smallest normal"]) html("th", {}, head, words);
    const body = html("tbody", {}, table);
    for (const other of data.formats) {
      const row = html("tr", { "data-format": other.name }, body), kept = rounded(wanted, other);
      html("th", { style: `border-left-color: ${other.name === f.name ? "#d55e00" : "transparent"}` }, row, other.name);
      const error = wanted === 0 || !Number.isFinite(wanted) ? 0 : Math.abs(kept - wanted) / Math.abs(wanted);
      const words = kept === wanted ? "0" : Number.isFinite(error) ? error.toExponential(1).replace("-", "−") : "∞";
      const layout = `1 + ${other.exponent} + ${other.mantissa}`;
      for (const text of [layout, shown(kept, 10), words, shown(other.largest, 5), shown(other.smallest_normal, 4)]) html("td", {}, row, text);
    }
  }

  field.addEventListener("input", () => {
    const text = field.value.replaceAll("−", "-").trim();
    const x = Number(text);
    const bad = !text || !Number.isFinite(x);
    message.textContent = bad ? `‘${field.value}’ is not a number; type for example 3.14 or 1e-5` : "";
    field.setAttribute("aria-invalid", bad);
    if (!bad) set(x, true);
  });
  choose.addEventListener("change", () => {
    message.textContent = "";
    set(wanted, true);
  });
  root.addEventListener("keydown", (event) => {
    if (["INPUT", "SELECT"].includes(event.target.tagName) || event.altKey || event.ctrlKey || event.metaKey) return;
    const act = { ArrowRight: () => walk(1), ArrowLeft: () => walk(-1), ArrowUp: () => set(value * 2), ArrowDown: () => set(value / 2) };
    if (!act[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    act[event.key]();
  });
  set(wanted, true);
}

export default { render };
