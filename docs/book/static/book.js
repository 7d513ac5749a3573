// A page from a file may not fetch others, so a search there shows titles without excerpts.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";

document.addEventListener("DOMContentLoaded", () => {
  // "Search Ctrl+K", "Show code cell source": a label of other words would hide these from a screen reader.
  for (const named of document.querySelectorAll(".search-button-field, summary")) named.removeAttribute("aria-label");

  // The theme listens to the first button of each side bar only: to the one in the bar on top, which book.css hides.
  for (const side of ["primary", "secondary"]) {
    const works = document.querySelector(`.bd-header .${side}-toggle`);
    document.querySelector(`.bd-header-article .${side}-toggle`)?.addEventListener("click", () => works?.click());
  }
  // A side bar that lies over a narrow page leaves it to the section that was chosen.
  document.addEventListener("click", (event) => event.target.closest("dialog[open] a[href^='#']")?.closest("dialog").close());

  // A figure that is shrunk to the page grows where it stands, and scrolls, so that its letters can be read; the file itself shows no more.
  for (const link of document.querySelectorAll("a.image-reference")) {
    const figure = link.querySelector("img");
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || !(link.classList.contains("shrunk") || link.classList.contains("full"))) return;
      event.preventDefault();
      const box = figure.getBoundingClientRect(), at = event.clientX ? (event.clientX - box.x) / box.width : 0;
      const full = link.classList.toggle("full");
      if (full) link.scrollLeft = at * link.scrollWidth - link.clientWidth / 2;
      measure();
    });
  }
});

const SCROLLS = ".bd-article :is(pre, .output, .course-clickable, .drawing, .image-reference, .pst-scrollable-table-container, mjx-container[display])";
const CAN_BE_REACHED = "a, button, input, select, summary, [tabindex]";

// What scrolls sideways fades at the side where it goes on, and can be reached by the keyboard.
function fade(one) {
  const math = one.querySelector(":scope > mjx-math"), more = (math ? extent(math) : one.scrollWidth) - one.clientWidth;
  one.classList.toggle("goes-on", one.clientWidth > 0 && one.scrollLeft < more - 2);
  if (more > 2 && !one.matches(CAN_BE_REACHED) && !one.querySelector(CAN_BE_REACHED)) one.tabIndex = 0;
}

// How wide the longest line of a formula is.
function extent(math) {
  const boxes = [...math.children].map((part) => part.getBoundingClientRect()).filter((box) => box.width);
  return boxes.length ? Math.max(...boxes.map((box) => box.right)) - Math.min(...boxes.map((box) => box.left)) : 0;
}

// A formula wider than its place breaks at its gaps; if that is not enough, it shrinks by up to a quarter, or else breaks before = and +.
function fit(formula) {
  const math = formula.querySelector("mjx-math"), display = formula.hasAttribute("display");
  for (const added of math.querySelectorAll(":scope > :is(br, wbr)")) added.remove();
  math.style.fontSize = "";
  const room = (display ? formula : formula.closest("p, li, dd, div, summary, h2, h3")).clientWidth + 1;
  const wide = room > 1 && !formula.closest("table") && extent(math) > room;
  formula.classList.toggle("broken", wide);
  if (!wide) return;
  for (const gap of math.querySelectorAll(":scope > mjx-mstyle > mjx-mspace")) {
    if (parseFloat(gap.style.width) >= 1) gap.parentElement.replaceWith(gap.parentElement, document.createElement("br"));
  }
  if (display && extent(math) > room && 0.75 * extent(math) < room) math.style.fontSize = `${Math.floor((100 * room) / extent(math))}%`;
  for (const signs of ["mjx-mo[space='4']", "mjx-mo[space='3']"]) {
    if (extent(math) <= room) return;
    for (const sign of math.querySelectorAll(`:scope > ${signs}`)) sign.before(document.createElement("wbr"));
  }
}

function measure(part = document) {
  for (const link of part.querySelectorAll("a.image-reference")) {
    const figure = link.querySelector("img");
    if (!link.classList.contains("full")) link.classList.toggle("shrunk", figure.clientWidth > 0 && figure.clientWidth < 0.75 * figure.getAttribute("width"));
  }
  for (const formula of part.querySelectorAll(".bd-article mjx-container")) fit(formula);
  for (const one of part.querySelectorAll(SCROLLS)) fade(one);
  document.documentElement.dataset.measured = "true";
}

addEventListener("load", async () => {
  await Promise.all([window.MathJax?.startup?.promise, document.fonts.ready]);
  measure();
  let width = innerWidth; // a phone's bar that comes and goes changes the height alone
  addEventListener("resize", () => { if (width !== innerWidth) { width = innerWidth; measure(); } });
  document.addEventListener("toggle", (event) => measure(event.target), true); // what a fold held had no width
  document.addEventListener("scroll", (event) => { if (event.target.matches?.(SCROLLS)) fade(event.target); }, { capture: true, passive: true });
});
