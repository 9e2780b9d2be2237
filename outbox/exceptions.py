"""Refused decisions, each a sentence about what is so now."""


class NotDecidable(Exception):
    """Nothing was decided and nothing is sent; the text says why, in words for the page."""


class WrongEdit(Exception):
    """What was typed can't be sent. `problems` says why, by the name of the field; "" is for all of it."""

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems
