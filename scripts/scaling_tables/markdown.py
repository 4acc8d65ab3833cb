"""Cells and tables of the pages."""


def number(value):
    return f"{value:.0f}" if value >= 100 or value < 0.005 else f"{value:.3g}"


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
