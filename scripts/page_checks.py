"""Checks of a page in a browser: texts that cannot be read, a phone's width, the keyboard, names for screen readers. Scripts gather facts
in the page, and functions judge them, so that tests of these need no browser.

Contrast is that of the Web Content Accessibility Guidelines 2.2 (contrast ratio and relative luminance)."""

import re

# The lowest contrast of a text, and the least height of a letter and of a link to tap, pixels.
CONTRAST = 4.5
LEAST_TEXT = 12
LEAST_TARGET = 24
# The least width of a column of words, pixels.
LEAST_COLUMN = 64

# `shown` is false for what has no place on the screen, as the words for screen readers.
COMMON = """
const shown = (element) => {
  if (!element.checkVisibility({ checkVisibilityCSS: true, visibilityProperty: true })) return false;
  const box = element.getBoundingClientRect();
  return box.width > 1 && box.height > 1 && box.right > 0;
};
const named = (element) => {
  const kind = element.getAttribute("class");
  return element.tagName.toLowerCase() + (kind ? "." + kind.trim().split(/\\s+/).join(".") : "");
};
"""

# Each kind of text that the page shows: words, colour, opacity, size on the screen, and the grounds behind it from the front to the back.
TEXTS = """(() => {
  COMMON
  const found = new Map();
  const add = (element, words, style, opacity = 1) => {
    const isDrawn = element instanceof SVGElement;
    const grounds = [];
    // A number in the heat map stands on the square of its link.
    const square = isDrawn && element.parentElement.localName === "a" && element.parentElement.querySelector(":scope > rect");
    if (square) grounds.push(getComputedStyle(square).fill);
    for (let at = element; at; at = at.parentElement) {
      const own = getComputedStyle(at);
      opacity *= Number(own.opacity);
      if (!(at instanceof SVGElement)) grounds.push(own.backgroundColor);
    }
    const place = isDrawn ? element.getScreenCTM() : null;
    const scale = place ? Math.hypot(place.a, place.b) : 1;
    const entry = {
      where: named(element), words: words.trim().slice(0, 60), colour: isDrawn ? style.fill : style.color,
      opacity: opacity, size: parseFloat(style.fontSize) * scale, grounds: grounds,
    };
    const key = JSON.stringify([entry.where, entry.colour, entry.opacity, entry.size.toFixed(1), grounds]);
    if (!found.has(key)) found.set(key, entry);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (walker.currentNode.data.trim() && shown(element)) add(element, walker.currentNode.data, getComputedStyle(element));
  }
  for (const field of document.querySelectorAll("input, select, textarea")) {
    if (shown(field) && field.type !== "checkbox") add(field, field.value || field.name, getComputedStyle(field));
  }
  for (const element of document.body.querySelectorAll("*")) {
    const before = getComputedStyle(element, "::before");
    if (!["none", "normal", '""'].includes(before.content) && shown(element)) add(element, before.content, before, Number(before.opacity));
  }
  return [...found.values()];
})()""".replace("COMMON", COMMON)

# Elements that are too wide for a phone, the widths of words, and the heights of the links of the navigation.
PHONE = """(() => {
  COMMON
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== "visible" && !(at instanceof SVGElement)) return true;
    }
    return false;
  };
  const beyond = [...document.body.querySelectorAll("*")].filter((element) => element.getBoundingClientRect().right > width + 1);
  const words = [...document.querySelectorAll("tbody th, td, dt, dd, p, li, h1, h2, h3")].filter((element) => shown(element) && element.innerText.trim().length > 20);
  const targets = [...document.querySelectorAll("nav a, nav button")].filter(shown);
  return {
    width: width, page: document.documentElement.scrollWidth,
    beyond: beyond.filter((element) => !scrolls(element)).map(named),
    columns: words.map((element) => ({ where: named(element), words: element.innerText.trim().slice(0, 40), width: element.getBoundingClientRect().width })),
    targets: targets.map((element) => ({ where: element.textContent.trim(), height: element.getBoundingClientRect().height })),
  };
})()""".replace("COMMON", COMMON)

# The parts of a page that its structure has to have, and what has no name.
STRUCTURE = """(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const hidden = (element) => element.closest("[aria-hidden=true]");
  const label = (element) => element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") || element.getAttribute("alt");
  const outermost = (element) => !element.parentElement.closest("svg");
  const images = all("svg, img").filter((image) => outermost(image) && !hidden(image));
  const fields = all("input, select, textarea").filter((field) => field.type !== "hidden");
  const skip = document.querySelector("a[href]");
  const rows = new Set(all("table [id]").map((row) => row.id));
  return {
    headings: all("h1").length, lang: document.documentElement.lang, title: document.title, mains: all("main").length,
    skip: skip ? skip.getAttribute("href") : "",
    images: images.filter((image) => !label(image) && !image.querySelector(":scope > title")).map((image) => image.outerHTML.slice(0, 80)),
    fields: fields.filter((field) => !label(field) && !(field.labels && field.labels.length)).map((field) => field.outerHTML.slice(0, 80)),
    links: all("a[href], button").filter((link) => !link.textContent.trim() && !label(link)).map((link) => link.outerHTML.slice(0, 80)),
    cells: all(".heat a").filter((cell) => !cell.querySelector("title") || !rows.has(cell.getAttribute("href").slice(1))).length,
    foreign: all("main script, main img, main iframe, main object, main style").length,
  };
})()"""

