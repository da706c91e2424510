"""Providers: a fixed place, and a GPX file played back."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hereabouts.node.errors import SettingsError
from hereabouts.node.providers import FixedProvider, RouteProvider, provider_from, read_gpx
from hereabouts.node.providers.route import RoutePoint
from hereabouts.schemas.fixes import Fix, Source, is_plausible
from hereabouts.schemas.node_wire import DesiredAccuracy

NOW_MS = 1_800_000_000_000
DEGREE_M = 111_194.93
"""A degree of latitude on the sphere that distances use."""


class Clock:
    def __init__(self) -> None:
        self.seconds = 50.0

    def __call__(self) -> float:
        return self.seconds


def fix_of(provider: FixedProvider | RouteProvider) -> Fix:
    return asyncio.run(provider.fix(DesiredAccuracy.BALANCED, 0))


@pytest.fixture
def gpx(tmp_path: Path) -> Callable[[str], Path]:
    def write(body: str) -> Path:
        file = tmp_path / "way.gpx"
        file.write_text(f'<gpx version="1.1" creator="t" xmlns="http://www.topografix.com/GPX/1/1">{body}</gpx>')
        return file

    return write


def track(*points: str) -> str:
    return f"<trk><trkseg>{''.join(points)}</trkseg></trk>"


def point(lat: float, lon: float, time: str = "", ele: str = "") -> str:
    inner = (f"<ele>{ele}</ele>" if ele else "") + (f"<time>{time}</time>" if time else "")
    return f'<trkpt lat="{lat}" lon="{lon}">{inner}</trkpt>'


def test_a_fixed_place_is_always_now() -> None:
    fix = fix_of(FixedProvider(48.2, 16.3, clock=lambda: NOW_MS))

    assert (fix.latitude, fix.longitude, fix.accuracy, fix.age_ms) == (48.2, 16.3, 10.0, 0)
    assert (fix.timestamp_ms, fix.source) == (NOW_MS, Source.UNKNOWN)


def test_short_forms() -> None:
    assert fix_of(provider_from("fixed:48.2,16.3")).latitude == 48.2  # type: ignore[arg-type]
    assert fix_of(provider_from("fixed:-48.2,16.3,55")).accuracy == 55  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["", "fixed", "fixed:", "fixed:1.25", "fixed:a,b", "fixed:91.25,0", "fixed:nan,0", "gps:", "fixed:1.25,2,3,4"],
)
def test_a_wrong_short_form_is_an_error_that_repeats_no_number(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        provider_from(text)

    assert "1.25" not in str(caught.value)


def test_a_track_with_times_is_played_by_them(gpx: Callable[[str], Path]) -> None:
    clock = Clock()
    points = read_gpx(
        gpx(
            track(
                point(10, 20, "2026-01-01T00:00:00Z", "100"),
                point(11, 20, "2026-01-01T00:01:40Z", "200"),
                point(11, 21, "2026-01-01T00:03:20Z"),
            )
        )
    )
    route = RouteProvider(points, loop=False, clock=lambda: NOW_MS, elapsed_clock=clock)

    clock.seconds += 50
    fix = fix_of(route)
    assert fix.latitude == pytest.approx(10.5)
    assert fix.longitude == pytest.approx(20)
    assert fix.altitude == pytest.approx(150)
    assert fix.speed == pytest.approx(DEGREE_M / 100, rel=1e-4)
    assert fix.heading == pytest.approx(0)
    assert (fix.source, fix.timestamp_ms, fix.age_ms) == (Source.GPS, NOW_MS, 0)
    assert is_plausible(fix)

    clock.seconds += 100
    fix = fix_of(route)
    assert (fix.latitude, fix.longitude) == (pytest.approx(11), pytest.approx(20.5))
    assert fix.heading == pytest.approx(90, abs=1)

    clock.seconds += 1_000
    fix = fix_of(route)
    assert (fix.latitude, fix.longitude, fix.speed, fix.heading) == (pytest.approx(11), pytest.approx(21), 0, None)


def test_a_loop_starts_again_and_a_factor_makes_it_faster(gpx: Callable[[str], Path]) -> None:
    clock = Clock()
    points = read_gpx(gpx(track(point(10, 20, "2026-01-01T00:00:00Z"), point(11, 20, "2026-01-01T00:01:40Z"))))
    route = RouteProvider(points, factor=10, elapsed_clock=clock)

    clock.seconds += 12.5

    fix = fix_of(route)
    assert fix.latitude == pytest.approx(10.25)
    assert fix.speed == pytest.approx(DEGREE_M / 10, rel=1e-4)


def test_without_times_it_moves_at_a_speed(gpx: Callable[[str], Path]) -> None:
    clock = Clock()
    route = RouteProvider(read_gpx(gpx(track(point(0, 20), point(1, 20)))), speed_mps=100, elapsed_clock=clock)

    clock.seconds += DEGREE_M / 100 / 4

    fix = fix_of(route)
    assert fix.latitude == pytest.approx(0.25, rel=1e-4)
    assert fix.speed == pytest.approx(100, rel=1e-4)


def test_times_that_run_backwards_are_no_times(gpx: Callable[[str], Path]) -> None:
    clock = Clock()
    points = read_gpx(gpx(track(point(0, 20, "2026-01-01T00:01:00Z"), point(1, 20, "2026-01-01T00:00:00Z"))))
    route = RouteProvider(points, elapsed_clock=clock)

    clock.seconds += 60

    assert fix_of(route).speed == pytest.approx(1.4, rel=1e-4)


def test_the_date_line_is_crossed_the_short_way() -> None:
    clock = Clock()
    route = RouteProvider([RoutePoint(0, 179), RoutePoint(0, -179)], speed_mps=DEGREE_M, elapsed_clock=clock)

    clock.seconds += 1.5

    assert fix_of(route).longitude == pytest.approx(-179.5, abs=0.01)


def test_a_single_point_stands_still() -> None:
    fix = fix_of(RouteProvider([RoutePoint(1.5, 2.5)]))

    assert (fix.latitude, fix.longitude, fix.speed, fix.heading) == (1.5, 2.5, 0.0, None)


def test_routes_and_waypoints_count_where_there_is_no_track(gpx: Callable[[str], Path]) -> None:
    assert read_gpx(gpx('<rte><rtept lat="1" lon="2"/></rte>')) == [RoutePoint(1, 2)]
    assert read_gpx(gpx('<wpt lat="3" lon="4"/>')) == [RoutePoint(3, 4)]


@pytest.mark.parametrize("body", ["", "<trk>", track(point(1.25, 500)), '<wpt lat="x1.25" lon="4"/>'])
def test_a_file_that_is_no_route_is_an_error_that_repeats_no_number(gpx: Callable[[str], Path], body: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_gpx(gpx(body))

    assert "1.25" not in str(caught.value)


def test_options_of_the_short_form(gpx: Callable[[str], Path]) -> None:
    file = gpx(track(point(0, 20), point(1, 20)))

    assert isinstance(provider_from(f"route:{file}?speed=3&factor=2&loop=no"), RouteProvider)
    with pytest.raises(SettingsError, match="no option 'sped'"):
        provider_from(f"route:{file}?sped=3")
    with pytest.raises(SettingsError, match="speed must be a number above 0"):
        provider_from(f"route:{file}?speed=fast")
    with pytest.raises(SettingsError, match="cannot read"):
        provider_from("route:nowhere.gpx")
