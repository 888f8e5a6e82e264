"""The checks of the exercises: one module for each chapter that has any."""
