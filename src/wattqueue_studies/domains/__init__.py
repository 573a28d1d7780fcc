"""What a tree of power domains strands, by placement, racks a job, and nodes a rack."""
