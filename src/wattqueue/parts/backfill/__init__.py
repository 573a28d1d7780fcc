"""Who may overtake?"""
