"""Settlement of demand response: baselines, delivered power, payment and penalty, and the statement of an event.

    calendar       local days of a meter: business days, holidays, days of 23 and 25 hours
    load_history   interval data by local day and time of day; an event among them
    baselines      one file per published rule, found by its name
    contract       what was promised and what it pays, from a TOML file
    events         load targets that were called, tests among them
    energy_price   rates by interval; what a site pays for energy and peak
    statement      baseline, delivered watts and money of each interval of an event
    files, page    the statement as CSV and as a page
    settlement     all of it, from files to statements

Everything here is computed from its arguments: no clock is read, and the same inputs give identical files.
"""
