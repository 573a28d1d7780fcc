"""The seven choices of a policy, a folder each; one part, one file, the file's name is the part's name."""
