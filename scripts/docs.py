#!/usr/bin/env python3
"""Builds the documentation site from docs/ with mdBook, into target/site (`make docs`).

    scripts/docs.py MDBOOK      MDBOOK is the program

mdBook makes pages of the files of docs/SUMMARY.md. It knows no files outside of docs/, and gives a README.md another name without changing the
links to it. So this script builds from a copy whose links are changed accordingly."""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BLOCK = r"^(?P<indent> *)```.*?^(?P=indent)```$"
# Code is matched before links, so that links within code are none; a link's text may have code.
TOKEN = re.compile(BLOCK + r"|`[^`\n]+`|(?P<picture>!?)\[(?P<words>[^\[\]]*)\]\((?P<link>[^)\s]+)\)", re.DOTALL | re.MULTILINE)


def links(text):
    """The relative links and pictures of a page, as typed."""
    found = [token["link"] for token in TOKEN.finditer(text) if token["link"]]
    return [link for link in found if not re.match(r"[a-z]+:|/", link)]


def headings(text):
    """The anchors of a page's headings."""
    bare = re.sub(BLOCK, "", text, flags=re.DOTALL | re.MULTILINE)
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", bare, flags=re.MULTILINE):
        words = TOKEN.sub(lambda token: token["words"] or token.group(), heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def target_of(link, page):
    """The file that a link of a page names, and the anchor in it."""
    path, _, anchor = link.partition("#")
    return ((page.parent / path).resolve() if path else page), anchor


def broken(page):
    """The relative links of a page that lead nowhere."""
    found = []
    for link in links(page.read_text()):
        target, anchor = target_of(link, page)
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target.read_text())):
            found.append(link)
    return found


def for_the_site(page, docs):
    """The text of a page with links that work on the site. A file outside of docs/ is named instead of linked."""
    def change(token):
        words, link = token["words"], token["link"]
        if not link or link not in links(token.group()):
            return token.group()
        target, anchor = target_of(link, page)
        if not target.is_relative_to(docs):
            name = target.relative_to(docs.parent)
            return words if words.strip("`") == str(name) else f"{words} (`{name}`)"
        if target.name != "README.md" or link.startswith("#"):
            return token.group()
        renamed = link.partition("#")[0].removesuffix("README.md") + "index.md"
        return f"[{words}]({renamed}{'#' if anchor else ''}{anchor})"
    return TOKEN.sub(change, page.read_text())


def prepare(docs, copy):
    """Makes the copy of which the site is built."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(docs, copy)
    for page in docs.rglob("*.md"):
        if page.name != "SUMMARY.md":
            (copy / page.relative_to(docs)).write_text(for_the_site(page, docs))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    copy, site = ROOT / "target/site-source", ROOT / "target/site"
    prepare(DOCS, copy)
    built = subprocess.run([sys.argv[1], "build", str(copy), "--dest-dir", str(site)], stdout=sys.stderr, check=False)
    if built.returncode != 0:
        sys.exit("mdbook failed; its messages name the page")
    print(site / "index.html")


if __name__ == "__main__":
    main()
