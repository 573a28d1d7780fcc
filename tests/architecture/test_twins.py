"""Every kernel is held against a naive twin: plain Python in tests/reference that computes the same result.

``TWINS`` names, for each twin, the kernels that it answers for, module by module. A twin answers for a kernel where
a test compares the two, or where it is compared with the entry of which the kernel is a part. A new kernel has no
row, and fails here, until somebody has decided which twin answers for it, or has written one. Kernels and twins are
named with their modules: the same name elsewhere is another function.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

import pytest

from tests.architecture.source import modules, tree_of
from tools.packages import ROOT

REFERENCE = ROOT / "tests" / "reference"

AT_READINGS = "read_samples lose_samples list_sensors mark_jobs count_marked count_measured"

TWINS: dict[str, dict[str, str]] = {
    # The whole engine, on random worlds with actions, failures and snapshots (tests/sim/test_against_twin.py).
    "simulator.Simulator.run": {
        "_numba": "as_int64",
        "loop": "run next_time advance complete arrive signal control decide_pass next_pass apply_starts log_is_full "
        "batch_size",
        "nodes": "timer_events",
        "first_match": "first_from",
    },
    "simulator.Simulator.schedule": {
        "schedule": "schedule schedule_once",
        "snapshot": "load_running load_queue load_unusable",
    },
    "simulator.Simulator.greedy": {
        "greedy": "try_in_order begin_pass refresh_candidates follow_candidates leaf_of_rank next_partition "
        "find_candidate try_entry drop_reservations entry_not_started bound_by_last_end note_earlier_shadows",
    },
    "simulator.Simulator.shortest": {
        "shortest": "try_shortest shortest_partition find_shortest place_of before passes",
        "greedy": "candidate_limits",
    },
    "simulator.Simulator.late": {"overruns": "next_overrun overrun_time"},
    "simulator.Simulator.correct": {"overruns": "corrected_s correct_overruns"},
    "recent_runs.RecentRuns.learn": {"recent_runs": "recent_learn recent_learn_rows keep_sorted learn_run"},
    "recent_runs.RecentRuns.seconds": {
        "recent_runs": "recent_seconds recent_seconds_rows ring_mean quantile_of quantile_in"
    },
    "recent_runs.RecentRuns.planned": {"recent_runs": "usable_s plan_from_recent set_planned"},
    "recent_runs.NearestRuns.seconds": {
        "nearest_runs": "distance nearest_seconds nearest_learn_rows nearest_seconds_rows",
    },
    "recent_runs.tree_sum": {"boosted_trees": "leaf_value boosted_rows"},
    "simulator.Simulator.progress": {"progress": "start_one next_alone start_alone"},
    "simulator.Simulator.limit_alone": {"progress": "room_uw"},
    "simulator.Simulator.most_net": {"progress": "unit_net greatest_net"},
    "simulator.Simulator.fits_alone": {"progress": "fits_alone"},
    "simulator.Simulator.never_starts": {
        "progress": "never_starts least_alone net_with_margin",
        "actions": "least_of_jobs",
    },
    "simulator.Simulator.fits_target_alone": {"progress": "fits_announced"},
    "simulator.Simulator.keeps": {"greedy": "keeps_reservations"},
    "simulator.Simulator.consume": {"greedy": "consume_leftovers"},
    "simulator.Simulator.taken": {"chance": "with_margin"},
    "simulator.Simulator.reserve": {"greedy": "reserve left_beside after_ends suffices", "chance": "margin_beside"},
    "simulator.Simulator.conservative": {
        "plan": "pass_conservative begin_plan is_overdue build_profile advance_profile plan_entry withdraw_plan "
        "start_planned start_on_very_units",
    },
    "simulator.Simulator.earliest": {"plan": "fits_now"},
    "simulator.Simulator.launch": {"entries": "start_entry dequeue_job"},
    "simulator.Simulator.start_checked": {"actions": "start_checked"},
    "simulator.Simulator.overtakes": {"actions": "start_beside"},
    "simulator.Simulator.ledger": {"entries": "net_of"},
    "simulator.Simulator.limited_net": {"speed": "expected_net count_listed", "running": "running_net"},
    "simulator.Simulator.change_fits": {"speed": "listed_fit", "chance": "fits_change"},
    "simulator.Simulator.base_fits": {"drains": "base_uw_in base_fits", "ledger": "available_with change_base"},
    "simulator.Simulator.queued_entries": {
        "entries": "entry_partition enqueue enqueue_job",
        "view_lists": "list_queue list_running list_fitting fitting_limits seek may_start",
        "loop": "asks_pass",
    },
    "simulator.Simulator.net": {
        "entries": "row_of unit_uw net_watt equal_net ready_units least_net units_differ",
        "actions": "set_predictions net_of_start least_nets",
    },
    "simulator.Simulator.promised_net": {"entries": "worst_net note_beyond", "consent": "promised_net"},
    "simulator.Simulator.looks_at_target": {"consent": "looks_at_target consent_ends"},
    "simulator.Simulator.consented": {"consent": "consented_option"},
    "simulator.Simulator.reach": {"consent": "slowed_option"},
    "simulator.Simulator.fits_cap_alone": {"consent": "available_alone fits_cap_alone", "ledger": "available_under"},
    "simulator.Simulator.promised": {"consent": "promised_option idle_option"},
    "simulator.Simulator.chosen": {
        "ranked": "choose_units take_chosen give_place take_place",
        "actions": "units_of_start",
    },
    "simulator.Simulator.wall": {"entries": "time_factor wall_s"},
    "simulator.Simulator.options": {
        "consent": "first_option last_option last_beside_target start_options",
    },
    "simulator.Simulator.available": {
        "ledger": "set_budget change_ledger count_again",
        "actions": "set_margin",
    },
    "simulator.Simulator.margin": {"chance": "square_w square_of square_kept keeps_margin margin_uw"},
    "simulator.Simulator.fits": {"chance": "fits_watts most_net"},
    "simulator.Simulator.set_physics": {"power": "account add_sums set_physics round_us"},
    "simulator.Simulator.true_physics": {"power": "true_factor true_uw", "unit_watts": "greatest_factor"},
    "physics.NaivePhysics.slower_under_limits": {"power": "by_curve"},
    "simulator.Simulator.sample_uw": {"phases": "has_profile true_unit_uw sample_uw"},
    # Power domains (tests/sim/test_supply.py).
    "supply.NaiveSupply.choose": {
        "supply_load": "units_that_fit fed_by fed_with_margin count_path count_domain load_now load_then load_tried",
        "supply_placement": "propose_lowest propose_ranked room_on_path take_spare forget_wanted list_wanted",
        "supply_classes": "class_of_unit update_classes update_partition add_to_classes update_domain update_path "
        "exceeds_class is_above_bound fits_alone_by_class",
    },
    # GPUs of a node (tests/sim/test_gpu_nodes.py).
    "supply.NaiveSupply.choose_nodes": {
        "supply_chunks": "holds_job nodes_for nodes_hold nodes_with path_feeds whole_nodes_that_fit fits_at_once "
        "widest_job",
        "supply_placement": "propose_nodes",
        "supply_reservations": "nodes_hold_then",
    },
    # Which units a start gets (tests/sim/test_supply_placement.py).
    "supply.NaiveSupply.place": {
        "supply_placement": "propose_units is_ranked propose_from_leaves propose_bare take_under_supply take_lowest",
    },
    # Announced limits of domains (tests/sim/test_supply.py).
    "simulator.Simulator.later_rooms": {
        "supply_ahead": "first_reached load_ahead reach_rows sum_row_of_domains take_reached fed_ahead",
    },
    "simulator.Simulator.domains_hold_back": {
        "supply_ahead": "sees_domains_ahead hold_announced",
        "announced": "domains_let_run domains_hold_back",
    },
    "simulator.Simulator.never_now": {"supply_classes": "idle_machine_holds"},
    "supply.NaiveSupply.pulls": {"supply_placement": "weigh_leaves"},
    "supply.NaiveSupply.levelled": {"supply_placement": "level_leaves given_at list_candidates"},
    "supply.NaiveSupply.bounded": {"supply_placement": "bound_leaves keep_largest"},
    "supply.NaiveSupply.take": {
        "supply_load": "counted each_of take_path take_listed take_counted add_squares add_drawn",
        "supply": "list_leaves list_units running_each move_listed touch give_back",
        "supply_changes": "recount_job count_idle_unit",
        "supply_placement": "count_start",
    },
    "simulator.Simulator.figures_of": {"supply_changes": "note_figures has_moved"},
    "supply.Room.left": {"supply_load": "left_with left_bare", "supply_classes": "put_terms count_all_again"},
    "supply.NaiveSupply.room": {"supply": "limits_row idle_machine", "supply_classes": "put_limits"},
    "simulator.Simulator.under_supply": {
        "supply": "has_supply",
        "supply_classes": "fits_supply fits_domains fits_bare",
    },
    "simulator.Simulator.standing": {
        "drains": "standing withhold restore",
        "supply_changes": "change_free change_standing",
    },
    "simulator.Simulator.load": {"supply": "variance_of"},
    "simulator.Simulator.domains_fit": {"supply_changes": "listed_fit_domains standing_fits"},
    "simulator.Simulator.domains_admit": {
        "plan": "start_in_plan take_from_reservations domains_admit keeps_domains hold_back"
    },
    "simulator.Simulator.fits_some_domain": {"progress": "fits_some_domain fits_later"},
    "simulator.Simulator.keeps_supply": {
        "supply": "retry_refused note_refused forget_refused",
        "supply_reservations": "keeps_reserved outlive_shadow room_beside_reserved",
        "supply_beside": "forget_beside is_hopeless delays_reserved bound_beside mixes_of_leaves",
    },
    "simulator.Simulator.reserved_fits": {
        "supply_reservations": "begin_shadow count_now change_then end_at_shadow reserved_fits top_domain room_at_top "
        "top_may_hold all_units",
    },
    # Sensors and the measured ledger (tests/sim/test_measured_ledger.py).
    "meter.Meter.energy": {"sensors": "advance_sensor list_sensor sense_unit sense_node", "measured": "sense_job"},
    "meter.Meter.reading": {"sensors": "read_sensor samples_shown"},
    "meter.whole": {"sensors": "periods"},
    "meter.Meter.read": {"measured": "set_sample share_of lose_sample", "sensors": "reading_is_lost"},
    "meter.Meter.at_instant": {"loop": "read_telemetry", "measured": AT_READINGS},
    "meter.Meter.counted_uw": {"measured": "measured_net expected_uw"},
    "meter.Meter.idle_above": {"measured": "count_idle shows_idle", "ledger": "change_idle_above"},
    # The in-flight ledger (tests/sim/test_in_flight_ledger.py).
    "in_flight.InFlightMeter.learn": {"measured": "note_evidence", "in_flight": "add_reading note_reading forget_job"},
    "in_flight.InFlightMeter.predicted_uw": {"measured": "expected_job_uw"},
    "in_flight.InFlightMeter.counted_uw": {"in_flight": "weight_of corrected corrected_uw correct_prediction"},
    "in_flight.InFlightMeter.share_of_square": {"in_flight": "variance_left"},
    # The site meter of an adaptive ledger (tests/sim/test_adaptive_ledger.py).
    "site_meter.NaiveSiteMeter.at_instant": {"site_meter": "read_meter keep_margin"},
    "site_meter.NaiveSiteMeter.reading": {"site_meter": "read_power take_reading mean_w deviation count_ledger"},
    "site_meter.NaiveSiteMeter.averages": {"site_meter": "learn_share"},
    "site_meter.NaiveSiteMeter.share": {"site_meter": "share_in_force"},
    "site_meter.NaiveSiteMeter.learned": {"site_meter": "learn_reading"},
    "site_meter.NaiveSiteMeter.z_in_force": {"site_meter": "z_in_force margin_once"},
    "site_meter.NaiveSiteMeter.holds_back": {"site_meter": "holds_back note_held"},
    "site_meter.NaiveSiteMeter.may_fall": {"site_meter": "may_fall"},
    "site_meter.NaiveSiteMeter.recent": {"site_meter": "spend"},
    "simulator.Simulator.date": {"measured": "date_job"},
    "simulator.Simulator.tick": {"ticks": "tick show_place place_at begin_phases"},
    "simulator.Simulator.device_speed": {
        "devices": "keep_owners count_job count_watts device_speed set_limit touch touch_devices",
    },
    "simulator.Simulator.throttle": {
        "devices": "job_speed slowest_device",
        "power": "limited_uw limited_by_unit limited_factor",
        "unit_watts": "slowed_uw",
    },
    "simulator.Simulator.watts_on": {"unit_watts": "held_uw sum_units chosen_uw sum_of_rising"},
    # What a run teaches (tests/sim/test_corrected.py).
    "simulator.Simulator.lowest_limit": {"devices": "least_limit"},
    "history.corrected_w": {"history_prediction": "corrected_watts"},
    "simulator.mean_factor": {"unit_watts": "mean_of_units mean_factors"},
    "simulator.Simulator.write_step": {"power": "write_power"},
    "simulator.Simulator.change_truth": {"speed": "change_truth move_end", "power": "draw"},
    "simulator.Simulator.change_expectation": {"speed": "expect_speed expected_factor"},
    "simulator.Simulator.apply_speeds": {
        "devices": "list_changed list_job clear_list",
        "speed": "apply_speeds refresh_listed change_speed",
    },
    "simulator.Simulator.begin": {"speed": "begin_in_devices"},
    "simulator.Simulator.act": {
        "actions": "is_running is_unit set_frequency stop_node wake_node drain_node",
        "speed": "switch_option set_device_limits",
        "drains": "change_for_a_time begin_drain end_drain",
        "nodes": "stop_unit wake_unit drain_unit",
    },
    "simulator.Simulator.requeue": {"actions": "requeue", "nodes": "requeue_job", "entries": "release_job"},
    "simulator.Simulator.holds_starts": {"entries": "holds_starts"},
    "simulator.Simulator.suspend": {"actions": "suspend", "parking": "suspend_job"},
    "simulator.Simulator.resume": {"actions": "resume", "parking": "resume_job"},
    "simulator.Simulator.keep": {"parking": "store_work"},
    "simulator.Simulator.is_delayed": {
        "entries": "is_delayed leaf_is_delayed",
        "greedy": "undelayed",
        "loop": "end_delays",
    },
    "simulator.Simulator.delay": {"actions": "delay_start"},
    "simulator.Simulator.fits_ahead": {"announced": "look_ahead fits_ahead take_ahead"},
    "simulator.Simulator.fits_then": {"announced": "sum_row fits_row counts_slowed"},
    "simulator.Simulator.announced": {"announced": "next_row sees_ahead"},
    "simulator.Simulator.ahead_net": {"announced": "starting_ahead"},
    "simulator.Simulator.slowed_net": {"announced": "running_ahead"},
    "simulator.Simulator.held_back": {"announced": "is_held_back"},
    "simulator.Simulator.room_at": {"plan": "limit_profile"},
    "simulator.Simulator.drawn": {"ledger_ramp": "counted_uw"},
    "simulator.Simulator.begin_rise": {"ledger_ramp": "begin_ramp"},
    "simulator.Simulator.end_rise": {"ledger_ramp": "climb note_rise"},
    "simulator.Simulator.stop_drained": {"drains": "end_drains stop_if_idle"},
    "simulator.Simulator.node_event": {"nodes": "node_events fail_node", "drains": "node_state change_node job_on"},
    "simulator.Simulator.node_state_uw": {"drains": "node_uw_in"},
    # One structure each, by itself (tests/kernels).
    "sorted_list.SortedList.heap_push": {"heap": "heap_before heap_swap heap_up heap_push"},
    "sorted_list.SortedList.heap_remove": {"heap": "heap_down heap_remove"},
    "queue_tree.QueueList.tree_set": {"tree": "class_of tree_set"},
    "queue_tree.QueueList.tree_clear": {"tree": "tree_clear was_least"},
    "queue_tree.QueueList.tree_next": {"tree": "tree_next leaves_passing nodes_passing fits_free fits_leftovers"},
    "queue_tree.QueueList.tree_pull": {"tree": "tree_pull least_leaves"},
    "queue_tree.QueueList.lower_classes": {"tree": "lower_classes gather_nodes gather_leaves write_classes"},
    "running.RunningList.running_insert": {
        "running": "running_partition running_find running_insert running_open running_move"
    },
    "running.RunningList.running_remove": {
        "running": "running_remove running_place running_row running_tidy running_join running_close"
    },
    "running.RunningList.running_sum": {"running": "running_sum"},
    "running.RunningList.find_shadow": {"greedy": "find_shadow"},
    "placement.lowest_bit": {"bits": "lowest_bit"},
    "placement.run_length": {"bits": "run_length"},
    "placement.mask": {"bits": "mask"},
    "placement.FreeUnits.unit_partition": {"placement": "unit_partition"},
    "placement.FreeUnits.take_units": {"placement": "next_word take_units", "unit_allocation": "add_run note_empty"},
    "placement.FreeUnits.give_units": {"placement": "give_units look_from give_interval"},
    "placement.FreeUnits.unit_is_free": {"placement": "unit_is_free"},
    "placement.FreeUnits.withhold_unit": {"placement": "withhold_unit take_interval"},
    "placement.FreeUnits.restore_unit": {"placement": "restore_unit"},
    "plan.PlaceList.earliest_row": {"plan": "earliest_place rows_with first_low take_rows"},
    "plan.PlaceList.change_profile": {"plan": "change_profile add_rows"},
    "plan.PlaceList.profile_row": {"plan": "profile_row put_row shift_rows"},
    # One figure by definition from all jobs that ended, against sums that are kept up to date.
    "history.history_predict": {
        "history": "history_theta history_append history_restack history_evict history_moment history_window "
        "history_whole history_predict history_learn history_predict_rows history_learn_rows history_replay",
        "history_prediction": "combined_watts predicted_watts combine_rows predict_from_history learn_end",
    },
    "scale.watts_by_option": {"scale": "share_left watts_at_option watts_by_option"},
    "scale.without_limits": {"scale": "without_limit without_limits"},
    "history.history_spread": {"history": "history_spread"},
    "history.history_last": {"history": "history_last"},
    "conformal.conformal_shift": {
        "conformal": "conformal_insert conformal_remove conformal_add_score conformal_rank conformal_shift "
        "conformal_correct conformal_learn conformal_correct_rows conformal_learn_rows conformal_replay",
    },
    # Caps of sockets, in exact fractions.
    # The Python form of a control is the twin of its compiled step (tests/sim/test_control_step.py).
    "control_step.InPython.act": {
        "control_step": "step_if_due step_is_due asks_consent take_step choose_if_due begin_step end_step choose_caps "
        "keep_promises net_of_promise mark_held set_all set_changed list_changed_caps take_back note_begins "
        "mark_sockets",
        "loop": "step_alone",
        "redistribution": "reset_caps caps_between",
    },
    "control_step.device_watts": {"device_power": "read_devices"},
    "redistribution.water_level": {"redistribution": "water_level level_between"},
    "redistribution.redistribute": {
        "redistribution": "step_of whole_uw count_unusable take_unused give_shares step_caps keep_new"
    },
    "redistribution.lower_all": {"redistribution": "lower_all lower_between"},
    "redistribution.reset_begun": {"redistribution": "reset_begun reset_between"},
    "redistribution.whole": {"redistribution": "cap_uw sum_uw sum_between"},
    "redistribution_by_domain.Hall.step": {
        "redistribution_by_domain": "step_by_domain lower_domains keep_between sum_domains take_out hand_out "
        "share_below raise_caps reset_domains even_shares",
    },
    "redistribution.keep_promises": {"redistribution": "begin_raises keep_promise end_raises"},
    # Bounds and schedules, tick by tick and over all subsets (tests/wattqueue_studies/test_bound_kernels.py).
    "bounds.TickWorld.list_schedule": {
        "list_schedule": "row_fits first_row earliest_start split_row occupy place_job copy_numbers list_schedule "
        "load_profile keep_list try_list move_job anneal soonest_start",
    },
    "bounds.cheapest_start": {
        "cheapest_start": "sum_prices start_value paid_by advance note_start least_value try_edges_as_starts "
        "try_edges_as_ends cheapest_starts",
    },
    "bounds.best_set": {"knapsack": "fill_table choose_set best_sets"},
    # Watts of one run at one instant, against a merge of all steps.
    "profile_power.run_uw": {"profile_power": "sample_uw place_of samples_at run_energies"},
    "profile_power.profile_series": {
        "profile_power": "put_step put_next_step take_step begin_runs sum_steps add_stretch add_run sum_on_grid",
    },
}

ROWS = [
    (twin, f"{module}.{name}") for twin, by in TWINS.items() for module, text in by.items() for name in text.split()
]


def is_kernel(node: ast.stmt) -> bool:
    marks = ("kernel", "inlined", "separate", "entry")
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(isinstance(d, ast.Name) and d.id in marks for d in node.decorator_list)


def kernels_of(module: str, tree: ast.Module) -> set[str]:
    """The kernels of one module, with its name."""
    return {f"{module}.{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef) and is_kernel(node)}


@cache
def kernels() -> frozenset[str]:
    """Every kernel as ``module.name``, module within ``wattqueue.kernels``."""
    found = (kernels_of(m.name.partition(".")[2], m.tree) for m in modules() if m.area == "kernels")
    return frozenset(name for names in found for name in names)


def without_row(names: frozenset[str]) -> list[str]:
    """Kernels for which no twin answers."""
    return sorted(names - {kernel for _, kernel in ROWS})


@cache
def twins() -> frozenset[str]:
    """Functions of tests/reference as ``module.name``, methods as ``module.Class.name``."""
    found = set()
    for path in REFERENCE.glob("*.py"):
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef):
                found.add(f"{path.stem}.{node.name}")
            elif isinstance(node, ast.ClassDef):
                found |= {f"{path.stem}.{node.name}.{f.name}" for f in node.body if isinstance(f, ast.FunctionDef)}
    return frozenset(found)


@cache
def used_references() -> frozenset[str]:
    """Modules of tests/reference that tests import."""
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.reference."):
                found.add((node.module or "").rpartition(".")[2])
            elif isinstance(node, ast.ImportFrom) and node.module == "tests.reference":
                found.update(alias.name for alias in node.names)
    return frozenset(found)


def test_every_kernel_has_a_twin() -> None:
    assert without_row(kernels()) == [], "write these once more in tests/reference, naively, and enter them in TWINS"


@pytest.mark.parametrize("module", ["heap", "fresh"])
def test_a_new_kernel_is_found(module: str) -> None:
    """Neither a name that a twin or another kernel bears, nor a call from a kernel with a twin, lets it pass."""
    source = (
        "@inlined\ndef run(x: int) -> int:\n    return x\n\n\n@entry\ndef first(x: int) -> int:\n    return run(x)\n"
    )
    fresh = kernels_of(module, ast.parse(source))
    assert without_row(kernels() | fresh) == sorted(fresh) == [f"{module}.first", f"{module}.run"]


def test_every_row_names_a_kernel() -> None:
    assert sorted({kernel for _, kernel in ROWS} - kernels()) == []
    assert [name for name, count in Counter(kernel for _, kernel in ROWS).items() if count > 1] == []


@pytest.mark.parametrize("twin", sorted(TWINS))
def test_a_twin_exists_and_is_used(twin: str) -> None:
    assert twin in twins()
    assert twin.partition(".")[0] in used_references()
