"""A folder a paper: its machine, its workload, its tables, published values beside ours."""
