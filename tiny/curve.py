"""The loss curve as a small picture: `python curve.py [NAME]` reads tiny/runs/NAME/log.csv and writes tiny/loss.svg."""

import math
import sys
from pathlib import Path

HERE = Path(__file__).parent
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 300, 50, 40


def main(name):
    rows = [line.split(",") for line in (HERE / "runs" / name / "log.csv").read_text().split()]
    points = []
    for _, tokens, _, loss in rows:
        while points and points[-1][0] >= int(tokens) / 1e6:  # steps that were lost when a run was stopped
            points.pop()
        points.append((int(tokens) / 1e6, float(loss)))
    points = points[:: max(1, len(points) // 400)]
    right, low, high = points[-1][0], min(loss for _, loss in points) * 0.9, max(loss for _, loss in points)

    def place(x, y):
        return (
            LEFT + x / right * (WIDTH - LEFT - 10),
            10 + (math.log(high) - math.log(y)) / (math.log(high) - math.log(low)) * (HEIGHT - BOTTOM - 10),
        )

    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    marks = [y for y in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if low < y < high]
    lines = [
        f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{place(0, y)[1]:.1f}" y2="{place(0, y)[1]:.1f}" stroke="#ddd"/><text x="{LEFT - 6}" y="{place(0, y)[1] + 4:.1f}" text-anchor="end">{y}</text>'
        for y in marks
    ]
    step = max(1, round(right / 6))
    lines += [
        f'<text x="{place(x, high)[0]:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x}</text>'
        for x in range(0, int(right) + 1, step)
    ]
    (
        HERE / "loss.svg"
    ).write_text(f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12" fill="#333">
<rect width="100%" height="100%" fill="white"/>
{chr(10).join(lines)}
<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">million tokens seen (loss on the assistant's words, mean of about 20 steps)</text>
<polyline points="{path}" fill="none" stroke="#2266bb" stroke-width="1.5"/>
</svg>
""")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "base")
