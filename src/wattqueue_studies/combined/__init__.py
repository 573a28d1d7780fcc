"""The study of the row ``combined``: against the best row of each paper, and what each ingredient is worth.

``scenarios`` has one scenario for each paper, with the machine, workload and truth of that paper's study;
``claims.toml`` states metric and row of comparison, written before the seeds that are judged were run.
"""
