"""An Adam optimizer's moments as named tensors, for checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor


def adam_state(optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    """The moments, named `<place of the parameter>/<part>`."""
    state = optimizer.state_dict()["state"]
    return {f"{place}/{part}": x for place, moments in state.items() for part, x in moments.items()}


def load_adam_state(optimizer: torch.optim.Adam, named: dict[str, Tensor]) -> None:
    """Go on where `adam_state` was taken."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in named.items():
        place, part = name.split("/")
        if tensor.ndim:  # fused Adam walks memory: moments must lie as their parameter does
            tensor = torch.empty_like(parameters[int(place)]).copy_(tensor)
        state.setdefault(int(place), {})[part] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
