"""What a task puts an answer into: ranks and warps that take turns, a memory that counts, watched loads, attention with mistakes.

It imports the model and the instruments, and no other room: tasks and processes stand on it.
"""
