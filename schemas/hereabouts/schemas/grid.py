"""The fixed 2 km grid: what "approximate" means everywhere in Hereabouts.

A position is replaced by the centre of the cell it lies in. The cells are fixed, so that asking again and again tells
nothing more; noise drawn per call would average out.
"""

import math

APPROXIMATE_ACCURACY_M = 2_000
"""The least accuracy that goes with a cell's centre, in metres: the farthest corner is about 1,414 m away."""

CELL_M = 2_000
METRES_PER_DEGREE = 111_320
EQUATOR_M = 40_075_016.686


def approximate(latitude: float, longitude: float) -> tuple[float, float]:
    """The centre (latitude, longitude; degrees, WGS 84) of the cell that holds a position.

    Rows are 2 km high from the equator; each is cut into as many equal cells of at least 2 km as fit around the
    earth at its centre. Works at the poles and across the date line.

    Raises:
        ValueError: a coordinate is not finite, or the latitude is beyond a pole.
    """
    if not (math.isfinite(latitude) and math.isfinite(longitude) and -90 <= latitude <= 90):
        raise ValueError("latitude and longitude must be finite, latitude within 90 degrees")
    row = math.floor(latitude * METRES_PER_DEGREE / CELL_M)
    centre_latitude = min(90.0, max(-90.0, (row + 0.5) * CELL_M / METRES_PER_DEGREE))
    columns = max(1, math.floor(EQUATOR_M * math.cos(math.radians(centre_latitude)) / CELL_M))
    column = math.floor((longitude + 180) / 360 * columns) % columns
    return centre_latitude, (column + 0.5) * 360 / columns - 180
