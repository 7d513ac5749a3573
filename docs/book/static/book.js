// A page from a file may not fetch others, so a search there shows titles without excerpts.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";

document.addEventListener("DOMContentLoaded", () => {
  // "Search Ctrl+K" is what the button says; its label would hide half of that from a screen reader.
  for (const button of document.querySelectorAll(".search-button-field")) button.removeAttribute("aria-label");
});
