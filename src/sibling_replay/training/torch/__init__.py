"""Double DQN in PyTorch: the readable reference, on any Gymnasium environment."""
