"""What the exercises are checked by: cases, right results, known-wrong answers. A student's copy has their results only, as data."""
