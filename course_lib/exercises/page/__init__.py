"""A student's page as text: which functions it defines, what these need, and what of a kernel a compiler needs. Nothing of it judges.

It imports Triton's names from ``course_lib.kernels``, and no other room.
"""
