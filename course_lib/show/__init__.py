"""How things look on a page: colours, tables, listings."""
