"""Incentives for consent: what users get for jobs that may be slowed down or held back (paper 5, section 2.2).

    indexes        added wait, added run time, power and energy freed of each job, against its counterfactual
    rewards        a reward model from a file: indexes to money, never more than the fee that it reduces
    participation  which jobs take part: those whose price for an added hour the model gives
    settle         rewards of an event into the ledger (ledger)
    acceptance     which users consent at which reward: a stated curve
    design         the rate and the consent share that leave centre and users best off
    offer          what can be promised to the grid, with which confidence, at which cost
    price_year     load targets at the dearest hours of a year: what is paid, and what users lose
    user_statement what one user got and why, as text and page

Money is in whole micro-units (wattqueue_grid.money). No clock is read; random draws get their seed as an argument.
"""
