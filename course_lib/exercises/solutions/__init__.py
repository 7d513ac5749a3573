"""SOURCE and EXPLANATION for each exercise, in a module of its name; ``make student`` leaves them out. It imports nothing."""
