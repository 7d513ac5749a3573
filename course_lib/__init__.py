"""course_lib: the library that the FlashAttention lectures are built on.

Start with ``course_lib.runtime.setup()``. Importing this package imports neither torch nor triton, so that
the mode (GPU or interpreter) can still be chosen.
"""
