"""One module for each exercise; its EXERCISE is an ``exercises.base.Exercise``. It imports ``harness``, and never what is right."""
