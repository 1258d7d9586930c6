"""Run inside `.venv-peers`: samples a second of processor time of other factorization machines on the
same samples, K = 5, one thread."""

import json
import sys
from pathlib import Path
from time import process_time

import numpy as np

K = 5
BATCHES = (256, 4096, 65536)


def torch_rate(X: np.ndarray, y: np.ndarray, batch: int, *, shuffled: bool) -> float:
    """Shuffled: in a new order in each pass, as it is trained with; else along the file, which memory likes best."""
    import torch

    torch.set_num_threads(1)
    features, labels = torch.tensor(X), torch.tensor((y > 0).astype(np.float32))
    w, V, b = torch.zeros(X.shape[1]), 0.05 * torch.randn(X.shape[1], K), torch.zeros(1)
    for p in (w, V, b):
        p.requires_grad_()
    optimiser = torch.optim.SGD([w, V, b], lr=0.05)
    loss = torch.nn.BCEWithLogitsLoss()

    def one_pass() -> None:
        order = torch.randperm(len(features)) if shuffled else None
        for at in range(0, len(features), batch):
            rows = slice(at, at + batch) if order is None else order[at : at + batch]
            x, t = features[rows], labels[rows]
            score = b + x @ w + 0.5 * ((x @ V).square().sum(1) - x.square() @ V.square().sum(1))
            optimiser.zero_grad()
            loss(score, t).backward()
            optimiser.step()

    return len(X) / fastest(one_pass, 15)


def myfm_rate(X: np.ndarray, y: np.ndarray) -> float:
    import myfm
    from scipy.sparse import csr_matrix

    sparse, iterations = csr_matrix(X.astype(np.float64)), 5

    def fit() -> None:
        myfm.MyFMGibbsClassifier(rank=K).fit(sparse, y > 0, n_iter=iterations, n_kept_samples=1)

    return iterations * len(X) / fastest(fit, 1)


def fastest(task, repeats: int) -> float:  # type: ignore[no-untyped-def]
    times = []
    for _ in range(repeats):
        began = process_time()
        task()
        times.append(process_time() - began)
    return min(times)


if __name__ == "__main__":
    data = np.load(Path(sys.argv[1]) / "samples.npz")
    X, y = data["X"], data["y"]
    rates = {f"PyTorch, batches of {batch}": torch_rate(X, y, batch, shuffled=True) for batch in BATCHES}
    rates["PyTorch, one step a pass, as rounds"] = torch_rate(X, y, len(X), shuffled=False)
    rates |= {
        f"PyTorch, batches of {batch}, along the file": torch_rate(X, y, batch, shuffled=False) for batch in BATCHES
    }
    rates["myFM, Gibbs"] = myfm_rate(X, y)
    sys.stderr.flush()
    print(json.dumps(rates))
