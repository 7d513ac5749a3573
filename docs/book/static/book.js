// A page from a file may not fetch others, so a search there shows titles without excerpts.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";
