"""Draws journey.svg: python3 docs/figures/journey.py > docs/figures/journey.svg"""

STYLE = """
text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1b1d21}
.name{font-weight:650;font-size:15px}.note{font-size:12px;fill:#5a5f68}.msg{font-size:12.5px;font-style:italic;fill:#0a5ab8}
.box{fill:#fff;stroke:#7b828c;stroke-width:1.4}.learn{fill:#e6eff9;stroke:#0a5ab8}.bed{fill:#f6f6f3;stroke:#dcdcd6}
.jail{fill:none;stroke:#a84b00;stroke-width:1.6;stroke-dasharray:6 5}.warn{fill:#a84b00;font-size:12px}
.flow{fill:none;stroke:#0a5ab8;stroke-width:2}.head{fill:#0a5ab8}
@media(prefers-color-scheme:dark){text{fill:#e7e9ec}.note{fill:#a2a9b3}.msg{fill:#74b4ff}.box{fill:#191c20;stroke:#8b929c}
.learn{fill:#16263a;stroke:#74b4ff}.bed{fill:#111316;stroke:#31363d}.jail{stroke:#ffab5c}.warn{fill:#ffab5c}
.flow{stroke:#74b4ff}.head{fill:#74b4ff}}
"""

WIDTH, HEIGHT = 1040, 384
BOX_W, BOX_H, ROW = 140, 66, 92
X = {"archive": 22, "generator": 236, "compiler": 462, "verifier": 676, "timer": 878}
NOTES = {
    "archive": ("chooses what to try,", "keeps the best"),
    "generator": ("a code model", "writes programs"),
    "compiler": ("builds, finds", "techniques"),
    "verifier": ("secret inputs,", "error bounds"),
    "timer": ("beside a baseline,", "on quiet cores"),
}

out = []


def text(x, y, words, cls="", anchor="middle"):
    out.append(f'<text class="{cls}" x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>')


def box(x, y, name, notes, cls=""):
    out.append(f'<rect class="box {cls}" x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="9"/>')
    text(x + BOX_W / 2, y + 21, name, "name")
    for i, note in enumerate(notes):
        text(x + BOX_W / 2, y + 39 + 15 * i, note, "note")


def arrow(path, x, y, way):
    heads = {"right": (-9, -5, -9, 5), "up": (-5, 9, 5, 9), "down": (-5, -9, 5, -9)}
    ax, ay, bx, by = heads[way]
    out.append(f'<path class="flow" d="{path}"/>')
    out.append(f'<path class="head" d="M{x} {y} L{x + ax} {y + ay} L{x + bx} {y + by} Z"/>')


out.append(f'<rect class="bed" x="6" y="6" width="{WIDTH - 12}" height="{HEIGHT - 12}" rx="14"/>')
text(24, 34, "one message bus (NATS JetStream) between all roles, in one process or on many machines", "note", "start")
jail_x, jail_y = X["compiler"] - 10, ROW - 40
out.append(f'<rect class="jail" x="{jail_x}" y="{jail_y}" width="{X["timer"] + BOX_W + 10 - jail_x}" height="{BOX_H + 54}" rx="12"/>')
text(jail_x + 12, jail_y + 22, "generated code runs only in jails; clock, seeds and reference results stay outside them", "warn", "start")

for name, x in X.items():
    box(x, ROW, name, NOTES[name], "learn" if name == "generator" else "")
middle = ROW + BOX_H / 2
for (a, b), message in zip([("archive", "generator"), ("generator", "compiler"), ("compiler", "verifier"), ("verifier", "timer")],
                           ["task", "candidate", "compiled", "verified"]):
    x0, x1 = X[a] + BOX_W, X[b]
    arrow(f"M{x0 + 2} {middle} H{x1 - 8}", x1 - 2, middle, "right")
    text((x0 + x1) / 2 - (8 if b == "compiler" else 2), middle - 9, message, "msg")

# Outcomes go back to the archive and the learner.
line = 334
learner_y = 238
cx = X["timer"] + BOX_W / 2
arrow(f"M{cx} {ROW + BOX_H + 2} V{line} H{X['archive'] + BOX_W / 2} V{ROW + BOX_H + 12}", X["archive"] + BOX_W / 2, ROW + BOX_H + 2, "up")
arrow(f"M{X['generator'] + BOX_W / 2} {line} V{learner_y + BOX_H + 12}", X["generator"] + BOX_W / 2, learner_y + BOX_H + 2, "up")
text((X["generator"] + BOX_W + cx) / 2, line + 20, "outcome: measured speed with its interval, or the party at fault", "msg")
box(X["generator"], learner_y, "learner", ("rewards, advantages,", "gradient step"), "learn")
arrow(f"M{X['generator'] + BOX_W / 2} {learner_y - 2} V{ROW + BOX_H + 12}", X["generator"] + BOX_W / 2, ROW + BOX_H + 2, "up")
text(X["generator"] + BOX_W / 2 - 10, learner_y - 30, "policy version", "msg", "end")
for role in ("compiler", "verifier"):
    x = X[role] + BOX_W / 2
    out.append(f'<path class="flow" style="stroke-dasharray:3 4" d="M{x} {ROW + BOX_H + 2} V{line}"/>')

print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
      f'aria-label="The journey of a program: archive, generator, compiler, verifier, timer, and outcomes back to learner and archive">'
      f"<style>{STYLE}</style>{''.join(out)}</svg>")
