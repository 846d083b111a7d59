"""Reinforcement learning on the autoregressive path: rewards, prompts, rollouts and GRPO."""
