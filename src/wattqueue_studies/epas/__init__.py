"""The study of paper 3: PAS and E-PAS on two machines of 520 cores, and Algorithm 1 by itself."""
