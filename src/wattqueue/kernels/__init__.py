"""The only compiled code: heap, queue tree, running blocks, placement, the pass, the loop, energy."""
