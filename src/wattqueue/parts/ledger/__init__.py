"""What counts as drawn?"""
