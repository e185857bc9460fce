"""Double DQN for observations that are vectors, compiled."""
