# Times torch's product of 16-bit floats on the GPU, as one of 8B's is shaped, and prints a list of JSON. Ends with 1 where there
# is no torch or it has no GPU.
import json
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(1)
if not torch.cuda.is_available():
    sys.exit(1)

COLUMNS, ROWS_OF_MATRIX, COPIES = 4096, 14336, 8  # more copies than a cache holds


def seconds(rows):
    x = torch.randn(rows, COLUMNS, dtype=torch.float16, device="cuda")
    matrices = [torch.randn(COLUMNS, ROWS_OF_MATRIX, dtype=torch.float16, device="cuda") for _ in range(COPIES)]
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for matrix in matrices * 4:
            x @ matrix
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begun) / (4 * COPIES))
    return best


print(json.dumps([{"rows": rows, "seconds": seconds(rows), "bytes": 2 * COLUMNS * ROWS_OF_MATRIX} for rows in (1, 16, 512, 2048)]))
