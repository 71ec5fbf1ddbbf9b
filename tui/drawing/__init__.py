"""Rows and heads in words, glyphs and widths. Pure."""
