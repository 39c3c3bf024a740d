package routing

import (
	"math"

	"github.com/quorate/quorate/statestore"
)

// Nearness is counted in whole numbers: the same client must be nearest to the same
// region on every node, and floating point rounds otherwise where multiplications
// and additions are fused.

// one is 1 in the fixed point used here, 30 binary digits: about a centimetre on
// the earth's surface.
const one = 1 << 30

// position is a point of the unit sphere.
type position struct{ x, y, z int64 }

// positionOf returns where coordinates are, to a hundredth of a degree.
func positionOf(latitude, longitude float64) position {
	lat, lon := int64(math.Round(latitude*100)), int64(math.Round(longitude*100))
	level := sine(9000 - lat)
	return position{
		x: level * sine(9000-lon) / one,
		y: level * sine(lon) / one,
		z: sine(lat),
	}
}

func regionPosition(r *statestore.Region) (position, bool) {
	if r == nil || r.Coordinates == nil {
		return position{}, false
	}
	return positionOf(r.Coordinates.Latitude, r.Coordinates.Longitude), true
}

// apart is the square of the straight distance of two positions: it grows with the
// distance along the surface.
func (p position) apart(o position) int64 {
	dx, dy, dz := p.x-o.x, p.y-o.y, p.z-o.z
	return dx*dx + dy*dy + dz*dz // at most 4, 62 binary digits
}

// sine is the sine of hundredths of a degree.
func sine(h int64) int64 {
	h %= 36000
	if h < 0 {
		h += 36000
	}
	if h >= 18000 {
		return -sine(h - 18000)
	}
	if h > 9000 {
		h = 18000 - h
	}
	const radian = 191900981 // pi/18000, 40 binary digits
	x := h * radian >> 10
	square, sum := x*x/one, int64(one)
	for _, d := range [...]int64{12 * 13, 10 * 11, 8 * 9, 6 * 7, 4 * 5, 2 * 3} { // the series, innermost first
		sum = one - square*sum/one/d
	}
	return x * sum / one
}
