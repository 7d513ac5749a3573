// The softmax stepper: a row of scores, taken block by block.

const short = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(4))).replace("-", "−") : x < 0 ? "−∞" : "∞");

// (m, l) after each block, with the factor by which the old sum was multiplied. softmax.py's online_states is the model.
export function states(scores, block) {
  const found = [{ m: -Infinity, l: 0, factor: 0, seen: 0 }];
  for (let begin = 0; begin < scores.length; begin += block) {
    const part = scores.slice(begin, begin + block);
    const old = found[found.length - 1];
    const m = Math.max(old.m, ...part);
    const factor = old.seen ? Math.exp(old.m - m) : 0;
    const l = old.l * factor + part.reduce((sum, x) => sum + Math.exp(x - m), 0);
    found.push({ m, l, factor, seen: begin + part.length });
  }
  return found;
}

// The scores in a text, or a message that says what is wrong with it.
export function parse(text, most) {
  const words = text.replaceAll("−", "-").split(/[\s,;]+/).filter((word) => word);
  const scores = words.map(Number);
  const bad = words.find((word) => !Number.isFinite(Number(word)));
  if (bad !== undefined) return { error: `‘${bad}’ is not a number; type for example 3, 2, 5, 1` };
  if (!words.length) return { error: "type numbers, for example 3, 2, 5, 1" };
  if (words.length > most) return { error: `${words.length} numbers are too many to draw; type at most ${most}` };
  return { scores };
}

