"""The small library that the chapters of the book import, module by module."""
