"""The 2 km grid: fixed cells, everywhere on earth."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hereabouts.schemas.fixes import Fix, distance_m
from hereabouts.schemas.grid import APPROXIMATE_ACCURACY_M, approximate

LATITUDES = st.floats(-90, 90)
LONGITUDES = st.floats(-180, 180)


def place(latitude: float, longitude: float) -> Fix:
    return Fix(latitude=latitude, longitude=longitude, accuracy=1, timestamp_ms=0, age_ms=0)


@given(LATITUDES, LONGITUDES)
@example(90.0, 0.0)
@example(-90.0, 180.0)
@example(0.0, -180.0)
@example(89.99, 179.999999)
def test_the_centre_is_on_earth_and_nearer_than_the_accuracy_that_goes_with_it(lat: float, lon: float) -> None:
    centre = approximate(lat, lon)

    assert -90 <= centre[0] <= 90
    assert -180 <= centre[1] < 180
    # Near a pole a row holds a handful of cells that are wider than 2 km; elsewhere the corner is 1,414 m away.
    limit_m = APPROXIMATE_ACCURACY_M if abs(lat) > 89 else 1_500
    assert distance_m(place(lat, lon), place(*centre)) < limit_m


@given(LATITUDES, LONGITUDES)
@example(90.0, 0.0)
@example(-90.0, 0.0)
def test_a_centre_is_its_own_cell(lat: float, lon: float) -> None:
    centre = approximate(lat, lon)

    assert approximate(*centre) == centre


@given(LATITUDES, LONGITUDES, st.floats(-0.49, 0.49), st.floats(-0.49, 0.49))
def test_every_place_in_a_cell_gives_the_same_centre(lat: float, lon: float, north: float, east: float) -> None:
    centre = approximate(lat, lon)
    columns = max(1, math.floor(40_075_016.686 * math.cos(math.radians(centre[0])) / 2_000))
    row = math.floor(lat * 111_320 / 2_000)
    neighbour = (row + 0.5 + north) * 2_000 / 111_320

    if abs(neighbour) <= 90:
        assert approximate(neighbour, centre[1] + east * 360 / columns) == centre


@given(LATITUDES)
def test_both_names_of_the_date_line_are_one_place(lat: float) -> None:
    assert approximate(lat, 180.0) == approximate(lat, -180.0)


def test_two_places_a_street_apart_are_one_cell_and_two_towns_are_not() -> None:
    assert approximate(48.20849, 16.37208) == approximate(48.2088, 16.3723)
    assert approximate(48.20849, 16.37208) != approximate(48.30, 16.37208)


@pytest.mark.parametrize("place", [(math.nan, 0.0), (0.0, math.inf), (90.1, 0.0)])
def test_what_is_no_place_is_refused_without_repeating_it(place: tuple[float, float]) -> None:
    with pytest.raises(ValueError) as caught:
        approximate(*place)

    assert "90.1" not in str(caught.value)
