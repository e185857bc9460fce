"""The paper, rerunnable: studies as data, a runner that loses nothing, a store, and comparisons."""
