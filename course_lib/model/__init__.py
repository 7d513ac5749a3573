"""What is worked out on paper or in float64: costs, formats, the simulated memory. No kernel, no GPU."""
