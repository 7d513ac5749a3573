// A page from a file may not fetch others, so a search there shows titles without excerpts.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";

document.addEventListener("DOMContentLoaded", () => {
  // "Search Ctrl+K", "Show code cell source": a label of other words would hide these from a screen reader.
  for (const named of document.querySelectorAll(".search-button-field, summary")) named.removeAttribute("aria-label");
});

// A formula that is too wide scrolls, and so has to be reached by the keyboard.
addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  for (const one of document.querySelectorAll("mjx-container[display]")) if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
});