# Lists what a reader reaches by Tab, in the order of the page, with its looks while it has no focus.
STOPS = """(() => {
  COMMON
  window.looksOf = (element) => {
    const style = getComputedStyle(element);
    return [style.outlineStyle, style.outlineWidth, style.outlineColor, style.boxShadow];
  };
  document.activeElement.blur();
  const all = document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]');
  const isOpen = (element) => element.checkVisibility({ checkVisibilityCSS: true, visibilityProperty: true });
  window.stops = [...all].filter((element) => isOpen(element) && !element.disabled && element.type !== "hidden");
  return window.stops.map((element) => ({ where: named(element) + " " + element.textContent.trim().slice(0, 40), looks: looksOf(element) }));
})()""".replace("COMMON", COMMON)

# The stop that has the focus, or -1.
HERE = "({ at: stops.indexOf(document.activeElement), looks: looksOf(document.activeElement) })"


def colour(text):
    """Red, green and blue from 0 to 255, and alpha from 0 to 1, of a computed colour; nothing is drawn with `none`."""
    if text == "none":
        return 0.0, 0.0, 0.0, 0.0
    found = re.fullmatch(r"(rgba?|color)\((?:srgb )?([^)]*)\)", text.strip())
    if not found:
        raise ValueError(f"not a computed colour: {text}")
    parts = [float(part) for part in re.split(r"[\s,/]+", found[2].strip())]
    scale = 255 if found[1] == "color" else 1
    red, green, blue = (scale * part for part in parts[:3])
    return red, green, blue, parts[3] if len(parts) > 3 else 1.0


def over(front, back):
    """The colour of a transparent one before an opaque one."""
    alpha = front[3]
    return (*(alpha * one + (1 - alpha) * other for one, other in zip(front[:3], back[:3])), 1.0)


def luminance(shade):
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (part / 255 for part in shade[:3])]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ratio_of(text):
    """The contrast of a text of TEXTS with what is behind it; none if it is not drawn."""
    ground = (255.0, 255.0, 255.0, 1.0)
    for one in reversed(text["grounds"]):
        ground = over(colour(one), ground)
    *shade, alpha = colour(text["colour"])
    if alpha == 0:
        return None
    return contrast(over((*shade, alpha * text["opacity"]), ground), ground)


def pale(texts):
    """The texts whose contrast is too low."""
    judged = ((text, ratio_of(text)) for text in texts)
    return [f"{ratio:.2f} of {CONTRAST}: {text['where']} “{text['words']}” {text['colour']}" for text, ratio in judged if ratio is not None and ratio < CONTRAST]


def small(texts):
    """The texts whose letters are too small."""
    # A scale of a drawing is no exact number.
    return [f"{text['size']:.1f} of {LEAST_TEXT} px: {text['where']} “{text['words']}”" for text in texts if text["size"] < LEAST_TEXT - 0.01]


def cramped(facts):
    """The faults of a page on a phone, from the facts of PHONE."""
    found = []
    if facts["page"] > facts["width"]:
        found.append(f"the page is {facts['page']} px wide and the phone {facts['width']}: {', '.join(sorted(set(facts['beyond'])))}")
    found += [f"{one['width']:.0f} of {LEAST_COLUMN} px wide: {one['where']} “{one['words']}”" for one in facts["columns"] if one["width"] < LEAST_COLUMN]
    found += [f"{one['height']:.1f} of {LEAST_TARGET} px high: “{one['where']}”" for one in facts["targets"] if one["height"] < LEAST_TARGET - 0.01]
    return found


def nameless(facts):
    """The faults of the structure, from the facts of STRUCTURE."""
    found = []
    for part, wanted in (("headings", 1), ("mains", 1), ("lang", "en"), ("skip", "#main"), ("cells", 0), ("foreign", 0)):
        if facts[part] != wanted:
            found.append(f"{part}: {facts[part]!r}, not {wanted!r}")
    if not facts["title"].strip():
        found.append("no title")
    for part in ("images", "fields", "links"):
        found += [f"{part} without a name: {one}" for one in facts[part]]
    return found


def is_marked(before, now):
    """True if an element shows that it has the focus: its looks without focus, and with it, as STOPS and HERE list them."""
    style, width, tint, shadow = now
    outlined = style != "none" and float(width.removesuffix("px") or 0) > 0 and colour(tint)[3] > 0
    return now != before and (outlined or shadow != before[3])


def unreached(stops, visited):
    """The faults of a walk by Tab: `visited` has the numbers of the stops and their looks, in order."""
    found, order = [], []
    for place in visited:
        if place["at"] >= 0 and place["at"] not in order:
            order.append(place["at"])
            stop = stops[place["at"]]
            if not is_marked(stop["looks"], place["looks"]):
                found.append(f"no sign of the focus: {stop['where']}")
    missed = [stop["where"] for number, stop in enumerate(stops) if number not in order]
    if missed:
        found.append(f"Tab does not reach {len(missed)} of {len(stops)}: {'; '.join(missed[:5])}")
    elif order != sorted(order):
        first = next(number for number, at in enumerate(order) if number != at)
        found.append(f"Tab leaves the order of the page at {stops[order[first]]['where']}")
    return found
