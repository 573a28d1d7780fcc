"""What will a job draw and take?"""
