"""What acts on running work and on nodes?"""
