// The pipeline timeline: copies and consumer warpgroups over time. simulate() is pipeline.py's, in the page;
// a test holds the two equal.

export function simulate({ blocks, consumers, buffers, load, qk, softmax, pv, mode }) {
  // Two blocks are in use at a time.
  if (buffers < 2 && (mode === "two-stage overlap" || (mode === "ping-pong" && consumers > 1))) return null;
  const task = (warpgroup, kind, block, left, needs) => ({ warpgroup, kind, block, left, needs, start: null, end: null });
  const tasks = [], loads = [], matmuls = {};
  const everyone = Array.from({ length: consumers }, (_, i) => i + 1), alone = mode === "many warps";
  const ring = alone ? 1 : buffers;
  for (let block = 0; block < blocks; block++) {
    for (const owner of alone ? everyone : [0]) {
      const needs = loads.slice(-1);
      if (block >= ring) for (const user of alone ? [owner] : everyone) needs.push(matmuls[[user, block - ring]]);
      loads.push(task(owner, "load", block, load, needs));
    }
    for (const warpgroup of everyone) matmuls[[warpgroup, block]] = task(warpgroup, "PV", block, pv, []);
  }
  tasks.push(...loads);
  for (const warpgroup of everyone) {
    const mine = loads.filter((from) => !from.warpgroup || from.warpgroup === warpgroup);
    const scores = mine.map((from, block) => task(warpgroup, "QK", block, qk, [from]));
    const weights = scores.map((from, block) => task(warpgroup, "softmax", block, softmax, [from]));
    for (let block = 0; block < blocks; block++) {
      const matmul = matmuls[[warpgroup, block]];
      matmul.needs.push(weights[block]);
      if (block) {
        const last = matmuls[[warpgroup, block - 1]];
        weights[block].needs.push(weights[block - 1]);
        matmul.needs.push(last);
        if (mode === "two-stage overlap") {
          scores[block].needs.push(weights[block - 1]);
          if (block > 1) scores[block].needs.push(matmuls[[warpgroup, block - 2]]);
          last.needs.push(scores[block]);
        } else scores[block].needs.push(last);
      }
      tasks.push(scores[block], weights[block], matmul);
    }
  }
  return run(tasks, mode === "ping-pong");
}

const tensor = (t) => t.kind === "QK" || t.kind === "PV";
// The order of turns: PV of block j - 1 and QKᵀ of block j belong together, warpgroup after warpgroup.
const turn = (t) => [t.block + (t.kind === "PV"), t.warpgroup, t.kind === "QK"];

function run(tasks, exclusive) {
  let now = 0, waiting = [...tasks], running = [];
  const order = (a, b) => turn(a).map((x, i) => x - turn(b)[i]).find((x) => x !== 0) ?? 0;
  const turns = exclusive ? tasks.filter(tensor).sort(order) : [];
  const nothing = 1e-9 * Math.min(...tasks.map((t) => t.left)); // what rounding may leave of a task that is done
  while (waiting.length || running.length) {
    const busy = running.filter(tensor);
    for (const t of [...waiting]) {
      if (t.needs.some((need) => need.end === null)) continue;
      if (tensor(t) && exclusive) {
        if (busy.length || t !== turns[0]) continue;
        turns.shift();
      }
      t.start = now;
      waiting = waiting.filter((x) => x !== t);
      running.push(t);
      if (tensor(t)) busy.push(t);
    }
    const share = (t) => (tensor(t) ? busy.length : 1);
    const step = Math.min(...running.map((t) => t.left * share(t)));
    now += step;
    for (const t of running) {
      t.left -= step / share(t);
      if (t.left <= nothing) t.end = now;
    }
    running = running.filter((t) => t.end === null);
  }
  return tasks
    .map(({ warpgroup, kind, block, start, end }) => ({ warpgroup, kind, block, start, end }))
    .sort((a, b) => a.start - b.start || a.warpgroup - b.warpgroup || a.end - b.end);
}

export function idleFraction(spans) {
  let busy = 0, reached = 0;
  const work = spans.filter(tensor).sort((a, b) => a.start - b.start || a.end - b.end);
  for (const { start, end } of work) {
    busy += Math.max(0, end - Math.max(start, reached));
    reached = Math.max(reached, end);
  }
  return 1 - busy / Math.max(...spans.map((s) => s.end));
}

const NAMES = { load: "load K, V", QK: "QKᵀ", softmax: "softmax", PV: "PV" };

