// Places: noise on the cells of a grid, P(displacement) ∝ exp(−rate·√(x² + y²)), exactly.

// By rejection: 7/10 of the rate on each axis, kept with probability e^−γ, γ = rate·(√(x² + y²) − 7/10·(|x| + |y|)),
// which is never negative, since |x| + |y| ≤ √2·√(x² + y²) and 7/10·√2 < 1. Parts of γ that are at most 1, one by one.
function planar_noise() {
  const [n, d] = channel.rate.map(BigInt);
  for (;;) {
    const x = laplace(7n * n, 10n * d);
    const y = laplace(7n * n, 10n * d);
    const square = 100n * (x * x + y * y);
    const ends = 7n * ((x < 0n ? -x : x) + (y < 0n ? -y : y));
    const gamma = (bits) => {
      const low = root(square << (2n * bits)) - (ends << bits);
      return [n * low, n * (low + 1n), 10n * d];
    };
    const parts = gamma(0n)[1] / (10n * d) + 1n;
    const part = (bits) => { const [low, high, unit] = gamma(bits); return [low, high, unit * parts]; };
    let kept = true;
    for (let done = 0n; kept && done < parts; done += 1n) kept = exponential_coin(part);
    if (kept) return [x, y];
  }
}

// A cell of the area with a margin, row by row from the south-west, or, by the last code, further away.
const planar = {
  randomize(value) {
    const [x, y] = planar_noise();
    const width = channel.columns + 2 * channel.margin;
    const height = channel.rows + 2 * channel.margin;
    const column = BigInt(value % channel.columns + channel.margin) + x;
    const row = BigInt(Math.floor(value / channel.columns) + channel.margin) + y;
    const outside = column < 0n || row < 0n || column >= width || row >= height;
    return outside ? width * height : Number(row) * width + Number(column);
  },
  fits: () => false,
};

// Where a cell is, in km from the south-west corner of the area.
function corner(report) {
  const width = channel.columns + 2 * channel.margin;
  if (report === width * (channel.rows + 2 * channel.margin)) return null;
  return [report % width, Math.floor(report / width)].map((steps) => (steps + 0.5 - channel.margin) * survey.area.cell);
}

// From latitude and longitude (or km) to a cell: the transverse Mercator projection of the Python code (Karney 2011).
function mercator(latitude, east) {
  const { radius, eccentricity, alpha } = survey.area.map;
  const angle = ((((east + 180) % 360) + 360) % 360 - 180) * (Math.PI / 180);
  const sine = Math.sin(latitude * (Math.PI / 180));
  const conformal = Math.sinh(Math.atanh(sine) - eccentricity * Math.atanh(eccentricity * sine));
  const xi = Math.atan2(conformal, Math.cos(angle));
  const eta = Math.asinh(Math.sin(angle) / Math.hypot(conformal, Math.cos(angle)));
  const sum = (one, other) => alpha.reduce((total, a, j) => total + a * one(2 * (j + 1) * xi) * other(2 * (j + 1) * eta), 0);
  return [radius * (eta + sum(Math.cos, Math.sinh)), radius * (xi + sum(Math.sin, Math.cosh))];
}

function far_apart(latitude, longitude, [other, meridian]) {
  const half = (degrees) => Math.sin(degrees * (Math.PI / 360)) ** 2;
  const flat = Math.cos(latitude * (Math.PI / 180)) * Math.cos(other * (Math.PI / 180)) * half(longitude - meridian);
  return 2 * 6371 * Math.asin(Math.sqrt(Math.min(1, half(latitude - other) + flat)));
}

// Where a place is, in km east and north of the area's south-west corner; null for no place, or one too far away.
function position_of(first, second) {
  const { center, factor, clamped } = survey.area;
  if (!Number.isFinite(first) || !Number.isFinite(second)) return null;
  if (!center) return [first, second];
  if (Math.abs(first) > 90 || Math.abs(second) > 180 || far_apart(first, second, center) > 2 * clamped) return null;
  const origin = mercator(center[0], 0);
  const moved = mercator(first, second - center[1]);
  const away = [moved[0] * factor, (moved[1] - origin[1]) * factor];
  if (Math.hypot(...away) > clamped) return null;
  return [away[0] + survey.area.width / 2, away[1] + survey.area.height / 2];
}

// The cell of a place; outside the area, the nearest; null for what is no place or too far away.
function cell_of(first, second) {
  const { columns, rows, up, down } = survey.area;
  const position = position_of(first, second);
  if (position === null) return null;
  const within = (km, most) => Math.min(Math.max(Math.floor((km * up) / down), 0), most - 1);
  return within(position[1], rows) * columns + within(position[0], columns);
}

// The place at so many km: latitude and longitude by repeated correction, or, on a plain area, the km themselves.
function place_at(x, y) {
  if (!survey.area.center) return [x, y];
  let [latitude, longitude] = survey.area.center;
  for (let turn = 0; turn < 12; turn += 1) {
    const position = position_of(latitude, longitude);
    if (position === null) return null;
    latitude += (y - position[1]) / 110.57;
    longitude += (x - position[0]) / (111.32 * Math.max(Math.cos(latitude * (Math.PI / 180)), 0.01));
    longitude = ((((longitude + 180) % 360) + 360) % 360) - 180;
  }
  return [latitude, longitude];
}
