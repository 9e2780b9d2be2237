"""Refused decisions, each a sentence about what is so now."""


class NotDecidable(Exception):
    """Nothing was decided and nothing is sent; the text says why, in words for the page."""
