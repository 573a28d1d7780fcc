"""How well watts and times of GPUs under power limits are predicted, on measurements of three kinds of GPU."""
