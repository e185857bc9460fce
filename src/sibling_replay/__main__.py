"""`python -m sibling_replay` is the same command as `sibling-replay`."""

from sibling_replay_command import main

if __name__ == "__main__":
    main()
