"""Code blocks of the pages that show the client. Tests run these blocks, so a page cannot show code that does not work."""

import pathlib

CLIENT = pathlib.Path(__file__).resolve().parent.parent
README = CLIENT / "README.md"
HOW_TO = CLIENT.parent.parent / "docs" / "how-to" / "reward-other-trainers.md"


def blocks(page):
    """All fenced blocks of a page: heading of the section, language (empty if none is named), text."""
    found, heading, language, lines = [], "", None, []
    for line in page.read_text(encoding="utf-8").splitlines():
        if language is not None:
            if line == "```":
                found.append((heading, language, "".join(f"{inner}\n" for inner in lines)))
                language, lines = None, []
            else:
                lines.append(line)
        elif line.startswith("```"):
            language = line[3:]
        elif line.startswith("## "):
            heading = line[3:]
    if language is not None:
        raise ValueError(f"{page}: a block does not end")
    return found


def block(page, heading, language):
    """The only block of a section in a language."""
    [text] = [text for section, named, text in blocks(page) if (section, named) == (heading, language)]
    return text
