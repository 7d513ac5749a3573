"""One module for each exercise; its EXERCISE is an ``exercises.base.Exercise``."""
