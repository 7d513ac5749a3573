"""Looking at a kernel: its time, its bytes, its machine code, its counters, its peers."""
