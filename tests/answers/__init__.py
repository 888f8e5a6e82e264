"""Wrong answers to the exercises, by chapter, and right ones of another make."""
