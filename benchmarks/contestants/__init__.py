"""One file per library, one class each, the same four calls: `fill`, `add(i)`, `sample`, `update`.

`sample` leaves what it drew in `last`, and `update` writes |td| to the entries in `last`, as a
learner does. Each class uses its library's fastest documented way to add single transitions to a
prioritized buffer, with alpha 0.6 and beta 0.4. `sample` must deliver every field, the weights and
the indices as arrays.
"""

from __future__ import annotations

from importlib import import_module

# name -> (module, class, distribution whose version is reported)
CONTESTANTS = {
    "ours-per": ("ours", "Per", "sibling-replay"),
    "ours-sample": ("ours", "Sample", "sibling-replay"),
    "cpprb": ("cpprb_", "Contestant", "cpprb"),
    "tianshou": ("tianshou_", "Contestant", "tianshou"),
    "torchrl": ("torchrl_", "Contestant", "torchrl"),
}


def load(name: str) -> type:
    """The class of a contestant; only its own library is imported."""
    module, cls, _ = CONTESTANTS[name]
    return getattr(import_module(f"contestants.{module}"), cls)