function render({ model, el }) {
  const data = model.get("data");
  el.classList.add("course-clickable");
  el.dataset.lmSuppressShortcuts = "true"; // keys are the picture's, not those of JupyterLab or its slides
  const root = html("div", { class: "stepper", tabindex: 0, role: "application", "aria-label": data.alt }, el);
  const bar = html("div", { class: "course-bar" }, root);
  const field = html("input", { type: "text", value: data.scores.join(", "), "aria-label": "scores", size: 28 }, html("label", {}, bar, "scores "));
  const choose = html("select", { "aria-label": "block size" }, html("label", {}, bar, "block "));
  for (const size of [1, 2, 4, 8]) html("option", { value: size }, choose, String(size));
  choose.value = data.block;
  const button = (words, label, act) => {
    const node = html("button", { type: "button", "aria-label": label, title: label }, bar, words);
    node.addEventListener("click", act);
    return node;
  };
  button("|◀", "to the start (Home)", () => move(0));
  button("◀", "one step back (left arrow)", () => move(step - 1));
  const play = button("▶ play", "play or pause (space)", () => (timer ? pause() : start()));
  button("▶", "one step forward (right arrow)", () => move(step + 1));
  const where = html("span", { class: "where" }, bar);
  const message = html("div", { class: "message", role: "alert" }, root);
  const formula = html("div", { class: "formula", role: "status", "aria-live": "polite" }, root);
  const drawing = wideSvg(0, { role: "img", "aria-label": "scores and their terms of the sum" }, root);
  let scores = data.scores, history = states(scores, data.block), step = 0, timer = null;

  function draw() {
    const now = history[step], before = history[Math.max(0, step - 1)];
    drawing.replaceChildren();
    const low = Math.min(0, ...scores), high = Math.max(0, ...scores), room = high - low || 1;
    const y = (value) => 150 - (125 * (value - low)) / room;
    const floor = 280, tall = 70; // the terms, all on one scale from 0 to 1
    const narrow = matchMedia("(max-width: 600px)").matches, wide = Math.min(narrow ? 70 : 120, 740 / scores.length);
    const span = narrow ? 140 + scores.length * wide : 860;
    drawing.setAttribute("viewBox", `0 0 ${span} 300`);
    drawing.style.minWidth = `${0.78 * span}px`;
    scores.forEach((x, i) => {
      const seen = i < now.seen, fresh = seen && i >= before.seen && step > 0;
      const term = Math.exp(x - now.m);
      const left = 50 + i * wide;
      // Above, the score; below, its term e^(x − m) of ℓ, which shrinks when a larger maximum comes.
      svg("rect", { x: left, width: wide - 6, y: Math.min(y(x), y(0)), height: Math.max(1, Math.abs(y(x) - y(0))),
        fill: seen ? "#0072b2" : "none", "fill-opacity": fresh ? 0.8 : 0.25,
        stroke: seen ? "#0072b2" : "var(--clickable-line)", "stroke-width": fresh ? 4 : 1.5 }, drawing);
      svg("line", { x1: left, x2: left + wide - 6, y1: floor, y2: floor, stroke: "var(--clickable-line)" }, drawing);
      if (seen) {
        svg("rect", { x: left, width: wide - 6, y: floor - tall * term, height: Math.max(1, tall * term),
          fill: "#d55e00", "fill-opacity": fresh ? 0.9 : 0.55, "data-term": term.toFixed(3) }, drawing);
      }
      if (wide > 34) {
        svg("text", { x: left + wide / 2 - 3, y: 172 }, drawing, short(x));
        svg("text", { x: left + wide / 2 - 3, y: 297 }, drawing, seen ? term.toFixed(3) : "");
      }
    });
    if (wide > 34) {
      svg("text", { x: 22, y: 172 }, drawing, "x");
      svg("text", { x: 22, y: 297 }, drawing, "term");
    }
    if (now.seen) {
      svg("line", { x1: 44, x2: 50 + now.seen * wide, y1: y(now.m), y2: y(now.m), stroke: "#d55e00", "stroke-width": 3 }, drawing);
      svg("text", { x: 80 + now.seen * wide, y: y(now.m) + 4 }, drawing, `m = ${short(now.m)}`);
    }
    const added = now.l - before.l * now.factor;
    const state = `(m, ℓ) = (${short(now.m)}, ${now.l.toFixed(3)})`;
    const power = `e^(${short(before.m)} − ${now.m < 0 ? `(${short(now.m)})` : short(now.m)})`;
    formula.textContent = !step ? "before the first block: (m, ℓ) = (−∞, 0)"
      : step === 1 ? `ℓ = ${now.l.toFixed(3)}, nothing to correct yet;  ${state}`
      : `ℓ = ${before.l.toFixed(3)} × ${power} + ${added.toFixed(3)} = ${before.l.toFixed(3)} × ${now.factor.toFixed(3)} + ${added.toFixed(3)} = ${now.l.toFixed(3)};  ${state}`;
    where.textContent = `${step} of ${history.length - 1}`;
  }

  function take() {
    const found = parse(field.value, data.most);
    message.textContent = found.error ?? "";
    field.setAttribute("aria-invalid", Boolean(found.error));
    drawing.style.opacity = found.error ? 0.25 : 1;
    if (found.error) return;
    scores = found.scores;
    history = states(scores, Number(choose.value));
    move(0);
  }
  function move(to) {
    pause();
    step = Math.max(0, Math.min(to, history.length - 1));
    draw();
  }
  function pause() {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ play";
  }
  function start() {
    if (step === history.length - 1) step = 0;
    play.textContent = "❚❚ pause";
    timer = setInterval(() => {
      step += 1;
      draw();
      if (step >= history.length - 1) pause();
    }, 900);
  }

  field.addEventListener("input", take);
  choose.addEventListener("change", take);
  root.addEventListener("keydown", (event) => {
    if (["INPUT", "SELECT"].includes(event.target.tagName) || event.altKey || event.ctrlKey || event.metaKey) return;
    const act = { ArrowRight: () => move(step + 1), ArrowLeft: () => move(step - 1), Home: () => move(0), End: () => move(Infinity) };
    if (event.key === " " && event.target.tagName !== "BUTTON") act[" "] = () => play.click();
    if (!act[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    act[event.key]();
  });
  draw();
  return pause;
}

export default { render };
