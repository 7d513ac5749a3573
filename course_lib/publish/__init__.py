"""From the notebooks to what is read and presented: outputs, slides, pages, maps."""