function render({ model, el }) {
  const data = model.get("data");
  el.classList.add("course-clickable");
  el.dataset.lmSuppressShortcuts = "true"; // keys are the picture's, not those of JupyterLab or its slides
  const root = html("div", { class: "pipeline", role: "group", "aria-label": data.alt }, el);
  const controls = html("div", { class: "course-bar" }, root);
  const choose = html("select", { "aria-label": "how work overlaps" }, html("label", {}, controls, "how work overlaps "));
  for (const mode of data.modes) html("option", { value: mode }, choose, mode);
  const sliders = html("div", { class: "sliders" }, root);
  const values = { ...data.start };
  choose.value = values.mode;
  const LIMITS = { buffers: [1, 4, 1], blocks: [2, 12, 1], consumers: [1, 3, 1], load: [0.5, 6, 0.5], qk: [0.5, 6, 0.5], softmax: [0.5, 6, 0.5], pv: [0.5, 6, 0.5] };
  const WORDS = { buffers: "buffers", blocks: "blocks", consumers: "consumers", load: "load", qk: "QKᵀ", softmax: "softmax", pv: "PV" };
  for (const [name, [min, max, step]] of Object.entries(LIMITS)) {
    const label = html("label", {}, sliders);
    html("span", {}, label, WORDS[name]);
    const input = html("input", { type: "range", min, max, step, "aria-label": WORDS[name], "data-name": name }, label);
    input.value = values[name];
    const shown = html("output", {}, label, String(values[name]));
    input.addEventListener("input", () => {
      values[name] = Number(input.value);
      shown.textContent = input.value;
      draw();
    });
  }
  let longest = 0; // the axis keeps its length, so that a gain shows
  const words = html("div", { class: "formula", role: "status", "aria-live": "polite" }, root);
  const message = html("div", { class: "message", role: "alert" }, root);
  const drawing = wideSvg(860, { role: "img", "aria-label": "warpgroups over time" }, root);
  const key = html("div", { class: "course-bar" }, root);
  for (const kind of Object.keys(NAMES)) {
    const item = html("span", {}, key);
    html("b", {}, item, "■ ").style.color = data.colors[kind];
    item.append(NAMES[kind]);
  }
  const gap = html("span", {}, key);
  html("b", {}, gap, "□ ");
  gap.append("nothing: waiting");

  function draw() {
    const spans = simulate(values);
    message.textContent = spans ? "" : `${values.mode} needs at least 2 buffers: two blocks are in use at a time`;
    drawing.style.opacity = spans ? 1 : 0.25;
    if (!spans) words.textContent = "";
    if (!spans) return;
    const end = Math.max(...spans.map((s) => s.end));
    longest = Math.max(longest, end);
    const rows = values.consumers + 2, height = 46, left = 110, width = 860;
    const x = (time) => left + ((width - left - 24) * time) / longest;
    drawing.replaceChildren();
    drawing.setAttribute("viewBox", `0 0 ${width} ${rows * height + 34}`);
    const row = (number, name) => {
      const y = number * height + 4;
      svg("text", { x: left - 10, y: y + 22, style: "text-anchor: end; font-size: 13px" }, drawing, name);
      svg("rect", { x: x(0), y, width: x(end) - x(0), height: height - 12, fill: "var(--clickable-line)", "fill-opacity": 0.25 }, drawing);
    };
    row(0, "copies");
    for (let w = 1; w <= values.consumers; w++) row(w, `consumer ${w}`);
    row(rows - 1, "tensor cores");
    const bar = (at, span, from, part) => {
      const y = at * height + 4 + from * (height - 12), w = x(span.end) - x(span.start);
      const box = svg("rect", { x: x(span.start), y, width: Math.max(1, w - 1), height: part * (height - 12), fill: data.colors[span.kind] }, drawing);
      svg("title", {}, box, `${NAMES[span.kind]} of block ${span.block}: ${span.start.toFixed(2)} to ${span.end.toFixed(2)}`);
      if (w > 30 && part > 0.6) svg("text", { x: x(span.start) + w / 2, y: y + 22, style: "fill: #000; font-size: 13px" }, drawing,
        w < 74 ? String(span.block) : `${NAMES[span.kind]} ${span.block}`);
    };
    for (const span of spans) {
      const beside = spans.some((s) => s !== span && s.warpgroup === span.warpgroup && s.start < span.end - 1e-9 && span.start < s.end - 1e-9);
      bar(span.warpgroup, span, beside && span.kind === "softmax" ? 0.5 : 0, beside ? 0.5 : 1);
      if (span.kind === "load" && span.warpgroup) bar(0, span, 0, 1); // a program's own copy, which it waits for
      if (span.kind === "QK" || span.kind === "PV") bar(rows - 1, span, (span.warpgroup - 1) / values.consumers, 1 / values.consumers);
    }
    const axis = rows * height + 6;
    const unit = [1, 2, 5, 10, 20, 50, 100].find((size) => longest / size <= 9) ?? 200;
    for (let at = 0; at <= longest; at += unit) svg("text", { x: x(at), y: axis + 12 }, drawing, String(at));
    svg("text", { x: left - 10, y: axis + 12, style: "text-anchor: end" }, drawing, "time (units)");
    if (longest > end) {
      svg("line", { x1: x(longest), x2: x(longest), y1: 0, y2: axis - 8, stroke: "var(--clickable-ink)", "stroke-dasharray": "5 4" }, drawing);
      svg("text", { x: x(longest) - 6, y: 14, style: "text-anchor: end" }, drawing, `longest so far: ${longest.toFixed(1)}`);
    }
    words.textContent = `tensor cores idle: ${(100 * idleFraction(spans)).toFixed(1)} % of ${end.toFixed(1)} units of time`;
  }
  choose.addEventListener("change", () => {
    values.mode = choose.value;
    draw();
  });
  draw();
}

export default { render };
