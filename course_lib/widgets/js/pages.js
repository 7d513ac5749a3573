// A paged KV cache: block tables, a pool of pages, and the attention of one sequence with equal weights.

const SHADES = { A: "#0072b2", B: "#009e73", C: "#e69f00" };
const say = (x) => String(Number(x.toFixed(2)));

// The sum of weight · value over the rows that a kernel reads: those of all pages of the table. Token t has the value t; weights are equal.
export function output(length, read, masked) {
  if (!length) return 0;
  let sum = 0;
  for (const [token, value] of read) {
    const weight = token < length ? 1 / length : 0;
    sum += weight * (token < length || !masked ? value : 0);
  }
  return sum;
}

function render({ model, el }) {
  const data = model.get("data"), { page, pages, most } = data, names = Object.keys(data.tables);
  const tables = structuredClone(data.tables), lengths = { ...data.lengths };
  const taken = Object.values(tables).flat();
  const free = Array.from({ length: pages }, (_, i) => i).filter((i) => !taken.includes(i));
  const rows = Array.from({ length: pages }, () => Array(page).fill(null)); // what each row holds: [sequence, token], or nothing yet
  for (const name of names) for (let t = 0; t < lengths[name]; t++) rows[tables[name][Math.floor(t / page)]][t % page] = [name, t];
  let chosen = [names[0], lengths[names[0]] - 1], masked = true, message = "";

  el.classList.add("course-clickable");
  el.dataset.lmSuppressShortcuts = "true"; // keys are the picture's, not those of JupyterLab or its slides
  const root = html("div", { class: "pages", role: "group", "aria-label": data.alt }, el);
  const bar = html("div", { class: "course-bar" }, root);
  const button = (words, act) => html("button", { type: "button" }, bar, words).addEventListener("click", () => { message = ""; act(); draw(); });
  for (const name of names) button(`${name} + 1 token`, () => append(name));
  for (const name of names) button(`end ${name}`, () => end(name));
  const label = html("label", {}, bar);
  const check = html("input", { type: "checkbox" }, label);
  check.checked = true;
  label.append(" V masked, too");
  check.addEventListener("change", () => { masked = check.checked; draw(); });
  const where = html("div", { class: "formula", role: "status", "aria-live": "polite" }, root);
  const drawing = wideSvg(820, { viewBox: "0 0 820 268", role: "group", "aria-label": data.alt }, root);
  const sum = html("div", { class: "formula" }, root);
  const count = html("div", { class: "legend" }, root);

  function append(name) {
    if (lengths[name] === most) return (message = `${name} has ${most} tokens, all that this picture has room for.`);
    if (lengths[name] % page === 0) {
      if (!free.length) return (message = "No page is free: end a sequence.");
      tables[name].push(free.shift());
    }
    rows[tables[name].at(-1)][lengths[name] % page] = [name, lengths[name]];
    chosen = [name, lengths[name]++];
  }
  function end(name) {
    free.push(...tables[name]);
    tables[name] = [];
    lengths[name] = 0;
    chosen = [name, -1];
  }

  function draw() {
    const at = document.activeElement?.dataset?.token;
    const [name, token] = chosen, slot = Math.floor(token / page), number = token < 0 ? -1 : tables[name][slot];
    drawing.replaceChildren();
    names.forEach((sequence, i) => {
      const y = 34 + 84 * i;
      svg("text", { x: 10, y: y + 12, class: "name", style: "text-anchor: start" }, drawing, `${sequence}: ${lengths[sequence]} token${lengths[sequence] === 1 ? "" : "s"}`);
      for (let t = 0; t < lengths[sequence]; t++) {
        const here = sequence === name && t === token, x = 10 + 21 * t;
        const cell = svg("g", { class: "cell", tabindex: 0, role: "button", "data-token": `${sequence},${t}`, "aria-label": `token ${t} of ${sequence}` }, drawing);
        cell.style.fillOpacity = 1;
        svg("rect", { x, y: y + 25, width: 19, height: 22, fill: SHADES[sequence], stroke: here ? "var(--clickable-ink)" : "none", "stroke-width": 4 }, cell);
        svg("text", { x: x + 9.5, y: y + 41, class: "index", style: "font-size: 13px" }, cell, String(t));
        const act = () => { message = ""; chosen = [sequence, t]; draw(); };
        cell.addEventListener("click", act);
        cell.addEventListener("keydown", (event) => {
          const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
          if (!step && event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          event.stopPropagation();
          if (step) drawing.querySelector(`[data-token="${sequence},${t + step}"]`)?.focus();
          else act();
        });
      }
      tables[sequence].forEach((page_, s) => {
        const here = sequence === name && s === slot, x = 180 + 40 * s;
        svg("rect", { x, y: y - 7, width: 34, height: 25, fill: "var(--clickable-paper)", stroke: here ? "var(--clickable-ink)" : SHADES[sequence], "stroke-width": here ? 4 : 2 }, drawing);
        svg("text", { x: x + 17, y: y + 11, "data-slot": `${sequence},${s}` }, drawing, String(page_));
      });
    });
    svg("text", { x: 180, y: 18, style: "text-anchor: start" }, drawing, "block tables");
    svg("text", { x: 400, y: 18, style: "text-anchor: start" }, drawing, "the pool: pages of keys and values");
    const lines = Math.ceil(pages / 2), wide = Math.min(33, 136 / page);
    for (let p = 0; p < pages; p++) {
      const x = 460 + 200 * Math.floor(p / lines), y = 32 + (p % lines) * Math.min(58, 232 / lines);
      svg("text", { x: x - 8, y: y + 21, style: "text-anchor: end" }, drawing, `page ${p}`);
      for (let r = 0; r < page; r++) {
        const held = rows[p][r], live = held && tables[held[0]][Math.floor(held[1] / page)] === p && held[1] < lengths[held[0]];
        const here = p === number && r === token % page;
        svg("rect", { x: x + r * wide, y, width: wide - 3, height: 32, fill: live ? SHADES[held[0]] : "var(--clickable-paper)", stroke: here ? "var(--clickable-ink)" : "var(--clickable-line)", "stroke-width": here ? 4 : 1 }, drawing);
        const words = held ? `${held[0]}${held[1]}` : "NaN";
        svg("text", { x: x + r * wide + wide / 2 - 1.5, y: y + 21, "data-row": `${p},${r}`, class: "index", style: `font-size: 13px; ${live ? "" : "fill: var(--clickable-accent)"}` }, drawing, words);
      }
    }
    where.textContent = message || (token < 0 ? `${name} has ended; its pages are free, and what they held is still in them.`
      : `token ${token} of ${name}: slot ${token} // ${page} = ${slot}, table ${name}[${slot}] = page ${number}, row ${token} % ${page} = ${token % page}`);
    const read = tables[name].flatMap((p, s) => rows[p].map((held, r) => [s * page + r, held ? held[1] : NaN]));
    const value = output(lengths[name], read, masked), padding = read.length - lengths[name];
    sum.textContent = `${name}'s attention with equal weights and values 0, 1, 2 …: ${say(value)}` +
      (padding ? `, from ${lengths[name]} tokens and ${padding} row${padding === 1 ? "" : "s"} after them with weight 0` : "");
    const used = names.reduce((total, x) => total + lengths[x], 0), held = names.reduce((total, x) => total + tables[x].length, 0) * page;
    count.textContent = `${used} tokens in ${held} rows. With room for ${most} tokens reserved for each sequence: ${names.length * most} rows. Orange: no token of a sequence; NaN, or what an ended one left.`;
    if (at) drawing.querySelector(`[data-token="${at}"]`)?.focus();
  }
  draw();
}

export default { render };
