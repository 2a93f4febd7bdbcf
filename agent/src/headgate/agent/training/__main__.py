"""The process of one training."""

from headgate.agent.training.program import main

if __name__ == "__main__":
    main()
